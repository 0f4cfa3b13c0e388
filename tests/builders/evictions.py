"""Problems in which gangs may be evicted for others: strategies for hypothesis."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from solver.problem import (
    DisruptionBudget,
    EvictionTerms,
    EvictionVotes,
    Gang,
    Node,
    Placement,
    Policy,
    Problem,
    Queue,
    Role,
    Subgroup,
    Topology,
)
from tests.builders.problems import with_fields
from tests.builders.strategies import HYPERNODE_TREES

NONE = (None, None)


@st.composite
def crowded(draw: st.DrawFn) -> Problem:
    """At most 3 nodes, nearly full or worse with at most 3 running gangs that may mostly be evicted, and one gang, the
    last, that waits."""
    tree = draw(st.sampled_from(HYPERNODE_TREES[:3]))
    leaves = (0, 1) if tree else (None,)
    nodes = tuple(
        Node(f"n{n}", 0, draw(st.sampled_from(leaves)), (4, 4), (4, 4)) for n in range(draw(st.integers(1, 3)))
    )
    queues = tuple(
        draw(limited_queue(q, parent))
        for q, parent in enumerate(draw(st.sampled_from(((None,), (None, None), (None, None), (None, 0, 0)))))
    )
    homes = [q for q in range(len(queues)) if all(queue.parent != q for queue in queues)]
    left = [list(node.free) for node in nodes]
    gangs = [draw(running_gang(g, homes, left, len(tree) > 0)) for g in range(draw(st.integers(1, 3)))]
    nodes = tuple(
        replace(node, free=(4, draw(st.sampled_from((4, 4, 4, 3, 2))))) for node in nodes
    )  # some hold more than they now have
    switches = draw(st.sampled_from(((True, True), (True, True), (True, False), (False, True))))
    waiting = draw(waiting_gang(homes, len(tree) > 0))
    votes = [
        EvictionVotes(whole_gangs=draw(st.integers(0, 3)) > 0, compare_shares=draw(st.integers(0, 3)) == 0)
        for _ in range(2)
    ]
    return Problem(
        ("cpu", "gpu"),
        nodes,
        tree,
        queues,
        (*gangs, waiting),
        preempt_enabled=switches[0],
        reclaim_enabled=switches[1],
        preempt_votes=votes[0],
        reclaim_votes=votes[1],
        disruption_budgets=tuple(draw(_budgets(b, gangs)) for b in range(draw(st.sampled_from((0, 0, 1, 2))))),
    )


@st.composite
def _budgets(draw: st.DrawFn, b: int, gangs: list[Gang]) -> DisruptionBudget:
    roles = [(g, t) for g, gang in enumerate(gangs) for t in range(len(gang.roles))]
    return DisruptionBudget(
        f"b{b}", draw(st.integers(0, 4)), tuple(sorted(draw(st.sets(st.sampled_from(roles), min_size=1))))
    )


@st.composite
def limited_queue(draw: st.DrawFn, q: int, parent: int | None) -> Queue:
    """A queue with or without each of its limits, mostly reclaimable."""
    capability = draw(st.sampled_from((NONE, NONE, NONE, (None, 4), (None, 8))))
    deserved = draw(st.sampled_from((NONE, (None, 2), (None, 4), (None, 8), (4, 4))))
    guarantee = draw(st.sampled_from((NONE, NONE, NONE, (None, 1), (1, 2))))
    return Queue(
        f"q{q}",
        parent,
        1,
        0,
        guarantee,
        deserved,
        capability,
        (0, 0),
        reclaimable=draw(st.sampled_from((True, True, True, False))),
    )


@st.composite
def running_gang(draw: st.DrawFn, g: int, homes: list[int], left: list[list[int]], topology: bool) -> Gang:
    """Pods where there is room, in whole subgroups; some gangs hold more than their minimum, some less."""
    size = draw(st.sampled_from((1, 1, 1, 2)))
    roles, running = [], []
    for t in range(draw(st.sampled_from((1, 1, 2)))):
        request = (draw(st.integers(0, 1)), draw(st.sampled_from((1, 1, 2, 4))))
        wanted = size * draw(st.integers(1, 2 if size == 2 else 4))
        held = 0
        for n in draw(st.permutations(range(len(left)))):
            fit = min((have // ask for have, ask in zip(left[n], request, strict=True) if ask), default=0)
            pods = min(fit, wanted - held) // size * size
            if pods:
                running.append(Placement(t, n, pods))
                left[n] = [have - ask * pods for have, ask in zip(left[n], request, strict=True)]
                held += pods
        minimum = size * draw(st.integers(0 if t else 1, max(held // size, 1)))
        roles.append(Role(f"r{t}", max(wanted, minimum), minimum, request, frozenset({0})))
    least = sum(role.minimum for role in roles)
    here = tuple(sorted(running, key=lambda p: (p.role, p.node)))
    subgroups = (Subgroup("pairs", (0,), 2, 0, Topology("hard" if topology else "soft", 1)),) if size == 2 else ()
    return Gang(
        f"g{g}",
        draw(st.sampled_from(homes)),
        draw(st.sampled_from((0, 0, 1, 2))),
        g,
        least,
        tuple(roles),
        subgroups=subgroups,
        running=here,
        eviction=EvictionTerms(
            evictable=draw(st.sampled_from((True, True, True, True, False))),
            loss=draw(st.sampled_from((0, 1, 2, 5))),
            protected=tuple(replace(p, pods=1) for p in here if draw(st.integers(0, 7)) == 0),
            may_lose_all=draw(st.integers(0, 3)) == 0,
        ),
    )


@st.composite
def waiting_gang(draw: st.DrawFn, homes: list[int], topology: bool) -> Gang:
    roles = []
    for t in range(draw(st.sampled_from((1, 1, 2)))):
        minimum = draw(st.integers(1, 2))
        roles.append(
            Role(
                f"r{t}",
                minimum,
                minimum,
                (draw(st.integers(0, 1)), draw(st.sampled_from((1, 2, 4, 4)))),
                frozenset({0}),
            )
        )
    hard = draw(st.sampled_from((None, Topology("hard", 1)))) if topology else None
    return Gang(
        "winner",
        draw(st.sampled_from(homes)),
        1,
        9,
        sum(r.minimum for r in roles),
        tuple(roles),
        hard,
        eviction=EvictionTerms(may_evict=draw(st.integers(0, 9)) > 0),
    )


SIZES, SHARES = st.sampled_from((2, 4, 6)), st.sampled_from((None, 0, 1, 2, 3, 4, 6))
REQUESTS = ((1, 0), (0, 1), (1, 1), (2, 1), (1, 2), (0, 2), (2, 2))


@st.composite
def open_mix(draw: st.DrawFn) -> Problem:
    """At most 2 nodes, of which one resource or both are short, two queues that deserve of both, and a gang, the last,
    that waits with a minimum of its own: it leaves open of which of its up to three roles some of the pods are."""
    nodes = tuple(
        Node(f"n{n}", 0, None, size, size)
        for n, size in enumerate(draw(st.lists(st.tuples(SIZES, SIZES), min_size=1, max_size=2)))
    )
    queues = tuple(Queue(f"q{q}", None, 1, 0, NONE, draw(st.tuples(SHARES, SHARES)), NONE, (0, 0)) for q in range(2))
    left = [list(node.free) for node in nodes]
    running = [draw(_lender(g, left)) for g in range(draw(st.integers(1, 3)))]
    roles = []
    for t in range(draw(st.sampled_from((1, 2, 2, 3)))):
        minimum = draw(st.sampled_from((0, 0, 1)))
        replicas = max(1, minimum + draw(st.integers(0, 2)))
        roles.append(Role(f"r{t}", replicas, minimum, draw(st.sampled_from(REQUESTS)), frozenset({0})))
    least, most = sum(role.minimum for role in roles), sum(role.replicas for role in roles)
    minimum = draw(st.integers(max(1, least), min(most, max(least, 3))))
    waiting = Gang("winner", draw(st.integers(0, 1)), 1, 9, minimum, tuple(roles))
    return Problem(
        ("cpu", "gpu"),
        nodes,
        (),
        queues,
        (*(gang for gang in running if gang.running), waiting),
        preempt_enabled=draw(st.booleans()),
        reclaim_enabled=True,
        policy=Policy(capacity=True),
    )


@st.composite
def _lender(draw: st.DrawFn, g: int, left: list[list[int]]) -> Gang:
    """A gang of one role, with a minimum of its own."""
    request, running = draw(st.sampled_from(REQUESTS)), []
    for n, free in enumerate(left):
        most = min(have // ask for have, ask in zip(free, request, strict=True) if ask)
        if pods := min(most, draw(st.integers(0, 2))):
            running.append(Placement(0, n, pods))
            left[n] = [have - pods * ask for have, ask in zip(free, request, strict=True)]
    pods = sum(p.pods for p in running)
    return Gang(
        f"g{g}",
        draw(st.integers(0, 1)),
        draw(st.integers(0, 2)),
        g,
        draw(st.integers(0, pods)),
        (Role("r", max(1, pods), 0, request, frozenset({0})),),
        running=tuple(running),
        eviction=EvictionTerms(evictable=True, loss=draw(st.sampled_from((1, 2, 5)))),
    )


@st.composite
def contested(draw: st.DrawFn) -> Problem:
    """At most 4 nodes with at most 4 running gangs, all of which may be evicted for each of 2 or 3 that wait."""
    tree = draw(st.sampled_from(HYPERNODE_TREES[:3]))
    leaves = (0, 1) if tree else (None,)
    nodes = [Node(f"n{n}", 0, draw(st.sampled_from(leaves)), (4, 4), (4, 4)) for n in range(draw(st.integers(2, 4)))]
    left = [list(node.free) for node in nodes]
    gangs = [draw(running_gang(g, [0], left, len(tree) > 0)) for g in range(draw(st.integers(2, 4)))]
    gangs = [
        with_fields(gang, priority=0, loss=draw(st.sampled_from((1, 2, 5, 9, 30)))) for gang in gangs if gang.running
    ]
    full = [
        tuple(f - k if draw(st.integers(0, 3)) == 0 else f for f, k in zip(node.free, rest, strict=True))
        for node, rest in zip(nodes, left, strict=True)
    ]
    waiting = [
        with_fields(
            draw(waiting_gang([0], len(tree) > 0)),
            name=f"w{i}",
            priority=draw(st.sampled_from((1, 1, 2))),
            age=20 + i,
            may_evict=True,
        )
        for i in range(draw(st.sampled_from((2, 2, 3))))
    ]
    queue = Queue("q", None, 1, 0, NONE, NONE, draw(st.sampled_from((NONE, NONE, (None, 8)))), (0, 0))
    return Problem(
        ("cpu", "gpu"),
        tuple(replace(node, free=free) for node, free in zip(nodes, full, strict=True)),
        tree,
        (queue,),
        (*gangs, *waiting),
        preempt_enabled=True,
    )

"""Evictions against brute force on tiny problems: every way to shrink or stop what runs, tried one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import product

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from solver import Plan
from solver.problem import (
    DisruptionBudget,
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
    Vector,
)
from solver.verify import verify
from tests.builders.plans import solve_without_repairs as solve
from tests.builders.strategies import HYPERNODE_TREES
from tests.property.brute import (
    FreeCapacity,
    RoleOnNode,
    _domain,
    _meets_minima,
    meets_minima_now,
    new_pod_sets,
    running_pods,
)
from tests.property.plan_events import plan_events, rare_events

NONE = (None, None)
POLICIES = (
    Policy(),
    Policy(),
    Policy(capacity=True),
    Policy(capacity=True, capacity_hierarchy=True),
    Policy(proportion=True, drf=True),
)


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
        draw(_queues(q, parent))
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
def _queues(draw: st.DrawFn, q: int, parent: int | None) -> Queue:
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
        evictable=draw(st.sampled_from((True, True, True, True, False))),
        loss=draw(st.sampled_from((0, 1, 2, 5))),
        protected=tuple(replace(p, pods=1) for p in here if draw(st.integers(0, 7)) == 0),
        may_lose_all=draw(st.integers(0, 3)) == 0,
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
        may_evict=draw(st.integers(0, 9)) > 0,
    )


@st.composite
def contested(draw: st.DrawFn) -> Problem:
    """At most 4 nodes with at most 4 running gangs, all of which may be evicted for each of 2 or 3 that wait."""
    tree = draw(st.sampled_from(HYPERNODE_TREES[:3]))
    leaves = (0, 1) if tree else (None,)
    nodes = [Node(f"n{n}", 0, draw(st.sampled_from(leaves)), (4, 4), (4, 4)) for n in range(draw(st.integers(2, 4)))]
    left = [list(node.free) for node in nodes]
    gangs = [draw(running_gang(g, [0], left, len(tree) > 0)) for g in range(draw(st.integers(2, 4)))]
    gangs = [replace(gang, priority=0, loss=draw(st.sampled_from((1, 2, 5, 9, 30)))) for gang in gangs if gang.running]
    full = [
        tuple(f - k if draw(st.integers(0, 3)) == 0 else f for f, k in zip(node.free, rest, strict=True))
        for node, rest in zip(nodes, left, strict=True)
    ]
    waiting = [
        replace(
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


def due(world: Problem, q: int, r: int) -> int | None:
    """What is written, inside what guarantees leave of the capability; at least the guarantee."""
    queue = world.queues[q]
    if queue.deserved[r] is None and queue.guarantee[r] is None:
        return None
    total, guaranteed = (
        sum(node.capacity[r] for node in world.nodes),
        sum(other.guarantee[r] or 0 for other in world.queues),
    )
    real = max(0, total - guaranteed) + (queue.guarantee[r] or 0)
    most = queue.capability[r]
    return max(min(queue.deserved[r] or 0, real if most is None else min(real, most)), queue.guarantee[r] or 0)


def losses(world: Problem, v: int) -> Iterator[Counter[RoleOnNode]]:
    """What gang v may lose as far as it alone is concerned: nothing, everything, or a surplus in whole parts."""
    gang, have = world.gangs[v], running_pods(world.gangs[v])
    yield Counter()
    if not have or not gang.evictable:
        return
    stay = Counter({(p.role, p.node): p.pods for p in gang.protected})
    if not stay:
        yield have
    spots = sorted(have)
    for counts in product(*(range(have[spot] - stay[spot] + 1) for spot in spots)):
        gone = Counter({spot: n for spot, n in zip(spots, counts, strict=True) if n})
        if (
            gone
            and gone != have
            and meets_minima_now(gang)
            and _meets_minima(gang, have - gone)
            and _parts_whole(world, gang, have, gone)
        ):
            yield gone


def _parts_whole(world: Problem, gang: Gang, have: Counter[RoleOnNode], gone: Counter[RoleOnNode]) -> bool:
    for part in gang.subgroups:
        for counts in (have, gone):
            inside: Counter[int | None] = Counter()
            for (role, node), pods in counts.items():
                if role in part.roles:
                    inside[_domain(world, node, part.topology)] += pods
            if inside[None] or any(pods % part.size for pods in inside.values()):
                return False
    return True


def legal(
    world: Problem, room: FreeCapacity, j: int, gone: dict[int, Counter[RoleOnNode]], short: frozenset[int]
) -> bool:
    """short: what keeps the gang out."""
    winner = world.gangs[j]
    foreign = [v for v in gone if world.gangs[v].queue != winner.queue]
    if gone and not winner.may_evict:
        return False
    if not all(_voted(world, winner, v, pods) for v, pods in gone.items()) or not all(
        _budgeted(budget, gone) for budget in world.disruption_budgets
    ):
        return False
    if any(not world.preempt_enabled or world.gangs[v].priority >= winner.priority for v in gone if v not in foreign):
        return False
    if not foreign:
        return True
    if not world.reclaim_enabled:
        return False
    rights = {q: _right(world, room, winner, q, short) for q in {world.gangs[v].queue for v in foreign}}
    return all(right and _spared(world, room, q, foreign, gone, winner, short, right) for q, right in rights.items())


def _right(world: Problem, room: FreeCapacity, winner: Gang, q: int, short: frozenset[int]) -> str:
    """The winner's right to take from q: "all", or "some", of what it asks for is within what its queue deserves."""
    amounts = range(len(world.resources))
    asked = [sum(role.minimum * role.request[r] for role in winner.roles) for r in amounts]
    own = [room.held_below(winner.queue, [held[r] for held in room.held]) for r in amounts]
    mine = {r: most for r in amounts if asked[r] and (most := due(world, winner.queue, r))}
    within = [own[r] + asked[r] <= mine[r] for r in mine.keys() & short or mine]
    return "all" if within and all(within) else "some" if any(within) else ""


def _short(world: Problem, room: FreeCapacity, winner: Gang) -> frozenset[int]:
    """The resources that keep the winner out, each looked at by itself; all that it asks for where none does."""
    amounts = range(len(world.resources))
    asked = {r for r in amounts if any(role.minimum * role.request[r] for role in winner.roles)}

    def fits(r: int) -> bool:
        free = [max(0, node[r]) for node in room.free]
        roles = [(role.request[r], role.minimum) for role in winner.roles if role.request[r]]
        alone = all(sum(have // size for have in free) >= pods for size, pods in roles)
        return alone and sum(free) >= sum(size * pods for size, pods in roles)

    return frozenset(r for r in asked if not fits(r)) or frozenset(asked)


def _voted(world: Problem, winner: Gang, v: int, gone: Counter[RoleOnNode]) -> bool:
    """Whether the plugins gang and drf let these pods go."""
    votes = world.preempt_votes if world.gangs[v].queue == winner.queue else world.reclaim_votes
    left = running_pods(world.gangs[v]) - gone
    whole = votes.whole_gangs or world.gangs[v].may_lose_all
    if not votes.compare_shares:
        return whole or bool(+left)
    totals = [sum(node.capacity[r] for node in world.nodes) for r in range(len(world.resources))]
    asked = max(
        Fraction(sum(role.minimum * role.request[r] for role in winner.roles), total) for r, total in enumerate(totals)
    )
    keeps = max(
        Fraction(sum(n * world.gangs[v].roles[t].request[r] for (t, _), n in left.items()), total)
        for r, total in enumerate(totals)
    )
    return (whole or bool(+left)) and keeps >= asked - Fraction(1, 10**6)


def _budgeted(budget: DisruptionBudget, gone: dict[int, Counter[RoleOnNode]]) -> bool:
    return sum(n for v, pods in gone.items() for (t, _), n in pods.items() if (v, t) in budget.roles) <= budget.allowed


def _spared(
    world: Problem,
    room: FreeCapacity,
    q: int,
    foreign: list[int],
    gone: dict[int, Counter[RoleOnNode]],
    winner: Gang,
    short: frozenset[int],
    right: str,
) -> bool:
    """Whether the queue can spare what others take from it: it keeps its guarantee, and whatever went, a gang or a pod,
    went while it held more than it deserves."""
    amounts = range(len(world.resources))
    asked = {r for r in amounts if any(role.minimum * role.request[r] for role in winner.roles)}
    lost = [[0] * len(world.queues) for _ in amounts]
    for v in foreign:
        for (role, _), pods in gone[v].items():
            for r in amounts:
                lost[r][world.gangs[v].queue] += pods * world.gangs[v].roles[role].request[r]
    held = [room.held_below(q, [h[r] - x for h, x in zip(room.held, lost[r], strict=True)]) for r in amounts]
    if not world.queues[q].reclaimable or any(held[r] < (world.queues[q].guarantee[r] or 0) for r in amounts):
        return False
    units = [unit for v in foreign if world.gangs[v].queue == q for unit in _units(world, v, gone[v])]
    spare = {r for r in amounts if held[r] + max(last[r] for _, last in units) > (due(world, q, r) or 0)}
    for returned, _ in units:
        named = {r for r in amounts if returned[r] and due(world, q, r)}
        counted = named & short or named
        if not any(returned[r] for r in asked):
            return False
        if named and not (named <= spare if right == "some" else counted & spare):
            return False
    return True


def _units(world: Problem, v: int, gone: Counter[RoleOnNode]) -> list[tuple[list[int], list[int]]]:
    """What each unit of these pods holds, and what of it may be the last to go: a pod, or what is left of a gang that
    goes whole once it has lost all that it can spare."""
    gang, have = world.gangs[v], running_pods(world.gangs[v])

    def amounts(pods: Counter[RoleOnNode]) -> list[int]:
        return [sum(n * gang.roles[t].request[r] for (t, _), n in pods.items()) for r in range(len(world.resources))]

    if gone != have:
        return [(amounts(Counter([spot])), amounts(Counter([spot]))) for spot in gone]
    return [(amounts(have), amounts(have) if gang.subgroups else list(_least_kept(gang)))]


@cache
def _least_kept(gang: Gang) -> Vector:
    """The least of each resource that the gang, which has no subgroups, keeps when it loses what it can spare, and at
    least a pod."""
    kept = [gang.running]
    if meets_minima_now(gang):
        for counts in product(*(range(p.pods + 1) for p in gang.running)):
            left = tuple(replace(p, pods=n) for p, n in zip(gang.running, counts, strict=True))
            if any(counts) and _meets_minima(gang, Counter({(p.role, p.node): p.pods for p in left})):
                kept.append(left)
    held = [[sum(p.pods * gang.roles[p.role].request[r] for p in left) for left in kept] for r in range(2)]
    return tuple(max(min(some), *(gang.roles[p.role].request[r] for p in gang.running)) for r, some in enumerate(held))


def fits(world: Problem, room: FreeCapacity, j: int, gone: dict[int, Counter[RoleOnNode]]) -> bool:
    """Whether the gang's minima find a place once these pods are gone."""
    amounts = range(len(world.resources))
    free = [list(node) for node in room.free]
    added = [[0] * len(world.resources) for _ in world.queues]
    for v, pods in gone.items():
        for (role, node), number in pods.items():
            for r in amounts:
                free[node][r] += number * world.gangs[v].roles[role].request[r]
                added[world.gangs[v].queue][r] -= number * world.gangs[v].roles[role].request[r]
    for option in new_pod_sets(world, j):
        use = room.use_of(j, option)
        if any(use[n][r] > max(0, free[n][r]) for n in range(len(free)) for r in amounts):
            continue
        after = [list(vector) for vector in added]
        for vector in use:
            for r in amounts:
                after[world.gangs[j].queue][r] += vector[r]
        if room.fits_queues([tuple(vector) for vector in after]) and _within(world, room, j, use, after):
            return True
    return False


def _within(
    world: Problem, room: FreeCapacity, j: int, use: tuple[tuple[int, ...], ...], added: list[list[int]]
) -> bool:
    """New pods stay under every capability above them, also where what ran before did not."""
    q: int | None = world.gangs[j].queue
    while q is not None:
        for r, limit in enumerate(world.queues[q].capability):
            held = room.held_below(q, [h[r] + a[r] for h, a in zip(room.held, added, strict=True)])
            if limit is not None and any(vector[r] for vector in use) and held > limit:
                return False
        q = world.queues[q].parent
    return True


def least_loss(world: Problem, j: int) -> tuple[int, int] | None:
    """(loss, gangs that go whole) of the best choice."""
    room = FreeCapacity(world)
    short, costs = _short(world, room, world.gangs[j]), list[tuple[int, int]]()
    for choice in product(
        *(list(losses(world, v)) if v != j else [Counter[RoleOnNode]()] for v in range(len(world.gangs)))
    ):
        gone = {v: pods for v, pods in enumerate(choice) if pods}
        if legal(world, room, j, gone, short) and fits(world, room, j, gone):
            costs.append(cost(world, gone))
    return min(costs, default=None)


def cost(world: Problem, gone: dict[int, Counter[RoleOnNode]]) -> tuple[int, int]:
    """(loss, gangs that go whole)"""
    whole = sum(pods == running_pods(world.gangs[v]) for v, pods in gone.items())
    return sum(max(1, world.gangs[v].loss) * sum(pods.values()) for v, pods in gone.items()), whole


def paid(plan: Plan, world: Problem) -> tuple[int, int]:
    """`cost` of what a plan evicts."""
    return cost(
        world,
        {d.gang: Counter({(p.role, p.node): p.pods for p in d.evicted_pods}) for d in plan.decisions if d.evicted_pods},
    )


@settings(max_examples=60)
@given(crowded())
def test_a_single_waiting_gang_starts_at_the_least_loss_that_any_choice_of_victims_has(world: Problem) -> None:
    """And of all choices that lose as little, with the fewest gangs that go whole."""
    plan = solve(world)
    assert verify(world, plan) == []
    assume([g for g, gang in enumerate(world.gangs) if not meets_minima_now(gang)] == [len(world.gangs) - 1])
    best = least_loss(world, len(world.gangs) - 1)
    assert (plan.decisions[-1].action, paid(plan, world)) == (("wait", (0, 0)) if best is None else ("start", best))


@st.composite
def _two(draw: st.DrawFn) -> Problem:
    """As `crowded` or `contested`, with one more gang that waits, under every policy; now and then each queue has a
    parent that is asked as well."""
    world = draw(st.one_of(crowded(), contested(), contested()))
    homes = sorted({gang.queue for gang in world.gangs})
    second = replace(draw(waiting_gang(homes, bool(world.hypernodes))), name="second", priority=draw(st.integers(0, 2)))
    world = replace(world, gangs=(*world.gangs, second), policy=draw(st.sampled_from(POLICIES)))
    if not world.policy.capacity_hierarchy:
        return world
    first = len(world.queues)
    parents = tuple(replace(draw(_queues(first + q, None)), guarantee=NONE, capability=NONE) for q in range(2))
    queues = tuple(
        replace(q, parent=draw(st.integers(first, first + 1)) if q.parent is None else q.parent) for q in world.queues
    )
    return replace(
        world, queues=(*queues, *parents), policy=replace(world.policy, ancestor_reclaim_levels=draw(st.integers(0, 2)))
    )


def test_with_several_waiting_gangs_no_eviction_is_in_vain() -> None:
    seen = Counter[str]()

    @settings(max_examples=80)
    @given(_two())
    def nobody(world: Problem) -> None:
        plan = solve(world)
        assert verify(world, plan) == []
        seen.update(plan_events(world, plan))

    nobody()
    assert rare_events(seen, evicts=29, two_start=14, starts_and_waits=29) == {}


@settings(max_examples=70)
@given(crowded())
def test_with_evictions_switched_off_the_plan_is_the_one_without_them(world: Problem) -> None:
    off = replace(world, preempt_enabled=False, reclaim_enabled=False)
    plain = replace(off, gangs=tuple(replace(gang, evictable=False, loss=0) for gang in world.gangs))
    assert solve(off).decisions == solve(plain).decisions

"""Plan after plan, each carried out before the next: after at most five of them nothing changes any more, whoever may
evict whom."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from solver.plan import Plan
from solver.problem import EvictionVotes, Gang, Node, Policy, Problem, Queue
from solver.verify import verify
from tests.builders.depth import settings
from tests.builders.evictions import NONE, running_gang, waiting_gang
from tests.builders.plans import solve_without_repairs as solve
from tests.builders.problems import gang, nodes, problem, queue, role, running_pods, with_fields
from tests.builders.strategies import HYPERNODE_TREES
from tests.property.plan_events import rare_events

ROUNDS = 5
CAPACITY = Policy(capacity=True)
POLICIES = (CAPACITY, CAPACITY, Policy(proportion=True), Policy(), Policy(drf=True))


@st.composite
def teams(draw: st.DrawFn) -> Problem:
    """At most 2 nodes, 2 to 3 queues that deserve different amounts of both resources, with gangs of all priorities
    that run and wait."""
    tree = draw(st.sampled_from(HYPERNODE_TREES[:2]))
    leaves = (0, 1) if tree else (None,)
    nodes = tuple(
        Node(f"n{n}", 0, draw(st.sampled_from(leaves)), (4, 4), (4, 4)) for n in range(draw(st.integers(1, 2)))
    )
    amounts = st.sampled_from((None, 0, 2, 4, 8))
    homes = list(range(draw(st.integers(2, 3))))
    queues = tuple(
        Queue(
            f"q{q}",
            None,
            draw(st.integers(1, 3)),
            0,
            draw(st.sampled_from((NONE, NONE, NONE, (None, 1), (1, 2)))),
            (draw(amounts), draw(amounts)),
            draw(st.sampled_from((NONE, NONE, NONE, (None, 8)))),
            (0, 0),
            reclaimable=draw(st.integers(0, 5)) > 0,
        )
        for q in homes
    )
    left = [list(node.free) for node in nodes]
    running = [draw(running_gang(g, homes, left, bool(tree))) for g in range(draw(st.integers(1, 3)))]
    waiting = [
        replace(draw(waiting_gang(homes, bool(tree))), name=f"w{w}", priority=draw(st.integers(0, 2)), age=20 + w)
        for w in range(draw(st.integers(1, 2)))
    ]
    return Problem(
        ("cpu", "gpu"),
        nodes,
        tree,
        queues,
        tuple(with_fields(gang, evictable=draw(st.integers(0, 7)) > 0) for gang in (*running, *waiting)),
        policy=draw(st.sampled_from(POLICIES)),
        preempt_enabled=draw(st.booleans()),
        reclaim_enabled=True,
        reclaim_votes=EvictionVotes(whole_gangs=draw(st.integers(0, 3)) > 0),
    )


def carried_out(world: Problem, plan: Plan) -> Problem:
    """A minute later."""

    def gang_after(g: int, gang: Gang) -> Gang:
        pods = plan.decisions[g].placements
        if plan.decisions[g].action == "wait" and not plan.decisions[g].evicted_pods:
            pods = gang.running
        return with_fields(gang, running=pods, loss=gang.eviction.loss + 60 if gang.running and pods else 0)

    return replace(world, gangs=tuple(gang_after(g, gang) for g, gang in enumerate(world.gangs)))


def test_plan_after_plan_comes_to_rest() -> None:
    seen = Counter[str]()

    @settings(max_examples=100)
    @given(teams())
    def rounds(world: Problem) -> None:
        for number in range(ROUNDS + 1):
            plan = solve(world)
            assert verify(world, plan) == []
            after = carried_out(world, plan)
            if [gang.running for gang in after.gangs] == [gang.running for gang in world.gangs]:
                seen[f"rounds: {number}"] += 1
                return
            victims = {d.gang for d in plan.decisions if d.evicted_pods}
            seen["reclaims"] += any(
                world.gangs[j].queue != world.gangs[v].queue for v in victims for j in plan.decisions[v].evicted_for
            )
            world = after
        raise AssertionError("never comes to rest")

    rounds()
    assert rare_events(seen, reclaims=4) == {}


def test_what_was_given_back_comes_back_once_in_its_own_queue() -> None:
    """The urgent gang has run least, so that it goes for the owner; then a gang goes for it that matters less, in its
    own queue. Nothing comes back from the owner."""
    old = gang("old", role(1, gpu=8), queue="team", running=(running_pods(0, 0, 1),), loss=900)
    urgent = gang("urgent", role(1, gpu=8), queue="team", priority=9, running=(running_pods(0, 1, 1),), loss=5)
    owners = gang("owners", role(1, gpu=8), queue="owner")
    queues = queue("team", deserved={"gpu": 8}), queue("owner", deserved={"gpu": 8})
    world = problem(
        nodes(2, gpu=8), *queues, old, urgent, owners, policy=CAPACITY, preempt_enabled=True, reclaim_enabled=True
    )
    seen = []
    for _ in range(3):
        seen.append(" ".join(decision.action for decision in solve(world).decisions))
        world = carried_out(world, solve(world))
    assert seen == ["keep evict start", "evict start keep", "wait keep keep"]


def test_a_gang_that_may_start_with_more_than_its_queue_deserves_takes_nothing_that_comes_back() -> None:
    """With both small pods it would stay within the 4 GPUs, but no node takes these; the large ones hold 6."""
    small, large = role(2, minimum=0, gpu=1, node_classes=(1,)), role(3, minimum=0, gpu=2)
    world = problem(
        nodes(1, gpu=8),
        queue("lender", deserved={"gpu": 4}),
        queue("owner", deserved={"gpu": 4}),
        gang("ones", role(2, gpu=1), queue="lender", running=(running_pods(0, 0, 2),), loss=1),
        gang("twos", role(2, gpu=2), queue="lender", running=(running_pods(0, 0, 2),), loss=1),
        gang("two", role(1, gpu=2), queue="lender", running=(running_pods(0, 0, 1),), loss=1),
        gang("winner", small, large, minimum=3, queue="owner", loss=1),
        policy=CAPACITY,
        reclaim_enabled=True,
    )
    assert [decision.action for decision in solve(world).decisions] == ["keep", "keep", "keep", "wait"]

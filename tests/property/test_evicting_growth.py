"""Growth within a queue's entitlement comes before what other queues borrow in plans that evict as well, and nobody is
evicted for it: counted anew from plans, against the plans of the same worlds without growth."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from solver.plan import Plan
from solver.problem import EvictionVotes, Gang, Policy, Problem
from solver.semantics.entitlements import entitled_amounts
from solver.semantics.eviction_rights import may_preempt
from solver.verify import verify
from tests.builders.depth import settings
from tests.builders.plans import solve_without_repairs as solve
from tests.builders.problems import GangSpec, gang, nodes, problem, queue, role, running_pods, with_fields
from tests.property.plan_events import rare_events
from tests.property.test_entitled_growth import served_later, size_of
from tests.property.test_rounds import ROUNDS, carried_out

SIZE = 8
ANYWHERE = (frozenset({0}), frozenset({0, 1}))


@st.composite
def evicting_worlds(draw: st.DrawFn) -> Problem:
    """Two nodes of two classes. The second is full of guests that one more gang would have go, by reclaim or in their
    queue; an elastic gang of the first queue waits or runs on the first one, where others of all queues come."""
    deserved = draw(st.sampled_from(((8, 2, 4), (6, 4, 4), (8, 0, 6), (10, 2, 4), (6, 6, 4))))
    queues = [
        queue(f"q{q}", priority=draw(st.sampled_from((0, 0, 0, 1))), deserved={"gpu": d})
        for q, d in enumerate(deserved)
    ]
    guests, reclaims = draw(st.sampled_from((1, 1, 1, 2))), draw(st.integers(0, 3)) > 0
    running = [running_gang(1, 1, draw(st.integers(1, 3)), SIZE // 2, draw(st.integers(1, 900))) for _ in range(2)]
    running[1] = replace(running[1], queue=f"q{guests}")
    late = gang(
        "", role(1, node_classes={1}, gpu=draw(st.integers(2, 4))), queue=f"q{2 if reclaims else 1}", priority=10
    )
    elastic = draw(waiting_gangs(0, draw(st.integers(2, 6))))
    if draw(st.booleans()):
        elastic = running_gang(0, 0, 1, draw(st.integers(1, 2)), 9, draw(st.integers(2, 6)))
    homes = draw(st.lists(st.sampled_from((0, 1, 1, 2)), min_size=1, max_size=3))
    others = [draw(waiting_gangs(home, draw(st.sampled_from((0, 0, 3))))) for home in homes]
    gangs = [replace(spec, name=f"g{g}") for g, spec in enumerate((*running, elastic, late, *others))]
    machines = [*nodes(1, gpu=SIZE), *nodes(1, node_class=1, gpu=SIZE)]
    votes = EvictionVotes(whole_gangs=draw(st.integers(0, 3)) > 0)
    made = problem(machines, *queues, *gangs, policy=Policy(capacity=True), reclaim_enabled=reclaims)
    preempts = not reclaims or draw(st.booleans())
    return replace(made, preempt_enabled=preempts, reclaim_votes=votes, preempt_votes=votes)


def running_gang(home: int, node: int, least: int, pods: int, loss: int, more: int = 0) -> GangSpec:
    """A gang of pods of one GPU."""
    spec = role(pods + more, minimum=min(least, pods), node_classes={0, 1}, gpu=1)
    return gang("", spec, queue=f"q{home}", running=(running_pods(0, node, pods),), loss=loss)


@st.composite
def waiting_gangs(draw: st.DrawFn, home: int, more: int) -> GangSpec:
    least, size = draw(st.integers(1, 2)), draw(st.sampled_from((1, 1, 2, 3)))
    pods = role(least + more, minimum=least, node_classes=draw(st.sampled_from(ANYWHERE)), gpu=size)
    return gang("", pods, queue=f"q{home}", priority=draw(st.sampled_from((0, 0, 10))))


def pods_by_node(made: Plan, g: int) -> Counter[int]:
    """Node -> the pods of the gang after the plan."""
    return Counter({place.node: place.pods for place in made.decisions[g].placements})


def entitled_devices(world: Problem) -> list[int]:
    """Queue -> the devices that it is entitled to."""
    return [2 * SIZE if amounts[0] is None else amounts[0] for amounts in entitled_amounts(world)]


def borrowers(world: Problem, made: Plan) -> Iterator[int]:
    """Gangs that start beyond the entitlement of their queue, and neither evict, nor could do so instead, nor come
    before one of their queue that does. What runs on claims it first, then those of the highest priority, of these the
    largest."""
    entitled, held = entitled_devices(world), Counter[int]()
    evicting = {j for d in made.decisions for j in d.evicted_for}

    def comes_before_one_that_evicts(g: int) -> bool:
        turns = (turn(world.gangs[j]) for j in evicting if world.gangs[j].queue == world.gangs[g].queue)
        return turn(world.gangs[g]) <= max(turns, default=(-math.inf, 0))

    for d in made.decisions:
        spec = world.gangs[d.gang]
        stays = sum(p.pods for p in spec.running) - sum(p.pods for p in d.evicted_pods)
        held[spec.queue] += stays * size_of(spec)
    starts = [d.gang for d in made.decisions if d.action == "start"]
    least = {g: world.gangs[g].roles[0].minimum * size_of(world.gangs[g]) for g in starts}
    for g in sorted(starts, key=lambda g: (-world.gangs[g].priority, -least[g], g)):
        q = world.gangs[g].queue
        if held[q] + least[g] <= entitled[q]:
            held[q] += least[g]
        elif not comes_before_one_that_evicts(g) and not could_evict(world, made, g):
            yield g


def turn(spec: Gang) -> tuple[float, int]:
    """The smaller, the sooner in its queue."""
    return -spec.priority, spec.age


def could_evict(world: Problem, made: Plan, g: int) -> bool:
    """Whether a gang that may go for it runs on in its queue."""
    kept = (d.gang for d in made.decisions if d.action == "keep")
    return any(may_preempt(world, g, v) for v in kept)


def wronged(world: Problem, made: Plan) -> Iterator[int]:
    """Gangs that could have one pod more on some node within their queue's entitlement, but for what gangs of other
    queues borrow there. One that loses pods does not grow."""
    entitled, lent = entitled_devices(world), list(borrowers(world, made))
    on_nodes = {d.gang: pods_by_node(made, d.gang) for d in made.decisions}
    held, free = Counter[int](), [SIZE, SIZE]
    for g, pods in on_nodes.items():
        held[world.gangs[g].queue] += pods.total() * size_of(world.gangs[g])
        for n, number in pods.items():
            free[n] -= number * size_of(world.gangs[g])
    for d in made.decisions:
        spec, size = world.gangs[d.gang], size_of(world.gangs[d.gang])
        is_full = d.action == "wait" or on_nodes[d.gang].total() >= spec.roles[0].replicas
        if is_full or d.evicted_pods or held[spec.queue] + size > entitled[spec.queue]:
            continue
        later = [b for b in lent if served_later(world, spec.queue, world.gangs[b].queue)]
        for n in spec.roles[0].node_classes:
            room = sum(on_nodes[b][n] * size_of(world.gangs[b]) for b in later)
            if room and size <= free[n] + room:
                yield d.gang


def without_growth(spec: Gang) -> Gang:
    runs = sum(p.pods for p in spec.running)
    return replace(spec, roles=(replace(spec.roles[0], replicas=max(runs, spec.roles[0].minimum)),))


def loss(world: Problem, made: Plan) -> int:
    """What those lose that go."""
    gone = ((world.gangs[d.gang].eviction.loss, place.pods) for d in made.decisions for place in d.evicted_pods)
    return sum(max(1, each) * pods for each, pods in gone)


def running_after(made: Plan) -> set[int]:
    return {d.gang for d in made.decisions if d.action in ("start", "keep")}


def test_growth_comes_before_borrowers_and_evicts_nobody() -> None:
    seen = Counter[str]()

    @settings(max_examples=80)
    @given(evicting_worlds())
    def grows(world: Problem) -> None:
        made = solve(world)
        assert verify(world, made) == []
        assert list(wronged(world, made)) == []
        rigid = solve(replace(world, gangs=tuple(map(without_growth, world.gangs))))
        assert loss(world, made) <= loss(world, rigid)
        seen["evicts"] += bool(loss(world, made))
        seen["before a borrower"] += bool(loss(world, made)) and bool(running_after(rigid) - running_after(made))

    grows()
    assert rare_events(seen, evicts=35, before_a_borrower=9) == {}


@st.composite
def timed_worlds(draw: st.DrawFn) -> Problem:
    """Evicting worlds in which some gangs say when they end, and some are overdue or were told a start."""
    world, gangs = draw(evicting_worlds()), list[Gang]()
    for spec in world.gangs:
        late = not spec.running and draw(st.integers(0, 4)) == 0
        lasts, told = draw(st.sampled_from((None, 3, 5, 20))), late and draw(st.booleans())
        spec = with_fields(spec, ends_in=lasts) if spec.running else with_fields(spec, duration=lasts)
        gangs.append(with_fields(spec, overdue=late, promised=told))
    return replace(world, gangs=tuple(gangs))


def test_growth_before_borrowers_and_reservations_agree() -> None:
    seen = Counter[str]()

    @settings(max_examples=60)
    @given(timed_worlds())
    def agree(world: Problem) -> None:
        made = solve(world)
        assert verify(world, made) == []
        grows = any(pods_by_node(made, g).total() > least_pods(world, g) for g in running_after(made))
        seen["reserves and grows"] += made.reservation is not None and grows

    agree()
    assert rare_events(seen, reserves_and_grows=10) == {}


def least_pods(world: Problem, g: int) -> int:
    """What the gang has at least once it is there."""
    return max(world.gangs[g].roles[0].minimum, sum(p.pods for p in world.gangs[g].running))


def test_plan_after_plan_comes_to_rest() -> None:
    seen = Counter[str]()

    @settings(max_examples=50)
    @given(evicting_worlds())
    def rounds(world: Problem) -> None:
        for _ in range(ROUNDS + 1):
            plan = solve(world)
            assert verify(world, plan) == []
            after = carried_out(world, plan)
            if [gang.running for gang in after.gangs] == [gang.running for gang in world.gangs]:
                return
            seen["evicts"] += bool(loss(world, plan))
            world = after
        raise AssertionError("never comes to rest")

    rounds()
    assert rare_events(seen, evicts=40) == {}

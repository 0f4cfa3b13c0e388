"""Order and time on tiny problems: against the verifier, and against brute force where nothing is reserved."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from solver import solve
from solver.plan import Plan
from solver.problem import Gang, Node, Placement, Problem, Queue, Role
from solver.validation.values import validate
from solver.verify import verify
from tests.builders.depth import settings
from tests.builders.evictions import NONE, contested, crowded
from tests.builders.plans import solve_without_repairs
from tests.builders.problems import with_fields
from tests.builders.strategies import contended_problems, problems, problems_with_slots, with_pod_rules
from tests.property.brute import (
    AdmissionScore,
    admission_score,
    feasible_sets,
    keeps_strict_order,
    meets_minima_now,
    precedence_levels,
)
from tests.property.plan_events import plan_events, rare_events

TIMES = (None, None, 1, 2, 3)


def admitted(made: Plan) -> frozenset[int]:
    return frozenset(decision.gang for decision in made.decisions if decision.action != "wait")


@st.composite
def ordered(draw: st.DrawFn) -> Problem:
    """Some queues are strict, some gangs overdue; nothing else is known of time."""
    world = draw(problems(running="whole gangs"))
    queues = tuple(replace(queue, strict_order=draw(st.booleans())) for queue in world.queues)
    return replace(
        world,
        queues=queues,
        gangs=tuple(with_fields(gang, overdue=draw(st.integers(0, 3)) == 0) for gang in world.gangs),
    )


@st.composite
def late(draw: st.DrawFn) -> Problem:
    """A few nodes, some of them busy for a known time or not; one large gang that is mostly overdue, and small ones
    before and behind it."""
    nodes = tuple(Node(f"n{n}", 0, None, (9, 4), (9, 4)) for n in range(draw(st.sampled_from((3, 2)))))
    queue = Queue(
        "q",
        None,
        1,
        0,
        NONE,
        NONE,
        draw(st.sampled_from((NONE, NONE, NONE, (None, 4 * len(nodes) - 1)))),
        (0, 0),
        strict_order=draw(st.booleans()),
    )

    def gang(name: str, age: int, pods: int, gpu: int, **more: object) -> Gang:
        return with_fields(Gang(name, 0, 0, age, pods, (Role("r", pods, pods, (1, gpu), frozenset({0})),)), **more)

    busy = range(draw(st.integers(1, len(nodes))))
    runs = [
        gang(
            f"runs{n}",
            n,
            1,
            draw(st.sampled_from((3, 2, 4))),
            running=(Placement(0, n, 1),),
            ends_in=draw(st.sampled_from(TIMES)),
        )
        for n in busy
    ]
    overdue = draw(st.sampled_from((True, True, True, False)))
    large = gang(
        "large", 5, draw(st.integers(2, len(nodes))), 4, overdue=overdue, duration=draw(st.sampled_from(TIMES))
    )
    small = []
    for n in range(draw(st.sampled_from((2, 1)))):
        before = draw(st.sampled_from((False, False, True)))
        told = gang(
            f"small{n}",
            4 if before else 6 + n,
            1,
            draw(st.sampled_from((1, 2, 4))),
            duration=draw(st.sampled_from(TIMES)),
        )
        small.append(with_fields(told, priority=draw(st.sampled_from((0, 0, 0, 10))), overdue=before))
    return Problem(("cpu", "gpu"), nodes, (), (queue,), (*runs, large, *small))


def untold(world: Problem) -> Problem:
    """The same, and nobody says when anything ends, so that only who is overdue can have a reservation."""
    return replace(world, gangs=tuple(with_fields(gang, duration=None, ends_in=None) for gang in world.gangs))


@st.composite
def timed(draw: st.DrawFn) -> Problem:
    """As `ordered`, with durations, ends, maintenance and kept domains; what runs may be anything."""
    world = draw(ordered()) if draw(st.booleans()) else draw(problems(running="anything"))
    hypernodes = range(len(world.hypernodes))
    queues = [
        replace(
            q,
            dedicated_domains=(draw(st.sampled_from(hypernodes)),)
            if hypernodes and not draw(st.integers(0, 3))
            else (),
        )
        for q in world.queues
    ]
    nodes = tuple(
        replace(node, maintenance_in=draw(st.sampled_from((None, None, None, 0, 2, 4)))) for node in world.nodes
    )
    return replace(world, nodes=nodes, queues=tuple(queues), gangs=tuple(draw(_in_time(gang)) for gang in world.gangs))


@st.composite
def _in_time(draw: st.DrawFn, gang: Gang) -> Gang:
    ends = draw(st.sampled_from(TIMES)) if gang.running else None
    return with_fields(gang, duration=draw(st.sampled_from(TIMES)), ends_in=ends, overdue=draw(st.booleans()))


def test_with_any_known_times_the_plan_is_valid_and_deterministic() -> None:
    seen = Counter[str]()

    @settings(max_examples=90)
    @given(st.one_of(timed(), late()))
    def same(world: Problem) -> None:
        validate(world)
        made = solve(world)
        seen.update(plan_events(world, made))
        assert verify(world, made) == []
        again = solve(world)
        assert (again.decisions, again.reservation) == (made.decisions, made.reservation)

    same()
    assert rare_events(seen, reserves=14, reserves_in_time=7, GW114=1, GW115=4) == {}


def test_the_best_set_that_respects_strict_order_starts() -> None:
    seen = Counter[str]()

    @settings(max_examples=125)
    @given(st.one_of(ordered(), late().map(untold)))
    def best_in_order(world: Problem) -> None:
        made = solve_without_repairs(world)
        seen.update(plan_events(world, made))
        best: AdmissionScore = max(
            admission_score(world, candidate)
            for candidate in feasible_sets(world)
            if keeps_strict_order(world, candidate)
        )
        found = admission_score(world, admitted(made))
        held = made.reservation
        if held is None:
            assert found == best
        else:  # those before the one with the reservation get what they would get without
            before = precedence_levels(world).index((world.gangs[held.gang].priority, True))
            assert found[:before] == best[:before]

    best_in_order()
    assert rare_events(seen, reserves=18, starts=21, GW115=12) == {}


def test_a_reservation_is_only_for_an_overdue_gang_that_cannot_start() -> None:
    seen = Counter[str]()

    @settings(max_examples=80)
    @given(st.one_of(ordered(), late().map(untold), late().map(untold)))
    def only_late(world: Problem) -> None:
        made = solve_without_repairs(world)
        held = made.reservation
        seen.update(plan_events(world, made))
        if held is not None:
            gang = world.gangs[held.gang]
            assert gang.times.overdue
            kept = frozenset(g for g, other in enumerate(world.gangs) if meets_minima_now(other))
            if precedence_levels(world)[0] == (gang.priority, True):  # nobody is served before it
                seen["nobody before"] += 1
                assert kept | {held.gang} not in feasible_sets(world)

    only_late()
    assert rare_events(seen, reserves=9, nobody_before=4) == {}


@settings(max_examples=35)
@given(problems(running="whole gangs"))
def test_an_unused_knob_changes_nothing(world: Problem) -> None:
    """Durations of gangs that all start, or of which none runs, leave the plan as it is."""
    plain = solve_without_repairs(world)
    if all(decision.action != "wait" for decision in plain.decisions):
        told = replace(
            world,
            gangs=tuple(with_fields(gang, duration=5, ends_in=5 if gang.running else None) for gang in world.gangs),
        )
        assert solve_without_repairs(told).decisions == plain.decisions


@st.composite
def everything(draw: st.DrawFn) -> Problem:
    """Time together with evictions, relations and cells."""
    evicting = st.one_of(contested(), contested().flatmap(with_pod_rules), crowded())
    world = draw(st.one_of(evicting, contended_problems().flatmap(with_pod_rules), problems_with_slots()))
    queues = tuple(replace(queue, strict_order=draw(st.booleans())) for queue in world.queues)
    return replace(world, queues=queues, gangs=tuple(draw(_in_time(gang)) for gang in world.gangs))


def test_time_combines_with_evictions_pod_rules_and_device_slots() -> None:
    seen = Counter[str]()

    @settings(max_examples=75)
    @given(everything())
    def goes(world: Problem) -> None:
        plan = solve(world)
        assert verify(world, plan) == []
        seen.update(plan_events(world, plan))

    goes()
    assert rare_events(seen, evicts=9, related=6, cells=3, reserves=6) == {}

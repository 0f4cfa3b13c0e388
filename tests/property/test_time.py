"""Order and time on tiny problems: against the verifier, and against brute force where nothing is reserved."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from solver import solve
from solver.plan import Plan
from solver.problem import Gang, Problem
from solver.validate import validate
from solver.verify import verify
from tests.property.brute import Score, feasible_sets, in_order, is_kept, score, steps
from tests.property.strategies import celled, problems, related
from tests.property.test_victims import crowded

TIMES = (None, None, 1, 2, 3)


def admitted(made: Plan) -> frozenset[int]:
    return frozenset(decision.gang for decision in made.decisions if decision.action != "wait")


@st.composite
def ordered(draw: st.DrawFn) -> Problem:
    """Some queues are strict, some gangs overdue; nothing else is known of time."""
    world = draw(problems(running="whole gangs"))
    queues = tuple(replace(queue, strict=draw(st.booleans())) for queue in world.queues)
    return replace(world, queues=queues, gangs=tuple(replace(gang, overdue=draw(st.integers(0, 3)) == 0) for gang in world.gangs))


@st.composite
def timed(draw: st.DrawFn) -> Problem:
    """As `ordered`, with durations, ends, maintenance and kept domains; what runs may be anything."""
    world = draw(ordered()) if draw(st.booleans()) else draw(problems(running="anything"))
    hypernodes = range(len(world.hypernodes))
    queues = [replace(q, kept=(draw(st.sampled_from(hypernodes)),) if hypernodes and not draw(st.integers(0, 3)) else ()) for q in world.queues]
    nodes = tuple(replace(node, closes_in=draw(st.sampled_from((None, None, None, 0, 2, 4)))) for node in world.nodes)
    return replace(world, nodes=nodes, queues=tuple(queues), gangs=tuple(draw(_in_time(gang)) for gang in world.gangs))


@st.composite
def _in_time(draw: st.DrawFn, gang: Gang) -> Gang:
    ends = draw(st.sampled_from(TIMES)) if gang.running else None
    return replace(gang, duration=draw(st.sampled_from(TIMES)), ends=ends, overdue=draw(st.booleans()))


@settings(max_examples=250)
@given(timed())
def test_whatever_is_known_of_time_the_plan_is_valid_and_always_the_same(world: Problem) -> None:
    validate(world)
    made = solve(world)
    assert verify(world, made) == []
    again = solve(world)
    assert (again.decisions, again.reservation) == (made.decisions, made.reservation)


@settings(max_examples=200)
@given(ordered())
def test_the_best_set_of_those_in_order_starts(world: Problem) -> None:
    made = solve(world)
    best: Score = max(score(world, candidate) for candidate in feasible_sets(world) if in_order(world, candidate))
    found = score(world, admitted(made))
    held = made.reservation
    if held is None:
        assert found == best
    else:  # those before the one with the reservation get what they would get without
        before = steps(world).index((world.gangs[held.gang].priority, True))
        assert found[:before] == best[:before]


@settings(max_examples=200)
@given(ordered())
def test_a_reservation_is_only_for_one_who_is_late_and_could_not_start(world: Problem) -> None:
    held = solve(world).reservation
    if held is not None:
        gang = world.gangs[held.gang]
        assert gang.overdue
        kept = frozenset(g for g, other in enumerate(world.gangs) if is_kept(other))
        if steps(world)[0] == (gang.priority, True):  # nobody is served before it
            assert kept | {held.gang} not in feasible_sets(world)


@settings(max_examples=100)
@given(problems(running="whole gangs"))
def test_an_unused_knob_changes_nothing(world: Problem) -> None:
    """Durations of gangs that all start, or of which none runs, leave the plan as it is."""
    plain = solve(world)
    if all(decision.action != "wait" for decision in plain.decisions):
        told = replace(world, gangs=tuple(replace(gang, duration=5, ends=5 if gang.running else None) for gang in world.gangs))
        assert solve(told).decisions == plain.decisions


@settings(max_examples=120)
@given(st.data())
def test_time_goes_with_evictions_relations_and_cells(data: st.DataObject) -> None:
    world = data.draw(st.one_of(crowded(), related(running="whole gangs"), celled()))
    queues = tuple(replace(queue, strict=data.draw(st.booleans())) for queue in world.queues)
    known = replace(world, queues=queues, gangs=tuple(data.draw(_in_time(gang)) for gang in world.gangs))
    assert verify(known, solve(known)) == []

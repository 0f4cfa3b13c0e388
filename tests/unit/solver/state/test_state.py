"""One state: starts, stops and evictions change nodes, slots, rule counts and queues together, and can be undone."""

from __future__ import annotations

import pickle

import pytest

from solver.diagnosis.question import FitQuestion
from solver.options import Options
from solver.problem import Placement, PodRule, Problem
from solver.semantics.gang_classes import waiting_class
from solver.state.state import State
from tests.builders.problems import gang, nodes, problem, queue, role, running_pods


def shown(state: State) -> object:
    """Everything that a state says, as plain values."""
    counts = () if state.rule_counts is None else tuple(map(tuple, state.rule_counts.domain_counts(0)))
    amounts, slots = state.free.amounts.tolist(), state.free.slots.tolist()
    return amounts, slots, counts, state.free_nodes.overcommitted.tolist(), list(state.queue_books.held), state.running


def crowded() -> Problem:
    """Node 0 is overcommitted by 2: it has 6, and 8 run there."""
    rule = PodRule("anti-affinity", (0, 1), (0, 0))
    return problem(
        [*nodes(1, gpu=6), *nodes(1, gpu=8)],
        queue("default"),
        gang("old", role(2, gpu=4), running=(running_pods(0, 0, 2),), loss=1),
        gang("new", role(2, gpu=4, owned_rules=(0,), selecting_rules=(0,))),
        pod_rules=(rule,),
    )


def test_the_initial_state_takes_what_runs_and_starts_nothing() -> None:
    state = State.initial(crowded())
    assert state.free.amounts.tolist() == [[0], [8]]
    assert state.free_nodes.overcommitted.tolist() == [[2], [0]]
    assert state.free_nodes.net_vectors.amounts.tolist() == [[-2], [8]]
    assert state.queue_books.held == [(8,)]
    assert state.running == {0: (Placement(0, 0, 2),)}


def test_what_goes_pays_first_what_is_overcommitted_and_undo_restores_everything() -> None:
    state = State.initial(crowded())
    before, mark = shown(state), state.mark()
    state.evict_pods(0, (Placement(0, 0, 1),))
    assert state.free.amounts.tolist() == [[2], [8]]
    assert state.running == {0: (Placement(0, 0, 1),)}
    later, second = shown(state), state.mark()
    state.start_gang(1, (Placement(0, 1, 1),))
    assert state.free.amounts.tolist() == [[2], [4]]
    assert state.queue_books.held == [(8,)]
    assert state.counted_pods.allowed_nodes(state.problem.gangs[1].roles[0]).tolist() == [True, False]
    state.undo(second)
    assert shown(state) == later
    state.start_gang(1, (Placement(0, 1, 1),))
    state.undo(mark)
    assert shown(state) == before


def test_pods_that_paid_for_others_cannot_stay_after_all_and_nothing_changes() -> None:
    state = State.initial(crowded())
    state.evict_pods(0, (Placement(0, 0, 2),))
    before = shown(state)
    with pytest.raises(ValueError, match="cannot hold"):
        state.restore_pods(0, (Placement(0, 0, 2),))
    assert shown(state) == before
    state.restore_pods(0, (Placement(0, 0, 1),))
    assert state.free.amounts.tolist() == [[2], [8]]


def test_copies_are_independent() -> None:
    state = State.initial(crowded())
    before = shown(state)
    other = state.copy()
    other.evict_pods(0, (Placement(0, 0, 2),))
    other.start_gang(1, (Placement(0, 0, 1), Placement(0, 1, 1)))
    assert shown(state) == before
    assert shown(other.without({1: (Placement(0, 0, 1),)})) != shown(other)
    assert shown(pickle.loads(pickle.dumps(other))) == shown(other)  # noqa: S301 our own bytes


def test_an_excluded_node_takes_no_pod_of_the_gang() -> None:
    world = problem(nodes(2, gpu=8), gang("a", role(2, gpu=8)), gang("b", role(2, gpu=8)))
    state = State.initial(world)
    excluding = state.excluding({0: frozenset({1})})
    counts = [excluding.fit_counts(waiting_class(j, excluding.problem.gangs[j]).roles[0]).tolist() for j in range(2)]
    assert counts == [[1, 0], [1, 1]]
    assert [FitQuestion(excluding, Options(), j).fits() for j in range(2)] == [False, True]
    assert FitQuestion(state, Options()).fits() is True
    assert shown(excluding) == shown(state)


def test_whether_a_gang_fits_is_known_by_counting_by_the_greedy_or_by_the_model() -> None:
    """Two fours and four threes fill two nodes of ten in one way only, which neither counting nor the greedy knows."""
    four, three = role(2, gpu=4), role(4, gpu=3)
    state = State.initial(problem(nodes(2, gpu=10), gang("tight", four, three), gang("large", role(3, gpu=10))))
    assert [FitQuestion(state, Options(), j).fits() for j in range(2)] == [True, False]
    assert FitQuestion(state, Options(time_limit=0.0)).fits() is None

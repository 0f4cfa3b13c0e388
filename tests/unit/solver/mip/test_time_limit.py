"""When the clock strikes it is told; when only deterministic limits do, it is not."""

from __future__ import annotations

import math
import os

import pulp
import pytest

from solver import Options, solve
from solver.clock import Clock
from solver.facts import Undecided
from solver.mip.executors import process_executor
from solver.mip.lexicographic import Goal, LexicographicSolver
from solver.mip.rows import at_most
from solver.options import Budget
from solver.problem import Problem
from solver.verify import verify
from tests.builders.problems import gang, nodes, problem, role


@pytest.fixture
def world() -> Problem:
    """The oldest gang first leaves a node idle, so the model has something to do."""
    return problem(nodes(4, gpu=8), *(gang(f"g{n}", role(pods, gpu=8)) for n, pods in enumerate((3, 2, 2, 4))))


def test_a_plan_in_time_says_nothing(world: Problem) -> None:
    assert not solve(world).hit_time_limit


def test_a_limit_of_nodes_is_no_clock(world: Problem) -> None:
    assert not solve(world, Options(max_nodes=0)).hit_time_limit


def test_a_struck_clock_is_told_and_the_plan_is_good_all_the_same(world: Problem) -> None:
    plan = solve(world, Options(time_limit=0.0))
    assert plan.hit_time_limit
    assert verify(world, plan) == []
    assert plan.batches[0].verdict == "limit reached"


def test_with_no_time_left_the_greedy_serves_all_gangs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches that decide after it would serve them again, each with tries of its own."""
    gangs = [gang(f"g{n}", role(pods, gpu=8), priority=n % 3) for n, pods in enumerate((3, 2, 2, 4, 1))]
    world, split = (
        problem(nodes(4, gpu=8), *gangs),
        Budget(joint_variables=1, batch_variables=1, free_batch_variables=1),
    )
    monkeypatch.setattr("solver.preemption.decide.decide_batch", lambda *_: pytest.fail("a batch was decided"))
    plan = solve(world, Options(time_limit=0.0, budget=split))
    assert plan.hit_time_limit
    assert verify(world, plan) == []
    assert "limit reached" in {batch.verdict for batch in plan.batches}


def struck(options: Options, task: int) -> int:
    if task == 2:
        options.clock.strike()
    return task


def test_it_is_told_from_a_worker_process_too() -> None:
    outer = Options()
    inner, other = outer.within(0.5), outer.within(0.5)
    with process_executor(2, min_work=0) as mapper:
        assert mapper.map(struck, inner, [0, 1], 1, inner.clock) == [0, 1]
        assert not inner.clock.has_struck
        assert mapper.map(struck, inner, [1, 2], 1, inner.clock) == [1, 2]
        assert mapper.faults == []
    assert inner.clock.has_struck
    assert outer.clock.has_struck
    assert not other.clock.has_struck


def left(clock: Clock, _task: int) -> float:
    return clock.seconds_left()


def test_the_limit_holds_in_worker_processes_too() -> None:
    with process_executor(2, min_work=0) as mapper:
        clock = Clock()
        assert min(mapper.map(left, clock, [0, 1], 1, clock)) == math.inf
        clock = clock.within(100).within(10_000)
        assert all(0 < seconds <= 100 for seconds in mapper.map(left, clock, [0, 1], 1, clock))
        assert mapper.faults == []


def test_with_little_time_left_no_process_is_started() -> None:
    with process_executor(2, min_work=0) as mapper:
        assert mapper.map(pid, None, [0, 1], 1, Clock().within(1)) == [os.getpid()] * 2


def pid(_shared: object, _task: int) -> int:
    return os.getpid()


def test_reasons_that_are_not_found_in_time_are_undecided(world: Problem) -> None:
    """What counting proves is still said, unless there is too much of it: 200 gangs on 1,000 nodes are."""
    facts = [
        decision.facts for decision in solve(world, Options(time_limit=0.0)).decisions if decision.action == "wait"
    ]
    assert facts
    assert (Undecided(),) not in facts
    large = problem(nodes(1000, gpu=8), *(gang(f"g{n}", role(501 + n, gpu=8)) for n in range(200)))
    plan = solve(large, Options(time_limit=0.0))
    assert {decision.facts for decision in plan.decisions if decision.action == "wait"} == {(Undecided(),)}
    assert plan.hit_time_limit


@pytest.mark.parametrize("seconds", [math.inf, 0.0])
def test_a_goal_keeps_its_own_bound_where_no_solution_is_found_in_time(seconds: float) -> None:
    model = pulp.LpProblem("m", pulp.LpMaximize)
    x, y = (model.add_variable(name, 0, 3, pulp.LpInteger) for name in ("x", "y"))
    model.addConstraint(at_most([(x, 2), (y, 2)], 5), "odd")
    lex = LexicographicSolver(model, Options(clock=Clock().within(seconds)), {"x": 1.0, "y": 0.0})
    told = lex.maximise_and_hold(Goal("sum", [(x, 1.0), (y, 1.0)], 6, 1))
    expected = (2.0, 2.0, "proven") if seconds else (1.0, 6.0, "limit reached")
    assert (told.value, told.bound, told.verdict) == expected


def test_the_relaxation_proves_a_known_solution() -> None:
    model = pulp.LpProblem("m", pulp.LpMaximize)
    x = model.add_variable("x", 0, 3, pulp.LpInteger)
    model.addConstraint(at_most([(x, 2)], 5), "odd")
    lex = LexicographicSolver(model, Options(max_nodes=0), {"x": 2.0})
    assert lex.solve_for(Goal("x", [(x, 1.0)], 3, 1)) == (2.0, 2)

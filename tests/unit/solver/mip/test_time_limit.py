"""When the clock strikes it is told; when only deterministic limits do, it is not."""

from __future__ import annotations

import pytest

from solver import Options, solve
from solver.mip.engine import record_time_limit, watch_time_limit
from solver.mip.executors import process_executor
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


def struck(_shared: object, task: int) -> int:
    if task == 2:
        record_time_limit()
    return task


def test_it_is_told_from_a_worker_process_too() -> None:
    with process_executor(2, min_work=0) as mapper, watch_time_limit() as outer:
        assert mapper.map(struck, None, [0, 1], 1) == [0, 1]
        assert not outer.hit_time_limit
        with watch_time_limit() as inner:
            assert mapper.map(struck, None, [1, 2], 1) == [1, 2]
        assert mapper.faults == []
    assert inner.hit_time_limit
    assert outer.hit_time_limit
    with watch_time_limit() as later:
        pass
    assert not later.hit_time_limit

"""Whether one gang starts alone: the same answer as its placement gives, mostly without one."""

from __future__ import annotations

import pytest

from solver.mip.executors import LOCAL_EXECUTOR
from solver.options import Options
from solver.placement import batch
from solver.placement.batch import placement_alone, starts_alone
from solver.problem import Problem
from solver.state.state import State
from tests.builders.problems import gang, nodes, problem, queue, role

TWO = gang("two", role(2, gpu=6))


@pytest.mark.parametrize(
    ("world", "starts"),
    [
        (problem(nodes(2, gpu=8), queue("default"), TWO), True),
        (problem(nodes(1, gpu=16), queue("default", capability={"gpu": 11}), TWO), False),
        (problem(nodes(1, gpu=8), queue("default"), TWO), False),
        (problem(nodes(2, gpu=8), queue("default", open=False), TWO), False),
    ],
    ids=["room", "a queue with too little left", "nodes too full", "a closed queue"],
)
def test_a_gang_starts_alone_where_it_has_a_placement(
    monkeypatch: pytest.MonkeyPatch, world: Problem, starts: bool
) -> None:
    state, options = State.initial(world), Options()
    assert (placement_alone(state, 0, options, LOCAL_EXECUTOR) is not None) == starts
    monkeypatch.setattr(batch, "solve_admission", None)  # counting and the greedy suffice
    monkeypatch.setattr(batch, "place_independent_groups", None)
    assert starts_alone(state, 0, options, LOCAL_EXECUTOR) == starts
    assert state.queue_books.held == State.initial(world).queue_books.held

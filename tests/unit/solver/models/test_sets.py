"""Numbers of the sets: what a gang's demand counts in a model."""

from __future__ import annotations

import pytest

from solver.placement.batch import batch_sets
from solver.problem import Problem
from solver.state.state import State
from tests.builders.problems import gang, nodes, problem, queue, role


def two_resources(cpu: int, gpu: int) -> Problem:
    """GPUs dominate two gangs, of which one asks for twice as many, and cpu a third."""
    return problem(
        nodes(1, cpu=cpu, gpu=gpu),
        queue("team"),
        gang("half", role(1, gpu=5), queue="team"),
        gang("whole", role(2, gpu=5), queue="team"),
        gang("other", role(1, cpu=cpu // 2), queue="team"),
    )


@pytest.mark.parametrize(
    ("world", "expected"),
    [(two_resources(8, 28), [5, 10, 14]), (two_resources(1_000_003, 28), [1786, 3571, 5000])],
    ids=["exact", "rounded"],
)
def test_dominant_units_are_exact_where_shares_have_a_small_common_denominator(
    world: Problem, expected: list[int]
) -> None:
    assert [*batch_sets(State.initial(world), range(3)).dominant_units] == expected

"""Gangs that stand in each other's way change places, which no gang can do alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solver.clock import Clock
from solver.options import Options
from solver.placement.batch import batch_sets
from solver.placement.improve import FewGangs, improve_placements
from solver.placement.task import PlacementTask
from solver.problem import Placement
from solver.search import Limits, improve
from solver.semantics.gang_classes import waiting_class
from solver.semantics.placements import Placements
from solver.state.state import State
from tests.builders.plans import with_budget
from tests.builders.problems import gang, nodes, problem, role


def crossed() -> tuple[PlacementTask, Placements]:
    """Two full supernodes of two nodes, and two gangs with a pod in each of them."""
    world = problem(
        nodes(2, leaf="s0", gpu=8),
        nodes(2, leaf="s1", gpu=8),
        gang("a", role(2, gpu=8)),
        gang("b", role(2, gpu=8)),
        hypernodes={"s0": (1, None), "s1": (1, None)},
    )
    apart: Placements
    classes = {j: waiting_class(j, world.gangs[j]) for j in range(2)}
    apart = {0: (Placement(0, 0, 1), Placement(0, 2, 1)), 1: (Placement(0, 1, 1), Placement(0, 3, 1))}
    return PlacementTask(batch_sets(State.initial(world), range(2)), classes, Options()), apart


def test_two_gangs_that_are_in_each_other_s_way_change_places() -> None:
    task, apart = crossed()
    found = improve(apart, task.cost, FewGangs(task).moves, Limits(Clock()))
    assert (task.cost(apart).spread, task.cost(found).spread) == (2, 0)
    task.s.state_after(found)  # raises ValueError where a node holds more than it can


def test_every_gang_is_treated_once() -> None:
    task, apart = crossed()
    neighbourhood = FewGangs(task).moves
    improve(apart, lambda _: 0, neighbourhood, Limits(Clock()))  # nothing is ever cheaper
    assert improve(apart, task.cost, neighbourhood, Limits(Clock(), tries=9)) == apart


@pytest.mark.parametrize(("buckets", "spread"), [(2, 0), (1, 2)])
def test_in_a_cluster_of_too_many_buckets_none_is_placed_again(buckets: int, spread: int) -> None:
    """There a few gangs are too small a part of a batch."""
    task, apart = crossed()
    options = with_budget(Options(), placement_variables=0, class_total_variables=0, searched_buckets=buckets)
    found, _ = improve_placements(replace(task, options=options), apart)
    assert task.cost(found).spread == spread

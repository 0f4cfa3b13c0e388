"""Opened supernodes are emptied by placing their gangs again in those that are open anyway."""

from __future__ import annotations

from solver.clock import Clock
from solver.placement.improve import EmptySupernodes
from solver.problem import Placement, Problem
from solver.search import Limits, improve
from solver.semantics.placements import Placements
from tests.builders.models import task_of
from tests.builders.problems import gang, nodes, problem, role

TREE = {"s0": (1, None), "s1": (1, None), "s2": (1, None)}


def tidied(world: Problem, placements: Placements) -> tuple[Placements, int]:
    """What the search makes of it, and how many supernodes that opens."""
    task = task_of(world)
    found = improve(placements, task.cost, EmptySupernodes(task).moves, Limits(Clock()))
    return found, task.cost(found).supernodes


def test_gangs_of_the_emptiest_supernode_move_to_where_others_have_opened() -> None:
    world = problem(
        nodes(2, leaf="s0", gpu=8),
        nodes(2, leaf="s1", gpu=8),
        nodes(2, leaf="s2", gpu=8),
        gang("a", role(3, gpu=4)),
        gang("b", role(1, gpu=4)),
        hypernodes=TREE,
    )
    apart = {0: (Placement(0, 0, 2), Placement(0, 1, 1)), 1: (Placement(0, 2, 1),)}
    found, supernodes = tidied(world, apart)
    assert supernodes == 1
    assert found == {0: apart[0], 1: (Placement(0, 1, 1),)}


def test_gangs_stay_when_no_open_supernode_has_room() -> None:
    world = problem(
        nodes(2, leaf="s0", gpu=8),
        nodes(2, leaf="s1", gpu=8),
        gang("a", role(1, gpu=8)),
        gang("b", role(2, gpu=8)),
        hypernodes=TREE,
    )
    apart = {0: (Placement(0, 0, 1),), 1: (Placement(0, 2, 1), Placement(0, 3, 1))}
    assert tidied(world, apart) == (apart, 2)

"""Other greedies and exchanges raise a floor; which of two floors starts more."""

from __future__ import annotations

from solver.placement.batch import FloorCost
from solver.problem import Placement, Problem
from solver.semantics.placements import Placements
from tests.builders.problems import gang, nodes, problem, queue, role, running_pods


def starts_more(world: Problem, one: Placements, other: Placements) -> bool:
    return FloorCost.of(world, one) < FloorCost.of(world, other)


def test_more_is_asked_of_every_queue_and_priority_by_itself() -> None:
    world = problem(
        nodes(4, gpu=8),
        queue("q"),
        queue("r"),
        gang("a", role(2, gpu=8), queue="q"),
        gang("b", role(1, gpu=8), queue="r"),
    )
    a: dict[int, tuple[Placement, ...]] = {0: (running_pods(0, 0, 1), running_pods(0, 1, 1))}
    b: dict[int, tuple[Placement, ...]] = {1: (running_pods(0, 2, 1),)}
    assert starts_more(world, a | b, a)
    assert not starts_more(world, a, a)
    assert not starts_more(world, a, b)
    assert not starts_more(world, b, a)


def test_more_of_one_resource_is_not_bought_with_less_of_the_one_that_the_queue_holds_most_of() -> None:
    """Dominant shares of 1/2 and 1/2 against one of 8/10; but all together they hold 7 of 10 CPU, which is less than 8
    of 10 GPU."""
    mixed = gang("b", role(1, cpu=5)), gang("c", role(1, cpu=2, gpu=5))
    world = problem(nodes(1, cpu=10, gpu=10), gang("a", role(1, gpu=8)), *mixed)
    large, both = {0: (running_pods(0, 0, 1),)}, {1: (running_pods(0, 0, 1),), 2: (running_pods(0, 0, 1),)}
    assert not starts_more(world, both, large)
    assert not starts_more(world, large, both)

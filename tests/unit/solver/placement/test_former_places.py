"""Gangs keep the places of the plan in force, those that have begun are completed where they are, and only those that
cannot stay move."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from solver.options import Options
from solver.plan import Objective, Plan
from solver.planner import solve
from solver.problem import Placement, Problem
from solver.verify import verify
from tests.builders.beside import beside
from tests.builders.plans import decision_in, verified_plan
from tests.builders.problems import GangSpec, gang, nodes, problem, role
from tests.builders.stories import assert_story

STORIES = beside(__file__)


@pytest.mark.parametrize("story", STORIES)
def test_story(story: str) -> None:
    assert_story(STORIES[story])


def with_former(world: Problem, **places: Mapping[int, int]) -> Problem:
    """The world in which the plan in force has so many pods of the first role of these gangs on these nodes."""
    former = {name: tuple(Placement(0, n, pods) for n, pods in sorted(at.items())) for name, at in places.items()}
    return replace(world, gangs=tuple(replace(each, former=former.get(each.name, ())) for each in world.gangs))


def nodes_of(world: Problem, plan: Plan, name: str) -> dict[int, int]:
    return {p.node: p.pods for p in decision_in(world, plan, name).placements}


def moves(plan: Plan) -> list[tuple[float, float]]:
    every = (goal for batch in plan.batches for goal in batch.objectives)
    return [(goal.value, goal.bound) for goal in every if goal.name == "moves"]


def eight(name: str, **more: Any) -> GangSpec:
    return gang(name, role(8, gpu=1), **more)


def test_fewer_moves_than_there_are_break_the_plan() -> None:
    machines = [*nodes(1, gpu=8, node_class=1), *nodes(1, gpu=8)]
    again = with_former(problem(machines, eight("a")), a={0: 8})
    plan = solve(again, Options())
    (batch,) = plan.batches

    def lied(goal: Objective) -> Objective:
        return replace(goal, value=0.0, bound=0.0, gap=0.0) if goal.name == "moves" else goal

    false = replace(plan, batches=(replace(batch, objectives=tuple(map(lied, batch.objectives))),))
    assert verify(again, plan) == []
    assert [violation.message for violation in verify(again, false)] == ["moves is said to be 0.0, and 1 gangs move"]


@pytest.mark.parametrize("places", [{7: 8}, {0: 8, 1: 8}])
def test_more_places_than_pods_are_as_good(places: Mapping[int, int]) -> None:
    world = problem(nodes(8, gpu=8), eight("a"))
    again = with_former(world, a=places)
    plan = verified_plan(again)
    assert set(nodes_of(again, plan, "a")) <= set(places)
    assert moves(plan) == [(0, 0)]

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
from solver.problem import Placement, Policy, Problem
from solver.verify import verify
from tests.builders.beside import beside
from tests.builders.plans import decision_in, started_in, verified_plan
from tests.builders.problems import GangSpec, gang, hard_topology, nodes, pod_rule, problem, role
from tests.builders.stories import assert_story

STORIES = beside(__file__)


@pytest.mark.parametrize("story", STORIES)
def test_story(story: str) -> None:
    assert_story(STORIES[story])


SUPERNODES = {"s0": (1, None), "s1": (1, None), "s2": (1, None)}


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


def test_a_gang_keeps_its_place_although_another_would_be_chosen_now() -> None:
    world = problem(nodes(3, gpu=8), eight("a"), eight("b"))
    assert nodes_of(world, verified_plan(world), "a") == {0: 8}
    again = with_former(world, a={2: 8}, b={1: 5, 0: 3})
    plan = verified_plan(again)
    assert (nodes_of(again, plan, "a"), nodes_of(again, plan, "b")) == ({2: 8}, {0: 3, 1: 5})
    assert moves(plan) == [(0, 0)]


def test_a_lost_node_moves_only_the_gang_that_was_to_start_there() -> None:
    machines = [*nodes(2, gpu=8), *nodes(1, gpu=8, node_class=1), *nodes(3, gpu=8)]
    world = problem(machines, eight("a"), eight("b"), eight("c"), eight("d"))
    again = with_former(world, a={3: 8}, b={2: 8}, c={1: 8}, d={4: 8})
    plan = verified_plan(again)
    assert [nodes_of(again, plan, name) for name in "acd"] == [{3: 8}, {1: 8}, {4: 8}]
    assert moves(plan) == [(1, 1)]
    assert [goal.verdict for batch in plan.batches for goal in batch.objectives] == ["proven"] * len(
        [goal for batch in plan.batches for goal in batch.objectives]
    )


def test_a_gang_gives_its_place_up_where_another_could_not_start_otherwise() -> None:
    """Of three supernodes one has no node left for the hard gang: the two that are spread over the others move."""
    machines = [node for name in SUPERNODES for node in nodes(2, gpu=8, leaf=name, node_class=int(name == "s0"))]
    hard = gang("hard", role(2, gpu=8), topology=hard_topology(1))
    world = problem(machines, hard, gang("x", role(1, gpu=8)), gang("y", role(1, gpu=8)), hypernodes=SUPERNODES)
    again = with_former(world, hard={0: 1, 1: 1}, x={2: 1}, y={4: 1})
    plan = verified_plan(again)
    assert started_in(again, plan) == {"hard", "x", "y"}
    assert nodes_of(again, plan, "x") == {2: 1}
    assert moves(plan) == [(2, 1)]


def test_pods_that_are_spread_stay_where_they_were_spread() -> None:
    world = problem(nodes(3, gpu=8), eight("a"), eight("b"), policy=Policy(spread_pods=True))
    plan = verified_plan(world)
    again = with_former(world, a={0: 8}, b={1: 3, 2: 5})
    kept = verified_plan(again)
    assert nodes_of(world, plan, "a") != {0: 8}
    assert (nodes_of(again, kept, "a"), nodes_of(again, kept, "b")) == ({0: 8}, {1: 3, 2: 5})


def test_of_gangs_that_break_a_pod_rule_together_the_last_one_moves() -> None:
    rule = pod_rule("anti-affinity", (0, 1, 2))
    alone = role(1, gpu=1, owned_rules=(0,), selecting_rules=(0,))
    world = problem(nodes(3, gpu=8), gang("first", alone), gang("second", alone), pod_rules=(rule,))
    again = with_former(world, first={2: 1}, second={2: 1})
    plan = verified_plan(again)
    assert nodes_of(again, plan, "first") == {2: 1}
    assert nodes_of(again, plan, "second") != {2: 1}


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

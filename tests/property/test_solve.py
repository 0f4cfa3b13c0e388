"""The solver against brute force on tiny problems."""

from __future__ import annotations

import importlib
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from solver import solve
from solver.admission.greedy_floor import is_floor_better
from solver.plan import Plan
from solver.problem import Problem
from solver.semantics.placement_cost import COST_NAMES
from solver.verify import verify
from tests.builders.depth import settings
from tests.builders.plans import solve_without_repairs
from tests.builders.problems import plan_with as rebuilt
from tests.builders.strategies import problems, problems_under_policies
from tests.property.brute import admission_score, alone_on_empty_cluster, feasible_sets, meets_minima_now, new_pod_sets


def admitted(made: Plan) -> frozenset[int]:
    return frozenset(decision.gang for decision in made.decisions if decision.action != "wait")


def timeless(made: Plan) -> Plan:
    """The plan without what is measured for people."""
    return replace(made, batches=tuple(replace(batch, seconds=0.0) for batch in made.batches))


def assert_best_set(world: Problem, costs: Collection[str] = COST_NAMES) -> None:
    """The plan starts the best set, and alone on the empty cluster a gang starts exactly when it can; that it never
    can is said only then. costs: the objectives that need not be proven."""
    made = solve_without_repairs(world)
    assert verify(world, made) == []
    sets = feasible_sets(world)
    assert admitted(made) in sets
    assert admission_score(world, admitted(made)) == max(admission_score(world, candidate) for candidate in sets)
    admission = [objective for batch in made.batches for objective in batch.objectives if objective.name not in costs]
    assert {objective.verdict for objective in admission} <= {"proven"}
    for g, gang in enumerate(world.gangs):
        if not meets_minima_now(gang):
            alone = alone_on_empty_cluster(world, g)
            possible = len(feasible_sets(alone)) == 2
            assert possible == (solve_without_repairs(alone).decisions[0].action == "start")
            assert not (possible and any(fact.never for fact in made.decisions[g].facts))


def assert_nothing_more_could_start(world: Problem) -> None:
    """The plan is valid and the same again, and no larger set of gangs fits."""
    made = solve(world)
    assert verify(world, made) == []
    assert [candidate for candidate in feasible_sets(world) if candidate > admitted(made)] == []
    assert timeless(solve(world)) == timeless(made)


@settings(max_examples=50)
@given(problems(running="whole gangs"))
def test_the_admitted_set_is_feasible_and_the_best_by_the_objectives(world: Problem) -> None:
    assert_best_set(world)


@settings(max_examples=50)
@given(problems(running="anything"))
def test_whatever_runs_already_the_plan_is_valid_and_nothing_more_could_start(world: Problem) -> None:
    assert_nothing_more_could_start(world)


@settings(max_examples=50)
@given(problems())
def test_an_elastic_gang_stops_growing_only_where_no_larger_one_is_valid(world: Problem) -> None:
    made = solve_without_repairs(world)
    placements = {
        decision.gang: [(place.role, place.node, place.pods) for place in decision.placements]
        for decision in made.decisions
        if decision.action != "wait"
    }
    for g, places in placements.items():
        have = {(role, node): pods for role, node, pods in places}
        for option in new_pod_sets(world, g):
            larger = [(role, node, pods) for (role, node), pods in option.items()]
            if all(option[spot] >= pods for spot, pods in have.items()) and sum(option.values()) > sum(have.values()):
                assert verify(world, rebuilt(world, placements | {g: larger})) != []


@settings(max_examples=50)
@given(problems_under_policies(problems(running="whole gangs")))
def test_the_model_never_needs_its_floor(world: Problem) -> None:
    """The check at run time is a net: where the goals are proved, nobody falls into it."""
    with pytest.MonkeyPatch.context() as patch:
        asked: list[bool] = []

        def noted(*arguments: Any) -> bool:
            asked.append(is_floor_better(*arguments))
            return asked[-1]

        patch.setattr(importlib.import_module("solver.placement.batch"), "is_floor_better", noted)
        solve_without_repairs(world)
    assert not any(asked)

"""Stories of one plan as data: a world, and what the plan makes of its gangs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from solver.plan import Plan
from solver.problem import Problem
from tests.builders.described import statements, world_of
from tests.builders.plans import verified_plan

_EXPECTED = ("starts", "actions", "evicts", "pods", "domains", "facts", "repairs")


def assert_story(told: Mapping[str, Any] | list[Mapping[str, Any]]) -> None:
    """told: one case, or several that belong together."""
    for case in told if isinstance(told, list) else [told]:
        _assert_case(case)


def _assert_case(case: Mapping[str, Any]) -> None:
    """starts: the gangs that start. actions, evicts: of all gangs, of all that lose pods. pods, domains, facts,
    repairs: of the gangs that are named. The rest is the world."""
    expected = {key: case[key] for key in _EXPECTED if key in case}
    assert expected
    world = world_of(**{key: said for key, said in case.items() if key not in _EXPECTED})
    found = _found(world, verified_plan(world))
    for key in ("facts", "repairs"):
        expected |= {key: {name: statements(each) for name, each in expected[key].items()}} if key in expected else {}
    for key in ("pods", "domains", "facts", "repairs"):
        found[key] = {name: found[key][name] for name in expected.get(key, ())}
    assert {key: found[key] for key in expected} == expected


def _found(world: Problem, plan: Plan) -> dict[str, Any]:
    decisions = {gang.name: decision for gang, decision in zip(world.gangs, plan.decisions, strict=True)}
    evicted = {name: sum(place.pods for place in each.evicted_pods) for name, each in decisions.items()}
    return {
        "starts": sorted(name for name, each in decisions.items() if each.action == "start"),
        "actions": {name: each.action for name, each in decisions.items()},
        "evicts": {name: pods for name, pods in evicted.items() if pods},
        "pods": {name: sum(place.pods for place in each.placements) for name, each in decisions.items()},
        "domains": {name: len(each.domains) for name, each in decisions.items()},
        "facts": {name: each.facts for name, each in decisions.items()},
        "repairs": {name: each.repairs for name, each in decisions.items()},
    }

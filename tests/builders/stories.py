"""Stories of one plan as data: a world, and what the plan makes of its gangs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from solver.options import Budget, Options
from solver.plan import Plan
from solver.problem import Problem
from tests.builders.described import statements, world_of
from tests.builders.plans import verified_plan

_OF_ALL = ("starts", "actions", "evicts", "evicted_for", "starts_per_queue", "verdicts", "batches", "pods_per_slot")
"""Compared whole: gangs that start, or those that lose pods and for whom. batches: the gangs of each."""
_OF_NAMED = ("pods", "places", "domains", "facts", "codes", "never", "repairs", "suggests", "starts_in", "goals")
"""Compared for the gangs that are named. codes, never: of each fact. suggests: codes of repairs. goals: objective ->
value, bound and verdict, null where there is none."""
_EXPECTED = (*_OF_ALL, *_OF_NAMED, "reservation", "suggests_no")
"""reservation: the fields that are named. suggests_no: gang -> codes of repairs that it must not have."""


def assert_story(told: Mapping[str, Any] | list[Mapping[str, Any]]) -> None:
    """told: one case, or several that belong together."""
    for case in told if isinstance(told, list) else [told]:
        _assert_case(case)


def _assert_case(case: Mapping[str, Any]) -> None:
    """budget: limits of the solver. What is not expected is the world."""
    expected = {key: case[key] for key in _EXPECTED if key in case}
    assert expected
    world = world_of(**{key: said for key, said in case.items() if key not in (*_EXPECTED, "budget")})
    found = _found(world, verified_plan(world, Options(budget=Budget(**case.get("budget", {})))))
    for name, unwanted in expected.pop("suggests_no", {}).items():
        assert not {*unwanted} & {*found["suggests"][name]}
    for key in ("facts", "repairs"):
        expected |= {key: {name: statements(each) for name, each in expected[key].items()}} if key in expected else {}
    for key in _OF_NAMED:
        found[key] = {name: found[key].get(name) for name in expected.get(key, ())}
    if expected.get("reservation") and found["reservation"]:
        found["reservation"] = {key: found["reservation"][key] for key in expected["reservation"]}
    assert {key: found[key] for key in expected} == expected


def _found(world: Problem, plan: Plan) -> dict[str, Any]:
    names = [gang.name for gang in world.gangs]
    decisions = dict(zip(names, plan.decisions, strict=True))
    evicted = {name: sum(place.pods for place in each.evicted_pods) for name, each in decisions.items()}
    starting = Counter(world.queues[world.gangs[d.gang].queue].name for d in plan.decisions if d.action == "start")
    slots = Counter[tuple[int, int]]()
    for use in (use for each in plan.decisions for use in each.slot_uses):
        slots[use.node, use.slot] += use.pods
    goals = [goal for batch in plan.batches for goal in batch.objectives]
    goals = [goal for batch in plan.batches for goal in batch.objectives]
    held = plan.reservation
    return {
        "starts": sorted(name for name, each in decisions.items() if each.action == "start"),
        "actions": {name: each.action for name, each in decisions.items()},
        "evicts": {name: pods for name, pods in evicted.items() if pods},
        "evicted_for": {n: [names[j] for j in each.evicted_for] for n, each in decisions.items() if each.evicted_for},
        "starts_per_queue": {queue.name: starting[queue.name] for queue in world.queues},
        "goals": {goal.name: [goal.value, goal.bound, goal.verdict] for goal in goals},
        "batches": [[names[j] for j in batch.gangs] for batch in plan.batches],
        "verdicts": sorted({goal.verdict for goal in goals}),
        "pods_per_slot": sorted(slots.values()),
        "reservation": held
        and {
            "gang": names[held.gang],
            "starts_in": held.starts_in,
            "awaits": [names[j] for j in held.awaited_gangs],
            "nodes": sorted({place.node for place in held.placements}),
        },
        "pods": {name: sum(place.pods for place in each.placements) for name, each in decisions.items()},
        "places": {name: {p.node: p.pods for p in each.placements} for name, each in decisions.items()},
        "domains": {name: len(each.domains) for name, each in decisions.items()},
        "facts": {name: each.facts for name, each in decisions.items()},
        "codes": {name: [fact.code for fact in each.facts] for name, each in decisions.items()},
        "never": {name: [fact.never for fact in each.facts] for name, each in decisions.items()},
        "repairs": {name: each.repairs for name, each in decisions.items()},
        "suggests": {name: [repair.code for repair in each.repairs] for name, each in decisions.items()},
        "starts_in": {name: each.starts_in for name, each in decisions.items()},
    }

"""Each rule of the verifier: what breaks it, what just does not, and what running pods excuse."""

from __future__ import annotations

import ast
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

import solver.plan
import solver.verify
from solver.facts import Fact
from solver.repairs import Repair
from solver.verify import RULES, verify
from tests.builders.beside import beside
from tests.builders.described import world_of
from tests.builders.problems import (
    plan_with,
)


def test_the_verifier_imports_nothing_of_the_solver_but_what_goes_in_and_what_comes_out() -> None:
    rooms = sorted(Path(solver.verify.__file__).parent.glob("*.py"))
    nodes_of_rooms = [node for room in rooms for node in ast.walk(ast.parse(room.read_text()))]
    wanted = [node.module or "" for node in nodes_of_rooms if isinstance(node, ast.ImportFrom)]
    ours = {name for name in wanted if name.split(".")[0] in ("solver", "compiler", "reconciler")}
    assert {name for name in ours if not name.startswith("solver.verify")} == {
        "solver.facts",
        "solver.plan",
        "solver.problem",
        "solver.repairs",
    }


CHECKED: dict[type, dict[str, str]] = {
    solver.plan.Plan: {
        "decisions": "decisions",
        "batches": "batches",
        "queues": "queue_use",
        "reservation": "reservation",
        "hit_time_limit": "no: only a clock could tell; tests/unit/solver/mip/test_time_limit.py",
    },
    solver.plan.Decision: {
        "gang": "decisions",
        "action": "actions",
        "placements": "capacity",
        "domains": "domains",
        "facts": "reasons",
        "repairs": "reasons",
        "evicted_pods": "evictions",
        "evicted_for": "eviction_rights",
        "slot_uses": "device_slots",
        "starts_in": "reservation",
        "held": "held_gangs",
        "unlocated_holders": "no: for people; tests/unit/compiler/lower/test_slot_holders.py",
    },
    solver.plan.UnlocatedHolder: dict.fromkeys(
        ("gang", "node", "slot_group"), "no: for people; tests/unit/compiler/lower/test_slot_holders.py"
    ),
    # That facts suffice and none is idle, and that repairs are enough, takes as long as finding them:
    # tests/property/test_reasons.py, test_repairs.py and test_delays.py.
    Fact: {
        **dict.fromkeys(("never", "asked", "available"), "reasons"),
        **dict.fromkeys(("role", "queue", "resource", "hypernode", "pod_rule", "subgroup", "gang"), "reasons"),
        **dict.fromkeys(("gangs", "queues", "nodes", "node_groups"), "reasons"),
        "tier": "no: what the gang's topology says, for people",
        "limit": "no: what a limit says, for people; tests/unit/solver/diagnosis/test_reasons.py",
        **dict.fromkeys(("scarce", "pieces"), "no: for people; tests/scenarios/test_reasons_to_act_on.py"),
        "held": "no: what a queue holds, for people; tests/scenarios/test_reasons_to_act_on.py",
        "obstacle": "no: why nobody goes, for people; tests/scenarios/test_why_nobody_is_evicted.py",
    },
    Repair: {
        **dict.fromkeys(("tier", "amount", "current_amount", "also"), "reasons"),
        **dict.fromkeys(("role", "queue", "resource", "hypernode", "subgroup", "gang", "node"), "reasons"),
        **dict.fromkeys(("gangs", "nodes", "node_groups"), "reasons"),
        "seconds": "no: when others end, for people; tests/property/test_delays.py",
        "obstacle": "no: what the edit takes away, for people; tests/scenarios/test_why_nobody_is_evicted.py",
        "evicts": "no: what the plan with that priority does; tests/property/test_repairs.py",
    },
    solver.plan.SlotUse: dict.fromkeys(("role", "node", "slot", "pods"), "device_slots"),
    solver.plan.Reservation: dict.fromkeys(
        ("gang", "starts_in", "placements", "awaited_gangs", "gangs_before"), "reservation"
    ),
    solver.plan.Batch: {
        "gangs": "batches",
        "verdict": "batches",
        "objectives": "objective_values",
        "seconds": "no: measured for people, and no part of the plan's identity",
    },
    solver.plan.Objective: {
        "name": "objective_values",
        "value": "objective_values",
        "bound": "objective_values",
        "gap": "batches",
        "verdict": "batches",
    },
    solver.plan.QueueUse: dict.fromkeys(("queue", "allocated", "admitted", "share", "deserved"), "queue_use"),
}
"""Field of what a plan is made of -> the rule that looks at it, or why none does at run time, and what does instead."""


def kinds_of(made: type[Any]) -> list[type[Any]]:
    """The type and all that the solver makes from it; the compiler has facts of its own, which no plan holds."""
    found = [made]
    for below in made.__subclasses__():
        if below.__module__.startswith("solver."):
            found += kinds_of(below)
    return found


@pytest.mark.parametrize("made", CHECKED, ids=lambda made: made.__name__)
def test_every_field_of_a_plan_is_checked_or_it_is_said_why_not(made: type) -> None:
    assert CHECKED[made].keys() == {field.name for kind in kinds_of(made) for field in fields(kind)}
    rules = {rule.__name__ for rule in RULES}
    for said in CHECKED[made].values():
        assert said in rules or said.startswith("no: ")
        assert all(Path(word.rstrip(",")).is_file() for word in said.split() if word.startswith("tests/"))


def test_the_table_knows_whatever_a_plan_is_made_of() -> None:
    assert set(CHECKED) - {Fact, Repair} == {
        made for made in vars(solver.plan).values() if is_dataclass(made) and made.__module__ == "solver.plan"
    }


SENTENCES = beside(__file__)


@pytest.mark.parametrize("sentence", SENTENCES)
def test_that(sentence: str) -> None:
    case = dict(SENTENCES[sentence])
    placements, rules = case.pop("plan"), case.pop("breaks")
    made = world_of(**case)
    assert {violation.rule for violation in verify(made, plan_with(made, placements))} == set(rules)

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
from tests.builders.problems import plan_with


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


CASES = beside(__file__)
SENTENCES = CASES["plans"]
PARTS: dict[str, type] = {**vars(solver.plan), "Fact": Fact, "Repair": Repair}
CHECKED = {
    PARTS[part]: {field: said for said, those in fields_by_rule.items() for field in those}
    for part, fields_by_rule in CASES["fields"].items()
}


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


@pytest.mark.parametrize("sentence", SENTENCES)
def test_that(sentence: str) -> None:
    case = dict(SENTENCES[sentence])
    placements, rules = case.pop("plan"), case.pop("breaks")
    made = world_of(**case)
    assert {violation.rule for violation in verify(made, plan_with(made, placements))} == set(rules)

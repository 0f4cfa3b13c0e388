"""Rules of the house that no linter knows: how long a file is, and how much one comprehension says."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOST_LINES = 500


def sources(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def conditions(test: ast.expr) -> int:
    """How many conditions `and` and `or` join."""
    return sum(map(conditions, test.values)) if isinstance(test, ast.BoolOp) else 1


def crowded_comprehensions(tree: ast.AST) -> Iterator[int]:
    """The lines of comprehensions with more than one loop and one condition, or two loops and no condition."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            tests = [test for loop in node.generators for test in loop.ifs]
            if len(node.generators) + sum(map(conditions, tests)) > 2:
                yield node.lineno


@pytest.mark.parametrize("folder", ["bench", "compiler", "deploy", "reconciler", "solver", "tests"])
def test_no_file_is_too_long_to_be_read(folder: str) -> None:
    assert [str(file) for file in sources(folder) if len(file.read_text("utf-8").splitlines()) > MOST_LINES] == []


@pytest.mark.parametrize("folder", ["compiler", "reconciler", "solver"])
def test_a_comprehension_has_one_loop_and_one_condition_or_two_loops_alone(folder: str) -> None:
    found = []
    for file in sources(folder):
        found += [f"{file}:{line}" for line in crowded_comprehensions(ast.parse(file.read_bytes()))]
    assert found == []


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("[x for x in y if x]", []),
        ("[x for x in y if x and z]", [1]),
        ("[x for x in y if x if z]", [1]),
        ("[x for y in z for x in y]", []),
        ("{x for y in z for x in y if x}", [1]),
        ("{x: w for w in v for y in w for x in y}", [1]),
    ],
)
def test_conditions_and_loops_are_counted(text: str, lines: list[int]) -> None:
    assert list(crowded_comprehensions(ast.parse(text))) == lines

"""What keeps the reconciler a set of parts: a part sees few others, and no step of a pass fills a record of another."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from typing import TypeGuard

import pytest

from tests.unit.test_house_rules import ROOT, assigned, fields_of, sources

MOST_FIELDS, MOST_PARTS = 12, 2
DOCUMENTS = frozenset({"Inventory", "Metrics", "PlannedGang"})
"""Classes that are as wide as what they stand for: what is stored, what /metrics shows, an entry of a plan."""
ABOVE_THE_PARTS = frozenset({"assembly.py", "cli/commands.py", "loop.py", "run.py"})
"""Who may know all parts."""


@cache
def trees() -> dict[str, ast.Module]:
    return {str(file.relative_to(ROOT / "reconciler")): ast.parse(file.read_bytes()) for file in sources("reconciler")}


def is_exempt(file: str, name: str) -> bool:
    return file in ("settings.py", "timings.py") or name in DOCUMENTS


def classes(tree: ast.AST) -> list[ast.ClassDef]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]


def is_part(made: ast.ClassDef) -> bool:
    return any(isinstance(base, ast.Name) and base.id == "Part" for base in made.bases)


def parameters(function: ast.FunctionDef) -> list[ast.arg]:
    return [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]


def parts_taken(function: ast.FunctionDef, parts: frozenset[str]) -> int:
    """How many parts a function is given; all of them at once count as more than any may take."""
    words = [ast.unparse(each.annotation) for each in parameters(function) if each.annotation is not None]
    return sum(1 for word in words if word in parts) + (MOST_PARTS + 1) * words.count("Parts")


def is_crowded(node: ast.AST, parts: frozenset[str]) -> TypeGuard[ast.FunctionDef]:
    return isinstance(node, ast.FunctionDef) and parts_taken(node, parts) > MOST_PARTS


def setters(made: ast.ClassDef) -> Iterator[str]:
    """The public methods that do nothing but give a field what they are given. What only says when something happened,
    and what is called back later, is no state of another."""
    for method in made.body:
        if not isinstance(method, ast.FunctionDef) or method.name.startswith("_"):
            continue
        steps = method.body[1:] if ast.get_docstring(method) else method.body
        if len(steps) != 1 or not isinstance(steps[0], ast.Assign):
            continue
        given = {each.arg: ast.unparse(each.annotation) for each in parameters(method) if each.annotation is not None}
        values, (target,) = assigned(steps[0].value), steps[0].targets
        words = [given.get(each.id, "float") for each in values if isinstance(each, ast.Name)]
        is_whole = len(words) == len(values) and not isinstance(target, ast.Subscript)
        if is_whole and any(word != "float" and not word.startswith("Callable") for word in words):
            yield f"{made.name}.{method.name}"


def test_there_is_no_record_that_all_steps_of_a_pass_share() -> None:
    assert "context.py" not in trees()
    names = {made.name for tree in trees().values() for made in classes(tree)}
    assert names.isdisjoint({"Pass", "Reconciler"})


def test_a_pass_makes_one_observation() -> None:
    """Two that were mixed in one pass gave a node to two gangs."""
    calls = [(file, node) for file, tree in trees().items() for node in ast.walk(tree) if isinstance(node, ast.Call)]
    assert [file for file, node in calls if ast.unparse(node.func).endswith("watches.observe")] == ["loop.py"]


def test_no_function_takes_more_than_two_parts() -> None:
    parts = frozenset(made.name for tree in trees().values() for made in classes(tree) if is_part(made))
    assert len(parts) == 7
    below = {file: tree for file, tree in trees().items() if file not in ABOVE_THE_PARTS}
    functions = [(file, node) for file, tree in below.items() for node in ast.walk(tree)]
    assert [f"{file}:{node.name}" for file, node in functions if is_crowded(node, parts)] == []


def test_no_class_is_so_wide_that_nobody_knows_what_it_is() -> None:
    found = []
    for file, tree in trees().items():
        for made in classes(tree):
            public = [name for name in fields_of(made) if not name.startswith("_")]
            if len(public) > MOST_FIELDS and not is_exempt(file, made.name):
                found.append(f"{file}: {made.name}")
    assert found == []


def test_no_method_only_sets_a_field() -> None:
    made = [each for tree in trees().values() for each in classes(tree) if each.name not in DOCUMENTS]
    assert [name for each in made for name in setters(each)] == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("def f(self, x: int) -> None: self.x = x", ["C.f"]),
        ("def f(self, x: int, y: str) -> None: self.x, self.y = x, y", ["C.f"]),
        ("def f(self, x: int) -> None: self.x = x + 1", []),
        ("def f(self, x: int) -> None: self.table[x] = x", []),
        ("def f(self, now: float) -> None: self.seen_at = now", []),
        ("def f(self, on_end: Callable[[], None]) -> None: self.on_end = on_end", []),
        ("def f(self) -> None: self.x = None", []),
        ("def f(self, x: int) -> None: self.x = x; self.end.set()", []),
    ],
)
def test_setters_are_seen(text: str, found: list[str]) -> None:
    (made,) = classes(ast.parse(f"class C:\n  {text}"))
    assert list(setters(made)) == found


@pytest.mark.parametrize(("given", "count"), [("a: A, b: B", 2), ("a: A, x: int", 1), ("parts: Parts", 3)])
def test_parts_are_counted(given: str, count: int) -> None:
    (function,) = ast.parse(f"def f({given}): pass").body
    assert isinstance(function, ast.FunctionDef)
    assert parts_taken(function, frozenset({"A", "B"})) == count

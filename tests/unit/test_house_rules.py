"""Rules of the house that no linter knows: how long a file is, and how much one comprehension says."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from tests.builders.beside import beside

CASES = beside(__file__)

ROOT = Path(__file__).parents[2]
MOST_LINES, MOST_LINES_OF_A_PACKAGE, MOST_FIELDS = 500, 100, 19
LISTS = ("Budget", "GangEntry", "MessageEntry")
"""Classes that are as wide as what they list: limits of a solve, fields of the JSON."""
PRODUCT = ("compiler", "reconciler", "solver")
pytestmark = pytest.mark.xdist_group("house rules")  # so that the product is parsed once
Trees = Mapping[str, Mapping[str, ast.Module]]


@pytest.fixture(scope="module")
def trees() -> Trees:
    """Folder -> path of each of its files -> what is in it."""
    return {
        folder: {str(file.relative_to(ROOT)): ast.parse(file.read_bytes()) for file in sources(folder)}
        for folder in PRODUCT
    }


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


CONTAINERS = ("Counter", "Table", "defaultdict", "deque", "dict", "list", "set")
MUTATORS = frozenset(
    (
        "add", "append", "clear", "discard", "extend", "insert", "pop", "popitem", "popleft", "remove", "setdefault",
        "update",
    )
)  # fmt: skip
PACKAGES_OWN = frozenset(
    ("click.UsageError.exit_code", "_current.request", "repo.git", "settings.retries", "yaml.width")
)
"""Attributes of packages' objects that are called as fields of ours are."""


def assigned(target: ast.expr) -> list[ast.expr]:
    if isinstance(target, ast.Tuple | ast.List):
        return [each for element in target.elts for each in assigned(element)]
    return [target.value if isinstance(target, ast.Starred) else target]


def assigned_targets(node: ast.AST) -> list[ast.expr]:
    """What a statement gives a value to, or deletes."""
    if isinstance(node, ast.Assign | ast.Delete):
        return [each for target in node.targets for each in assigned(target)]
    if isinstance(node, ast.AugAssign) or (isinstance(node, ast.AnnAssign) and node.value is not None):
        return [node.target]
    return []


def fields_of(owner: ast.ClassDef) -> dict[str, str]:
    """Name of each field of a class -> its annotation, empty without one."""
    found: dict[str, str] = {}
    for member in owner.body:
        if isinstance(member, ast.AnnAssign) and isinstance(member.target, ast.Name):
            found[member.target.id] = ast.unparse(member.annotation)
    for each in ast.walk(owner):
        annotation = ast.unparse(each.annotation) if isinstance(each, ast.AnnAssign) else ""
        for target in [each.target] if isinstance(each, ast.AnnAssign) else assigned_targets(each):
            if isinstance(target, ast.Attribute) and is_own(target):
                found.setdefault(target.attr, annotation)
    return found


def is_own(target: ast.Attribute) -> bool:
    return isinstance(target.value, ast.Name) and target.value.id in ("self", "cls")


def aliases(function: ast.FunctionDef) -> dict[str, ast.Attribute]:
    """Local names of a function for what a field of another object holds."""
    found = {}
    for node in ast.walk(function):
        if not isinstance(node, ast.Assign):
            continue
        pairs = [(target, node.value) for target in node.targets]
        if isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple):
            pairs = list(zip(node.targets[0].elts, node.value.elts, strict=False))
        for name, value in pairs:
            if isinstance(name, ast.Name) and isinstance(value, ast.Attribute):
                found[name.id] = value
    return found


def changed_fields(node: ast.AST, names: Mapping[str, ast.Attribute]) -> Iterator[tuple[ast.Attribute, str]]:
    """The attributes that a node of a syntax tree changes: "value" where it gets another one, "content" where
    something inside of it gets another one, "mutator" where a method is called that changes
    containers. names: local ones for fields."""
    targets = [(each, "value") for each in assigned_targets(node)]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MUTATORS:
        targets = [(node.func.value, "mutator")]
    for target, change in targets:
        inner = target
        while isinstance(inner, ast.Subscript):
            inner = inner.value
        if isinstance(inner, ast.Name) and (inner is not target or change == "mutator"):
            inner = names.get(inner.id, inner)
        if isinstance(inner, ast.Attribute) and not is_own(inner):
            yield inner, change if inner is target or change == "mutator" else "content"


def changes_in(
    tree: ast.AST, owner: frozenset[str] = frozenset(), names: Mapping[str, ast.Attribute] = MappingProxyType({})
) -> Iterator[tuple[ast.Attribute, str]]:
    """The changed fields, those of the classes around the change aside: an object may change another one of its own
    class."""
    for node in ast.iter_child_nodes(tree):
        around = owner | fields_of(node).keys() if isinstance(node, ast.ClassDef) else owner
        known = {**names, **aliases(node)} if isinstance(node, ast.FunctionDef) else names
        yield from ((field, change) for field, change in changed_fields(node, known) if field.attr not in around)
        yield from changes_in(node, around, known)


def changes_from_outside(trees: Mapping[str, ast.AST]) -> Iterator[str]:
    """Where code changes a field of an object of ours, or what it holds, from outside of its class. In solver/ the
    functions that make a model or a state may fill its tables and arrays."""
    fields: dict[str, set[str]] = {}
    for tree in trees.values():
        for node in ast.walk(tree):
            for name, annotation in fields_of(node).items() if isinstance(node, ast.ClassDef) else ():
                fields.setdefault(name, set()).add(annotation.partition("[")[0])
    for file, tree in trees.items():
        for target, change in changes_in(tree):
            if target.attr not in fields or ast.unparse(target) in PACKAGES_OWN:
                continue
            is_container = change != "mutator" or not fields[target.attr].isdisjoint(CONTAINERS)
            if change == "value" or (is_container and not file.startswith("solver/")):
                yield f"{file}:{target.lineno}"


ONLY_ONCE = ("facts", "objects", "pod_rules", "repairs", "scheduler", "state")
"""Words of which several rooms have a part: the module of another room says which part."""


def test_a_word_of_many_rooms_names_one_module() -> None:
    names = [path.stem for folder in PRODUCT for path in sources(folder)]
    assert [name for name in ONLY_ONCE if names.count(name) > 1] == []


@pytest.mark.parametrize("folder", ["bench", "compiler", "deploy", "reconciler", "solver", "tests"])
def test_no_file_is_too_long_to_be_read(folder: str) -> None:
    assert [str(file) for file in sources(folder) if len(file.read_text("utf-8").splitlines()) > MOST_LINES] == []


@pytest.mark.parametrize("folder", ["compiler", "solver"])
def test_no_class_has_more_fields_than_a_reader_keeps_in_mind(trees: Trees, folder: str) -> None:
    """What comes in groups is grouped, so that the next nuance is known to few files."""
    files = trees[folder].items()
    made = [(file, node) for file, tree in files for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    wide = [f"{file}: {each.name}" for file, each in made if len(fields_of(each)) > MOST_FIELDS]
    assert [each for each in wide if not each.endswith(LISTS)] == []


@pytest.mark.parametrize("folder", PRODUCT)
def test_what_a_package_holds_stands_in_modules_with_names(folder: str) -> None:
    found = {str(file): len(file.read_text("utf-8").splitlines()) for file in sources(folder)}
    files = [file for file, lines in found.items() if file.endswith("__init__.py") and lines > MOST_LINES_OF_A_PACKAGE]
    assert files == []


@pytest.mark.parametrize("folder", PRODUCT)
def test_a_comprehension_has_one_loop_and_one_condition_or_two_loops_alone(trees: Trees, folder: str) -> None:
    found = [f"{file}:{line}" for file, tree in trees[folder].items() for line in crowded_comprehensions(tree)]
    assert found == []


@pytest.mark.parametrize(("text", "lines"), CASES["conditions and loops are counted"])
def test_conditions_and_loops_are_counted(text: str, lines: list[int]) -> None:
    assert list(crowded_comprehensions(ast.parse(text))) == lines


def test_no_object_is_changed_from_outside_of_its_class(trees: Trees) -> None:
    assert list(changes_from_outside({file: tree for folder in PRODUCT for file, tree in trees[folder].items()})) == []


@pytest.mark.parametrize(("text", "lines"), CASES["changes from outside are seen"])
def test_changes_from_outside_are_seen(text: str, lines: list[str]) -> None:
    box = "class Box:\n  level: int\n  names: list[str]\n"
    assert list(changes_from_outside({"x": ast.parse(box + text)})) == lines


# ---- what modules remember

REGISTRIES = ("_CHECKS", "RULES")
"""Tables that modules enter themselves in as they are imported."""
WORKERS_OWN = ("_THREAD_CACHE",)
"""A process of an executor has nobody who hands it anything from one chunk of tasks to the next."""
KEEPERS = frozenset(("ContextVar", "Session", "WeakKeyDictionary", "local"))
SMALL = frozenset(("bool", "int", "str", "type"))
"""What a cache without a limit may be asked about."""


def written_names(function: ast.AST) -> Iterator[str]:
    """The names whose values a function changes, without those that it makes or is given itself."""
    own = {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)}
    for node in ast.walk(function):
        written = assigned_targets(node)
        own |= {target.id for target in written if isinstance(target, ast.Name)}
        if isinstance(node, ast.Global):
            yield from node.names
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MUTATORS:
            written = [node.func]
        for target in written:
            while isinstance(target, ast.Attribute | ast.Subscript):
                target = target.value
                if isinstance(target, ast.Name) and target.id not in own:
                    yield target.id


def memories(tree: ast.Module) -> Iterator[str]:
    """What a module remembers from one call to the next: names that functions change, values made to keep others, and
    caches without a limit of anything but words."""
    names = {target.id for node in tree.body for target in assigned_targets(node) if isinstance(target, ast.Name)}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            yield from (name for name in written_names(node) if name in names)
    for node in tree.body:
        value = getattr(node, "value", None)
        if isinstance(value, ast.Call) and ast.unparse(value.func).rpartition(".")[2] in KEEPERS:
            yield from map(ast.unparse, assigned_targets(node))
        if isinstance(node, ast.FunctionDef) and "cache" in map(ast.unparse, node.decorator_list):
            asked = (ast.unparse(each.annotation) for each in node.args.args if each.annotation)
            yield from (node.name for each in asked if each not in SMALL)


@pytest.mark.parametrize("folder", ["compiler", "solver"])
def test_no_module_remembers_anything(trees: Trees, folder: str) -> None:
    found = {name for tree in trees[folder].values() for name in memories(tree)}
    assert found <= {*REGISTRIES, *WORKERS_OWN}


@pytest.mark.parametrize("text", CASES["what modules remember is seen"])
def test_what_modules_remember_is_seen(text: str) -> None:
    assert set(memories(ast.parse(text))) == {"KNOWN"}


@pytest.mark.parametrize("folder", PRODUCT)
def test_texts_of_digits_are_read_by_one_function(folder: str) -> None:
    """Python refuses to read thousands of digits, and takes those of all scripts: `compiler.fields.texts`."""
    read = re.compile(r"is(digit|decimal|numeric)\(\) and .*\bint\(|\bint\(.* if .*is(digit|decimal|numeric)\(\)")
    others = {"texts.py", "yaml_reader.py", "diagnostic.py"}  # short texts, and the user's own terminal
    assert [file.name for file in sources(folder) if file.name not in others and read.search(file.read_text())] == []


def test_a_statement_has_its_sentences_beside_its_sources_and_edits(trees: Trees) -> None:
    """A reader opens one file per family of reasons or repairs."""
    calls = [node for tree in trees["compiler"].values() for node in ast.walk(tree) if isinstance(node, ast.Call)]
    entries = [call.args for call in calls if isinstance(call.func, ast.Name) and call.func.id == "Entry"]
    assert entries
    assert [ast.unparse(args[0]) for args in entries if not any(isinstance(each, ast.Tuple) for each in args)] == []


PATCHED = re.compile(r"""setattr\([^,]+, "[A-Z][A-Z_]+"|setattr\("[\w.]+\.[A-Z][A-Z_]+\"""")


def test_no_test_patches_a_constant() -> None:
    """What a test must change is an argument."""
    assert [f"{file}" for file in sources("tests") if PATCHED.search(file.read_text())] == []


def test_patched_constants_are_seen() -> None:
    assert PATCHED.search("monkeypatch.set" + 'attr(module, "LIMIT", 1)')
    assert PATCHED.search("monkeypatch.set" + 'attr("package.module.TIME_LIMIT", 1)')
    assert not PATCHED.search("monkeypatch.set" + 'attr(module, "solve", 1)')

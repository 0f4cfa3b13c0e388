"""The table of house.md that follows one field from YAML to the node of a pod: it is short, and it is true."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache

from compiler.pipeline import compile_repository
from compiler.repository.tree import Repository
from compiler.views.data import gang_entry
from solver.semantics.gang_classes import waiting_class
from tests.builders.declared import cluster, hypernode, job, node_pool, queue, yaml_of
from tests.unit.test_house_rules import PRODUCT, ROOT, fields_of, sources

MOST_HOPS = 10
HELD = {"TopologySpec", "Topology"}
"""Classes of fields on the way, which the table does not name."""


@cache
def hops() -> tuple[tuple[str, str], ...]:
    """Of each row its functions, and what holds the field afterwards."""
    text = (ROOT / "docs" / "develop" / "house.md").read_text("utf-8").partition("## Follow one field")[2]
    return tuple(re.findall(r"^\| \d+ \| (.*) \| (.*) \|$", text, re.MULTILINE))


@cache
def texts() -> Mapping[str, str]:
    """Module -> its code."""
    files = [file for folder in PRODUCT for file in sources(folder)]
    return {".".join(file.relative_to(ROOT).with_suffix("").parts): file.read_text("utf-8") for file in files}


@cache
def trees() -> Mapping[str, ast.Module]:
    """The modules that define a word of the table."""
    words = {word for hop in hops() for cell in hop for name in names(cell) for word in name.split(".")}
    defined = re.compile(rf"^(class|def) ({'|'.join(sorted(words | HELD))})\b", re.MULTILINE)
    return {module: ast.parse(text) for module, text in texts().items() if defined.search(text)}


@cache
def functions() -> frozenset[str]:
    """`module.function`, `function` and `Class.method`."""
    found = set[str]()
    for module, tree in trees().items():
        own = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
        found |= {*own, *(f"{module}.{name}" for name in own)}
        for made in (node for node in tree.body if isinstance(node, ast.ClassDef)):
            found |= {f"{made.name}.{node.name}" for node in made.body if isinstance(node, ast.FunctionDef)}
    return frozenset(found)


@cache
def classes() -> Mapping[str, Mapping[str, str]]:
    """Class -> its fields and properties -> their types as written."""
    made = [node for tree in trees().values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    return {each.name: fields_of(each) for each in made}


def names(cell: str) -> list[str]:
    return re.findall(r"`([\w.]+)`", cell)


def unknown_names() -> Iterator[str]:
    for called, shape in hops():
        modules = {name for name in names(called) if any(f"{each}.".startswith(f"{name}.") for each in texts())}
        yield from (name for name in names(called) if name not in modules | functions() | classes().keys())
        yield from (path for path in names(shape) if not is_path(path))


def is_path(path: str) -> bool:
    """Whether each step is a field of the class before it; a document's data is as the user wrote it."""
    first, *steps = path.split(".")
    at = {first}
    for step in steps:
        types = [classes()[name][step] for name in at if step in classes().get(name, {})]
        if not types:
            return False
        at = set(re.findall(r"\w+", " ".join(types)))
    return first in classes()


def test_the_way_is_short_and_each_step_exists() -> None:
    assert 0 < len(hops()) <= MOST_HOPS
    assert list(unknown_names()) == []


def test_each_step_holds_what_the_user_wrote() -> None:
    tree = [hypernode("s0", "n-0", "n-1"), hypernode("s1", "n-2", "n-3"), hypernode("all", "s0", "s1", tier=2)]
    topology = {"mode": "hard", "highestTierAllowed": 1}
    gang = job("j", 2, networkTopology=topology)
    place = yaml_of(cluster(), queue(), node_pool(4, 8), *tree)
    files = {"cluster-specs/c/all.yaml": place.encode(), "jobs/j.yaml": yaml_of(gang).encode()}
    outcome = compile_repository(Repository(files))
    assert outcome.problem is not None
    (spec,), (decision,) = outcome.specs.gangs, outcome.decisions
    assert spec.document.data["spec"]["networkTopology"] == topology
    assert spec.topology is not None
    assert spec.topology.highest_tier == 1
    (lowered,) = outcome.problem.gangs
    assert lowered.topology is not None
    assert lowered.topology.tier == 1
    assert waiting_class(0, lowered).hard_tier == 1
    assert gang_entry(decision)["pods"] in ({"w": {"n-0": 1, "n-1": 1}}, {"w": {"n-2": 1, "n-3": 1}})

"""Names and accessors of Kubernetes objects: spelt in one module, and their meaning."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compiler.kubernetes import KNOWN_ANNOTATIONS, assigned_node, final_phase, is_gated
from tests.builders.beside import beside

CASES = beside(__file__)

ROOT = Path(__file__).parents[3]
NAME = re.compile(
    r"(?:[\w.-]+\.)?(?:gangplan\.dev|volcano\.sh|metax-tech\.com|kubernetes\.io|kubeflow\.org|k8s\.io)/\S+"
)
API_VERSION = re.compile(r"\S+/v\d\w*")
RESOURCE = re.compile(r"volcano\.sh/v?gpu-[a-z-]+|metax-tech\.com/gpu")
COMPONENT = re.compile(r"gangplan\.dev/reconciler|trainer\.kubeflow\.org/trainjob-controller")
"""The component that reports events, and a controller by the name that `managedBy` knows it by."""


def spelt_names(file: Path) -> Iterator[str]:
    """Labels, annotations and taints that a module spells in string constants."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and NAME.fullmatch(node.value):
            yield node.value


def test_no_other_module_spells_a_label_or_an_annotation() -> None:
    files = {*(ROOT / "compiler").rglob("*.py"), *(ROOT / "reconciler").rglob("*.py")}
    files.remove(ROOT / "compiler" / "kubernetes.py")
    found = {(file.name, name) for file in files for name in spelt_names(file)}
    others = (API_VERSION, RESOURCE, COMPONENT)
    assert [pair for pair in sorted(found) if not any(other.fullmatch(pair[1]) for other in others)] == []


def test_known_annotations_are_sorted_as_the_help_lists_them() -> None:
    assert list(KNOWN_ANNOTATIONS) == sorted(KNOWN_ANNOTATIONS)


@pytest.mark.parametrize(("status", "phase"), CASES["final phase"])
def test_final_phase(status: Any, phase: str | None) -> None:
    assert final_phase({"metadata": {"name": "job"}, "status": status}) == phase


def test_a_pod_has_the_node_that_it_is_bound_to_or_that_it_was_given_with_its_gate_lifted() -> None:
    nodes = {"host-a": "a"}
    given = {"nodeSelector": {"kubernetes.io/hostname": "host-a"}}
    gated = {**given, "schedulingGates": [{"name": "gangplan.dev/placement"}]}
    assert assigned_node({"spec": {"nodeName": "b", **gated}}, nodes) == "b"
    assert assigned_node({"spec": given}, nodes) == "a"
    assert assigned_node({"spec": gated}, nodes) is None
    assert is_gated({"spec": gated})
    assert not is_gated({"spec": {"schedulingGates": [{"name": "other"}]}})
    assert assigned_node({"spec": {}}, nodes) is None

"""Changes of values where Kubernetes and Volcano have rules, of whole objects and of pods: object_changes.yaml and
pod_changes.yaml."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.differential.admission.objects import Object

Row = str | list[dict[str, Any]] | dict[str, Any]


def _load(name: str) -> Any:
    return yaml.load((Path(__file__).parent / name).read_text(), yaml.CSafeLoader)


OBJECTS: Mapping[str, Mapping[str, Row]] = _load("object_changes.yaml")
"""Kind, "" for every kind -> name -> change."""
PODS: Mapping[str, Row] = _load("pod_changes.yaml")
"""Name -> change of a pod spec."""
_CONTAINER, _AFFINITY = "containers.0.", "affinity.{}.requiredDuringSchedulingIgnoredDuringExecution"
_PLACES = {
    **{name: _CONTAINER + name for name in ("resources", "volumeMounts", "env", "ports", "envFrom")},
    "required": _AFFINITY.format("nodeAffinity"),
    "node_row": _AFFINITY.format("nodeAffinity") + ".nodeSelectorTerms.0.matchExpressions.0",
    "preferred": "affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution.0",
    "anti": _AFFINITY.format("podAntiAffinity") + ".0",
    "anti_row": _AFFINITY.format("podAntiAffinity") + ".0.labelSelector.matchExpressions.0",
}
"""What paths in a pod begin with, for short -> the path."""


def _misplaced_spec(found: Object) -> None:
    found["metadata"]["spec"] = found.pop("spec")


def _spec_in_a_list(found: Object) -> None:
    found["spec"] = [found["spec"]]


def _own_parent(found: Object) -> None:
    found["spec"]["parent"] = found["metadata"]["name"]


def _lower_replica_type(found: Object) -> None:
    replicas = found["spec"]["pytorchReplicaSpecs"]
    replicas["worker"] = replicas.pop("Worker")


_FUNCTIONS: Mapping[str, Callable[[Object], None]] = {
    "misplaced spec": _misplaced_spec,
    "spec in a list": _spec_in_a_list,
    "own parent": _own_parent,
    "lower replica type": _lower_replica_type,
}


def apply(row: Row, found: Object) -> None:
    """Change an object in place; raises KeyError or IndexError where it lacks what is changed."""
    if isinstance(row, str):
        _FUNCTIONS[row](found)
        return
    for step in row if isinstance(row, list) else [row]:
        for path, change in step.items():
            _apply(change, _at(found, path))


def _at(found: Any, path: str) -> Any:
    first, dot, rest = path.partition(".")
    for step in f"{_PLACES.get(first, first)}{dot}{rest}".split("."):
        found = found[int(step) if step.isdigit() else step] if step else found
    return found


def _apply(change: Any, place: Any) -> None:
    if isinstance(change, dict):
        place.update(copy.deepcopy(change))
    elif isinstance(change, list):
        place.extend(copy.deepcopy(change))
    else:
        place.pop(change)

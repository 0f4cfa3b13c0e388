"""A job of each operator, in queue "team", as operator_jobs.yaml has them."""

from __future__ import annotations

import copy
from pathlib import Path

import yaml

from tests.e2e.stories.story import Object

_WRITTEN = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
_FIELDS = {head.partition(" ")[2]: (head.partition(" ")[0], fields) for head, fields in _WRITTEN["jobs"].items()}
OTHER_KINDS = tuple(kind for kind in _FIELDS if kind != "Job")
"""Those of other operators than Kubernetes."""


def operator_job(kind: str) -> Object:
    """A job of this kind, named as it in small letters."""
    version, fields = _FIELDS[kind]
    metadata = {"name": kind.lower(), "namespace": "default", **fields.get("metadata", {})}
    return copy.deepcopy({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": fields["spec"]})


def training_runtime() -> Object:
    """What the TrainJob refers to."""
    return copy.deepcopy(_WRITTEN["training_runtime"])

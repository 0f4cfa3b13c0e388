"""Names of Kubernetes objects and the few facts about kinds that the reconciler needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]
"""One Kubernetes object as plain JSON data."""

FIELD_MANAGER = "gangplan"
MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
CLUSTER_LABEL = "gangplan.dev/cluster"
PLACEMENT_GATE = "gangplan.dev/placement"
HOSTNAME_LABEL = "kubernetes.io/hostname"

PRUNE_ANNOTATION = "gangplan.dev/prune"
"""Annotation: "disabled" keeps an object that left the repository."""
REPLACE_ANNOTATION = "gangplan.dev/replace"
"""Annotation: "true" lets a changed specification end a job that runs."""
ADOPT_ANNOTATION = "gangplan.dev/adopt"
"""Annotation: "true" lets gangplan take fields that another manager owns in an object it did not create."""
YIELD_ANNOTATION = "gangplan.dev/yield"
"""Annotation: comma-separated field paths (spec.weight) that gangplan leaves to other managers."""
DIGEST_ANNOTATION = "gangplan.dev/digest"
"""Annotation that gangplan writes on jobs: the digest of the specification that this run was made from."""


@dataclass(frozen=True, slots=True, order=True)
class Ref:
    """Which object: group/version, kind, namespace (empty for cluster scope), name."""

    api_version: str
    kind: str
    namespace: str
    name: str

    @property
    def group(self) -> str:
        return self.api_version.rpartition("/")[0]

    @property
    def group_kind(self) -> str:
        return f"{self.kind}.{self.group}" if self.group else self.kind

    @property
    def key(self) -> str:
        """Stable across versions of one group; the key of inventory and caches."""
        return f"{self.group_kind}/{self.namespace}/{self.name}"

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


def ref_of(thing: Mapping[str, Any]) -> Ref:
    meta = thing["metadata"]
    return Ref(str(thing["apiVersion"]), str(thing["kind"]), str(meta.get("namespace") or ""), str(meta["name"]))


def annotations_of(thing: Mapping[str, Any]) -> Mapping[str, str]:
    return thing.get("metadata", {}).get("annotations") or {}


def labels_of(thing: Mapping[str, Any]) -> Mapping[str, str]:
    return thing.get("metadata", {}).get("labels") or {}


def uid_of(thing: Mapping[str, Any]) -> str:
    return str(thing.get("metadata", {}).get("uid") or "")


FINISHED_PHASES = frozenset({"Completed", "Failed", "Terminated"})


def final_phase(job: Mapping[str, Any]) -> str | None:
    """The final phase of a job, or None while it can still run. Aborted is not final: a Volcano job can be resumed."""
    status = job.get("status") or {}
    state = status.get("state")
    if isinstance(state, dict) and state.get("phase") in FINISHED_PHASES:
        return str(state["phase"])
    for condition in status.get("conditions") or ():
        if condition.get("status") == "True" and condition.get("type") in ("Complete", "Succeeded", "Failed"):
            return "Failed" if condition["type"] == "Failed" else "Completed"
    return None

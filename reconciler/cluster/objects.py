"""Objects and their names. Labels, annotations, phases and accessors are in `compiler.kubernetes`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]
"""One Kubernetes object as plain JSON data."""

FIELD_MANAGER = "gangplan"


@dataclass(frozen=True, slots=True, order=True)
class Ref:
    """Names an object: group/version, kind, namespace (empty for cluster scope), name."""

    api_version: str
    kind: str
    namespace: str
    name: str

    @property
    def group_kind(self) -> str:
        return group_kind_of(self.api_version, self.kind)

    @property
    def key(self) -> str:
        """Stable across versions of one group; the key of inventory and caches."""
        return f"{self.group_kind}/{self.namespace}/{self.name}"

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


def group_kind_of(api_version: str, kind: str) -> str:
    """Job.batch.volcano.sh of batch.volcano.sh/v1alpha1, Pod of v1."""
    group = api_version.rpartition("/")[0]
    return f"{kind}.{group}" if group else kind


def ref_of(item: Mapping[str, Any]) -> Ref:
    metadata = item["metadata"]
    namespace = str(metadata.get("namespace") or "")
    return Ref(str(item["apiVersion"]), str(item["kind"]), namespace, str(metadata["name"]))

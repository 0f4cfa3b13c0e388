"""Objects and their names. Labels, annotations, phases and accessors are in `compiler.kubernetes`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

Object = dict[str, Any]
"""One Kubernetes object as plain JSON data."""

FIELD_MANAGER = "gangplan"


class Ref(NamedTuple):
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
        return f"{group_kind_of(self.api_version, self.kind)}/{self.namespace}/{self.name}"

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


@lru_cache(maxsize=1024)
def group_kind_of(api_version: str, kind: str) -> str:
    """Job.batch.volcano.sh of batch.volcano.sh/v1alpha1, Pod of v1."""
    group = api_version.rpartition("/")[0]
    return f"{kind}.{group}" if group else kind


def ref_of(item: Mapping[str, Any]) -> Ref:
    metadata = item["metadata"]
    namespace = str(metadata.get("namespace") or "")
    return Ref(str(item["apiVersion"]), str(item["kind"]), namespace, str(metadata["name"]))


def version_of(item: Mapping[str, Any] | None) -> tuple[str, str]:
    """The uid and the resource version of an object, empty for none."""
    if item is None:
        return "", ""
    return str(item["metadata"].get("uid") or ""), str(item["metadata"].get("resourceVersion"))


def version_number(item: Mapping[str, Any]) -> int:
    """The resource version of an object: a decimal number that grows (guaranteed since Kubernetes 1.35); 0 for none."""
    return version_as_number(item["metadata"].get("resourceVersion"))


def version_as_number(version: object) -> int:
    """A resource version as a number, 0 for what is none."""
    text = str(version or "0")
    return int(text) if text.isdigit() else 0


def is_object(answer: Mapping[str, Any]) -> bool:
    """Whether an answer of the API is one object."""
    metadata = answer.get("metadata")
    return isinstance(metadata, dict) and bool(metadata.get("name"))


def is_list(answer: Mapping[str, Any]) -> bool:
    """Whether an answer is a list as the API knows it. An empty one may have null for its items."""
    metadata, items = answer.get("metadata"), answer.get("items", "missing")
    if not isinstance(metadata, dict) or not metadata.get("resourceVersion"):
        return False
    if not str(answer.get("kind", "List")).endswith("List") or not isinstance(items, list | None):
        return False
    return all(isinstance(item, dict) and is_object(item) for item in items or ())


def name_of_key(key: str) -> str:
    """`Ref.key` as people write it: "Job team/train"."""
    group_kind, namespace, name = key.split("/")
    kind = group_kind.partition(".")[0]
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"

"""Objects, their names and REST resources. Labels, annotations, phases and accessors are in `compiler.kubernetes`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import quote

from compiler.fields.texts import whole_number

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
    """Return the uid and the resource version of an object, empty for none."""
    if item is None:
        return "", ""
    return str(item["metadata"].get("uid") or ""), str(item["metadata"].get("resourceVersion"))


def version_number(item: Mapping[str, Any]) -> int:
    """Return the resource version of an object: a decimal number that grows (guaranteed since Kubernetes 1.35); 0 for
    none."""
    return version_as_number(item["metadata"].get("resourceVersion"))


def version_as_number(version: object) -> int:
    """Return a resource version as a number; 0 if it is invalid."""
    return whole_number(str(version or "0")) or 0


def is_object(answer: Mapping[str, Any]) -> bool:
    """Return whether an answer of the API is one object."""
    metadata = answer.get("metadata")
    return isinstance(metadata, dict) and bool(metadata.get("name"))


def is_list(answer: Mapping[str, Any]) -> bool:
    """Return whether an answer is a list as the API knows it. An empty one may have null for its items."""
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


@dataclass(frozen=True, slots=True)
class Resource:
    """The REST resource of a kind."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        scope = f"/namespaces/{quote(namespace, safe='')}" if self.namespaced and namespace else ""
        path = f"{group_path(self.api_version)}{scope}/{self.plural}"
        if name:
            path += f"/{quote(name, safe='')}"
        return f"{path}/{subresource}" if subresource else path


STATE_RESOURCES = (
    Resource("v1", "Node", "nodes", False),
    Resource("v1", "Pod", "pods", True),
    Resource("scheduling.volcano.sh/v1beta1", "PodGroup", "podgroups", True),
    Resource("scheduling.volcano.sh/v1beta1", "Queue", "queues", False),
    Resource("topology.volcano.sh/v1alpha1", "HyperNode", "hypernodes", False),
    Resource("batch.volcano.sh/v1alpha1", "Job", "jobs", True),
    Resource("kubeflow.org/v1", "PyTorchJob", "pytorchjobs", True),
    Resource("batch/v1", "Job", "jobs", True),
    Resource("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", True),
    Resource("nodeinfo.volcano.sh/v1alpha1", "Numatopology", "numatopologies", False),
)
"""The kinds in a state file; watched whole, since pods and jobs of others count as well."""
STATE_KINDS = tuple((each.api_version, each.kind) for each in STATE_RESOURCES)
KNOWN_RESOURCES = {
    (r.api_version, r.kind): r
    for r in (
        *STATE_RESOURCES,
        Resource("v1", "ConfigMap", "configmaps", True),
        Resource("v1", "Event", "events", True),
        Resource("v1", "ResourceQuota", "resourcequotas", True),
        Resource("coordination.k8s.io/v1", "Lease", "leases", True),
        Resource("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", False),
    )
}


def group_path(api_version: str) -> str:
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


def resources_of(api_version: str, answer: Mapping[str, Any]) -> list[Resource]:
    """Return the resources that discovery names, without subresources. Raises KeyError or TypeError for anything but a
    list of them."""
    return [
        Resource(api_version, entry["kind"], entry["name"], bool(entry["namespaced"]))
        for entry in answer.get("resources") or ()
        if "/" not in entry["name"]
    ]

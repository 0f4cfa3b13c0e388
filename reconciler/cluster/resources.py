"""REST resources of kinds, and those that every cluster with Volcano serves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote


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
"""What a state file holds; watched whole, since pods and jobs that are not ours count as well."""
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
    """The resources that discovery names, without subresources. Raises KeyError or TypeError for what is no list of
    them."""
    return [
        Resource(api_version, entry["kind"], entry["name"], bool(entry["namespaced"]))
        for entry in answer.get("resources") or ()
        if "/" not in entry["name"]
    ]

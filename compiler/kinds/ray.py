"""Ray's RayCluster, RayJob and RayService (ray.io), as kuberay 1.4 hands them to Volcano.

Head and workers start together: the operator's PodGroup has minMember 1 + the workers' replicas (with autoscaling
their minReplicas). Queue and priority are labels. The operator names Volcano in the pods itself. A RayJob and a
RayService run their pods through a RayCluster; the pod that submits a RayJob comes later and is no part of the gang.
An autoscaler may move a group between its minReplicas and its replicas; pods beyond them stay gated. A RayService is
planned where it upgrades in place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from compiler.kinds.common.job_kinds import Count, JobKind, RolePaths, job_kind
from compiler.kinds.common.paths import value_at
from compiler.kubernetes import QUEUE_NAME_LABEL, RAY_GROUP_LABEL, RAY_NODE_TYPE_LABEL, RAY_PRIORITY_LABEL
from compiler.specs import GangSpec, RoleSpec
from compiler.syntax.documents import Document

HEAD_ROLE = "headgroup"


def _ray_kind(name: str, cluster: str, **others: Any) -> JobKind:
    """cluster: the path of the RayCluster's spec."""
    groups = f"{cluster}.workerGroupSpecs[]"
    hosts = Count(f"{groups}.numOfHosts")
    workers = RolePaths(
        f"{groups}.template",
        name_path=f"{groups}.groupName",
        replicas=(Count(f"{groups}.replicas", 0), hosts),
        minimum=(Count(f"{groups}.minReplicas", 0), hosts),
    )
    return JobKind(
        name,
        "ray.io",
        ("v1", "v1alpha1"),
        (RolePaths(f"{cluster}.headGroupSpec.template", HEAD_ROLE), workers),
        gang="roles",
        queue=(f"metadata.labels['{QUEUE_NAME_LABEL}']",),
        priority=(f"metadata.labels['{RAY_PRIORITY_LABEL}']",),
        is_volcano_default=True,
        labels=_labels,
        amend=_with_desired_replicas,
        **others,
    )


def _labels(document: Document, role: str) -> Mapping[str, str]:
    return {RAY_GROUP_LABEL: role, RAY_NODE_TYPE_LABEL: "head" if role == HEAD_ROLE else "worker"}


def _with_desired_replicas(gang: GangSpec) -> GangSpec:
    """As kuberay counts a worker group: within its bounds, none while it is suspended; all of it has to start unless an
    autoscaler may take some away."""
    roles = tuple(_with_replicas(gang.document, role) for role in gang.roles)
    scaled = tuple(role.name for role in roles if role.minimum < role.replicas)  # they come and go one by one
    return replace(gang, roles=roles, minimum=sum(role.minimum for role in roles), dependent_roles=scaled)


def _with_replicas(document: Document, role: RoleSpec) -> RoleSpec:
    if role.name == HEAD_ROLE:
        return role
    group, cluster = document.value_at(*role.path), document.value_at(*role.path[:-2])
    hosts, most = group.get("numOfHosts") or 1, group.get("maxReplicas")
    pods = max(role.replicas, (group.get("minReplicas") or 0) * hosts)
    if most is not None:
        pods = min(pods, int(most) * hosts)
    if group.get("suspend"):
        pods = 0
    scales = cluster.get("enableInTreeAutoscaling") is True
    return replace(role, replicas=pods, minimum=min(role.minimum, pods) if scales else pods)


RAY_CLUSTER = ("RayCluster.ray.io",)
TABLES = (
    _ray_kind("RayCluster", "spec", suspend=("spec.suspend",)),
    _ray_kind("RayJob", "spec.rayClusterSpec", suspend=("spec.suspend",), pod_owners=RAY_CLUSTER),
    _ray_kind("RayService", "spec.rayClusterConfig", pod_owners=RAY_CLUSTER),
)


def _upgrades_in_place(document: Document) -> bool:
    """Whether a RayService keeps its cluster: one that brings up a second for each change needs room for both."""
    return document.kind != "RayService" or value_at(document.data, ("spec", "upgradeStrategy", "type")) == "None"


KINDS = tuple(replace(job_kind(table), is_planned=_upgrades_in_place) for table in TABLES)

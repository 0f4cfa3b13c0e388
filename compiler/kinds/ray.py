"""Ray's RayCluster, RayJob and RayService (ray.io), as kuberay 1.4 passes them to Volcano.

Head and workers start together: the operator's PodGroup has minMember 1 + the workers' replicas (with autoscaling their
minReplicas). Queue and priority are labels. The operator names Volcano in the pods itself. A RayJob and a RayService
run their pods through a RayCluster. The pod that submits a RayJob is created later and is not a part of the gang, but
in SidecarMode a container of the head submits it (controllers/ray/common/job.go, GetDefaultSubmitterContainer). A
network topology is labels of the object, and of the template of a worker group (read by newer operators). An autoscaler
may move a group, and a RayService that does not upgrade in place starts a second RayCluster: existing pods are planned
as there is room.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from compiler.diagnostics.diagnostic import Diagnostic, declare_rule
from compiler.fields.texts import whole_number
from compiler.kinds.common.job_kinds import JobKind, job_kind, job_row, text_diagnostics_of
from compiler.kinds.kind import Kind
from compiler.kubernetes import RAY_GROUP_LABEL, RAY_NODE_TYPE_LABEL, RAY_TOPOLOGY_TIER_LABEL, TOPOLOGY_MODE_ANNOTATION
from compiler.specs.gang_spec import GangSpec, RoleSpec, SubgroupSpec, TopologySpec
from compiler.syntax.documents import Document, FieldPath
from compiler.syntax.paths import Path, value_at
from compiler.validation.judge import mapping

HEAD_ROLE = "headgroup"
_WAIT = {"cpu": "200m", "memory": "256Mi"}
_AUTOSCALER = {"cpu": "500m", "memory": "512Mi"}
_SUBMITTER = {"requests": {"cpu": "500m", "memory": "200Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
SECOND_CLUSTER = declare_rule("GP223", "info")


def _labels(document: Document, role: str) -> Mapping[str, str]:
    return {RAY_GROUP_LABEL: role, RAY_NODE_TYPE_LABEL: "head" if role == HEAD_ROLE else "worker"}


def _added_containers(cluster: Path, document: Document, role: str) -> Mapping[str, list[dict[str, Any]]]:
    """Workers wait for the head in an init container; the head has the autoscaler and the submitter next to it."""
    if role != HEAD_ROLE:
        return {"initContainers": [{"name": "wait-gcs-ready", "image": "ray", "resources": {"requests": _WAIT}}]}
    spec, added = value_at(document.data, cluster), {}
    if value_at(document.data, ("spec", "submissionMode")) == "SidecarMode":
        added["ray-job-submitter"] = _SUBMITTER
    if spec.get("enableInTreeAutoscaling") is True:
        added["autoscaler"] = value_at(spec, ("autoscalerOptions", "resources")) or {"requests": _AUTOSCALER}
    return {"containers": [{"name": name, "image": "ray", "resources": each} for name, each in added.items()]}


def _with_desired_replicas(gang: GangSpec) -> GangSpec:
    """As kuberay counts a worker group: within its bounds, none while it is suspended; all of it has to start unless an
    autoscaler may take some away."""
    roles = tuple(_with_replicas(gang.document, role) for role in gang.roles)
    scaled = {role.name for role in roles if role.minimum < role.replicas}  # they come and go one by one
    surplus = {role.name for role in roles if _may_exceed(gang.document, role)}
    return replace(
        gang.with_controller(
            dependent_roles=tuple(role.name for role in roles if role.name in scaled | surplus),
            written_pods={role.name: role.replicas for role in roles if role.name in surplus},
        ),
        roles=roles,
        minimum=sum(role.minimum for role in roles),
    )


def _with_topology(gang: GangSpec) -> GangSpec:
    """Return the network topology of the whole cluster, else those of worker groups."""
    labels: FieldPath = ("metadata", "labels")
    if topology := _topology(gang.document, labels):
        paths = {**gang.field_paths, "topology": (*labels, TOPOLOGY_MODE_ANNOTATION)}
        return replace(gang, topology=topology, field_paths=paths)
    subgroups = []
    for role in gang.roles:
        at = (*role.template_path, *labels)
        if role.minimum and role.name != HEAD_ROLE and (topology := _topology(gang.document, at)):
            path = (*at, TOPOLOGY_MODE_ANNOTATION)
            subgroups.append(SubgroupSpec(role.name, (role.name,), role.minimum, 1, topology, path))
    return replace(gang, subgroups=(*gang.subgroups, *subgroups))


def _topology(document: Document, at: FieldPath) -> TopologySpec | None:
    """Return the topology in the labels there; None without a mode."""
    labels = mapping(value_at(document.data, at))
    mode, tier = labels.get(TOPOLOGY_MODE_ANNOTATION), str(labels.get(RAY_TOPOLOGY_TIER_LABEL))
    if mode not in ("hard", "soft"):
        return None
    return TopologySpec(mode, whole_number(tier) or None)


def _may_exceed(document: Document, role: RoleSpec) -> bool:
    """Return whether there may be more pods of the role than are written: of a second cluster, or by the autoscaler."""
    if document.kind == "RayService":
        return not upgrades_in_place(document)
    if role.name == HEAD_ROLE or document.value_at(*role.path).get("suspend"):
        return False
    return _scales(document, role)


def _scales(document: Document, role: RoleSpec) -> bool:
    return bool(value_at(document.data, (*role.path[:-2], "enableInTreeAutoscaling")) is True)


def upgrades_in_place(document: Document) -> bool:
    """Return whether a RayService keeps its cluster when it changes."""
    return bool(value_at(document.data, ("spec", "upgradeStrategy", "type")) == "None")


def _with_replicas(document: Document, role: RoleSpec) -> RoleSpec:
    if role.name == HEAD_ROLE:
        return role
    group = document.value_at(*role.path)
    hosts, most = group.get("numOfHosts") or 1, group.get("maxReplicas")
    pods = max(role.replicas, (group.get("minReplicas") or 0) * hosts)
    if most is not None:
        pods = min(pods, most * hosts)
    if group.get("suspend"):
        pods = 0
    least = min(role.minimum, pods) if _scales(document, role) else pods
    return replace(role, replicas=pods, minimum=least, minimum_path=(*role.path, "minReplicas"))


def _upgrade_diagnostics(table: JobKind, document: Document) -> Iterator[Diagnostic]:
    """Yield the needs of a RayService's upgrade, after all else."""
    yield from text_diagnostics_of(table, document)
    if document.kind == "RayService" and not upgrades_in_place(document):
        message = "each change of rayClusterConfig brings up a second cluster next to this one, which needs room too"
        help = "leave that much room, or write upgradeStrategy: {type: None}"
        yield document.diagnostic(SECOND_CLUSTER, ("metadata", "name"), message, help)


def _ray_kind(key: str, *cluster: str) -> Kind:
    """cluster: where the RayCluster's spec is."""
    added = partial(_added_containers, cluster)
    table = job_row(key, labels=_labels, adds=added, amend=lambda gang: _with_topology(_with_desired_replicas(gang)))
    return replace(job_kind(table), text_diagnostics=partial(_upgrade_diagnostics, table))


KINDS = (
    _ray_kind("RayCluster.ray.io", "spec"),
    _ray_kind("RayJob.ray.io", "spec", "rayClusterSpec"),
    _ray_kind("RayService.ray.io", "spec", "rayClusterConfig"),
)

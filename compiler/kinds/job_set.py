"""JobSet (jobset.x-k8s.io/v1alpha2, jobset 0.10): Jobs that run as one. Each replicated Job is a role."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from compiler import kubernetes as k8s
from compiler.kinds.common.job_kinds import job_kind, job_row
from compiler.kinds.common.jobs import with_annotated_queue, with_annotated_topology
from compiler.specs.eligibility import with_label_rows
from compiler.specs.gang_spec import ExclusiveUnits, GangSpec, RoleSpec
from compiler.specs.pod_spec import Expression, PodSpec, Toleration
from compiler.syntax.documents import Document, FieldPath
from compiler.syntax.paths import value_at


def _labels(document: Document, role: str) -> Mapping[str, str]:
    return {
        k8s.JOB_SET_LABEL: document.name,
        k8s.JOB_SET_JOB_LABEL: role,
        k8s.JOB_SET_UNIT_LABEL: f"{document.name}-{role}",
    }


def _amend(gang: GangSpec) -> GangSpec:
    """Roles never have more pods than completions; pods that are made after others are not waited for: of a later
    step, and with an exclusive topology, where followers come once their leader has a node."""
    spec = gang.document.data["spec"]
    in_order = value_at(spec, ("startupPolicy", "startupPolicyOrder")) == "InOrder"
    roles, late, exclusive = [], list[str](), list[ExclusiveUnits]()
    for number, written in enumerate(gang.roles):  # fewer than the replicated Jobs if one of these is invalid
        job = gang.document.value_at(*written.template_path[:3])
        role = _within_completions(written, value_at(job, ("template", "spec")) or {})
        units = _exclusive_units(gang.document, role)
        has_own_nodes = units is not None and units.key == k8s.JOB_SET_NODE_LABEL
        if has_own_nodes:
            role = replace(role, pod=_with_own_nodes(gang.document, role))
        if (in_order and number) or job.get("dependsOn") or (units is not None and not has_own_nodes):
            late.append(role.name)
        exclusive += [units] if units is not None else []
        roles.append(role)
    minimum = sum(role.replicas for role in roles)
    gang = gang.with_controller(dependent_roles=tuple(late))
    gang = replace(gang, roles=tuple(roles), minimum=minimum, exclusive=tuple(exclusive))
    is_one_group = len(roles) == 1 and roles[0].replicas <= roles[0].unit
    return with_annotated_topology(with_annotated_queue(gang), is_one_group=is_one_group)


def _exclusive_units(document: Document, role: RoleSpec) -> ExclusiveUnits | None:
    """Return the demand of the replicated Job's annotation, else of the JobSet's, on each child Job. With the
    annotation node-selector a child Job selects the nodes that carry its name (constructJob of
    jobset_controller.go)."""
    of_job: FieldPath = (*role.template_path[:3], "template")
    for path in (of_job, FieldPath()):
        at = (*path, "metadata", "annotations", k8s.JOB_SET_TOPOLOGY_ANNOTATION)
        if isinstance(key := value_at(document.data, at), str) and key:
            units = ExclusiveUnits(key, (role.name,), role.unit, k8s.JOB_SET_LABEL, k8s.JOB_SET_UNIT_LABEL, at)
            flag = (*at[:-1], k8s.JOB_SET_NODE_SELECTOR_ANNOTATION)
            if value_at(document.data, flag) is None:
                return units
            obstacle = "" if role.replicas <= role.unit else "the node selectors of its Jobs differ"
            return replace(units, key=k8s.JOB_SET_NODE_LABEL, path=flag, obstacle=obstacle)
    return None


def _with_own_nodes(document: Document, role: RoleSpec) -> PodSpec:
    """Return the pods of a role whose child Jobs select nodes by their names, and tolerate the taint of such nodes."""
    prefix = f"{document.namespace or 'default'}_{document.name}-{role.name}"
    names = tuple(f"{prefix}-{number}" for number in range(-(-role.replicas // role.unit)))
    pod = with_label_rows(role.pod, Expression(k8s.JOB_SET_NODE_LABEL, "In", names))
    return replace(pod, tolerations=(*pod.tolerations, Toleration(k8s.JOB_SET_NODE_TAINT, "Exists", "", "NoSchedule")))


def _within_completions(role: RoleSpec, job: Mapping[str, Any]) -> RoleSpec:
    completions, parallelism = job.get("completions"), job.get("parallelism") or 1
    if type(completions) is not int:
        return role
    if completions >= parallelism:
        return replace(role, later_pods=completions - parallelism)
    pods = role.replicas // parallelism * completions
    return replace(role, replicas=pods, minimum=pods, unit=max(1, completions))


KIND = job_kind(job_row("JobSet.jobset.x-k8s.io", labels=_labels, amend=_amend))

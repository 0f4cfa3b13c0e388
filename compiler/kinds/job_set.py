"""JobSet (jobset.x-k8s.io/v1alpha2, jobset 0.10): Jobs that run as one. Each replicated Job is a role."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from compiler.kinds.common.annotated import with_annotated_queue
from compiler.kinds.common.job_kinds import Count, JobKind, RolePaths, job_kind
from compiler.kinds.common.paths import value_at
from compiler.kubernetes import JOB_SET_JOB_LABEL, JOB_SET_LABEL
from compiler.specs import GangSpec, RoleSpec
from compiler.syntax.documents import Document

_JOBS = "spec.replicatedJobs[]"


def _labels(document: Document, role: str) -> Mapping[str, str]:
    return {JOB_SET_LABEL: document.name, JOB_SET_JOB_LABEL: role}


def _amend(gang: GangSpec) -> GangSpec:
    """Roles never have more pods than completions; those that start after others are not waited for."""
    spec = gang.document.data["spec"]
    in_order = value_at(spec, ("startupPolicy", "startupPolicyOrder")) == "InOrder"
    roles, late = [], []
    for number, role in enumerate(gang.roles):  # fewer than there are replicated Jobs where one of these is broken
        job = gang.document.value_at(*role.template_path[:3])
        if (in_order and number) or job.get("dependsOn"):
            late.append(role.name)
        roles.append(_within_completions(role, value_at(job, ("template", "spec")) or {}))
    minimum = sum(role.replicas for role in roles)
    return with_annotated_queue(replace(gang, roles=tuple(roles), minimum=minimum, dependent_roles=tuple(late)))


def _within_completions(role: RoleSpec, job: Mapping[str, Any]) -> RoleSpec:
    completions, parallelism = job.get("completions"), job.get("parallelism") or 1
    if type(completions) is not int:
        return role
    if completions >= parallelism:
        return replace(role, later_pods=completions - parallelism)
    pods = role.replicas // parallelism * completions
    return replace(role, replicas=pods, minimum=pods)


TABLE = JobKind(
    "JobSet",
    "jobset.x-k8s.io",
    ("v1alpha2",),
    (
        RolePaths(
            f"{_JOBS}.template.spec.template",
            name_path=f"{_JOBS}.name",
            replicas=(Count(f"{_JOBS}.replicas"), Count(f"{_JOBS}.template.spec.parallelism")),
        ),
    ),
    suspend=("spec.suspend",),
    labels=_labels,
    pod_owners=("Job.batch",),
    amend=_amend,
)
KIND = job_kind(TABLE)

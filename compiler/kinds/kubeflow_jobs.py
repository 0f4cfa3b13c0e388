"""Kubeflow's training jobs (kubeflow.org), as training-operator 1.9 and mpi-operator 0.6 hand them to Volcano.

All have `runPolicy.schedulingPolicy`. The operator's PodGroup has minMember (minAvailable, else all replicas) and no
minimum per role.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from compiler import kubernetes as k8s
from compiler.kinds.common.job_kinds import job_kind, job_row
from compiler.kinds.kind import kinds_in
from compiler.specs.gang_spec import GangSpec
from compiler.syntax.documents import Document

LEADING_ROLES = ("master", "chief", "launcher")
"""Names of roles whose pods are labelled as the master."""


def _training_labels(document: Document, role: str) -> Mapping[str, str]:
    leading = {k8s.KUBEFLOW_JOB_ROLE_LABEL: "master"} if role.lower() in LEADING_ROLES else {}
    return {
        k8s.KUBEFLOW_JOB_NAME_LABEL: document.name,
        k8s.KUBEFLOW_OPERATOR_LABEL: f"{document.kind.lower()}-controller",
        k8s.KUBEFLOW_ROLE_LABEL: role.lower(),
        **leading,
    }


def _wait_for_master(document: Document, role: str) -> Mapping[str, list[dict[str, Any]]]:
    """Workers of a PyTorchJob wait for the master, if there is one, in an init container."""
    if role != "Worker" or "Master" not in document.data["spec"]["pytorchReplicaSpecs"]:
        return {}
    resources = {"requests": {"cpu": "50m", "memory": "10Mi"}, "limits": {"cpu": "100m", "memory": "20Mi"}}
    return {"initContainers": [{"name": "init-pytorch", "image": "alpine", "resources": resources}]}


def _amend_elastic_job(gang: GangSpec) -> GangSpec:
    """torchrun waits for `minReplicas` workers, however many the operator makes."""
    path = ("spec", "elasticPolicy", "minReplicas")
    return replace(
        gang, roles=tuple(replace(role, minimum_path=path) if role.name == "Worker" else role for role in gang.roles)
    )


def _mpi_labels(document: Document, role: str) -> Mapping[str, str]:
    """Return the labels that the training operator (v1) or the MPI operator (v2beta1) gives to the role's pods."""
    if not _is_of_mpi_operator(document):
        return _training_labels(document, role)
    return {
        k8s.KUBEFLOW_JOB_NAME_LABEL: document.name,
        k8s.KUBEFLOW_OPERATOR_LABEL: "mpi-operator",
        k8s.KUBEFLOW_JOB_ROLE_LABEL: role.lower(),
    }


def _amend_mpi_job(gang: GangSpec) -> GangSpec:
    """The MPI operator runs the launcher through a Job, on request once the workers are ready, and knows a queue by
    annotation."""
    if not _is_of_mpi_operator(gang.document):
        return replace(gang, queue=gang.queue if k8s.QUEUE_NAME_ANNOTATION not in gang.field_paths["queue"] else "")
    is_late = gang.document.data["spec"].get("launcherCreationPolicy") == "WaitForWorkersReady"
    launchers = tuple(role.name for role in gang.roles if role.name.lower() == "launcher")
    return gang.with_controller(
        pod_owners=("Job.batch",), marks_pods=True, dependent_roles=launchers if is_late else ()
    )


def _is_of_mpi_operator(document: Document) -> bool:
    return document.api_version.endswith("/v2beta1")


_HOOKS: Mapping[str, Mapping[str, Any]] = {
    "MPIJob.kubeflow.org": {"labels": _mpi_labels, "amend": _amend_mpi_job},
    "PyTorchJob.kubeflow.org": {"adds": _wait_for_master, "amend": _amend_elastic_job},
}
KINDS = tuple(
    job_kind(job_row(key, **{"labels": _training_labels, **_HOOKS.get(key, {})})) for key in kinds_in("kubeflow_jobs")
)

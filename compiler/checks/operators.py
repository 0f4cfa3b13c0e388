"""What operators refuse beyond the shape of their kinds: training-operator 1.9, mpi-operator 0.6, JobSet 0.10."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from compiler.checks import DocumentInput, Finding, check
from compiler.diagnostics import did_you_mean
from compiler.syntax.documents import Document, FieldPath
from compiler.validation.judge import items, mapping

_JOB_NAME = re.compile(r"(?=.{1,63}\Z)[a-z]([-a-z0-9]*[a-z0-9])?", re.ASCII)


@dataclass(frozen=True, slots=True)
class _Operator:
    """Where roles stand, the container that each must have, the roles there may be (none given: any), the one there
    must be, and the one of which there is one pod."""

    field: str
    container: str = ""
    roles: tuple[str, ...] = ()
    required: str = ""
    single: str = ""


_LEADS = ("Master", "Worker")
_OPERATORS = {
    ("JAXJob", "v1"): _Operator("jaxReplicaSpecs", "jax", ("Worker",)),
    ("MPIJob", "v2beta1"): _Operator("mpiReplicaSpecs", required="Launcher", single="Launcher"),
    ("PaddleJob", "v1"): _Operator("paddleReplicaSpecs", "paddle", _LEADS),
    ("PyTorchJob", "v1"): _Operator("pytorchReplicaSpecs", "pytorch", _LEADS, single="Master"),
    ("TFJob", "v1"): _Operator("tfReplicaSpecs", "tensorflow"),
    ("XGBoostJob", "v1"): _Operator("xgbReplicaSpecs", "xgboost", _LEADS, "Master", "Master"),
}


@check("GP398", "job that its operator refuses", "warning", of_document=True)
def refused_by_operator(check_input: DocumentInput) -> Iterator[Finding]:
    """The webhook of Kubeflow's training operator wants a container of the framework's name in each role (pytorch,
    tensorflow, xgboost, paddle, jax), roles that it knows, one master at most and of an XGBoostJob exactly one, and a
    name that a Service may have; the MPI operator wants one launcher. Where the operator runs without its webhook the
    job fails at once. A JobSet whose pods restart always is taken, and its Jobs are refused. Mend: as the message
    says."""
    for found in check_input.models:
        document = found.document
        version = document.api_version.rpartition("/")[2]
        operator = _OPERATORS.get((document.kind, version)) if document.group == "kubeflow.org" else None
        if operator is not None:
            yield from _refusals(document, operator)
        elif (document.kind, document.group) == ("JobSet", "jobset.x-k8s.io"):
            yield from _refused_jobs(document)


def _refusals(document: Document, operator: _Operator) -> Iterator[Finding]:
    path: FieldPath = ("spec", operator.field)
    roles = mapping(document.data, "spec", operator.field)
    if operator.container and not _JOB_NAME.fullmatch(document.name):
        message = f"{document.name!r} is no name of a Service, and each pod gets one of it"
        help = "use at most 63 lower-case letters, digits and -, with a letter first"
        yield Finding(document, ("metadata", "name"), message, help)
    if operator.required and operator.required.lower() not in map(str.lower, roles):
        yield Finding(document, path, f"there is no {operator.required}", "add it")
    for name, role in roles.items():
        yield from _refusals_of_role(document, operator, name, mapping(role), (*path, name))


def _refusals_of_role(
    document: Document, operator: _Operator, name: str, role: dict[str, Any], path: FieldPath
) -> Iterator[Finding]:
    if operator.roles and name.lower() not in map(str.lower, operator.roles):
        near = did_you_mean(name, operator.roles)
        help = f"did you mean {near!r}?" if near else f"the roles are {', '.join(operator.roles)}"
        yield Finding(document, path, f"a {document.kind} has no role {name!r}", help)
        return
    if name.lower() == operator.single.lower() and role.get("replicas") not in (None, 1):
        yield Finding(document, (*path, "replicas"), f"a {document.kind} has one {operator.single}", "write 1")
    pod = mapping(role, "template", "spec")
    names = [container.get("name") for _, container in items(pod, "containers")]
    if operator.container and names and operator.container not in names:
        at = (*path, "template", "spec", "containers", 0, "name")
        message = f"no container of {name} is named {operator.container}, as the operator wants"
        yield Finding(document, at, message, f"write name: {operator.container}")


def _refused_jobs(document: Document) -> Iterator[Finding]:
    for number, role in items(mapping(document.data, "spec"), "replicatedJobs"):
        if mapping(role, "template", "spec", "template", "spec").get("restartPolicy") == "Always":
            inner = ("template", "spec", "template", "spec", "restartPolicy")
            path = ("spec", "replicatedJobs", number, *inner)
            yield Finding(document, path, "pods of a job end: no Job comes of this", "write OnFailure or Never")

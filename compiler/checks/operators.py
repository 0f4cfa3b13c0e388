"""Rules of operators beyond the shape of their kinds: Kubeflow, JobSet, LWS, Ray, Spark, Argo and others."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor
from typing import Any

from compiler import kubernetes as k8s
from compiler.checks.check import DocumentInput, Finding, check
from compiler.checks.volcano_job import dependency_cycle, shown_cycle
from compiler.checks.workflows import workflow
from compiler.diagnostics.diagnostic import suggestion, to_write
from compiler.fields.quantity import read_quantity
from compiler.fields.texts import whole_number
from compiler.kinds.model_serving import MINIMA_PATH, makes_pod_group
from compiler.syntax.documents import Document, FieldPath
from compiler.validation.judge import items, mapping, texts
from compiler.validation.rows import breaches


@dataclass(frozen=True, slots=True)
class _Operator:
    """The place of roles, the container that each must have, the allowed roles (none given: any), the required one, the
    one with a single pod, and the one that must not be empty."""

    field: str
    container: str = ""
    roles: tuple[str, ...] = ()
    required: str = ""
    single: str = ""
    never_empty: str = ""


_LEADS, _MPI = ("Master", "Worker"), ("Launcher", "Worker")
_OPERATORS = {
    ("JAXJob", "v1"): _Operator("jaxReplicaSpecs", "jax", ("Worker",)),
    ("MPIJob", "v1"): _Operator("mpiReplicaSpecs", "", _MPI),
    ("MPIJob", "v2beta1"): _Operator("mpiReplicaSpecs", "", _MPI, "Launcher", "Launcher", never_empty="Worker"),
    ("PaddleJob", "v1"): _Operator("paddleReplicaSpecs", "paddle", _LEADS),
    ("PyTorchJob", "v1"): _Operator("pytorchReplicaSpecs", "pytorch", _LEADS, single="Master"),
    ("TFJob", "v1"): _Operator("tfReplicaSpecs", "tensorflow", ("Chief", "Evaluator", "Master", "PS", "Worker")),
    ("XGBoostJob", "v1"): _Operator("xgbReplicaSpecs", "xgboost", _LEADS, "Master", "Master"),
}


@check("GP398", "job that its operator refuses", "warning", of_document=True)
def refused_by_operator(check_input: DocumentInput) -> Iterator[Finding]:
    """The webhook of Kubeflow's training operator requires a container of the framework's name in each role (pytorch,
    tensorflow, xgboost, paddle, jax). Roles must be known, at most one is a master (of an XGBoostJob exactly one), and
    the name must suit a Service. The MPI operator requires one launcher. Where the operator runs without its webhook
    the job fails at once. A JobSet whose pods restart always is accepted, and its Jobs are refused; its steps depend on
    those above them, and its policies name existing replicated Jobs. A Deployment that is a gang of its own hangs in
    each update that creates fewer pods than the gang needs. A StatefulSet that creates its pods one after another never
    starts as a gang. A RayCluster has a head. A RayJob that is suspended or has a time to live shuts its cluster down;
    its other fields depend on its submissionMode (KubeRay's utils/validation.go). The webhooks of Grove
    (pcs/validation/podcliqueset.go) and kthena (webhook/validator.go) refuse cliques and roles that do not fit. A group
    of a LeaderWorkerSet has a pod, and subgroups divide it. The entry point and the steps of a Workflow are its
    templates, each of one type, with all parameters declared and given (Argo's workflow/validate/validate.go). KAITO
    drops what it does not know. Hooks of Helm and Argo CD are not run, and a status in a file closes no queue. Fix: see
    the message."""
    for found in check_input.models:
        document = found.document
        for breach in breaches(f"{document.kind}.{document.group}", document.data):
            yield Finding(document, breach.path, breach.message, breach.help, severity=breach.severity)
        version = document.api_version.rpartition("/")[2]
        operator = _OPERATORS.get((document.kind, version)) if document.group == "kubeflow.org" else None
        if operator is not None:
            yield from _refusals(document, operator)
        elif (others := _OTHERS.get(f"{document.kind}.{document.group}")) is not None:
            yield from others(document)


def _refusals(document: Document, operator: _Operator) -> Iterator[Finding]:
    path: FieldPath = ("spec", operator.field)
    roles = mapping(document.data, "spec", operator.field)
    if operator.required and operator.required.lower() not in map(str.lower, roles):
        yield Finding(document, path, f"there is no {operator.required}", "add it")
    for name, role in roles.items():
        yield from _refusals_of_role(document, operator, name, mapping(role), (*path, name))


def _refusals_of_role(
    document: Document, operator: _Operator, name: str, role: dict[str, Any], path: FieldPath
) -> Iterator[Finding]:
    if operator.roles and name.lower() not in map(str.lower, operator.roles):
        help = suggestion(name, operator.roles, f"the roles are {', '.join(operator.roles)}")
        yield Finding(document, path, f"a {document.kind} has no role {name!r}", help)
        return
    number = role.get("replicas") or 0
    if name.lower() == operator.never_empty.lower() and isinstance(number, int) and number < 1:
        help = "write replicas: 1 or more, or leave the role out"
        yield Finding(document, (*path, "replicas"), f"the role {name} has no pods", help)
    if name.lower() == operator.single.lower() and role.get("replicas") not in (None, 1):
        yield Finding(document, (*path, "replicas"), f"a {document.kind} has one {operator.single}", to_write(1))
    pod = mapping(role, "template", "spec")
    names = [container.get("name") for _, container in items(pod, "containers")]
    if operator.container and names and operator.container not in names:
        at = (*path, "template", "spec", "containers", 0, "name")
        message = f"no container of {name} is named {operator.container}, as the operator wants"
        yield Finding(document, at, message, f"write name: {operator.container}")


def _job_set(document: Document) -> Iterator[Finding]:
    above: list[str] = []
    for number, role in items(mapping(document.data, "spec"), "replicatedJobs"):
        path: FieldPath = ("spec", "replicatedJobs", number)
        for index, awaited in items(role, "dependsOn"):
            if (name := str(awaited.get("name"))) not in above:
                help = suggestion(name, above, "name one that is above")
                at = (*path, "dependsOn", index, "name")
                yield Finding(document, at, f"no replicated Job above is named {name!r}", help)
        above.append(str(role.get("name")))
    spec = mapping(document.data, "spec")
    coordinator = mapping(spec, "coordinator")
    chosen, index = coordinator.get("replicatedJob"), coordinator.get("jobIndex", 0)
    for _, role in items(spec, "replicatedJobs"):
        replicas = role.get("replicas", 1)
        is_beyond = isinstance(index, int) and isinstance(replicas, int) and index >= replicas
        if role.get("name") == chosen and is_beyond:
            message = f"the {replicas} Jobs of {chosen} are numbered from 0, and none is {index}"
            yield Finding(document, ("spec", "coordinator", "jobIndex"), message, f"write {replicas - 1} at most")


_JAVA_MEMORY = re.compile(r"\s*(\d+)(b|[kmgtp]b?)?\s*", re.ASCII | re.IGNORECASE)
"""Source: Spark, JavaUtils.byteStringAs."""


def _spark(document: Document) -> Iterator[Finding]:
    """Memory of the pods, which Spark reads as Java writes it: whole numbers with a unit of one letter or two."""
    path = ("spec", "template") if document.kind == "ScheduledSparkApplication" else ("spec",)
    for pod in ("driver", "executor", "server"):
        for key in ("memory", "memoryOverhead"):
            text = mapping(document.data, *path, pod).get(key)
            if isinstance(text, str) and not _JAVA_MEMORY.fullmatch(text):
                amount = re.match(r"\s*(\d+)\s*([kmgtp])", text, re.ASCII | re.IGNORECASE)
                help = (
                    to_write(f"{amount[1]}{amount[2].lower()}") if amount else "write a whole number and m or g: 512m"
                )
                yield Finding(document, (*path, pod, key), f"Spark reads no memory in {text!r}, and ends", help)
        found = mapping(document.data, *path, pod)
        limit, asked = (_amount(found.get(key)) for key in ("coreLimit", "coreRequest"))
        cores = found.get("cores", 1) if asked is None else asked
        if limit is not None and isinstance(cores, int | Fraction) and cores > limit:
            message = f"the pods request more cores than their limit {found['coreLimit']}: none is created"
            yield Finding(document, (*path, pod, "coreLimit"), message, "raise coreLimit, or lower cores")


def _amount(text: Any) -> Fraction | None:
    return None if text is None else read_quantity(str(text))


def _leader_worker_set(document: Document) -> Iterator[Finding]:
    size = mapping(document.data, "spec", "leaderWorkerTemplate").get("size")
    part = mapping(document.data, "spec", "leaderWorkerTemplate", "subGroupPolicy").get("subGroupSize")
    if not (isinstance(part, int) and isinstance(size, int) and part > 0):
        return
    if part > size or min(size % part, (size - 1) % part):
        at = ("spec", "leaderWorkerTemplate", "subGroupPolicy", "subGroupSize")
        message = f"subgroups of {part} divide neither the {size} pods of a group nor those without its leader"
        yield Finding(document, at, message, f"write a divisor of {size} or {size - 1}")


def _stateful_set(document: Document) -> Iterator[Finding]:
    """Its pods come one after another, each once the one before is ready, unless they come in parallel."""
    spec, annotations = mapping(document.data, "spec"), mapping(document.metadata, "annotations")
    text, replicas = str(annotations.get(k8s.GROUP_MIN_MEMBER_ANNOTATION) or ""), spec.get("replicas", 1)
    key = k8s.GANG_ANNOTATION if annotations.get(k8s.GANG_ANNOTATION) == "true" else k8s.GROUP_MIN_MEMBER_ANNOTATION
    least = replicas if key == k8s.GANG_ANNOTATION else whole_number(text) or 0
    if isinstance(least, int) and least > 1 and spec.get("podManagementPolicy") != "Parallel":
        message = f"its pods come one after another, and none starts before {least} are there: none ever does"
        place = ("spec", "podManagementPolicy")
        help = to_write("Parallel", *place, help="write spec.podManagementPolicy: Parallel")
        yield Finding(document, ("metadata", "annotations", key), message, help)


def _model_serving(document: Document) -> Iterator[Finding]:
    template = mapping(document.data, "spec", "template")
    replicas = {str(role.get("name")): role.get("replicas", 1) for _, role in items(template, "roles")}
    at: FieldPath = MINIMA_PATH
    minima = mapping(document.data, *MINIMA_PATH)
    annotated: FieldPath = ("metadata", "annotations", k8s.QUEUE_NAME_ANNOTATION)
    if makes_pod_group(document) and mapping(document.metadata, "annotations").get(k8s.QUEUE_NAME_ANNOTATION):
        help = "annotate its Namespace, or remove gangPolicy and networkTopology"
        yield Finding(document, annotated, "the PodGroup that kthena makes names no queue", help)
    for name, least in minima.items():
        most = replicas.get(name)
        if isinstance(least, int) and isinstance(most, int) and least > most:
            message = f"{least} is above the {most} replicas of role {name}"
            yield Finding(document, (*at, name), message, "lower it, or raise the replicas of the role")


def _clique_set(document: Document) -> Iterator[Finding]:
    template = mapping(document.data, "spec", "template")
    cliques = items(template, "cliques")
    groups = items(template, "podCliqueScalingGroups")
    scaled = [name for _, group in groups for _, name in texts(group, "cliqueNames")]
    starts = [
        (("spec", "template", "cliques", at, "spec", "startsAfter", n), name)
        for at, clique in (cliques if template.get("cliqueStartupType") == "CliqueStartupTypeExplicit" else ())
        for n, name in texts(mapping(clique, "spec"), "startsAfter")
    ]
    order = {str(clique.get("name")): [name for path, name in starts if path[3] == at] for at, clique in cliques}
    if circle := dependency_cycle(order):
        at = next(at for at, clique in cliques if str(clique.get("name")) == circle[0])
        first: FieldPath = ("spec", "template", "cliques", at, "spec", "startsAfter")
        yield Finding(document, first, f"cliques wait in a circle: {shown_cycle(circle)}", "remove one dependency")
    schedulers: list[Any] = []
    for at, clique in cliques:
        spec = mapping(clique, "spec")
        place: FieldPath = ("spec", "template", "cliques", at, "spec")
        scheduler = mapping(spec, "podSpec").get("schedulerName")
        if scheduler and any(other != scheduler for other in schedulers):
            help = "write one schedulerName for all cliques"
            yield Finding(document, (*place, "podSpec", "schedulerName"), "another clique has another scheduler", help)
        schedulers.append(scheduler)
        if spec.get("autoScalingConfig") and clique.get("name") in scaled:
            message = "Grove refuses to scale a clique of a scaling group by itself"
            yield Finding(document, (*place, "autoScalingConfig"), message, "write scaleConfig of the group")


def _deployment(document: Document) -> Iterator[Finding]:
    """A new ReplicaSet has pods of its own PodGroup, at first as many as the update may add or take away."""
    least = whole_number(str(mapping(document.metadata, "annotations").get(k8s.GROUP_MIN_MEMBER_ANNOTATION)))
    spec = mapping(document.data, "spec")
    if k8s.GROUP_NAME_ANNOTATION in mapping(spec, "template", "metadata", "annotations"):
        return  # pods of both ReplicaSets are of one PodGroup, which Volcano did not make
    strategy, replicas = mapping(spec, "strategy"), spec.get("replicas", 1)
    if strategy.get("type") == "Recreate" or least is None or not isinstance(replicas, int):
        return
    rolling = mapping(strategy, "rollingUpdate")
    surge = _pods_of(rolling.get("maxSurge", "25%"), replicas, ceil)
    first = surge + _pods_of(rolling.get("maxUnavailable", "25%"), replicas, floor)
    if first < least <= replicas:
        message = f"an update makes {first} new pods at first, and their gang starts with {least}: each update hangs"
        at = ("metadata", "annotations", k8s.GROUP_MIN_MEMBER_ANNOTATION)
        yield Finding(document, at, message, "write strategy.rollingUpdate.maxSurge: 100%, or strategy.type: Recreate")


def _pods_of(share: object, replicas: int, rounded: Callable[[float], int]) -> int:
    """A number of pods, or a percentage of the replicas."""
    if isinstance(share, int):
        return share
    return rounded(replicas * (whole_number(str(share).removesuffix("%")) or 0) / 100)


_OTHERS = {
    "Deployment.apps": _deployment,
    "JobSet.jobset.x-k8s.io": _job_set,
    "LeaderWorkerSet.leaderworkerset.x-k8s.io": _leader_worker_set,
    "ModelServing.workload.serving.volcano.sh": _model_serving,
    "PodCliqueSet.grove.io": _clique_set,
    "ScheduledSparkApplication.sparkoperator.k8s.io": _spark,
    "SparkApplication.sparkoperator.k8s.io": _spark,
    "SparkConnect.sparkoperator.k8s.io": _spark,
    "StatefulSet.apps": _stateful_set,
    "Workflow.argoproj.io": workflow,
}
"""Kind.group -> the check of its objects."""

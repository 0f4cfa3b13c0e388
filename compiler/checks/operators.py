"""What operators refuse beyond the shape of their kinds: Kubeflow, JobSet, LWS, Ray, Spark, Argo and others."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor
from typing import Any

from compiler.checks import kserve, ray
from compiler.checks.check import DocumentInput, Finding, check
from compiler.checks.volcano_job import dependency_cycle, shown_cycle
from compiler.checks.workflows import unknown_names, workflow
from compiler.diagnostics.diagnostic import suggestion, to_write
from compiler.fields.quantity import QuantityError, parse_quantity
from compiler.kinds.model_serving import MINIMA_PATH, makes_pod_group
from compiler.kubernetes import (
    GANG_ANNOTATION,
    GROUP_MIN_MEMBER_ANNOTATION,
    LEADER_WORKER_SUBGROUP_TOPOLOGY_ANNOTATION,
    QUEUE_NAME_ANNOTATION,
)
from compiler.syntax.documents import Document, FieldPath
from compiler.validation.judge import items, mapping, texts

_JOB_NAME = re.compile(r"(?=.{1,63}\Z)[a-z]([-a-z0-9]*[a-z0-9])?", re.ASCII)


@dataclass(frozen=True, slots=True)
class _Operator:
    """Where roles stand, the container that each must have, the roles there may be (none given: any), the one there
    must be, the one of which there is one pod, and the one that is never without."""

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
    drops what it does not know. Fix: see the message."""
    for found in check_input.models:
        document = found.document
        version = document.api_version.rpartition("/")[2]
        operator = _OPERATORS.get((document.kind, version)) if document.group == "kubeflow.org" else None
        if operator is not None:
            yield from _refusals(document, operator)
        elif (others := _OTHERS.get(f"{document.kind}.{document.group}")) is not None:
            yield from others(document)


def _refusals(document: Document, operator: _Operator) -> Iterator[Finding]:
    path: FieldPath = ("spec", operator.field)
    roles = mapping(document.data, "spec", operator.field)
    if operator.container and not _JOB_NAME.fullmatch(document.name):
        message = f"{document.name!r} is not a name of a Service, and each pod gets one of it"
        help = "use at most 63 lower-case letters, digits and -, with a letter first"
        yield Finding(document, ("metadata", "name"), message, help)
    if operator.required and operator.required.lower() not in map(str.lower, roles):
        yield Finding(document, path, f"there is no {operator.required}", "add it")
    elastic = mapping(document.data, "spec", "elasticPolicy")
    least, most = elastic.get("minReplicas"), elastic.get("maxReplicas")
    if isinstance(least, int) and isinstance(most, int) and least > most:
        at = ("spec", "elasticPolicy", "minReplicas")
        yield Finding(document, at, f"minReplicas {least} is above maxReplicas {most}", "lower it, or raise the other")
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
        if mapping(role, "template", "spec", "template", "spec").get("restartPolicy") == "Always":
            at = (*path, "template", "spec", "template", "spec", "restartPolicy")
            yield Finding(document, at, "pods of a job end: no Job comes of this", "write OnFailure or Never")
        for index, awaited in items(role, "dependsOn"):
            if (name := str(awaited.get("name"))) not in above:
                help = suggestion(name, above, "name one that is above")
                at = (*path, "dependsOn", index, "name")
                yield Finding(document, at, f"no replicated Job above is named {name!r}", help)
        above.append(str(role.get("name")))
    yield from _named_jobs(document, above)


def _named_jobs(document: Document, names: Sequence[str]) -> Iterator[Finding]:
    """Replicated Jobs that the policies and the coordinator of a JobSet name, and that are not there."""
    spec = mapping(document.data, "spec")
    rules = items(mapping(spec, "failurePolicy"), "rules")
    policies: list[tuple[FieldPath, Any]] = [(("spec", "failurePolicy", "rules", at), rule) for at, rule in rules]
    policies.append((("spec", "successPolicy"), spec.get("successPolicy")))
    named = "targetReplicatedJobs"
    places = [((*path, named, number), name) for path, policy in policies for number, name in texts(policy, named)]
    coordinator = mapping(spec, "coordinator")
    if isinstance(chosen := coordinator.get("replicatedJob"), str):
        places.append((("spec", "coordinator", "replicatedJob"), chosen))
    yield from unknown_names(document, places, names, "replicated Job")
    index = coordinator.get("jobIndex", 0)
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
    try:
        return None if text is None else parse_quantity(str(text))
    except QuantityError:
        return None


def _leader_worker_set(document: Document) -> Iterator[Finding]:
    size = mapping(document.data, "spec", "leaderWorkerTemplate").get("size")
    if isinstance(size, int) and size < 1:
        path = ("spec", "leaderWorkerTemplate", "size")
        yield Finding(document, path, "a group has one pod at least, its leader", "write 1 or more", severity="error")
    part = mapping(document.data, "spec", "leaderWorkerTemplate", "subGroupPolicy").get("subGroupSize")
    if part is None and LEADER_WORKER_SUBGROUP_TOPOLOGY_ANNOTATION in mapping(document.metadata, "annotations"):
        message = "there are no subgroups without subGroupPolicy.subGroupSize"
        at: FieldPath = ("metadata", "annotations", LEADER_WORKER_SUBGROUP_TOPOLOGY_ANNOTATION)
        yield Finding(document, at, message, "add it, or remove the annotation")
    if not (isinstance(part, int) and isinstance(size, int) and part > 0):
        return
    if part > size or min(size % part, (size - 1) % part):
        at = ("spec", "leaderWorkerTemplate", "subGroupPolicy", "subGroupSize")
        message = f"subgroups of {part} divide neither the {size} pods of a group nor those without its leader"
        yield Finding(document, at, message, f"write a divisor of {size} or {size - 1}")


def _stateful_set(document: Document) -> Iterator[Finding]:
    """Its pods come one after another, each once the one before is ready, unless they come in parallel."""
    spec, annotations = mapping(document.data, "spec"), mapping(document.metadata, "annotations")
    text, replicas = str(annotations.get(GROUP_MIN_MEMBER_ANNOTATION) or ""), spec.get("replicas", 1)
    key = GANG_ANNOTATION if annotations.get(GANG_ANNOTATION) == "true" else GROUP_MIN_MEMBER_ANNOTATION
    least = replicas if key == GANG_ANNOTATION else int(text[:9]) if text.isascii() and text.isdigit() else 0
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
    annotated: FieldPath = ("metadata", "annotations", QUEUE_NAME_ANNOTATION)
    if makes_pod_group(document) and mapping(document.metadata, "annotations").get(QUEUE_NAME_ANNOTATION):
        help = "annotate its Namespace, or remove gangPolicy and networkTopology"
        yield Finding(document, annotated, "the PodGroup that kthena makes names no queue", help)
    if mapping(document.data, "spec").get("recoveryPolicy") == "ServingGroupRecreate":
        rollout = ("spec", "rolloutStrategy", "type")
        if mapping(document.data, *rollout[:-1]).get("type") == "RoleRollingUpdate":
            message = "kthena refuses to roll roles where it recreates whole groups"
            yield Finding(
                document, rollout, message, "write ServingGroupRollingUpdate, or recoveryPolicy: RoleRecreate"
            )
    yield from unknown_names(document, [((*at, name), name) for name in minima], list(replicas), "role")
    for number, role in items(template, "roles"):
        if (workers := role.get("workerReplicas")) and not role.get("workerTemplate"):
            message = f"there is no workerTemplate for {workers} workers"
            yield Finding(
                document, ("spec", "template", "roles", number), message, "add it, or write workerReplicas: 0"
            )
    for name, least in minima.items():
        most = replicas.get(name)
        if isinstance(least, int) and isinstance(most, int) and least > most:
            message = f"{least} is above the {most} replicas of role {name}"
            yield Finding(document, (*at, name), message, "lower it, or raise the replicas of the role")


def _clique_set(document: Document) -> Iterator[Finding]:
    template = mapping(document.data, "spec", "template")
    cliques = items(template, "cliques")
    names = [str(clique.get("name")) for _, clique in cliques]
    path = ("spec", "template", "podCliqueScalingGroups")
    groups = items(template, path[-1])
    named = [((*path, at, "cliqueNames", n), name) for at, group in groups for n, name in texts(group, "cliqueNames")]
    starts = [
        (("spec", "template", "cliques", at, "spec", "startsAfter", n), name)
        for at, clique in (cliques if template.get("cliqueStartupType") == "CliqueStartupTypeExplicit" else ())
        for n, name in texts(mapping(clique, "spec"), "startsAfter")
    ]
    yield from unknown_names(document, [*named, *starts], names, "clique")
    for n, (at_name, name) in enumerate(named):
        if any(name == other for _, other in named[:n]):
            yield Finding(document, at_name, f"clique {name!r} is in a scaling group already", "name it once")
    if circle := dependency_cycle({names[at]: [name for path, name in starts if path[3] == at] for at, _ in cliques}):
        first: FieldPath = ("spec", "template", "cliques", names.index(circle[0]), "spec", "startsAfter")
        yield Finding(document, first, f"cliques wait in a circle: {shown_cycle(circle)}", "remove one dependency")
    seen: dict[str, set[Any]] = {"roleName": set(), "schedulerName": set()}
    for at, clique in cliques:
        spec = mapping(clique, "spec")
        place: FieldPath = ("spec", "template", "cliques", at, "spec")
        if (role := spec.get("roleName")) and role in seen["roleName"]:
            yield Finding(document, (*place, "roleName"), f"another clique has role {role!r}", "give each its own")
        scheduler = mapping(spec, "podSpec").get("schedulerName")
        if scheduler and seen["schedulerName"] - {scheduler}:
            help = "write one schedulerName for all cliques"
            yield Finding(document, (*place, "podSpec", "schedulerName"), "another clique has another scheduler", help)
        seen["roleName"].add(role)
        seen["schedulerName"].add(scheduler)
        if mapping(spec, "podSpec").get("restartPolicy") == "OnFailure":
            message = "Grove refuses pods that restart OnFailure"
            yield Finding(document, (*place, "podSpec", "restartPolicy"), message, "write Always or Never")
        if mapping(spec, "podSpec").get("topologySpreadConstraints"):
            message = "Grove refuses topology spread constraints"
            help = "remove them, or use topologyConstraint"
            yield Finding(document, (*place, "podSpec", "topologySpreadConstraints"), message, help)
        if spec.get("autoScalingConfig") and any(clique.get("name") == name for _, name in named):
            message = "Grove refuses to scale a clique of a scaling group by itself"
            yield Finding(document, (*place, "autoScalingConfig"), message, "write scaleConfig of the group")


def _deployment(document: Document) -> Iterator[Finding]:
    """A new ReplicaSet has pods of its own PodGroup, at first as many as the update may add or take away."""
    annotations = document.metadata.get("annotations")
    text = str(annotations.get(GROUP_MIN_MEMBER_ANNOTATION) if isinstance(annotations, dict) else "")
    spec = mapping(document.data, "spec")
    strategy, replicas = mapping(spec, "strategy"), spec.get("replicas", 1)
    if strategy.get("type") == "Recreate" or not (text.isascii() and text.isdigit()) or not isinstance(replicas, int):
        return
    rolling = mapping(strategy, "rollingUpdate")
    surge = _pods_of(rolling.get("maxSurge", "25%"), replicas, ceil)
    first = surge + _pods_of(rolling.get("maxUnavailable", "25%"), replicas, floor)
    if first < int(text[:9]) <= replicas:
        message = f"an update makes {first} new pods at first, and their gang starts with {text}: each update hangs"
        at = ("metadata", "annotations", GROUP_MIN_MEMBER_ANNOTATION)
        yield Finding(document, at, message, "write strategy.rollingUpdate.maxSurge: 100%, or strategy.type: Recreate")


def _pods_of(share: object, replicas: int, rounded: Callable[[float], int]) -> int:
    """A number of pods, or a percentage of the replicas."""
    if isinstance(share, int):
        return share
    text = str(share).removesuffix("%")
    return rounded(replicas * int(text) / 100) if text.isascii() and text.isdigit() else 0


def _workspace(document: Document) -> Iterator[Finding]:
    if document.data.get("inference") or document.data.get("tuning"):
        return
    if "spec" in document.data:
        help = "move resource, inference and tuning out of spec: this kind has none"
        yield Finding(document, ("spec",), "KAITO reads nothing in spec", help)
    else:
        yield Finding(document, ("kind",), "a Workspace is for inference or tuning", "add one of the two")


_OTHERS = {
    "Deployment.apps": _deployment,
    "InferenceService.serving.kserve.io": kserve.inference_service,
    "JobSet.jobset.x-k8s.io": _job_set,
    "LeaderWorkerSet.leaderworkerset.x-k8s.io": _leader_worker_set,
    "ModelServing.workload.serving.volcano.sh": _model_serving,
    "PodCliqueSet.grove.io": _clique_set,
    "RayCluster.ray.io": ray.cluster,
    "RayJob.ray.io": ray.job,
    "RayService.ray.io": ray.service,
    "ScheduledSparkApplication.sparkoperator.k8s.io": _spark,
    "SparkApplication.sparkoperator.k8s.io": _spark,
    "SparkConnect.sparkoperator.k8s.io": _spark,
    "StatefulSet.apps": _stateful_set,
    "Workflow.argoproj.io": workflow,
    "Workspace.kaito.sh": _workspace,
}
"""Kind.group -> what is wrong with an object of it."""

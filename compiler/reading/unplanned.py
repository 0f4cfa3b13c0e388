"""Objects of kinds that are not planned: which of them run pods, what those ask for, and how many there are.

An unknown kind is recognised by its pod templates (`containers:` at any depth), or by the `resources:` of containers
that its operator makes. Counts are next to them under names that differ from kind to kind; what cannot be found out
counts once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

from pydantic import ValidationError

from compiler.diagnostics.diagnostic import Diagnostic, declare_rule
from compiler.fields.quantity import exact_amount, read_quantity
from compiler.kinds.common.pods import PodTemplate, pod_spec
from compiler.kubernetes import QUEUE_NAME_ANNOTATION, VOLCANO_SCHEDULER
from compiler.specs.gang_spec import UnplannedPods
from compiler.specs.namespace_queues import workload_queue
from compiler.syntax.documents import Document, FieldPath

KIND_NOT_PLANNED = declare_rule("GP213", "info")
UNPLANNED_DEVICES = declare_rule("GP220", "warning")

_POD_RUNNING_KINDS = """
    Deployment StatefulSet DaemonSet ReplicaSet ReplicationController CronJob SparkApplication ScheduledSparkApplication
    SparkConnect RayJob JobSet LeaderWorkerSet TrainJob JobFlow HyperJob ModelBooster InferenceService
    LLMInferenceService DynamoGraphDeployment NIMService FlinkDeployment TaskRun PipelineRun
"""
POD_RUNNING_KINDS = frozenset(_POD_RUNNING_KINDS.split())
"""Kinds that run pods also where their text holds no pod template."""
MODEL_GROUPS = ("kaito.sh", "kubeai.org")
"""Their kinds run pods of a preset, and have names that many other kinds have: Workspace, Model."""
ARGO_KINDS = frozenset({"Workflow", "CronWorkflow"})
"""Kinds of Argo Workflows, whose steps are pods by `container` or `script`, or other objects by `resource`."""
_TEMPLATE_KINDS = """
    PodTemplate JobTemplate WorkflowTemplate ClusterWorkflowTemplate TrainingRuntime ClusterTrainingRuntime
    ServingRuntime ClusterServingRuntime LLMInferenceServiceConfig CustomResourceDefinition KwokctlResource
    ClusterPolicy Policy MutatingPolicy ValidatingPolicy ClusterCleanupPolicy CleanupPolicy SidecarSet Task ClusterTask
    PersistentVolumeClaim LimitRange VerticalPodAutoscaler
"""
TEMPLATE_KINDS = frozenset(_TEMPLATE_KINDS.split())
"""Kinds that describe pods which another object runs, or not pods at all."""
SERVICE_KINDS = frozenset({"Deployment", "Pod", "ReplicaSet", "ReplicationController", "StatefulSet"})
SERVICE_HELP = f"to have it planned, write schedulerName: {VOLCANO_SCHEDULER}, or services: devices in the Cluster"
DESCRIBED_ELSEWHERE = "leave room for its pods; the file does not say which they are"
UNKNOWN_KIND_HELP = "leave room for its pods, or express it as a kind that is planned"
_RECURRING_KINDS = frozenset({"CronJob", "ScheduledSparkApplication"})
"""Kinds whose pods come and go by the clock."""
_COUNT_KEYS = ("replicas", "instances", "numNodes")
_MAX_COUNT = 10**6

Devices = Counter[str]
"""Resource name -> whole devices."""


def runs_pods(document: Document) -> bool:
    """Return whether the object is a job, or another that runs pods."""
    kind = document.kind
    if kind in POD_RUNNING_KINDS or kind in ARGO_KINDS or kind == "PodGroup":
        return True
    return kind not in TEMPLATE_KINDS and any(_is_pod_spec(part.value) for part in _parts(document.data))


def unplanned_pods(document: Document, help: str = "") -> list[Diagnostic]:
    """Return a warning on an object that asks for devices or names Volcano, an info on another that runs pods.

    help: where the kind is planned, and this object is not.
    """
    kind = document.kind
    if kind in TEMPLATE_KINDS:
        return []
    parts = list(_parts(document.data))
    if not any(_is_pod_spec(part.value) or _has_resources(part.value) for part in parts) and not _runs_pods(document):
        return []
    help = help or (SERVICE_HELP if kind in SERVICE_KINDS else UNKNOWN_KIND_HELP)
    asked = sum((_device_sum(_devices_of(part.value), part.count) for part in parts), Devices())
    if amounts := " and ".join(f"{exact_amount(name, asked[name])} {name}" for name in sorted(asked) if asked[name]):
        message = f"{document.display_name} asks for {amounts} and is not planned"
        return [document.diagnostic(UNPLANNED_DEVICES, ("kind",), message, help)]
    if document.group.endswith(".volcano.sh") or _names_volcano(document.data):
        message = f"{document.display_name} is for Volcano and is not planned"
        return [document.diagnostic(UNPLANNED_DEVICES, ("kind",), message, help)]
    return [document.diagnostic(KIND_NOT_PLANNED, ("kind",), f"{kind} is passed through unplanned", help)]


def _runs_pods(document: Document) -> bool:
    """Return whether objects of the kind run pods, whatever this one contains."""
    if document.group == "argoproj.io":
        return document.kind in ARGO_KINDS
    return document.kind in POD_RUNNING_KINDS or document.group in MODEL_GROUPS


def declared_pods(document: Document) -> Iterator[UnplannedPods]:
    """Yield the pods that an object of a kind that is not planned runs: one for each of its templates that can be
    read."""
    if document.kind in TEMPLATE_KINDS or _is_suspended(document.data):
        return
    for part in _parts(document.data):
        if not part.count or not _is_pod_spec(part.value):
            continue
        holder = document.value_at(*part.path[:-1])
        metadata = holder.get("metadata") if isinstance(holder, dict) and part.path[:-1] else None
        try:
            template = PodTemplate.model_validate({"metadata": metadata, "spec": part.value})
        except ValidationError:  # the API server refuses such a template: it yields no pod
            continue
        written = template.annotations.get(QUEUE_NAME_ANNOTATION, "")
        queue = workload_queue(document.namespace or "default", written)
        yield UnplannedPods(
            document,
            part.path,
            part.count,
            pod_spec(template.spec),
            template.labels,
            queue,
            is_recurring=document.kind in _RECURRING_KINDS,
        )


def _is_suspended(data: Mapping[str, Any]) -> bool:
    spec = data.get("spec")
    policies = (spec, spec.get("runPolicy")) if isinstance(spec, dict) else ()
    return any(isinstance(policy, dict) and policy.get("suspend") is True for policy in policies)


def _children(value: object) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _is_pod_spec(value: object) -> bool:
    containers = value.get("containers") if isinstance(value, dict) else None
    return isinstance(containers, list) and any(isinstance(each, dict) for each in containers)


def _has_resources(value: Mapping[str, Any]) -> bool:
    """Return whether these are the resources of containers that an operator makes."""
    found = value.get("resources")
    lists = (found.get("requests"), found.get("limits")) if isinstance(found, dict) else ()
    return any(isinstance(amounts, dict) and not _COUNTED.isdisjoint(amounts) for amounts in (*lists, found))


_COUNTED = frozenset({"cpu", "memory", "gpu", "nvidia.com/gpu"})
"""Resources that containers request, unlike volumes, for example."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A mapping in an object's text, at `path`, and how many of it there are."""

    path: FieldPath
    value: Mapping[str, Any]
    count: int


def _parts(value: object, count: int = 1, path: FieldPath = ()) -> Iterator[_Part]:
    """Yield all mappings of an object, the outer ones first, except those inside a pod spec."""
    if isinstance(value, list):
        for index, child in enumerate(value):
            yield from _parts(child, count, (*path, index))
    if not isinstance(value, dict):
        return
    if _is_pod_spec(value):
        yield _Part(path, value, count)
        return
    for key in (*_COUNT_KEYS, *(("parallelism",) if "template" in value else ())):
        if isinstance(number := value.get(key), int):
            count *= min(max(int(number), 0), _MAX_COUNT)
    yield _Part(path, value, count)
    for key, child in value.items():
        yield from _parts(child, count * _group_size(value, key), (*path, key))


def _devices_of(value: Mapping[str, Any]) -> Devices:
    return _devices_of_pod(value) if _is_pod_spec(value) else _devices_outside_templates(value)


def _group_size(value: Mapping[str, Any], key: str) -> int:
    """Return how often a LeaderWorkerSet's group of `size` pods holds one of this template."""
    if key != "workerTemplate" or not isinstance(size := value.get("size"), int):
        return 1
    return max(min(int(size), _MAX_COUNT) - ("leaderTemplate" in value), 0)


def _device_sum(devices: Devices, count: int) -> Devices:
    return Counter({name: number * count for name, number in devices.items()})


def _devices_of_pod(spec: Mapping[str, Any]) -> Devices:
    running, starting = Counter[str](), Counter[str]()
    for container in spec["containers"]:
        running += _devices_of_resources(container.get("resources") if isinstance(container, dict) else None)
    for container in _children(spec.get("initContainers")):
        starting |= _devices_of_resources(container.get("resources") if isinstance(container, dict) else None)
    return running | starting


def _devices_outside_templates(value: Mapping[str, Any]) -> Devices:
    """`gpu: {name, quantity}` of Spark's operator, `resourcesPerNode` of a TrainJob, and the resources of containers
    that an operator makes, in which a GPU may be a `gpu`."""
    found = _devices_of_resources(value.get("resourcesPerNode")) + _devices_of_resources(value.get("resources"))
    gpu = value.get("gpu")
    if isinstance(gpu, dict) and isinstance(name := gpu.get("name"), str):
        found += _devices_of_list({name: gpu.get("quantity")})
    return found


def _devices_of_resources(resources: object) -> Devices:
    """Return the devices in requests and limits: for devices the two are the same, and either may be left out."""
    if not isinstance(resources, dict):
        return Counter()
    lists = (resources, resources.get("requests"), resources.get("limits"))
    return _devices_of_list(lists[0]) | _devices_of_list(lists[1]) | _devices_of_list(lists[2])


def _devices_of_list(amounts: object) -> Devices:
    found: Devices = Counter()
    for name, amount in amounts.items() if isinstance(amounts, dict) else ():
        if not isinstance(name, str) or ("/" not in name and name != "gpu") or "kubernetes.io/" in name:
            continue
        number = read_quantity(amount)
        found[name] = 1 if number is None else ceil(number)  # it requests some; others report a fault of the number
    return found


def _names_volcano(value: object) -> bool:
    if not isinstance(value, dict):
        return any(_names_volcano(child) for child in _children(value))
    for key, child in value.items():
        named = key in ("schedulerName", "batchScheduler", "ray.io/scheduler-name") and child == VOLCANO_SCHEDULER
        if named or (isinstance(key, str) and "volcano.sh/" in key) or _names_volcano(child):
            return True
    return False

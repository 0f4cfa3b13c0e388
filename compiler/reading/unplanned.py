"""Objects of kinds that are not planned: which of them run pods, and which devices those ask for.

A kind that nobody here has heard of is recognised by its pod templates (`containers:` at any depth). Counts stand
beside templates under names that differ from kind to kind; what cannot be found out counts once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from compiler.diagnostics import Diagnostic, declare_rule
from compiler.fields.quantity import QuantityError, exact_amount, parse_quantity
from compiler.kubernetes import VOLCANO_SCHEDULER
from compiler.syntax.documents import Document

KIND_NOT_PLANNED = declare_rule(
    "GP213",
    "info",
    "kind that is not planned",
    """The object runs pods, but gangplan does not plan its kind: it is passed through, and its pods take room that the
    plan does not know of.""",
)
UNPLANNED_DEVICES = declare_rule(
    "GP220",
    "warning",
    "devices or Volcano asked for by a kind that is not planned",
    """The object's pods ask for devices, or for Volcano as their scheduler, but gangplan does not plan its kind: they
    compete with the plan's gangs for the same nodes. Mend: leave room for them (a NodePool of their own, with a taint),
    or express the work as a kind that is planned.""",
)

_POD_RUNNING_KINDS = """
    Deployment StatefulSet DaemonSet ReplicaSet ReplicationController CronJob TFJob MPIJob XGBoostJob PaddleJob JAXJob
    MXJob ElasticJob AscendJob RayJob RayCluster RayService SparkApplication ScheduledSparkApplication JobSet
    LeaderWorkerSet TrainJob JobFlow HyperJob ModelServing
"""
POD_RUNNING_KINDS = frozenset(_POD_RUNNING_KINDS.split())
"""Kinds that run pods also where their text holds no pod template."""
_TEMPLATE_KINDS = """
    PodTemplate JobTemplate WorkflowTemplate ClusterWorkflowTemplate TrainingRuntime ClusterTrainingRuntime
    CustomResourceDefinition
"""
TEMPLATE_KINDS = frozenset(_TEMPLATE_KINDS.split())
"""Kinds that describe pods which another object runs, or not pods at all."""
_COUNT_KEYS = ("replicas", "instances", "numNodes")
_MAX_COUNT = 10**6

Devices = Counter[str]
"""Resource name -> whole devices."""


def unplanned_pods(document: Document) -> list[Diagnostic]:
    """A warning on an object that asks for devices or names Volcano, an info on another that runs pods."""
    kind = document.kind
    if kind in TEMPLATE_KINDS:
        return []
    if not any(True for _ in _pod_specs(document.data)) and kind not in POD_RUNNING_KINDS:
        return []
    help = "leave room for its pods, or express it as a kind that is planned"
    asked = _devices(document.data, 1)
    if amounts := " and ".join(f"{exact_amount(name, asked[name])} {name}" for name in sorted(asked) if asked[name]):
        where = " on each of its nodes" if kind == "DaemonSet" else ""
        message = f"{document.display_name} asks for {amounts}{where} and is not planned"
        return [document.diagnostic(UNPLANNED_DEVICES, ("kind",), message, help)]
    if document.group.endswith(".volcano.sh") or _names_volcano(document.data):
        message = f"{document.display_name} is for Volcano and is not planned"
        return [document.diagnostic(UNPLANNED_DEVICES, ("kind",), message, help)]
    return [document.diagnostic(KIND_NOT_PLANNED, ("kind",), f"{kind} is passed through unplanned", help)]


def _children(value: object) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _is_pod_spec(value: object) -> bool:
    containers = value.get("containers") if isinstance(value, dict) else None
    return isinstance(containers, list) and any(isinstance(each, dict) for each in containers)


def _pod_specs(value: object) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, dict) and _is_pod_spec(value):
        yield value
        return
    for child in _children(value):
        yield from _pod_specs(child)


def _devices(value: object, count: int) -> Devices:
    """The devices that `count` of this part of an object ask for."""
    found: Devices = Counter()
    if not isinstance(value, dict):
        for child in _children(value):
            found += _devices(child, count)
        return found
    if _is_pod_spec(value):
        return _multiplied(_devices_of_pod(value), count)
    for key in (*_COUNT_KEYS, *(("parallelism",) if "template" in value else ())):
        if isinstance(number := value.get(key), int):
            count *= min(max(int(number), 0), _MAX_COUNT)
    found += _multiplied(_devices_outside_templates(value), count)
    for key, child in value.items():
        found += _devices(child, count * _group_size(value, key))
    return found


def _group_size(value: Mapping[str, Any], key: str) -> int:
    """How often a LeaderWorkerSet's group of `size` pods holds one of this template."""
    if key != "workerTemplate" or not isinstance(size := value.get("size"), int):
        return 1
    return max(min(int(size), _MAX_COUNT) - ("leaderTemplate" in value), 0)


def _multiplied(devices: Devices, count: int) -> Devices:
    return Counter({name: number * count for name, number in devices.items()})


def _devices_of_pod(spec: Mapping[str, Any]) -> Devices:
    running, starting = Counter[str](), Counter[str]()
    for container in spec["containers"]:
        running += _devices_of_resources(container.get("resources") if isinstance(container, dict) else None)
    for container in _children(spec.get("initContainers")):
        starting |= _devices_of_resources(container.get("resources") if isinstance(container, dict) else None)
    return running | starting


def _devices_outside_templates(value: Mapping[str, Any]) -> Devices:
    """`gpu: {name, quantity}` of Spark's operator, `resourcesPerNode` of a TrainJob."""
    found = _devices_of_resources(value.get("resourcesPerNode"))
    gpu = value.get("gpu")
    if isinstance(gpu, dict) and isinstance(name := gpu.get("name"), str):
        found += _devices_of_list({name: gpu.get("quantity")})
    return found


def _devices_of_resources(resources: object) -> Devices:
    """Of requests and limits: for devices the two are the same, and either may be left out."""
    if not isinstance(resources, dict):
        return Counter()
    return _devices_of_list(resources.get("requests")) | _devices_of_list(resources.get("limits"))


def _devices_of_list(amounts: object) -> Devices:
    found: Devices = Counter()
    for name, amount in amounts.items() if isinstance(amounts, dict) else ():
        if not isinstance(name, str) or "/" not in name or "kubernetes.io/" in name:
            continue
        try:
            found[name] = int(-(-parse_quantity(amount) // Fraction(1)))
        except QuantityError:
            found[name] = 1  # it asks for some; what is wrong with the number is for others to say
    return found


def _names_volcano(value: object) -> bool:
    if not isinstance(value, dict):
        return any(_names_volcano(child) for child in _children(value))
    for key, child in value.items():
        named = key in ("schedulerName", "batchScheduler", "ray.io/scheduler-name") and child == VOLCANO_SCHEDULER
        if named or (isinstance(key, str) and "volcano.sh/" in key) or _names_volcano(child):
            return True
    return False

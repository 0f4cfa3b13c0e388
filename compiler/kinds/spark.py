"""Spark's SparkApplication and ScheduledSparkApplication (sparkoperator.k8s.io/v1beta2) of spark-operator 2.3, and its
SparkConnect (v1alpha1), a server that never ends.

The driver starts first and makes the executors. spark-submit writes the pods, and the operator's webhook completes
them; given a pod template, which a gate would need, it no longer does (`mutated-by-spark-operator` is not set). So they
are not bound: their pods go where their scheduler puts them, and the plan keeps room. The operator makes the server of
a SparkConnect from its pod template; Spark makes the executors, from theirs with cores and memory as it is used to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from pydantic import Field, ValidationError

from compiler.fields.models import Bool, LenientModel, Name, without_nulls
from compiler.fields.quantity import QuantityError, parse_quantity
from compiler.kinds.common import pods
from compiler.kinds.common.jobs import Natural, submission_and_duration, time_diagnostics
from compiler.kinds.kind import Kind
from compiler.kubernetes import VOLCANO_SCHEDULER
from compiler.specs.gang_spec import Controller, GangSpec, RoleSpec, Scheduling
from compiler.specs.services import unbound
from compiler.syntax.documents import Document, FieldPath

GROUP = "sparkoperator.k8s.io"
DEFAULT_MEMORY = 1 << 30
LEAST_OVERHEAD = 384 << 20
OVERHEAD_FACTORS: Mapping[str, Fraction] = {"Python": Fraction(4, 10), "R": Fraction(4, 10)}
"""Type of an application -> the share of its memory that is added, a tenth for other types."""
_MOST_BYTES = 2**63 - 1
_MEMORY_UNITS = {"b": 0, "k": 10, "kb": 10, "m": 20, "mb": 20, "g": 30, "gb": 30, "t": 40, "tb": 40, "p": 50, "pb": 50}


class Gpu(LenientModel):
    name: str
    quantity: Natural


class SparkPod(LenientModel):
    """spec.driver or spec.executor."""

    cores: Natural | None = None
    core_request: str | None = None
    memory: str | None = None
    memory_overhead: str | None = None
    gpu: Gpu | None = None
    instances: Natural | None = None
    labels: dict[str, Any] | None = None
    node_selector: dict[str, str] | None = None
    affinity: pods.Affinity | None = None
    tolerations: list[pods.TolerationModel] | None = None
    scheduler_name: str | None = None
    priority_class_name: str | None = None


class SchedulerOptions(LenientModel):
    queue: Name | None = None
    priority_class_name: Name | None = None


class DynamicAllocation(LenientModel):
    enabled: Bool | None = None
    initial_executors: Natural | None = None
    min_executors: Natural | None = None


class Spec(LenientModel):
    type: str = "Scala"
    mode: str = "cluster"
    driver: SparkPod = Field(default_factory=SparkPod)
    executor: SparkPod = Field(default_factory=SparkPod)
    node_selector: dict[str, str] | None = None
    memory_overhead_factor: str | None = None
    batch_scheduler: str | None = None
    batch_scheduler_options: SchedulerOptions | None = None
    dynamic_allocation: DynamicAllocation | None = None
    suspend: Bool | None = None


class SparkApplication(LenientModel):
    spec: Spec


class ConnectPod(SparkPod):
    """spec.server or spec.executor of a SparkConnect. template: a pod template, which may leave out the containers."""

    template: dict[str, Any] | None = None


class ConnectSpec(LenientModel):
    server: ConnectPod
    executor: ConnectPod
    dynamic_allocation: DynamicAllocation | None = None


class SparkConnect(LenientModel):
    spec: ConnectSpec


class ScheduledSpec(LenientModel):
    template: Spec
    suspend: Bool | None = None


class ScheduledSparkApplication(LenientModel):
    spec: ScheduledSpec


def _application(document: Document, model: SparkApplication) -> Iterable[GangSpec]:
    yield _gang(document, model.spec, ("spec",))


def _scheduled_application(document: Document, model: ScheduledSparkApplication) -> Iterable[GangSpec]:
    gang = _gang(document, model.spec.template, ("spec", "template"))
    yield gang.with_scheduling(is_recurring=True, is_bound=gang.scheduling.is_bound or bool(model.spec.suspend))


def _gang(document: Document, spec: Spec, path: FieldPath) -> GangSpec:
    options = spec.batch_scheduler_options or SchedulerOptions()
    scheduler = spec.batch_scheduler or spec.driver.scheduler_name or ""
    drivers = (_role("driver", 1, spec, spec.driver, path),) if spec.mode != "client" else ()
    roles = (*drivers, _role("executor", _executors(spec.executor, spec.dynamic_allocation), spec, spec.executor, path))
    submitted, expected = submission_and_duration(document)
    gang = GangSpec(
        document=document,
        queue=options.queue or "",
        priority_class=options.priority_class_name,
        minimum=1,
        roles=roles,
        submitted_at=submitted,
        expected_duration=expected,
        field_paths={
            "queue": (*path, "batchSchedulerOptions", "queue"),
            "minimum": (*path, "executor", "instances"),
            "priority_class": (*path, "batchSchedulerOptions", "priorityClassName"),
        },
        controller=Controller(dependent_roles=("executor",)),
        scheduling=Scheduling(scheduler_name=scheduler),
    )
    if scheduler == VOLCANO_SCHEDULER and not gang.queue:
        gang = replace(gang, queue="default")
    return gang.with_scheduling(schedulable=False) if spec.suspend else unbound(gang)


def _connect(document: Document, model: SparkConnect) -> Iterable[GangSpec]:
    spec = model.spec
    executors = _executors(spec.executor, spec.dynamic_allocation)
    roles = (
        _templated_role("server", 1, spec.server, {}),
        _templated_role("executor", executors, spec.executor, _requests(Spec(), spec.executor)),
    )
    gang = GangSpec(
        document=document,
        queue="",
        priority_class=None,
        minimum=1,
        roles=roles,
        field_paths={"queue": ("spec",), "minimum": ("spec", "executor", "instances"), "priority_class": ("spec",)},
        controller=Controller(dependent_roles=("executor",)),
    )
    yield unbound(gang)


def _templated_role(name: str, count: int, pod: ConnectPod, requests: Mapping[str, str]) -> RoleSpec:
    """requests: what the first container asks for in addition to what its template says."""
    try:
        template = pods.PodTemplate.model_validate(_with_requests(without_nulls(pod.template) or {}, requests))
    except (ValidationError, AttributeError, TypeError):  # no pod comes of such a template; there is nothing to count
        template = pods.PodTemplate.model_validate(_with_requests({}, requests))
    return replace(pods.role_spec(name, count, 0, template, ("spec", name)), template_path=())


def _with_requests(template: Any, requests: Mapping[str, str]) -> dict[str, Any]:
    spec = template.get("spec") or {}
    first, *others = spec.get("containers") or [{}]
    resources = first.get("resources") or {}
    resources = {**resources, "requests": {**(resources.get("requests") or {}), **requests}}
    return {**template, "spec": {**spec, "containers": [{"name": "spark", **first, "resources": resources}, *others]}}


def _executors(executor: SparkPod, dynamic: DynamicAllocation | None) -> int:
    """The number of executors that the driver asks for at the start, as Spark counts them."""
    written = executor.instances
    if dynamic is None or not dynamic.enabled:
        return 1 if written is None else written
    return max(written or 0, dynamic.initial_executors or 0, dynamic.min_executors or 0)


def _requests(spec: Spec, pod: SparkPod) -> dict[str, str]:
    cpu = pod.core_request or str(1 if pod.cores is None else pod.cores)
    requests = {"cpu": cpu, "memory": str(min(_memory(spec, pod), _MOST_BYTES))}
    if pod.gpu is not None and pod.gpu.quantity:
        requests[pod.gpu.name] = str(pod.gpu.quantity)
    return requests


def _role(name: str, count: int, spec: Spec, pod: SparkPod, path: FieldPath) -> RoleSpec:
    template = {
        "metadata": {"labels": pod.labels},
        "spec": {
            "containers": [{"name": name, "resources": {"requests": _requests(spec, pod)}}],
            "nodeSelector": {**(spec.node_selector or {}), **(pod.node_selector or {})},
            "schedulerName": spec.batch_scheduler or pod.scheduler_name,
            "priorityClassName": pod.priority_class_name,
        },
    }
    model = pods.PodTemplate.model_validate(without_nulls(template))
    told = model.spec.model_copy(update={"affinity": pod.affinity, "tolerations": pod.tolerations})
    role = pods.role_spec(name, count, 0, model.model_copy(update={"spec": told}), (*path, name))
    return replace(role, template_path=())


def _memory(spec: Spec, pod: SparkPod) -> int:
    """Memory of the pod in bytes, heap and overhead: an overhead that is not written is a share of the heap, and 384
    MiB at least."""
    heap = DEFAULT_MEMORY if pod.memory is None else _java_bytes(pod.memory)
    if pod.memory_overhead is not None:
        return heap + _java_bytes(pod.memory_overhead)
    try:
        factor = Fraction(spec.memory_overhead_factor or "")
    except (ValueError, ZeroDivisionError):
        factor = OVERHEAD_FACTORS.get(spec.type, Fraction(1, 10))
    return heap + max(int(heap * factor), LEAST_OVERHEAD)


def _java_bytes(text: str) -> int:
    """As Java and Spark write memory: 512m, 4g; a number alone is MiB. Also as Kubernetes does: 4Gi. The default where
    it is neither."""
    number = text.strip().lower().rstrip("bkmgtp")
    unit = text.strip().lower()[len(number) :] or "m"
    if number.isascii() and number.isdigit() and unit in _MEMORY_UNITS:
        return int(number) << _MEMORY_UNITS[unit]
    try:
        return int(parse_quantity(text))
    except QuantityError:
        return DEFAULT_MEMORY


WHY = "with a pod template, which a gate needs, its operator leaves out other fields"
CONNECT_WHY = "Spark makes the executors as the server asks for them"
KINDS = tuple(
    Kind(name, GROUP, (version,), model, specs, time_diagnostics, is_foreign=True, unbound_reason=reason)
    for name, version, model, specs, reason in (
        ("SparkApplication", "v1beta2", SparkApplication, _application, WHY),
        ("ScheduledSparkApplication", "v1beta2", ScheduledSparkApplication, _scheduled_application, WHY),
        ("SparkConnect", "v1alpha1", SparkConnect, _connect, CONNECT_WHY),
    )
)

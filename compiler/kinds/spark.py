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
from functools import partial
from typing import Any

from pydantic import ValidationError

from compiler.fields.models import without_nulls
from compiler.fields.quantity import read_quantity
from compiler.fields.texts import whole_number
from compiler.kinds.common import pods
from compiler.kinds.common.jobs import job_times, time_diagnostics
from compiler.kinds.kind import Kind
from compiler.kubernetes import VOLCANO_SCHEDULER
from compiler.openapi.schemas import plain_schema
from compiler.specs.gang_spec import Controller, GangSpec, RoleSpec, Scheduling
from compiler.specs.services import unbound
from compiler.syntax.documents import Document, FieldPath
from compiler.validation.judge import mapping

GROUP = "sparkoperator.k8s.io"
DEFAULT_MEMORY = 1 << 30
LEAST_OVERHEAD = 384 << 20
OVERHEAD_FACTORS: Mapping[str, Fraction] = {"Python": Fraction(4, 10), "R": Fraction(4, 10)}
"""Type of an application -> the share of its memory that is added, a tenth for other types."""
_MOST_BYTES = 2**63 - 1
_MEMORY_UNITS = {"b": 0, "k": 10, "kb": 10, "m": 20, "mb": 20, "g": 30, "gb": 30, "t": 40, "tb": 40, "p": 50, "pb": 50}


_Part = Mapping[str, Any]
"""A part of an application's spec, whose types its schema has checked."""


def _application(document: Document, model: Any) -> Iterable[GangSpec]:
    yield _gang(document, _read(document, "spec"), ("spec",))


def _scheduled_application(document: Document, model: Any) -> Iterable[GangSpec]:
    gang = _gang(document, _read(document, "spec", "template"), ("spec", "template"))
    is_suspended = bool(_read(document, "spec").get("suspend"))
    yield gang.with_scheduling(is_recurring=True, is_bound=gang.scheduling.is_bound or is_suspended)


def _read(document: Document, *path: str) -> _Part:
    return mapping(without_nulls(mapping(document.data, *path)))


def _gang(document: Document, spec: _Part, path: FieldPath) -> GangSpec:
    options = mapping(spec, "batchSchedulerOptions")
    scheduler = spec.get("batchScheduler") or mapping(spec, "driver").get("schedulerName") or ""
    drivers = (_role("driver", 1, spec, path),) if spec.get("mode", "cluster") != "client" else ()
    gang = GangSpec(
        document=document,
        queue=options.get("queue") or ("default" if scheduler == VOLCANO_SCHEDULER else ""),
        priority_class=options.get("priorityClassName"),
        minimum=1,
        roles=(*drivers, _role("executor", _executors(spec), spec, path)),
        times=job_times(document),
        field_paths={
            "queue": (*path, "batchSchedulerOptions", "queue"),
            "minimum": (*path, "executor", "instances"),
            "priority_class": (*path, "batchSchedulerOptions", "priorityClassName"),
        },
        controller=Controller(dependent_roles=("executor",)),
        scheduling=Scheduling(scheduler_name=scheduler),
    )
    return gang.with_scheduling(schedulable=False) if spec.get("suspend") else unbound(gang)


def _connect(document: Document, model: Any) -> Iterable[GangSpec]:
    spec = _read(document, "spec")
    server, executor = mapping(spec, "server"), mapping(spec, "executor")
    roles = (
        _templated_role("server", 1, server, {}),
        _templated_role("executor", _executors(spec), executor, _requests({}, executor)),
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


def _templated_role(name: str, count: int, pod: _Part, requests: Mapping[str, str]) -> RoleSpec:
    """Return a role with the pods of a template. requests: of the first container in addition to its template's."""
    try:
        template = pods.PodTemplate.model_validate(_with_requests(pod.get("template") or {}, requests))
    except (ValidationError, AttributeError, TypeError):  # such a template yields no pod to count
        template = pods.PodTemplate.model_validate(_with_requests({}, requests))
    return replace(pods.role_spec(name, count, 0, template, ("spec", name)), template_path=())


def _with_requests(template: Any, requests: Mapping[str, str]) -> dict[str, Any]:
    spec = template.get("spec") or {}
    first, *others = spec.get("containers") or [{}]
    resources = first.get("resources") or {}
    resources = {**resources, "requests": {**(resources.get("requests") or {}), **requests}}
    return {**template, "spec": {**spec, "containers": [{"name": "spark", **first, "resources": resources}, *others]}}


def _executors(spec: _Part) -> int:
    """Return the number of executors that the driver asks for at the start, as Spark counts them."""
    written, dynamic = mapping(spec, "executor").get("instances"), mapping(spec, "dynamicAllocation")
    if not dynamic.get("enabled"):
        return 1 if written is None else int(written)
    return max(written or 0, dynamic.get("initialExecutors") or 0, dynamic.get("minExecutors") or 0)


def _requests(spec: _Part, pod: _Part) -> dict[str, str]:
    cpu, gpu = pod.get("coreRequest") or str(pod.get("cores", 1)), mapping(pod, "gpu")
    requests = {"cpu": cpu, "memory": str(min(_memory(spec, pod), _MOST_BYTES))}
    return {**requests, gpu["name"]: str(gpu["quantity"])} if gpu.get("quantity") else requests


def _role(name: str, count: int, spec: _Part, path: FieldPath) -> RoleSpec:
    pod = mapping(spec, name)
    copied = {key: pod.get(key) for key in ("affinity", "priorityClassName", "tolerations")}
    template = {
        "metadata": {"labels": pod.get("labels")},
        "spec": {
            "containers": [{"name": name, "resources": {"requests": _requests(spec, pod)}}],
            "nodeSelector": {**mapping(spec, "nodeSelector"), **mapping(pod, "nodeSelector")},
            "schedulerName": spec.get("batchScheduler") or pod.get("schedulerName"),
            **copied,
        },
    }
    model = pods.PodTemplate.model_validate(without_nulls(template))
    return replace(pods.role_spec(name, count, 0, model, (*path, name)), template_path=())


def _memory(spec: _Part, pod: _Part) -> int:
    """Memory of the pod in bytes, heap and overhead: an overhead that is not written is a share of the heap, and 384
    MiB at least."""
    heap = _java_bytes(pod["memory"]) if "memory" in pod else DEFAULT_MEMORY
    if "memoryOverhead" in pod:
        return heap + _java_bytes(pod["memoryOverhead"])
    try:
        factor = Fraction(spec.get("memoryOverheadFactor") or "")
    except (ValueError, ZeroDivisionError):
        factor = OVERHEAD_FACTORS.get(spec.get("type", "Scala"), Fraction(1, 10))
    return heap + max(int(heap * factor), LEAST_OVERHEAD)


def _java_bytes(text: str) -> int:
    """As Java and Spark write memory: 512m, 4g; a number alone is MiB. Also as Kubernetes does: 4Gi. The default where
    it is neither."""
    number = text.strip().lower().rstrip("bkmgtp")
    unit = text.strip().lower()[len(number) :] or "m"
    if (amount := whole_number(number)) is not None and unit in _MEMORY_UNITS:
        return amount << _MEMORY_UNITS[unit]
    quantity = read_quantity(text)
    return DEFAULT_MEMORY if quantity is None else int(quantity)


WHY = "with a pod template, which a gate needs, its operator leaves out other fields"
CONNECT_WHY = "Spark makes the executors as the server asks for them"
_SCHEMA = partial(plain_schema, "spec")
KINDS = tuple(
    Kind(name, GROUP, (version,), None, specs, time_diagnostics, _SCHEMA, is_foreign=True, unbound_reason=reason)
    for name, version, specs, reason in (
        ("SparkApplication", "v1beta2", _application, WHY),
        ("ScheduledSparkApplication", "v1beta2", _scheduled_application, WHY),
        ("SparkConnect", "v1alpha1", _connect, CONNECT_WHY),
    )
)

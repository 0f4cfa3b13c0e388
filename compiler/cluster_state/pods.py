"""Pods of a cluster: their requests, and the anti-affinity of pods outside of gangs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from compiler import kubernetes as k8s
from compiler.cluster_state.cluster_state import StateError
from compiler.fields.times import epoch_seconds
from compiler.kinds.common import pod_rule_fields
from compiler.kinds.common.pods import Affinity, PodSpecModel, host_ports, pod_spec
from compiler.specs.pod_spec import Amounts, PodRuleSpec, PodSpec

EVICTION_SLACK = 30
"""Seconds for which an evicted pod may outlive its grace period before its node counts as occupied again."""


MOST_KNOWN = 10_000
"""Different sets of containers that a cache holds at most."""


def leaving_until(pod: k8s.Object) -> int | None:
    """Return until when an evicted pod frees its room for the gang that it was evicted for (seconds since the epoch); a
    plan that counted it would evict another victim in its place. None for other pods.

    The eviction API marks such pods with the condition DisruptionTarget (Kubernetes, "Pod disruption conditions").
    """
    is_evicted = k8s.is_terminating(pod) and any(
        condition.get("type") == "DisruptionTarget" and condition.get("reason") == "EvictionByEvictionAPI"
        for condition in k8s.conditions_of(pod)
    )
    # The grace period is in the time of deletion.
    ends_at = epoch_seconds(pod["metadata"]["deletionTimestamp"]) if is_evicted else None
    return None if ends_at is None else ends_at + EVICTION_SLACK


def with_leaving_mark(pod: k8s.Object, is_leaving: bool) -> k8s.Object:
    """Return the evicted pod with a mark of whether it still returns its room: the caller knows, and the clocks of API
    server and compiler may differ by hours. Other pods unchanged."""
    if leaving_until(pod) is None:
        return pod
    if is_leaving:
        return {**pod, "metadata": {**pod["metadata"], "deletionTimestamp": "9999-01-01T00:00:00Z"}}
    conditions = [condition for condition in k8s.conditions_of(pod) if condition.get("type") != "DisruptionTarget"]
    return {**pod, "status": {**pod["status"], "conditions": conditions}}


@dataclass(frozen=True, slots=True)
class ForeignPod:
    """A pod on a node (an index) that belongs to no gang of the problem, with the anti-affinity and the ports of its
    node by which it excludes others. group: the name of its PodGroup, where the cluster has that; group_labels: its
    labels."""

    name: str
    node: int
    namespace: str
    labels: Mapping[str, str]
    anti_affinity: tuple[PodRuleSpec, ...] = ()
    is_terminating: bool = False
    host_ports: tuple[str, ...] = ()
    group: str = ""
    group_labels: Mapping[str, str] = field(default_factory=dict)


def foreign_pod(pod: k8s.Object, node: int, group: k8s.Object | None) -> ForeignPod:
    """Return the pod of a PodGroup, or of none, as a foreign one. An affinity that cannot be read counts as none: the
    API server would have refused it."""
    anti = ((pod["spec"].get("affinity") or {}).get("podAntiAffinity") or {}).get(k8s.REQUIRED)
    try:
        terms = Affinity.model_validate({"podAntiAffinity": {k8s.REQUIRED: anti}}).anti_terms if anti else ()
        rules = pod_rule_fields.pod_rule_specs((), terms, None)
    except ValidationError:
        rules = ()
    spec, names = pod["spec"], (k8s.name_of(pod), node, k8s.namespace_of(pod))
    sidecars = (each for each in spec.get("initContainers") or () if each.get("restartPolicy") == "Always")
    lists = (container.get("ports") for container in (*(spec.get("containers") or ()), *sidecars))
    ports = host_ports(lists, bool(spec.get("hostNetwork")))
    found = ForeignPod(*names, _label_texts(pod), rules, k8s.is_terminating(pod), ports)
    return found if group is None else replace(found, group=k8s.name_of(group), group_labels=_label_texts(group))


def _label_texts(item: k8s.Object) -> Mapping[str, str]:
    return {str(key): str(value) for key, value in k8s.labels_of(item).items()}


class RequestCache:
    """Requests of pods; for equal containers, of which a cluster has thousands, they are computed once."""

    def __init__(self, most_known: int = MOST_KNOWN) -> None:
        self.most_known = most_known
        self._asked_by_containers: dict[str, PodSpec] = {}

    def requests_of(self, pod: k8s.Object) -> Amounts:
        return self.asked_by(pod).requests

    def asked_by(self, pod: k8s.Object) -> PodSpec:
        """Return the pod as a specification with its requests and nothing else."""
        decisive = _decisive_fields(pod)
        key = repr(decisive)
        if key not in self._asked_by_containers:
            if len(self._asked_by_containers) >= self.most_known:  # a process that lives for months meets ever new ones
                self._asked_by_containers.clear()
            try:
                self._asked_by_containers[key] = pod_spec(PodSpecModel.model_validate(decisive))
            except ValidationError as error:
                problem = error.errors()[0]
                where = ".".join(map(str, problem["loc"]))
                pod_name = f"{k8s.namespace_of(pod)}/{k8s.name_of(pod)}"
                raise StateError(f"Pod {pod_name} of the state, spec.{where}: {problem['msg']}") from error
        return self._asked_by_containers[key]


def asked_by_pod(pod: k8s.Object, cache: RequestCache) -> PodSpec | None:
    """Return the pod's request; None without a container."""
    return cache.asked_by(pod) if (pod.get("spec") or {}).get("containers") else None


def _decisive_fields(pod: k8s.Object) -> dict[str, Any]:
    """Return the fields that determine the pod's request."""
    spec = pod["spec"]
    return {
        "containers": [_request_fields(container) for container in spec.get("containers") or ()],
        "initContainers": [_request_fields(container) for container in spec.get("initContainers") or ()],
        "overhead": spec.get("overhead"),
        "resources": spec.get("resources"),
    }


def _request_fields(container: Mapping[str, Any]) -> dict[str, Any]:
    return {key: container.get(key) for key in ("resources", "restartPolicy")}


def pod_model(pod: k8s.Object) -> PodSpecModel:
    return PodSpecModel.model_validate(_decisive_fields(pod))


def live_pod_spec(pod: k8s.Object) -> PodSpec:
    """Return a pod of the cluster as a specification, with the topologyPolicy of its task."""
    try:
        spec = pod_spec(pod_model(pod))
    except ValidationError as error:
        metadata = pod["metadata"]
        raise StateError(
            f"Pod {metadata.get('namespace')}/{metadata['name']} of the state: {error.errors()[0]['msg']}"
        ) from error
    policy = str(k8s.annotations_of(pod).get(k8s.NUMA_POLICY_ANNOTATION, ""))
    return PodSpec(
        spec.requests, guaranteed_qos=spec.guaranteed_qos, vgpu_requests=spec.vgpu_requests, topology_policy=policy
    )

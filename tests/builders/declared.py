"""Objects as people write them into a repository, each in a line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

Object = dict[str, Any]
GPU = "nvidia.com/gpu"
API_VERSIONS = {
    "Cluster": "gangplan.dev/v1alpha1",
    "NodePool": "gangplan.dev/v1alpha1",
    "SchedulerConfiguration": "gangplan.dev/v1alpha1",
    "Job": "batch.volcano.sh/v1alpha1",
    "Queue": "scheduling.volcano.sh/v1beta1",
    "PodGroup": "scheduling.volcano.sh/v1beta1",
    "HyperNode": "topology.volcano.sh/v1alpha1",
    "Numatopology": "nodeinfo.volcano.sh/v1alpha1",
    "PriorityClass": "scheduling.k8s.io/v1",
    "PodDisruptionBudget": "policy/v1",
    "Node": "v1",
    "Pod": "v1",
}


def declared(kind: str, name: str, spec: Mapping[str, Any] | None = None, *, api: str = "", **metadata: Any) -> Object:
    """api: the version, of kinds that API_VERSIONS does not have. metadata: what is empty is left out."""
    about = {"name": name, **{key: value for key, value in metadata.items() if value}}
    return {"apiVersion": api or API_VERSIONS[kind], "kind": kind, "metadata": about, "spec": dict(spec or {})}


def cluster(**spec: Any) -> Object:
    return declared("Cluster", "c", spec)


def queue(name: str = "default", annotations: Mapping[str, str] | None = None, **spec: Any) -> Object:
    return declared("Queue", name, spec, annotations=annotations)


def node_pool(count: int, gpus: int = 0, name: str = "n", **spec: Any) -> Object:
    """Nodes of 64 CPUs and these GPUs, unless spec has another capacity."""
    return declared("NodePool", name, {"count": count, "capacity": {"cpu": 64, GPU: gpus}, **spec})


def scheduler(*tiers: tuple[str | Object, ...], actions: tuple[str, ...] = ("enqueue", "allocate")) -> Object:
    """tiers: plugins, each its name or its fields."""
    plugins = [[{"name": each} if isinstance(each, str) else each for each in tier] for tier in tiers]
    spec = {"actions": list(actions), "tiers": [{"plugins": tier} for tier in plugins]}
    return declared("SchedulerConfiguration", "volcano-scheduler-configmap", spec, namespace="volcano-system")


def priority_class(name: str, value: int, **more: Any) -> Object:
    made = declared("PriorityClass", name)
    del made["spec"]
    return {**made, "value": value, **more}


def hypernode(name: str, *members: str, tier: int = 1, kind: str = "", **spec: Any) -> Object:
    """members: names, of nodes in the first tier and of hypernodes in others unless kind says which."""
    of = kind or ("Node" if tier == 1 else "HyperNode")
    rows = [{"type": of, "selector": {"exactMatch": {"name": member}}} for member in members]
    return declared("HyperNode", name, {"tier": tier, "members": rows, **spec})


def pod_spec(limits: Mapping[str, Any] | None = None, requests: Mapping[str, Any] | None = None, **more: Any) -> Object:
    """A pod of one container. more: fields of the pod's spec."""
    given = {"limits": limits, "requests": requests}
    resources = {key: dict(amounts) for key, amounts in given.items() if amounts is not None}
    return {"containers": [{"name": "main", "image": "a", "resources": resources}], **more}


def job(
    name: str,
    replicas: int = 1,
    pod: Mapping[str, Any] | None = None,
    *,
    namespace: str = "team",
    annotations: Mapping[str, str] | None = None,
    task: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Object:
    """A Volcano Job of one role w. pod: the spec of its pods, one with 8 GPUs where none is given. task, spec: further
    fields."""
    template = {"spec": dict(pod or pod_spec({GPU: 8}))}
    tasks = [{"name": "w", "replicas": replicas, "template": template, **(task or {})}]
    return declared("Job", name, {**spec, "tasks": tasks}, namespace=namespace, annotations=annotations)


def yaml_of(*objects: Object | str) -> str:
    """The documents of a file."""
    return "\n---\n".join(each if isinstance(each, str) else json.dumps(each) for each in objects)

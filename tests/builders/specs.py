"""Specs in a line each."""

from __future__ import annotations

from typing import Any

from compiler.specs.cluster_spec import ClusterSpec, Specs
from compiler.specs.gang_spec import GangSpec, RoleSpec, TopologySpec
from compiler.specs.node_spec import HyperNodeSpec, NodeSpec
from compiler.specs.pod_spec import PodSpec
from compiler.specs.queue_spec import QueueSpec
from compiler.syntax.documents import Document


def document(kind: str, name: str, namespace: str = "", api_version: str = "v1", **more: Any) -> Document:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return Document(f"{name}.yaml", 1, "", {"apiVersion": api_version, "kind": kind, "metadata": metadata, **more}, {})


def node(name: str, gpu: int = 8, **more: Any) -> NodeSpec:
    fields: dict[str, Any] = {"labels": {}, "taints": (), "allocatable": {"cpu": 64_000, "nvidia.com/gpu": gpu}, **more}
    return NodeSpec(document("Node", name), name, **fields)


def hypernode(
    name: str, tier: int, *, nodes: tuple[str, ...] = (), hypernodes: tuple[str, ...] = (), tier_name: str | None = None
) -> HyperNodeSpec:
    return HyperNodeSpec(document("HyperNode", name), name, tier, tier_name, nodes, hypernodes)


def role(name: str, replicas: int, gpu: int = 1, minimum: int | None = None, **pod: Any) -> RoleSpec:
    asks = PodSpec(requests={"nvidia.com/gpu": gpu, "pods": 1}, **pod)
    return RoleSpec(
        name,
        replicas,
        replicas if minimum is None else minimum,
        asks,
        ("spec", "tasks", 0),
        ("spec", "tasks", 0, "template"),
    )


def gang(
    name: str, *roles: RoleSpec, queue: str = "default", topology: TopologySpec | None = None, **more: Any
) -> GangSpec:
    fields: dict[str, Any] = {"priority_class": None, **more}
    made = document("Job", name, "team", "batch.volcano.sh/v1alpha1", spec={})
    return GangSpec(made, queue, minimum=sum(r.minimum for r in roles), roles=roles, topology=topology, **fields)


def queue(name: str, parent: str | None = None, **more: Any) -> QueueSpec:
    fields: dict[str, Any] = {"weight": 1, "priority": 0, "guarantee": {}, "deserved": {}, "capability": {}, **more}
    return QueueSpec(document("Queue", name), name, parent, **fields)


def specs(*, nodes: tuple[NodeSpec, ...] = (), gangs: tuple[GangSpec, ...] = (), **more: Any) -> Specs:
    fields: dict[str, Any] = {
        "queues": (),
        "priority_classes": (),
        "hypernodes": (),
        "scheduler": None,
        "diagnostics": (),
        **more,
    }
    return Specs(ClusterSpec(document("Cluster", "test"), "test"), (), gangs, nodes=nodes, **fields)

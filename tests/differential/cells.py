"""A cell: a few nodes with queues, hypernodes and jobs of their own, next to others in one cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.builders import declared
from tests.builders.declared import Object

Amounts = Mapping[str, int | str]

USUAL: Amounts = {"cpu": 64, "memory": "256Gi", "pods": 110}
CELL = "cell"
"""The label by which the pods of a cell find its nodes."""


@dataclass(frozen=True)
class Cards:
    """The virtual GPUs of a world: sizes of their memory, and how many of the pods ask for cores."""

    sizes: tuple[int, ...] = (16000,)
    cores: float = 0


@dataclass(frozen=True)
class Cell:
    """What a kind lays out: the objects of one cell, and jobs that are each tried alone."""

    name: str
    kind: str
    cards: Cards = Cards()
    nodes: list[Object] = field(default_factory=list)
    hypernodes: list[Object] = field(default_factory=list)
    numatopologies: list[Object] = field(default_factory=list)
    queues: list[Object] = field(default_factory=list)
    jobs: list[Object] = field(default_factory=list)

    def node(
        self,
        amounts: Amounts,
        labels: Mapping[str, str] | None = None,
        taints: Sequence[Object] = (),
        annotations: Mapping[str, str] | None = None,
        away: Amounts | None = None,
    ) -> str:
        """Add a node with these amounts, and CPUs, memory and pods where nothing is said of them. away: what it offers
        less of than it has."""
        name = f"{self.name}-n{len(self.nodes)}"
        usual = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
        has = {key: str(amount) for key, amount in {**USUAL, **amounts}.items()}
        less = {key: str(int(has[key]) - int(amount)) for key, amount in (away or {}).items()}
        about: Object = {
            "labels": {**usual, CELL: self.name, **(labels or {})},
            "annotations": {"kwok.x-k8s.io/node": "fake", **(annotations or {})},
        }
        made = declared.declared("Node", name, {"taints": list(taints)}, **about)
        self.nodes.append({**made, "status": {"capacity": has, "allocatable": has | less}})
        return name

    def queue(self, suffix: str = "", **spec: Any) -> str:
        name = f"{self.name}-q{suffix}"
        self.queues.append(declared.queue(name, **{"weight": 1, **spec}))
        return name

    def hypernode(self, suffix: str, tier: int, members: Sequence[str]) -> str:
        name = f"{self.name}-{suffix}"
        kind = "Node" if members[0] in {node["metadata"]["name"] for node in self.nodes} else "HyperNode"
        self.hypernodes.append(declared.hypernode(name, *members, tier=tier, kind=kind))
        return name

    def job(self, *tasks: Object, minimum: int | None = None, queue: str | None = None, **spec: Any) -> None:
        """Add a Volcano Job of these tasks; minimum: minAvailable of the job."""
        pods = sum(task["replicas"] for task in tasks)
        least = least_pods(tasks)
        for task in tasks:
            selector = task["template"]["spec"].setdefault("nodeSelector", {})
            selector[CELL] = self.name
        named = [{**task, "name": f"t{at}"} for at, task in enumerate(tasks)]
        usual = {
            "schedulerName": "volcano",
            "queue": queue or self.queues[0]["metadata"]["name"],
            "minAvailable": min(pods, least if minimum is None else minimum),
            "maxRetry": 1000,
            "tasks": named,
        }
        name = f"{self.name}-j{len(self.jobs)}"
        self.jobs.append(declared.declared("Job", name, {**usual, **spec}, namespace="default"))


def least_pods(tasks: Sequence[Object]) -> int:
    """How many pods the tasks need."""
    return sum(each["minAvailable"] if "minAvailable" in each else each["replicas"] for each in tasks)


def task(
    replicas: int, *requests: Amounts, minimum: int | None = None, annotations: Object | None = None, **spec: Any
) -> Object:
    """A task whose pods have one container for each of these requests; minimum: its minAvailable. spec: of the pods."""
    containers = [container(f"c{at}", amounts) for at, amounts in enumerate(requests)]
    return {
        "replicas": replicas,
        **({} if minimum is None else {"minAvailable": minimum}),
        "template": {
            **({"metadata": {"annotations": annotations}} if annotations else {}),
            "spec": {"restartPolicy": "Never", "containers": containers, **spec},
        },
    }


def container(name: str, amounts: Amounts) -> Object:
    said = {key: str(amount) for key, amount in amounts.items()}
    return {"name": name, "image": "registry.example.com/x:1", "resources": {"requests": said, "limits": said}}

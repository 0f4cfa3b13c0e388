"""A world as plain data, and the objects that say it to Kubernetes and to gangplan alike."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]
Amounts = Mapping[str, int]
"""Resource ("gpu", "cpu") -> whole units."""

Where = tuple[str, str, str]
"""Job, task, node."""

RESOURCES = {"gpu": "nvidia.com/gpu", "cpu": "cpu"}
PRIORITIES = (0, 10, 100, 1000)
GATE = "gangplan.dev/placement"
PLENTY = {"cpu": 1000, "gpu": 0}


@dataclass(frozen=True)
class QueueData:
    """A queue; amounts that are None are not said."""

    name: str
    parent: str | None = None
    weight: int = 1
    priority: int = 0
    deserved: Amounts | None = None
    guarantee: Amounts | None = None
    capability: Amounts | None = None
    reclaimable: bool = True


@dataclass(frozen=True)
class TaskData:
    """A role of a job. preemptable: the annotation on its template."""

    name: str
    replicas: int
    request: Amounts
    minimum: int | None = None
    preemptable: str | None = None


@dataclass(frozen=True)
class JobData:
    """A Volcano Job. running: (task, node, pods). tier: hard topology. preemptable: the annotation on the job."""

    name: str
    queue: str
    tasks: tuple[TaskData, ...]
    priority: int = 0
    minimum: int | None = None
    running: tuple[tuple[str, str, int], ...] = ()
    tier: int | None = None
    preemptable: str | None = None

    def task(self, name: str) -> TaskData:
        return next(task for task in self.tasks if task.name == name)

    @property
    def evictable(self) -> bool:
        """Whether no pod of it is protected."""
        return "false" not in (self.preemptable, *(task.preemptable for task in self.tasks))

    @property
    def gang_minimum(self) -> int:
        """The least number of pods with which it runs."""
        return sum(task.replicas for task in self.tasks) if self.minimum is None else self.minimum


@dataclass(frozen=True)
class World:
    """supernode_size: nodes per hypernode of tier 1, all of them below one of tier 2; 0 for no hypernodes. plugins:
    those beside priority, gang and conformance. one_tier: they stand in the tier of those, not in the second.
    protects_gangs: plugin gang votes on evictions."""

    nodes: tuple[Amounts, ...]
    queues: tuple[QueueData, ...]
    jobs: tuple[JobData, ...]
    actions: tuple[str, ...] = ("allocate", "backfill")
    plugins: tuple[str, ...] = ("drf", "capacity")
    hierarchical: bool = False
    protects_gangs: bool = False
    one_tier: bool = False
    supernode_size: int = 0

    @property
    def node_names(self) -> tuple[str, ...]:
        return tuple(f"n{index}" for index in range(len(self.nodes)))

    def queue(self, name: str) -> QueueData:
        return next(queue for queue in self.queues if queue.name == name)

    def job(self, name: str) -> JobData:
        return next(job for job in self.jobs if job.name == name)


def amounts(given: Amounts) -> dict[str, str]:
    """As Kubernetes writes them."""
    return {RESOURCES[name]: str(number) for name, number in given.items()}


def scheduler_spec(world: World) -> Object:
    """What scheduler.conf says, with `actions` as a list."""
    gang: Object = {"name": "gang"}
    if not world.protects_gangs:
        gang |= {"enablePreemptable": False, "enableReclaimable": False}
    second: list[Object] = []
    for name in world.plugins:
        plugin: Object = {"name": name}
        if name == "drf":
            plugin["enablePreemptable"] = False
        if name == "capacity" and world.hierarchical:
            plugin["enableHierarchy"] = True
        second.append(plugin)
    second += [{"name": "predicates"}, {"name": "nodeorder"}]
    if world.supernode_size:
        second.append({"name": "network-topology-aware"})
    first = [{"name": "priority"}, gang, {"name": "conformance"}]
    tiers = [[*first, *second]] if world.one_tier else [first, second]
    off = {"predicateErrorCacheEnable": False}
    return {
        "actions": list(world.actions),
        "tiers": [{"plugins": tier} for tier in tiers],
        "configurations": [
            {"name": action, "arguments": off} for action in ("allocate", "backfill", "preempt", "reclaim")
        ],
    }


def scheduler_conf(world: World, actions: tuple[str, ...] | None = None) -> str:
    """The text of scheduler.conf (JSON is YAML)."""
    spec = scheduler_spec(world)
    return json.dumps(spec | {"actions": ", ".join(actions or world.actions)})


def queue_object(queue: QueueData, prefix: str = "") -> Object:
    spec: Object = {"weight": queue.weight, "reclaimable": queue.reclaimable}
    if queue.priority:
        spec["priority"] = queue.priority
    if queue.parent is not None:
        spec["parent"] = prefix + queue.parent
    if queue.deserved is not None:
        spec["deserved"] = amounts(queue.deserved)
    if queue.guarantee is not None:
        spec["guarantee"] = {"resource": amounts(queue.guarantee)}
    if queue.capability is not None:
        spec["capability"] = amounts(queue.capability)
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": prefix + queue.name},
        "spec": spec,
    }


def _annotated(preemptable: str | None) -> Object:
    return {} if preemptable is None else {"annotations": {"volcano.sh/preemptable": preemptable}}


def pod_spec(task: TaskData) -> Object:
    resources = amounts(task.request)
    return {
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "none", "resources": {"requests": resources, "limits": resources}}],
    }


def job_object(job: JobData, prefix: str = "", *, gated: bool = False) -> Object:
    gates: Object = {"schedulingGates": [{"name": GATE}]} if gated else {}
    tasks = [
        {
            "name": task.name,
            "replicas": task.replicas,
            **({} if task.minimum is None else {"minAvailable": task.minimum}),
            "template": {"metadata": _annotated(task.preemptable), "spec": pod_spec(task) | gates},
        }
        for task in job.tasks
    ]
    spec: Object = {
        "schedulerName": "volcano",
        "queue": prefix + job.queue,
        "minAvailable": job.gang_minimum,
        "maxRetry": 1000,
        "tasks": tasks,
    }
    if job.priority:
        spec["priorityClassName"] = f"p{job.priority}"
    if job.tier is not None:
        spec["networkTopology"] = {"mode": "hard", "highestTierAllowed": job.tier}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": prefix + job.name, "namespace": "default", **_annotated(job.preemptable)},
        "spec": spec,
    }


def priority_class_objects() -> Iterator[Object]:
    for value in PRIORITIES:
        if value:
            yield {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": f"p{value}"},
                "value": value,
            }


def hypernode_objects(world: World) -> Iterator[Object]:
    """Supernodes s0.. of tier 1 and their common hypernode of tier 2."""
    if not world.supernode_size:
        return
    names = world.node_names
    groups = [names[at : at + world.supernode_size] for at in range(0, len(names), world.supernode_size)]
    for index, members in enumerate(groups):
        yield _hypernode(f"s{index}", 1, "Node", members)
    yield _hypernode("top", 2, "HyperNode", tuple(f"s{index}" for index in range(len(groups))))


def _hypernode(name: str, tier: int, kind: str, members: tuple[str, ...]) -> Object:
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": name},
        "spec": {
            "tier": tier,
            "members": [{"type": kind, "selector": {"exactMatch": {"name": member}}} for member in members],
        },
    }


def node_amounts(world: World) -> dict[str, dict[str, str]]:
    return {
        name: {**amounts(PLENTY | dict(given)), "memory": "1Ti", "pods": "110"}
        for name, given in zip(world.node_names, world.nodes, strict=True)
    }

"""A world as plain data, and the objects that say it to Kubernetes and to gangplan alike."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tests.builders import declared
from tests.builders.declared import Object

Amounts = Mapping[str, int]
"""Resource ("gpu", "cpu") -> whole units."""

Where = tuple[str, str, str]
"""Job, task, node."""

RESOURCES = {"gpu": "nvidia.com/gpu", "cpu": "cpu"}
PRIORITIES = (0, 10, 100, 1000)
GATE = "gangplan.dev/placement"
PLENTY = {"cpu": 1000, "gpu": 0}
MODEL, GROUP = "model", "volcano.sh/nodegroup-name"
EXTRA_PLUGINS: dict[str, Object] = {
    "binpack": {"arguments": {"binpack.resources": "nvidia.com/gpu", "binpack.resources.nvidia.com/gpu": 5}},
    "cdp": {},
    "nodegroup": {},
    "overcommit": {},
    "pdb": {},
    "resource-strategy-fit": {"arguments": {"resources": {"nvidia.com/gpu": {"type": "MostAllocated", "weight": 2}}}},
    "sla": {"arguments": {"sla-waiting-time": "1h"}},
    "task-topology": {},
}
"""Those that score or filter, with what they are told."""


@dataclass(frozen=True)
class QueueData:
    """A queue; amounts that are None are not said. groups: node groups that it may use."""

    name: str
    parent: str | None = None
    weight: int = 1
    priority: int = 0
    deserved: Amounts | None = None
    guarantee: Amounts | None = None
    capability: Amounts | None = None
    reclaimable: bool = True
    groups: tuple[str, ...] = ()


@dataclass(frozen=True)
class PartitionData:
    """A role's division into parts of `size` pods, `least` of which must run, each inside one hypernode of the tier."""

    size: int
    total: int
    least: int
    tier: int
    mode: str = "hard"


@dataclass(frozen=True)
class TaskData:
    """A role of a job. preemptable: the annotation on its template. model: the label of the nodes that it asks for.
    checkpoint: when its pods last wrote one."""

    name: str
    replicas: int
    request: Amounts
    minimum: int | None = None
    preemptable: str | None = None
    model: str | None = None
    partition: PartitionData | None = None
    checkpoint: str | None = None


@dataclass(frozen=True)
class JobData:
    """A Volcano Job. running: (task, node, pods). tier: hard topology, or soft where `soft` says so; by_name: the tier
    is said by its name. preemptable: the annotation on the job."""

    name: str
    queue: str
    tasks: tuple[TaskData, ...]
    priority: int = 0
    minimum: int | None = None
    running: tuple[tuple[str, str, int], ...] = ()
    tier: int | None = None
    preemptable: str | None = None
    soft: bool = False
    by_name: bool = False

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
    """supernode_size: nodes per hypernode of tier 1, all of them below one of tier 2; 0 for no hypernodes, or those of
    `hypernodes`: (name, tier, members). plugins: other than priority, gang and conformance. extra_plugins: those that
    score or filter. one_tier: they stand in the tier of those, not in the second. protects_gangs: plugin gang votes on
    evictions. models, groups: of each node the label that tasks ask for, and its node group, "" for none."""

    nodes: tuple[Amounts, ...]
    queues: tuple[QueueData, ...]
    jobs: tuple[JobData, ...]
    actions: tuple[str, ...] = ("allocate", "backfill")
    plugins: tuple[str, ...] = ("drf", "capacity")
    hierarchical: bool = False
    protects_gangs: bool = False
    one_tier: bool = False
    supernode_size: int = 0
    hypernodes: tuple[tuple[str, int, tuple[str, ...]], ...] = ()
    models: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    extra_plugins: tuple[str, ...] = ()

    @property
    def has_hypernodes(self) -> bool:
        return bool(self.supernode_size or self.hypernodes)

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
    second += [{"name": name} | EXTRA_PLUGINS[name] for name in world.extra_plugins]
    if world.has_hypernodes:
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
    if queue.groups:
        spec["affinity"] = {"nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [*queue.groups]}}
    return declared.queue(prefix + queue.name, **spec)


def _annotated(preemptable: str | None, checkpoint: str | None = None) -> Object:
    notes = {"volcano.sh/preemptable": preemptable, "volcano.sh/last-checkpoint-time": checkpoint}
    said = {key: value for key, value in notes.items() if value is not None}
    return {"annotations": said} if said else {}


def pod_spec(task: TaskData) -> Object:
    resources = amounts(task.request)
    return {
        "restartPolicy": "Never",
        **({} if task.model is None else {"nodeSelector": {MODEL: task.model}}),
        "containers": [{"name": "main", "image": "none", "resources": {"requests": resources, "limits": resources}}],
    }


def job_object(job: JobData, prefix: str = "", *, gated: bool = False) -> Object:
    gates: Object = {"schedulingGates": [{"name": GATE}]} if gated else {}
    tasks = [
        {
            "name": task.name,
            "replicas": task.replicas,
            **({} if task.minimum is None else {"minAvailable": task.minimum}),
            **({} if task.partition is None else {"partitionPolicy": _partition_policy(task.partition)}),
            "template": {"metadata": _annotated(task.preemptable, task.checkpoint), "spec": pod_spec(task) | gates},
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
        tier = {"highestTierName": f"tier{job.tier}"} if job.by_name else {"highestTierAllowed": job.tier}
        spec["networkTopology"] = {"mode": "soft"} if job.soft else {"mode": "hard", **tier}
    return declared.declared("Job", prefix + job.name, spec, namespace="default", **_annotated(job.preemptable))


def _partition_policy(partition: PartitionData) -> Object:
    tier = {} if partition.mode == "soft" else {"highestTierAllowed": partition.tier}
    return {
        "totalPartitions": partition.total,
        "partitionSize": partition.size,
        "minPartitions": partition.least,
        "networkTopology": {"mode": partition.mode, **tier},
    }


def priority_class_objects() -> Iterator[Object]:
    for value in PRIORITIES:
        if value:
            yield declared.priority_class(f"p{value}", value)


def hypernode_objects(world: World) -> Iterator[Object]:
    """Supernodes s0.. of tier 1 and their common hypernode of tier 2, or those that are listed."""
    for name, tier, members in world.hypernodes:
        yield _hypernode(name, tier, "Node" if members[0] in world.node_names else "HyperNode", members)
    if not world.supernode_size:
        return
    names = world.node_names
    groups = [names[at : at + world.supernode_size] for at in range(0, len(names), world.supernode_size)]
    for index, members in enumerate(groups):
        yield _hypernode(f"s{index}", 1, "Node", members)
    yield _hypernode("top", 2, "HyperNode", tuple(f"s{index}" for index in range(len(groups))))


def _hypernode(name: str, tier: int, kind: str, members: tuple[str, ...]) -> Object:
    return declared.hypernode(name, *members, tier=tier, kind=kind, tierName=f"tier{tier}")


def node_amounts(world: World) -> dict[str, dict[str, str]]:
    return {
        name: {**amounts(PLENTY | dict(given)), "memory": "1Ti", "pods": "110"}
        for name, given in zip(world.node_names, world.nodes, strict=True)
    }


def node_labels(world: World) -> dict[str, dict[str, str]]:
    """Node -> its labels other than the host name."""
    models, groups = world.models or ("",) * len(world.nodes), world.groups or ("",) * len(world.nodes)
    return {
        name: {key: label for key, label in ((MODEL, model), (GROUP, group)) if label}
        for name, model, group in zip(world.node_names, models, groups, strict=True)
    }

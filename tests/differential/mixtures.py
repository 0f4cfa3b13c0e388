"""Random worlds of every kind at once, one for each seed: CPUs and GPUs short together, nodes that differ in size,
label and group, three tiers, partitions, elastic jobs, protected roles, checkpoints, plugins that score or filter."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from tests.differential.generator import EVICTING_ACTIONS, PLAIN_ACTIONS
from tests.differential.world import Amounts, JobData, PartitionData, QueueData, TaskData, World

EXTRAS = ("binpack", "cdp", "overcommit", "pdb", "resource-strategy-fit", "sla", "task-topology")
ACTIONS = (
    *EVICTING_ACTIONS,
    ("allocate", "gangreclaim", "backfill"),
    ("allocate", "preempt", "gangreclaim", "backfill"),
    ("allocate", "reclaim", "preempt", "backfill"),
)
KINDS = ("rigid", "rigid", "rigid", "elastic", "elastic", "free")
CHECKPOINTS = ("2026-06-01T00:00:00Z", "2026-10-01T00:00:00Z")


def mixed_world(seed: int) -> World:
    """Half of them with running victims."""
    rng = random.Random(seed)  # noqa: S311  - not a secret
    nodes = tuple(_node(rng) for _ in range(rng.choice((1, 2, 3, 4, 4, 5))))
    plugin = rng.choice(("capacity", "capacity", "capacity", "proportion", "proportion", ""))
    hierarchical = plugin == "capacity" and rng.random() < 1 / 2
    evicting = plugin != "" and rng.random() < 1 / 2
    groups = tuple(rng.choice(("g0", "g0", "g1", "g1", "")) for _ in nodes) if rng.random() < 1 / 5 else ()
    queues = _queues(rng, _total(nodes), plugin, hierarchical, bool(groups))
    world = World(
        nodes=nodes,
        queues=queues,
        jobs=(),
        actions=rng.choice(ACTIONS if evicting else PLAIN_ACTIONS),
        plugins=("drf", plugin) if plugin else ("drf",),
        hierarchical=hierarchical,
        protects_gangs=evicting and rng.random() < 1 / 4,
        one_tier=evicting and rng.random() < 2 / 3,
        hypernodes=_hypernodes(rng, len(nodes)) if len(nodes) > 1 and rng.random() < 1 / 2 else (),
        models=tuple(rng.choice("ab") for _ in nodes),
        groups=groups,
        extra_plugins=(*rng.sample(EXTRAS, rng.choice((0, 0, 1, 2))), *(["nodegroup"] if groups else [])),
    )
    return replace(world, jobs=_jobs(rng, world, evicting))


def _node(rng: random.Random) -> Amounts:
    return {"gpu": rng.choice((0, 4, 4, 4, 8)), "cpu": rng.choice((4, 8, 8, 12))}


def _total(nodes: Sequence[Amounts]) -> dict[str, int]:
    return {r: sum(node[r] for node in nodes) for r in ("gpu", "cpu")}


def _hypernodes(rng: random.Random, number: int) -> tuple[tuple[str, int, tuple[str, ...]], ...]:
    """Two or three tiers, some nodes and domains below nothing."""
    found, below = list[tuple[str, int, tuple[str, ...]]](), [f"n{n}" for n in range(number)]
    for tier in range(1, rng.choice((2, 2, 3)) + 1):
        homes: dict[str, list[str]] = {}
        for member in below:
            if rng.random() < 0.9:
                homes.setdefault(f"t{tier}h{rng.randrange(max(1, 4 - tier))}", []).append(member)
        found += [(name, tier, tuple(members)) for name, members in sorted(homes.items())]
        below = sorted(homes)
    return tuple(found)


# ---- queues


def _queues(
    rng: random.Random, total: Amounts, plugin: str, hierarchical: bool, has_groups: bool
) -> tuple[QueueData, ...]:
    """Two to four next to one another, or below one or two others."""
    number, found = rng.randint(2, 4), list[QueueData]()
    parts = {r: _parts(rng, amount, number) for r, amount in total.items()}
    parents = [None, *(["d0"] if hierarchical else [])]
    for index in range(number):
        part = {r: parts[r][index] for r in total}
        groups = tuple(sorted(rng.sample(("g0", "g1"), rng.choice((1, 2))))) if has_groups else ()
        found.append(replace(_queue(rng, f"q{index}", part, plugin), parent=rng.choice(parents), groups=groups))
    inner = [queue for queue in found if queue.parent]
    if inner:
        found.insert(0, _department("d0", inner))
    return tuple(found)


def _department(name: str, inner: Sequence[QueueData]) -> QueueData:
    """It deserves, and is guaranteed, what its children are."""
    said = dict[str, dict[str, int] | None]()
    for field in ("deserved", "guarantee"):
        amounts = [getattr(queue, field) or {} for queue in inner]
        named = {r for each in amounts for r in each}  # also with 0: the webhook refuses what the parent does not name
        said[field] = {r: sum(each.get(r, 0) for each in amounts) for r in sorted(named)} or None
    return QueueData(name, deserved=said["deserved"], guarantee=said["guarantee"])


def _parts(rng: random.Random, total: int, number: int) -> list[int]:
    cuts = sorted(rng.randint(0, total) for _ in range(number - 1))
    return [high - low for low, high in zip([0, *cuts], [*cuts, total], strict=True)]


def _queue(rng: random.Random, name: str, part: Amounts, plugin: str) -> QueueData:
    """guarantee <= deserved <= capability, each of one resource or of both, or not said. drf alone knows no limits. A
    capability of 0 CPUs, which Volcano does not obey (docs/reliability/volcano-differences.md), is in no world."""
    named = rng.choice((("gpu",), ("gpu",), ("gpu", "cpu"), ("cpu",)))
    deserved = {r: part[r] for r in named} if plugin == "capacity" and rng.random() < 5 / 6 else None
    guarantee = {r: rng.randint(0, part[r] // 2) for r in named} if plugin and rng.random() < 1 / 6 else None
    if guarantee is not None and deserved is None:
        deserved = dict(guarantee)
    limits = {r: part[r] + rng.randint(0, 4) for r in named} if rng.random() < 1 / 6 else {}
    capability = {r: amount for r, amount in limits.items() if amount or r != "cpu"} or None
    return QueueData(
        name,
        weight=rng.choice((1, 1, 2, 3)) if plugin != "capacity" else 1,
        priority=10 if rng.random() < 1 / 10 else 0,
        deserved=deserved,
        guarantee=guarantee,
        capability=capability if plugin else None,
        reclaimable=rng.random() < 9 / 10,
    )


# ---- jobs


def _jobs(rng: random.Random, world: World, evicting: bool) -> tuple[JobData, ...]:
    """Three to seven that wait, after those that run where something can be evicted, or by chance."""
    inner = {queue.parent for queue in world.queues}
    leaves = [queue.name for queue in world.queues if queue.name not in inner]
    free, found = [dict(node) for node in world.nodes], list[JobData]()
    kinds = (*KINDS, "mixed") if rng.random() < 1 / 4 else KINDS
    holders = rng.sample(leaves, max(1, len(leaves) // 2))
    for index in range(rng.randint(5, 12) if evicting else rng.choice((0, 0, 1, 2))):
        job = _started(rng, world, _job(rng, f"r{index}", rng.choice(holders), world, kinds), free)
        found += [job] if job.running else []
    number = rng.randint(3, 5) if evicting else rng.randint(3, 7)
    found += [_job(rng, f"j{index}", rng.choice(leaves), world, kinds) for index in range(number)]
    return tuple(found)


def _job(rng: random.Random, name: str, queue: str, world: World, kinds: Sequence[str]) -> JobData:
    top = max((tier for _, tier, _ in world.hypernodes), default=0)
    kind = rng.choice(kinds)
    tasks = tuple(_task(rng, f"t{at}", kind, top) for at in range(rng.choice((1, 1, 2))))
    minimum = sum(task.replicas if task.minimum is None else task.minimum for task in tasks)
    if kind == "mixed" and minimum > 1 and not any(task.partition for task in tasks):
        minimum -= 1
    return JobData(
        name,
        queue,
        tasks,
        priority=rng.choice((0, 10, 10, 1000)),
        minimum=minimum,
        tier=rng.randint(1, top) if top and rng.random() < 1 / 2 else None,
        preemptable=rng.choice(("true", "false")) if rng.random() < 1 / 10 else None,
        soft=rng.random() < 1 / 4,
        by_name=rng.random() < 1 / 4,
    )


def _task(rng: random.Random, name: str, kind: str, top: int) -> TaskData:
    """kind: "rigid", "elastic" (fewer pods suffice), "free" (none is needed), "mixed" (of the job one less than its
    roles need)."""
    replicas = rng.choice((1, 1, 1, 2, 2, 3))
    request = rng.choice(({"gpu": 1}, {"gpu": 2, "cpu": 1}, {"gpu": 1, "cpu": 2}, {"gpu": 3, "cpu": 2}, {"cpu": 3}))
    task = TaskData(
        name,
        replicas,
        request,
        {"elastic": rng.randint(1, replicas), "free": 0}.get(kind),
        preemptable=rng.choice(("true", "false")) if rng.random() < 1 / 8 else None,
        model=rng.choice("ab") if rng.random() < 1 / 8 else None,
        checkpoint=rng.choice(CHECKPOINTS) if rng.random() < 1 / 5 else None,
    )
    if top and rng.random() < 1 / 6:
        size, total = rng.randint(1, 2), rng.randint(1, 3)
        least = rng.randint(1, total) if kind == "elastic" else total
        part = PartitionData(size, total, least, rng.randint(1, top), rng.choice(("hard", "hard", "soft")))
        return replace(task, replicas=size * total, minimum=size * least, partition=part)
    return task


def _started(rng: random.Random, world: World, job: JobData, free: list[dict[str, int]]) -> JobData:
    """The job as it runs where there is room for it, all of it or its minima; else unchanged."""
    left, placed = [dict(of) for of in free], Counter[tuple[str, str]]()
    domain = _domain(rng, world, job)
    whole = rng.random() < 3 / 4
    for task in job.tasks:
        if task.partition is not None:
            return job
        for _ in range(task.replicas if whole or task.minimum is None else task.minimum):
            node = next((n for n in domain if _takes(world, job, task, n, left[n])), None)
            if node is None:
                return job
            left[node] = {r: left[node][r] - task.request.get(r, 0) for r in left[node]}
            placed[task.name, f"n{node}"] += 1
    free[:] = left
    return replace(job, running=tuple((task, node, number) for (task, node), number in placed.items()))


def _domain(rng: random.Random, world: World, job: JobData) -> list[int]:
    """The nodes on which all of the job may run, in any order."""
    nodes = rng.sample(range(len(world.nodes)), len(world.nodes))
    if job.tier is None or job.soft:
        return nodes
    below = {name: members for name, tier, members in world.hypernodes if tier <= job.tier}
    home = rng.choice(sorted(below))
    inside = {home}
    while inside & below.keys():
        inside = {member for name in inside for member in below.get(name, (name,))}
    return [n for n in nodes if f"n{n}" in inside]


def _takes(world: World, job: JobData, task: TaskData, node: int, free: Amounts) -> bool:
    groups = world.queue(job.queue).groups
    return (
        all(free[r] >= amount for r, amount in task.request.items())
        and task.model in (None, world.models[node])
        and (not groups or world.groups[node] in groups)
    )


# ---- minima of the gang


def gang_minima_world(seed: int) -> World:
    """As `mixed_world` of that seed, where about half of the jobs say a minimum of their own below what their tasks
    have: then Volcano asks for no pods of a task."""
    world, rng = mixed_world(seed), random.Random(f"minima {seed}")  # noqa: S311  - not a secret
    return replace(
        world, jobs=tuple(_with_gang_minimum(rng, job) if rng.random() < 1 / 2 else job for job in world.jobs)
    )


def _with_gang_minimum(rng: random.Random, job: JobData) -> JobData:
    """Of a job that runs no more than its pods, so that it keeps them."""
    pods, running = sum(task.replicas for task in job.tasks), sum(number for *_, number in job.running)
    if pods < 2 or any(task.partition for task in job.tasks):
        return job
    tasks = tuple(replace(task, minimum=None) for task in job.tasks)
    return replace(job, tasks=tasks, minimum=rng.randint(1, min(pods - 1, running or pods)))

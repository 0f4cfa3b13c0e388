"""Random small worlds, one for each seed: the same on every machine."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

from tests.differential.world import Amounts, JobData, QueueData, TaskData, World

PLAIN_ACTIONS = (("allocate", "backfill"), ("enqueue", "allocate", "backfill"))
EVICTING_ACTIONS = (
    ("allocate", "reclaim", "backfill"),
    ("allocate", "preempt", "backfill"),
    ("enqueue", "allocate", "preempt", "reclaim", "backfill"),
    ("allocate", "gangpreempt", "backfill"),
    ("allocate", "gangpreempt", "gangreclaim", "backfill"),
)


def random_world(seed: int) -> World:
    """One in three has several nodes in two supernodes, one in three a tree of queues, half of them running victims."""
    rng = random.Random(seed)  # noqa: S311  - not a secret
    several = rng.random() < 1 / 3
    nodes: tuple[Amounts, ...] = ({"gpu": 4},) * 4 if several else ({"gpu": rng.choice((8, 12, 16))},)
    total = sum(node["gpu"] for node in nodes)
    plugin = rng.choice(("capacity", "capacity", "capacity", "proportion", "proportion", ""))
    hierarchical = plugin == "capacity" and rng.random() < 1 / 2
    evicting = plugin != "" and rng.random() < 1 / 2
    queues = _tree(rng, total) if hierarchical else _flat(rng, total, plugin)
    parents = {queue.parent for queue in queues}
    leaves = [queue.name for queue in queues if queue.name not in parents]
    jobs = _jobs(rng, nodes, leaves, evicting)
    return World(
        nodes=nodes,
        queues=queues,
        jobs=jobs,
        actions=rng.choice(EVICTING_ACTIONS if evicting else PLAIN_ACTIONS),
        plugins=("drf", plugin) if plugin else ("drf",),
        hierarchical=hierarchical,
        protects_gangs=evicting and rng.random() < 1 / 4,
        one_tier=evicting and rng.random() < 2 / 3,
        supernode_size=2 if several else 0,
    )


def _flat(rng: random.Random, total: int, plugin: str) -> tuple[QueueData, ...]:
    """Two to four queues that deserve parts of the cluster, or less."""
    number = rng.randint(2, 4)
    parts = _parts(rng, total, number)
    return tuple(_queue(rng, f"q{index}", part, plugin) for index, part in enumerate(parts))


def _tree(rng: random.Random, total: int) -> tuple[QueueData, ...]:
    """Two departments with two or three queues each, or one department next to a queue."""
    found: list[QueueData] = []
    for index, part in enumerate(_parts(rng, total, 2)):
        name = f"d{index}"
        if index and rng.random() < 1 / 3:
            found.append(_queue(rng, name, part, "capacity"))
            continue
        found.append(QueueData(name, deserved={"gpu": part}))
        inner = [
            _queue(rng, f"{name}q{at}", share, "capacity", name)
            for at, share in enumerate(_parts(rng, part, rng.randint(2, 3)))
        ]
        guaranteed = sum((queue.guarantee or {}).get("gpu", 0) for queue in inner)
        if guaranteed:
            found[-1] = QueueData(name, deserved={"gpu": part}, guarantee={"gpu": guaranteed})
        found += inner
    return tuple(found)


def _parts(rng: random.Random, total: int, number: int) -> list[int]:
    """The total cut into so many parts, some of them 0."""
    cuts = sorted(rng.randint(0, total) for _ in range(number - 1))
    return [high - low for low, high in zip([0, *cuts], [*cuts, total], strict=True)]


def _queue(rng: random.Random, name: str, part: int, plugin: str, parent: str | None = None) -> QueueData:
    deserved = part if plugin == "capacity" and rng.random() < 5 / 6 else None
    guarantee = rng.randint(1, part) if part and plugin and deserved is not None and rng.random() < 1 / 6 else None
    if plugin == "proportion" and part > 1 and rng.random() < 1 / 6:
        guarantee = deserved = rng.randint(1, part // 2)  # admission asks for deserved >= guarantee
    capability = part + rng.randint(0, 4) if part and rng.random() < 1 / 6 else None
    return QueueData(
        name,
        parent,
        weight=rng.choice((1, 1, 2, 3)) if plugin != "capacity" else 1,
        priority=10 if rng.random() < 1 / 10 else 0,
        deserved=None if deserved is None else {"gpu": deserved},
        guarantee=None if guarantee is None else {"gpu": guarantee},
        capability=None if capability is None else {"gpu": capability},
        reclaimable=rng.random() < 9 / 10,
    )


def _jobs(rng: random.Random, nodes: Sequence[Amounts], leaves: Sequence[str], evicting: bool) -> tuple[JobData, ...]:
    """Three to nine jobs; where something can be evicted more, and some queues hold most of the cluster at first."""
    if not evicting:
        return tuple(_job(rng, f"j{index}", rng.choice(leaves), len(nodes) > 1) for index in range(rng.randint(3, 9)))
    free, found = [node["gpu"] for node in nodes], list[JobData]()
    holders = rng.sample(leaves, max(1, len(leaves) // 2))
    while sum(free) > 1 and len(found) < 8:
        job = _started(_job(rng, f"j{len(found)}", rng.choice(holders), len(nodes) > 1), free)
        found.append(job)
    for _ in range(rng.randint(2, 4)):
        found.append(_job(rng, f"j{len(found)}", rng.choice(leaves), len(nodes) > 1))
    return tuple(found)


def _job(rng: random.Random, name: str, queue: str, topology: bool) -> JobData:
    elastic = rng.random() < 1 / 5
    roles = rng.choice((1, 1, 1, 2))
    tasks = []
    for at in range(roles):
        replicas = rng.choice((1, 1, 2, 2, 3, 4))
        tasks.append(
            TaskData(
                f"t{at}",
                replicas,
                {"gpu": rng.choice((1, 1, 2, 4))},
                rng.randint(1, replicas) if elastic else None,
                preemptable="false" if rng.random() < 1 / 12 else None,
            )
        )
    minimum = sum(task.replicas if task.minimum is None else task.minimum for task in tasks)
    return JobData(
        name,
        queue,
        tuple(tasks),
        priority=rng.choice((10, 10, 1000)),
        minimum=minimum,
        tier=rng.choice((None, None, 1, 2)) if topology else None,
    )


def _started(job: JobData, free: list[int]) -> JobData:
    """The job as it runs where there is room, all of it on as few nodes as the order gives; else unchanged."""
    left, placed = list(free), Counter[tuple[str, str]]()
    for task in job.tasks:
        for _ in range(task.replicas):
            node = next((n for n, amount in enumerate(left) if amount >= task.request["gpu"]), None)
            if node is None:
                return job
            left[node] -= task.request["gpu"]
            placed[task.name, f"n{node}"] += 1
    nodes = {int(node[1:]) // 2 for _, node in placed}
    if job.tier == 1 and len(nodes) > 1:
        return job
    free[:] = left
    running = tuple((task, node, number) for (task, node), number in placed.items())
    return JobData(job.name, job.queue, job.tasks, job.priority, job.minimum, running, job.tier, job.preemptable)

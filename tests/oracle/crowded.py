"""Random crowded repositories: a few GPUs, several queues, and many jobs of which half are elastic."""

from __future__ import annotations

import random

from tests.builders import declared
from tests.builders.declared import GPU, Object
from tests.oracle.worlds import PRIORITY_CLASSES, cluster, scheduler, written

PLUGINS: tuple[tuple[str, ...], ...] = ((), ("drf",), ("capacity",), ("capacity",), ("proportion",))


def crowded_repository(seed: int) -> dict[str, bytes]:
    """The files of the repository with this number; the same files for the same number."""
    chance = random.Random(f"crowded {seed}")  # noqa: S311 - a sample, no secret
    total, number = chance.choice((8, 8, 10, 12, 16)), chance.choice((2, 2, 3))
    parts = chance.choice(([total], [total], [total - 4, 4]))
    plugins = chance.choice(PLUGINS)
    policy = cluster(chance)
    nodes = [_node(n, gpus) for n, gpus in enumerate(parts)]
    queues = [_queue(chance, q, total // number) for q in range(number)]
    jobs = [_job(chance, j, number) for j in range(chance.choice((4, 5, 5, 6)))]
    configuration = scheduler(chance, (*plugins, "predicates", "nodeorder"))
    return {
        "cluster-specs/c/all.yaml": written([policy, *nodes, *queues, *PRIORITY_CLASSES, configuration]),
        **{f"jobs/{job['metadata']['name']}.yaml": written([job]) for job in jobs},
    }


def _node(n: int, gpus: int) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"n{n}"},
        "status": {"allocatable": {"cpu": "64", GPU: gpus, "pods": 40}},
    }


def _queue(chance: random.Random, q: int, fair: int) -> Object:
    spec: Object = {"weight": chance.choice((1, 1, 2, 3)), "priority": chance.choice((0, 0, 0, 1))}
    if deserved := chance.choice((0, 1, fair - 1, fair, fair, fair + 2)):
        spec["deserved"] = {GPU: deserved}
    return declared.queue(f"q{q}", **spec)


def _job(chance: random.Random, j: int, queues: int) -> Object:
    least, gpus = chance.choice((1, 1, 2, 3)), chance.choice((1, 1, 2, 2, 3))
    most = least + (chance.randint(1, 4) if chance.random() < 0.5 else 0)
    container = {
        "name": "c",
        "image": "registry.example.com/x:1",
        "resources": {"requests": {"cpu": "100m", GPU: gpus}, "limits": {GPU: gpus}},
    }
    pod = {"restartPolicy": "Never", "containers": [container]}
    task = {"name": "w", "replicas": most, "minAvailable": least, "template": {"spec": pod}}
    spec: Object = {
        "schedulerName": "volcano",
        "queue": f"q{chance.randrange(queues)}",
        "minAvailable": least,
        "tasks": [task],
    }
    if chance.random() < 0.5:
        spec["priorityClassName"] = chance.choice(("p10", "p20"))
    return declared.declared("Job", f"j{j}", spec, namespace="ns")

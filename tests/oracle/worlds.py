"""Random small repositories: contended queues, jobs of one or two roles, nodes in up to two tiers."""

from __future__ import annotations

import random
from collections.abc import Iterable

import yaml

from tests.builders import declared
from tests.builders.declared import GPU, Object, hypernode

LEAST_GPUS = 4
"""Of the first node, so that queues are never guaranteed more than there is."""

PRIORITY_CLASSES = tuple(declared.priority_class(f"p{value}", value) for value in (10, 20))
PLUGINS: tuple[tuple[str, ...], ...] = ((), ("capacity",), ("proportion",), ("drf",))


def random_repository(seed: int) -> dict[str, bytes]:
    """The files of the repository with this number; the same files for the same number."""
    chance = random.Random(seed)  # noqa: S311 - a sample, no secret
    guarantees = [chance.choice((0, 0, 0, 1, 2)) for _ in range(chance.choice((1, 2, 2, 3, 3)))]
    queues = [_queue(chance, q, g if sum(guarantees) <= LEAST_GPUS else 0) for q, g in enumerate(guarantees)]
    names = [queue["metadata"]["name"] for queue in queues]
    nodes = [_node(chance, n) for n in range(chance.choice((1, 2, 3, 4, 5)))]
    tiers = chance.choice((0, 1, 2)) if len(nodes) > 1 else 0
    policy = cluster(chance)
    domains = _hypernodes(chance, nodes, tiers)
    plugins = (*chance.choice(PLUGINS), "predicates", "nodeorder", "binpack")
    fixed = [policy, *nodes, *domains, *queues, *PRIORITY_CLASSES, scheduler(chance, plugins)]
    jobs = [_job(chance, j, names, tiers) for j in range(chance.choice((3, 4, 5, 6, 7)))]
    return {
        "cluster-specs/c/all.yaml": written(fixed),
        **{f"jobs/{job['metadata']['name']}.yaml": written([job]) for job in jobs},
    }


def written(documents: Iterable[Object]) -> bytes:
    return str(yaml.dump_all(documents, Dumper=yaml.CSafeDumper, sort_keys=False)).encode()


def _node(chance: random.Random, n: int) -> Object:
    has = {
        "cpu": str(chance.choice((6, 8, 12, 16))),
        GPU: chance.choice((0, 4, 7, 8, 8) if n else (LEAST_GPUS, 7, 8)),
        "pods": 20,
    }
    taints = [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"n{n}", "labels": {"model": chance.choice("ab")}},
        "spec": {"taints": taints} if n and chance.random() < 0.1 else {},
        "status": {"allocatable": has},
    }


def _hypernodes(chance: random.Random, nodes: list[Object], tiers: int) -> list[Object]:
    """Some nodes stay outside; with two tiers some leaves have nothing above them."""
    if not tiers:
        return []
    homes: dict[str, list[str]] = {}
    for node in nodes:
        if chance.random() < 0.9:
            homes.setdefault(f"leaf{chance.randrange(3)}", []).append(node["metadata"]["name"])
    found = [hypernode(name, *inside) for name, inside in sorted(homes.items())]
    spines: dict[str, list[str]] = {}
    for leaf in sorted(homes) if tiers == 2 else ():
        if chance.random() < 0.9:
            spines.setdefault(f"spine{chance.randrange(2)}", []).append(leaf)
    return found + [hypernode(name, *inside, tier=2) for name, inside in sorted(spines.items())]


def _queue(chance: random.Random, q: int, guarantee: int) -> Object:
    """guarantee <= deserved <= capability, each sometimes left out."""
    spec: Object = {"weight": chance.choice((1, 1, 2, 3)), "priority": chance.choice((0, 0, 0, 1))}
    deserved = max(guarantee, chance.choice((0, 0, 2, 4, 4, 8, 12)))
    if guarantee:
        spec["guarantee"] = {"resource": {GPU: guarantee}}
    if deserved:
        spec["deserved"] = {GPU: deserved, **({"cpu": chance.choice((4, 8))} if chance.random() < 0.2 else {})}
    if chance.random() < 0.2:
        spec["capability"] = {GPU: max(deserved, chance.choice((4, 8, 12)))}
    return declared.queue(f"q{q}", **spec)


def cluster(chance: random.Random) -> Object:
    return declared.cluster(order=chance.choice(("queues-first", "queues-first", "priorities-first")))


def scheduler(chance: random.Random, plugins: Iterable[str]) -> Object:
    """plugins: of the second tier. Nothing runs in these worlds, so that reclaim only changes what a queue's priority
    means."""
    first = ("priority", {"name": "gang", "enablePreemptable": False}, "conformance")
    actions = ("enqueue", "allocate", *chance.choice(((), ("reclaim",))), "backfill")
    return declared.scheduler(first, tuple(plugins), actions=actions)


def _job(chance: random.Random, j: int, queues: list[str], tiers: int) -> Object:
    tasks = [_task(chance, t, tiers) for t in range(chance.choice((1, 1, 1, 2)))]
    spec: Object = {
        "schedulerName": "volcano",
        "queue": chance.choice(queues),
        "minAvailable": sum(task["minAvailable"] for task in tasks),
        "tasks": tasks,
    }
    if chance.random() < 0.4:
        spec["priorityClassName"] = chance.choice(("p10", "p20"))
    if chance.random() < 0.5:
        spec["networkTopology"] = {
            "mode": chance.choice(("hard", "soft")),
            "highestTierAllowed": chance.randint(1, max(1, tiers)),
        }
    notes: Object = {}
    if chance.random() < 0.5:
        notes["gangplan.dev/submitted-at"] = f"2026-01-{chance.randint(1, 28):02}T00:00:00Z"
    return declared.declared("Job", f"j{j}", spec, namespace="ns", annotations=notes)


def _task(chance: random.Random, t: int, tiers: int) -> Object:
    gpus, cpus = chance.choice((0, 1, 2, 2, 4, 4, 5, 6, 8)), chance.choice(("500m", "1", "2", "3"))
    least = chance.choice((1, 1, 1, 2, 2, 3))
    if tiers and chance.random() < 0.3:  # needs several nodes
        gpus, cpus, least = 4, "500m", chance.choice((3, 4, 5))
    asks = {"cpu": cpus, **({GPU: gpus} if gpus else {})}
    pod: Object = {
        "restartPolicy": "OnFailure",
        "containers": [{"name": "c", "image": "registry.example.com/x:1", "resources": {"requests": asks}}],
    }
    if gpus:
        pod["containers"][0]["resources"]["limits"] = {GPU: gpus}
    if chance.random() < 0.15:
        pod["nodeSelector"] = {"model": chance.choice("ab")}
    if chance.random() < 0.1:
        pod["tolerations"] = [{"operator": "Exists"}]
    elastic = chance.randint(1, 2) if chance.random() < 0.15 else 0
    task = {"name": f"r{t}", "replicas": least + elastic, "minAvailable": least, "template": {"spec": pod}}
    if tiers and chance.random() < 0.2:
        size, parts = chance.randint(1, 3), chance.randint(1, 2)
        topology = {"mode": chance.choice(("hard", "soft")), "highestTierAllowed": chance.randint(1, tiers)}
        policy = {"totalPartitions": parts, "partitionSize": size, "minPartitions": parts, "networkTopology": topology}
        task |= {"replicas": size * parts, "minAvailable": size * parts, "partitionPolicy": policy}
    return task

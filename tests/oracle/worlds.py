"""Random small repositories: contended queues, jobs of one or two roles, nodes in up to two tiers."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import yaml

GPU = "nvidia.com/gpu"
LEAST_GPUS = 4
"""Of the first node, so that queues are never guaranteed more than there is."""

PRIORITY_CLASSES: tuple[dict[str, Any], ...] = tuple(
    {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": f"p{value}"},
        "value": value,
    }
    for value in (10, 20)
)
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


def written(documents: Iterable[dict[str, Any]]) -> bytes:
    return str(yaml.dump_all(documents, Dumper=yaml.CSafeDumper, sort_keys=False)).encode()


def _node(chance: random.Random, n: int) -> dict[str, Any]:
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


def _hypernodes(chance: random.Random, nodes: list[dict[str, Any]], tiers: int) -> list[dict[str, Any]]:
    """Some nodes stay outside; with two tiers some leaves have nothing above them."""
    if not tiers:
        return []
    homes: dict[str, list[str]] = {}
    for node in nodes:
        if chance.random() < 0.9:
            homes.setdefault(f"leaf{chance.randrange(3)}", []).append(node["metadata"]["name"])
    found = [_hypernode(name, 1, "Node", inside) for name, inside in sorted(homes.items())]
    spines: dict[str, list[str]] = {}
    for leaf in sorted(homes) if tiers == 2 else ():
        if chance.random() < 0.9:
            spines.setdefault(f"spine{chance.randrange(2)}", []).append(leaf)
    return found + [_hypernode(name, 2, "HyperNode", inside) for name, inside in sorted(spines.items())]


def _hypernode(name: str, tier: int, kind: str, members: list[str]) -> dict[str, Any]:
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": name},
        "spec": {"tier": tier, "members": [{"type": kind, "selector": {"exactMatch": {"name": m}}} for m in members]},
    }


def _queue(chance: random.Random, q: int, guarantee: int) -> dict[str, Any]:
    """guarantee <= deserved <= capability, each sometimes left out."""
    spec: dict[str, Any] = {"weight": chance.choice((1, 1, 2, 3)), "priority": chance.choice((0, 0, 0, 1))}
    deserved = max(guarantee, chance.choice((0, 0, 2, 4, 4, 8, 12)))
    if guarantee:
        spec["guarantee"] = {"resource": {GPU: guarantee}}
    if deserved:
        spec["deserved"] = {GPU: deserved, **({"cpu": chance.choice((4, 8))} if chance.random() < 0.2 else {})}
    if chance.random() < 0.2:
        spec["capability"] = {GPU: max(deserved, chance.choice((4, 8, 12)))}
    return queue_object(q, spec)


def cluster(chance: random.Random) -> dict[str, Any]:
    return {
        "apiVersion": "gangplan.dev/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": "c"},
        "spec": {"order": chance.choice(("queues-first", "queues-first", "priorities-first"))},
    }


def queue_object(q: int, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": f"q{q}"},
        "spec": spec,
    }


def scheduler(chance: random.Random, plugins: Iterable[str]) -> dict[str, Any]:
    """plugins: of the second tier. Nothing runs in these worlds, so that reclaim only changes what a queue's priority
    means."""
    first = [{"name": "priority"}, {"name": "gang", "enablePreemptable": False}, {"name": "conformance"}]
    second = [{"name": name} for name in plugins]
    return {
        "apiVersion": "gangplan.dev/v1alpha1",
        "kind": "SchedulerConfiguration",
        "metadata": {"name": "volcano-scheduler-configmap", "namespace": "volcano-system"},
        "spec": {
            "actions": ["enqueue", "allocate", *chance.choice(((), ("reclaim",))), "backfill"],
            "tiers": [{"plugins": first}, {"plugins": second}],
        },
    }


def _job(chance: random.Random, j: int, queues: list[str], tiers: int) -> dict[str, Any]:
    tasks = [_task(chance, t, tiers) for t in range(chance.choice((1, 1, 1, 2)))]
    spec: dict[str, Any] = {
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
    metadata: dict[str, Any] = {"name": f"j{j}", "namespace": "ns"}
    if chance.random() < 0.5:
        metadata["annotations"] = {"gangplan.dev/submitted-at": f"2026-01-{chance.randint(1, 28):02}T00:00:00Z"}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": metadata, "spec": spec}


def _task(chance: random.Random, t: int, tiers: int) -> dict[str, Any]:
    gpus, cpus = chance.choice((0, 1, 2, 2, 4, 4, 5, 6, 8)), chance.choice(("500m", "1", "2", "3"))
    least = chance.choice((1, 1, 1, 2, 2, 3))
    if tiers and chance.random() < 0.3:  # needs several nodes
        gpus, cpus, least = 4, "500m", chance.choice((3, 4, 5))
    asks = {"cpu": cpus, **({GPU: gpus} if gpus else {})}
    pod: dict[str, Any] = {
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

"""Made-up repositories with what real clusters have and `bench.worlds` has not: a long queue before a small full
cluster, and nodes of which no two are equal. The same seed, the same bytes."""

from __future__ import annotations

import json
import random
from typing import Any

from bench.worlds import GPU, GeneratedRepository, submission_annotation, task_text

QUEUES, NODES, GPUS_PER_NODE = 20, 128, 8
JOB_GPUS = (1, 2, 4, 8, 16, 32, 64, 128)
ELASTIC, TIMED = 0.25, 0.5
"""Parts of the jobs of `generate_long_queue`: those that start with half of their pods, and those that declare their
run time."""

LEAF, SPINE = 8, 16
"""Nodes of a leaf, leaves of a spine of `generate_odd_nodes`."""
FILE_OBJECTS = 1_000
"""Nodes in one file, which may have 1 MiB."""


def generate_long_queue(jobs: int, *, varied: bool = False, seed: int = 1) -> GeneratedRepository:
    """Return so many Volcano Jobs of 1 to 128 GPUs in 20 queues of equal weight, before 128 nodes and Volcano's default
    configuration. varied: some are elastic, some declare their run time."""
    rng = random.Random(seed)  # noqa: S311  # a benchmark wants the same draw each time, not an unpredictable one
    own = "apiVersion: gangplan.dev/v1alpha1\nkind:"
    capacity = f'{{cpu: "128", memory: 1Ti, {GPU}: {GPUS_PER_NODE}}}'
    queue = (
        "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {{name: team-{:02}}}\nspec: {{weight: 1}}\n"
    )
    texts = {
        "cluster-specs/bench/cluster.yaml": f"{own} Cluster\nmetadata: {{name: bench}}\nspec: {{binding: gated}}\n",
        "cluster-specs/bench/nodes.yaml": f"{own} NodePool\nmetadata: {{name: gpu}}\nspec:\n  count: {NODES}\n"
        f"  capacity: {capacity}\n  topology: [{{name: sn, size: 16}}]\n",
        "cluster-specs/bench/queues.yaml": "---\n".join(queue.format(q) for q in range(QUEUES)),
    }
    for number in range(jobs):
        texts[f"jobs/job-{number:05}.yaml"] = _waiting_job(rng, number, varied)
    return GeneratedRepository({name: text.encode() for name, text in texts.items()}, jobs)


def _waiting_job(rng: random.Random, number: int, varied: bool) -> str:
    size = rng.choice(JOB_GPUS)
    gpus = min(size, GPUS_PER_NODE)
    pods, queue = size // gpus, rng.randrange(QUEUES)
    minimum = max(1, pods // 2) if varied and rng.random() < ELASTIC else pods
    is_timed = varied and rng.random() < TIMED
    duration = f"    gangplan.dev/expected-duration: {rng.choice((1, 4, 12, 48))}h\n" if is_timed else ""
    amounts = {"cpu": f'"{gpus * 12}"', "memory": f"{gpus * 96}Gi", GPU: str(gpus)}
    return (
        f"apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata:\n  name: job-{number:05}\n"
        f"  annotations:\n    {submission_annotation(number)}\n{duration}"
        f"spec:\n  schedulerName: volcano\n  queue: team-{queue:02}\n  minAvailable: {minimum}\n  tasks:\n"
        f"{task_text('worker', pods, amounts)}"
    )


def generate_odd_nodes(nodes: int, shapes: int = 20, *, seed: int = 1) -> GeneratedRepository:
    """Nodes as a live cluster lists them, whose allocatable memory differs by some KiB, in leaves of 8 and spines of
    128, and as many shapes of jobs of a hard topology."""
    rng = random.Random(seed)  # noqa: S311
    leaves, spines = -(-nodes // LEAF), -(-nodes // LEAF // SPINE)
    tree = [
        *(_hyper_node(f"leaf{n:05}", 1, "Node", [f"n{i:05}" for i in _part(n, LEAF, nodes)]) for n in range(leaves)),
        *(
            _hyper_node(f"spine{n:04}", 2, "HyperNode", [f"leaf{i:05}" for i in _part(n, SPINE, leaves)])
            for n in range(spines)
        ),
    ]
    listed = [_odd_node(f"n{i:05}", rng.randrange(40_000)) for i in range(nodes)]
    files = {
        f"cluster-specs/bench/nodes-{n:03}.yaml": listed[n : n + FILE_OBJECTS] for n in range(0, nodes, FILE_OBJECTS)
    }
    files |= {"cluster-specs/bench/hypernodes.yaml": tree}
    files |= {f"jobs/job-{number:03}.yaml": [_hard_job(number)] for number in range(shapes)}
    return GeneratedRepository(
        {name: "\n---\n".join(map(json.dumps, objects)).encode() for name, objects in files.items()}, shapes
    )


def _part(number: int, size: int, most: int) -> range:
    return range(number * size, min(most, (number + 1) * size))


def _odd_node(name: str, more_kib: int) -> dict[str, Any]:
    allocatable = {"cpu": "190", "memory": f"{2_113_000_000 + more_kib}Ki", GPU: "8", "pods": "110"}
    labels = {"kubernetes.io/hostname": name}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": allocatable},
    }


def _hyper_node(name: str, tier: int, kind: str, members: list[str]) -> dict[str, Any]:
    chosen = [{"type": kind, "selector": {"exactMatch": {"name": member}}} for member in members]
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": name},
        "spec": {"tier": tier, "members": chosen},
    }


def _hard_job(number: int) -> dict[str, Any]:
    resources = {"requests": {"cpu": str(8 + number), "memory": "64Gi"}, "limits": {GPU: "8"}}
    container = {"name": "main", "image": "registry.example.com/bench/worker:1.0", "resources": resources}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": f"job-{number:03}", "namespace": "default"},
        "spec": {
            "schedulerName": "volcano",
            "minAvailable": 4,
            "networkTopology": {"mode": "hard", "highestTierAllowed": 2},
            "tasks": [{"name": "worker", "replicas": 4, "template": template}],
        },
    }

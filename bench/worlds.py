"""Made-up repositories of a given size: the same seed, the same bytes.

A world is what a site would write: one NodePool, queues of four teams, three priority classes, and one file per job.
Jobs are Volcano Jobs of 1, 2, 4 or 8 GPUs per pod; how near their pods must be, and how many roles they have, is drawn
from the mixes below.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

GPU = "nvidia.com/gpu"
GPUS_PER_NODE, SUPERNODE, SPINE, CORE = 8, 16, 16, 8
"""GPUs of a node, nodes of a supernode (tier 1), supernodes of a spine (tier 2), spines of a core (tier 3, where there
is one)."""

TEAMS, QUEUES_PER_TEAM = 4, 4
PRIORITIES = {"deadline": 10_000, "training": 1_000, "filler": 10}
PRIORITY_WEIGHTS = (1, 6, 3)
"""Of ten jobs, the number with each of these priorities."""

TOPOLOGY_WEIGHTS = {"hard1": 30, "hard2": 25, "soft": 20, "none": 15, "parts": 10}
"""Topology -> percent of the jobs. parts: no limit for the gang, whole supernode-sized units inside it (Volcano's
partitionPolicy)."""

POD_COUNTS = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64)
SUBGROUP_SIZE = 8
"""Pods of one unit of a job of the mix `parts`."""


@dataclass(frozen=True, slots=True)
class GeneratedRepository:
    """files: as `compiler.repository.Tree.files`. state: JSON of a state file, None for an empty cluster."""

    files: dict[str, bytes]
    gangs: int
    state: bytes | None = None


@dataclass(slots=True)
class _JobSize:
    """gpus: of one worker. pods: workers."""

    topology: str
    gpus: int
    pods: int
    roles: str

    @property
    def size(self) -> int:
        return self.gpus * self.pods

    @property
    def pod_step(self) -> int:
        return SUBGROUP_SIZE if self.topology == "parts" else 1

    def scaled_by(self, factor: float) -> _JobSize:
        """Its pods times the factor, at least one step, and no larger than what its topology can ever hold."""
        domain = {"hard1": SUPERNODE, "hard2": SUPERNODE * SPINE}.get(self.topology)
        most = domain * GPUS_PER_NODE // self.gpus if domain else 1 << 30
        return _JobSize(
            self.topology,
            self.gpus,
            max(self.pod_step, min(most, round(self.pods * factor / self.pod_step) * self.pod_step)),
            self.roles,
        )


def generate_repository(
    nodes: int, gangs: int, load: float, *, busy: bool = False, seed: int = 1, tiers: int = 2
) -> GeneratedRepository:
    """Return a repository of that many nodes and jobs. load: GPUs asked for over GPUs there are; met by scaling the
    jobs' sizes.

    busy: about half of the GPUs are held by foreign pods, supernode by supernode: some full, some half full, some
    empty. tiers: 2 or 3.
    """
    rng = random.Random(seed)  # noqa: S311  # a benchmark wants the same draw each time, not an unpredictable one
    files = {f"cluster-specs/bench/{name}.yaml": text.encode() for name, text in _cluster_files(nodes, tiers)}
    for number, job in enumerate(_draw_jobs(rng, gangs, load * nodes * GPUS_PER_NODE)):
        files[f"jobs/job-{number:04d}.yaml"] = _job_document(rng, number, job).encode()
    return GeneratedRepository(files, gangs, _foreign_pods_state(rng, nodes) if busy else None)


def _draw_jobs(rng: random.Random, gangs: int, gpus: float) -> list[_JobSize]:
    """Jobs that ask for about `gpus` in sum: the factor is found by halving, as the sizes grow with it."""
    drawn = [
        _JobSize(
            rng.choices(list(TOPOLOGY_WEIGHTS), list(TOPOLOGY_WEIGHTS.values()))[0],
            rng.choice((1, 2, 4, 8, 8, 8)),
            rng.choice(POD_COUNTS),
            rng.choices(("one", "master", "ps"), (6, 3, 1))[0],
        )
        for _ in range(gangs)
    ]
    low, high = 0.0, 1000.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(job.scaled_by(middle).size for job in drawn) < gpus else (low, middle)
    return [job.scaled_by(high) for job in drawn]


def _cluster_files(nodes: int, height: int) -> Iterator[tuple[str, str]]:
    own = "apiVersion: gangplan.dev/v1alpha1"
    yield "cluster", f"{own}\nkind: Cluster\nmetadata: {{name: bench}}\nspec: {{binding: gated}}\n"
    sizes = {"sn": SUPERNODE, "spine": SPINE, "core": CORE}
    topology = f"[{', '.join(f'{{name: {tier}, size: {size}}}' for tier, size in list(sizes.items())[:height])}]"
    capacity = f'{{cpu: "128", memory: 1Ti, {GPU}: {GPUS_PER_NODE}}}'
    yield (
        "nodes",
        f"{own}\nkind: NodePool\nmetadata: {{name: gpu}}\nspec:\n"
        f"  count: {nodes}\n  capacity: {capacity}\n  topology: {topology}\n",
    )
    yield (
        "priorities",
        "---\n".join(
            f"apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {{name: {name}}}\nvalue: {value}\n"
            for name, value in PRIORITIES.items()
        ),
    )
    yield "queues", "---\n".join(_queue_documents(nodes * GPUS_PER_NODE))
    plugins = (
        "{name: priority}, {name: gang}",
        "{name: drf}, {name: predicates}, {name: capacity, enableHierarchy: true}, {name: network-topology-aware}",
    )
    tiers = ", ".join(f"{{plugins: [{tier}]}}" for tier in plugins)
    conf = "metadata: {name: volcano-scheduler-configmap, namespace: volcano-system}"
    yield (
        "scheduler",
        f"{own}\nkind: SchedulerConfiguration\n{conf}\nspec: {{actions: [allocate, backfill], tiers: [{tiers}]}}\n",
    )


def _queue_documents(gpus: int) -> Iterator[str]:
    """Teams share the cluster evenly and may borrow up to 40 percent of it; a queue may take half of what its team
    may."""
    for team in range(TEAMS):
        yield _queue_document(f"team-{team}", "", 1 + team % 2, gpus * 10 // 100, gpus * 25 // 100, gpus * 40 // 100)
        for q in range(QUEUES_PER_TEAM):
            yield _queue_document(
                f"team-{team}-{q}", f"  parent: team-{team}\n", 1 + q, gpus // 100, gpus * 6 // 100, gpus * 20 // 100
            )


def _queue_document(name: str, parent: str, weight: int, guarantee: int, deserved: int, capability: int) -> str:
    return (
        f"apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\n"
        f"metadata: {{name: {name}}}\nspec:\n{parent}  weight: {weight}\n"
        f"  guarantee: {{resource: {{{GPU}: {guarantee}}}}}\n"
        f"  deserved: {{{GPU}: {deserved}}}\n  capability: {{{GPU}: {capability}}}\n"
    )


def _job_document(rng: random.Random, number: int, job: _JobSize) -> str:
    queue = f"team-{rng.randrange(TEAMS)}-{rng.randrange(QUEUES_PER_TEAM)}"
    extra = {"one": 0, "master": 1, "ps": max(1, job.pods // 8)}[job.roles]
    near = {
        "hard1": "  networkTopology: {mode: hard, highestTierAllowed: 1}\n",
        "hard2": "  networkTopology: {mode: hard, highestTierAllowed: 2}\n",
        "soft": "  networkTopology: {mode: soft, highestTierAllowed: 2}\n",
    }.get(job.topology, "")
    text = (
        f"# Job {number} of {job.size} GPUs, {job.topology}.\n"
        f"apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata:\n"
        f"  name: job-{number:04d}\n  namespace: {queue.rpartition('-')[0]}\n"
        f"{_submission_lines(number)}"
        f"spec:\n  schedulerName: volcano\n  queue: {queue}\n"
        f"  priorityClassName: {rng.choices(list(PRIORITIES), PRIORITY_WEIGHTS)[0]}\n"
        f"  minAvailable: {job.pods + extra}\n{near}  plugins: {{svc: [], env: []}}\n"
        f"  policies:\n  - {{event: PodEvicted, action: RestartJob}}\n  tasks:\n"
    )
    if extra:
        text += task_text("master" if job.roles == "master" else "ps", extra, {"cpu": '"4"', "memory": "16Gi"})
    parts = (
        f"totalPartitions: {job.pods // SUBGROUP_SIZE}, partitionSize: "
        f"{SUBGROUP_SIZE}, minPartitions: {job.pods // SUBGROUP_SIZE}"
    )
    partition = f"    partitionPolicy: {{{parts}, networkTopology: {{mode: hard, highestTierAllowed: 1}}}}\n"
    amounts = {"cpu": f'"{job.gpus * 12}"', "memory": f"{job.gpus * 96}Gi", GPU: str(job.gpus)}
    return text + task_text("worker", job.pods, amounts, partition if job.topology == "parts" else "")


def _submission_lines(number: int) -> str:
    """Every fifth is written in flow style, into which nothing can be spliced: about what people's files are like."""
    annotation = submission_annotation(number)
    return f"  annotations: {{{annotation}}}\n" if number % 5 == 0 else f"  annotations:\n    {annotation}\n"


def submission_annotation(number: int) -> str:
    """Return a minute after the job before."""
    day, hour, minute = 1 + number // 1440 % 28, number // 60 % 24, number % 60
    return f'gangplan.dev/submitted-at: "2026-01-{day:02d}T{hour:02d}:{minute:02d}:00Z"'


def task_text(name: str, replicas: int, requests: dict[str, str], more: str = "") -> str:
    limits = f"            limits: {{{GPU}: {requests[GPU]}}}\n" if GPU in requests else ""
    return (
        f"  - name: {name}\n    replicas: {replicas}\n{more}    template:\n"
        f"      spec:\n        restartPolicy: OnFailure\n        containers:\n"
        f"        - name: {name}\n          image: registry.example.com/bench/{name}:1.0\n"
        f"          command: [python, train.py]\n"
        f"          resources:\n"
        f"            requests: {{{', '.join(f'{r}: {amount}' for r, amount in requests.items())}}}\n{limits}"
    )


def _foreign_pods_state(rng: random.Random, nodes: int) -> bytes:
    """Foreign pods: each supernode is full, half full or empty with equal chance."""
    width, chance = len(str(nodes - 1)), 0.0
    items: list[dict[str, Any]] = []
    for n in range(nodes):
        if n % SUPERNODE == 0:
            chance = rng.choice((0.0, 0.5, 1.0))
        if rng.random() < chance:
            for part in rng.choice(((8,), (8,), (4, 4), (4, 2, 2))):
                items.append(_foreign_pod(len(items), f"gpu-{n:0{width}}", part))
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items}).encode()


def _foreign_pod(number: int, node: str, gpus: int) -> dict[str, Any]:
    requests = {"cpu": str(gpus * 12), "memory": f"{gpus * 96}Gi", GPU: str(gpus)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"other-{number:05d}", "namespace": "elsewhere"},
        "spec": {
            "nodeName": node,
            "containers": [
                {"name": "main", "image": "registry.example.com/other:1", "resources": {"requests": requests}}
            ],
        },
        "status": {"phase": "Running"},
    }

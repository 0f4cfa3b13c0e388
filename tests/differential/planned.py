"""What gangplan makes of a world: the same documents, compiled in this process."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from compiler.cluster_state.cluster_state import ClusterState
from compiler.outcome import Outcome as Compiled
from compiler.pipeline import compile_repository
from compiler.repository.tree import Repository
from solver.plan import Plan
from solver.problem import Placement, Problem
from tests.builders.cluster_objects import volcano_job_pod
from tests.builders.declared import API_VERSIONS, Object, declared
from tests.differential.world import (
    Where,
    World,
    hypernode_objects,
    job_object,
    node_amounts,
    node_labels,
    pod_spec,
    priority_class_objects,
    queue_object,
    scheduler_spec,
)

CLUSTER = "t"


@dataclass(frozen=True)
class Planned:
    """running: (job, task, node) -> pods after the plan, evicted: those that it takes away."""

    compiled: Compiled
    problem: Problem
    plan: Plan
    running: Mapping[Where, int]
    evicted: Mapping[Where, int]


def compile_world(world: World, *, jobs_there: bool = True) -> Planned:
    """Compile it; an error of any kind is a mistake of the world or of gangplan.

    jobs_there: also those of which nothing runs are in the cluster, so that the plan holds none.
    """
    files = {
        f"cluster-specs/{CLUSTER}/all.yaml": _documents(cluster_documents(world)),
        "jobs/all.yaml": _documents(job_object(job) for job in world.jobs),
    }
    there = [job_object(job) for job in world.jobs if jobs_there or job.running]
    compiled = compile_repository(Repository(files), state=ClusterState.from_objects([*running_pods(world), *there]))
    assert [d for d in compiled.diagnostics if d.severity == "error"] == []
    assert compiled.problem is not None
    assert compiled.plan is not None
    problem, plan = compiled.problem, compiled.plan
    running: Counter[Where] = Counter()
    evicted: Counter[Where] = Counter()
    for decision in plan.decisions:
        if decision.action in ("start", "keep", "wait"):
            running.update(_where(problem, decision.gang, decision.placements))
        evicted.update(_where(problem, decision.gang, decision.evicted_pods))
    return Planned(compiled, problem, plan, dict(running), dict(evicted))


def job_name(problem: Problem, gang: int) -> str:
    return problem.gangs[gang].name.rpartition("/")[2]


def _where(problem: Problem, gang: int, placements: tuple[Placement, ...]) -> Counter[Where]:
    roles = problem.gangs[gang].roles
    found: Counter[Where] = Counter()
    for each in placements:
        found[(job_name(problem, gang), roles[each.role].name, problem.nodes[each.node].name)] += each.pods
    return found


def _documents(objects: Iterator[Object]) -> bytes:
    return "\n---\n".join(map(json.dumps, objects)).encode()


def cluster_documents(world: World) -> Iterator[Object]:
    yield declared("Cluster", CLUSTER, {"binding": "gated"})
    yield declared("SchedulerConfiguration", "volcano-scheduler-configmap", scheduler_spec(world))
    labels = node_labels(world)
    for name, capacity in node_amounts(world).items():
        made = declared("Node", name, labels={"kubernetes.io/hostname": name} | labels[name])
        yield {**made, "status": {"capacity": capacity, "allocatable": capacity}}
    yield from hypernode_objects(world)
    yield from priority_class_objects()
    for queue in world.queues:
        yield queue_object(queue)


def running_pods(world: World) -> Iterator[Object]:
    """The pods that run at first, as the API server shows them."""
    for job in world.jobs:
        index: Counter[str] = Counter()
        for task, node, number in job.running:
            for _ in range(number):
                at = index[task]
                index[task] += 1
                of = job.task(task)
                preemptable = job.preemptable if job.preemptable is not None else of.preemptable
                said = {"volcano.sh/preemptable": preemptable, "volcano.sh/last-checkpoint-time": of.checkpoint}
                notes = {key: value for key, value in said.items() if value is not None} | {
                    "volcano.sh/job-name": job.name,
                    "volcano.sh/task-spec": task,
                    "volcano.sh/task-index": str(at),
                    "scheduling.k8s.io/group-name": job.name,
                }
                name = f"{job.name}-{task}-{at}"
                spec = pod_spec(of) | {"schedulerName": "volcano"}
                owner = {"apiVersion": API_VERSIONS["Job"], "kind": "Job", "name": job.name, "uid": job.name}
                more: Object = {"namespace": "default", "ownerReferences": [{**owner, "controller": True}]}
                made = volcano_job_pod(name, job.name, task, node=node, spec=spec, annotations=notes, **more)
                yield {**made, "status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}}

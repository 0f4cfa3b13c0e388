"""A cluster at one moment after the other: jobs come, run, end early, on time or late, and are told their starts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from compiler.cluster_state.cluster_state import ClusterState
from compiler.fields.times import rfc3339
from compiler.lower.lowering import lower
from compiler.outcome import JobDecision, Outcome, job_decisions
from compiler.specs.cluster_spec import PluginSpec, SchedulerSpec
from compiler.specs.gang_spec import GangSpec, JobTimes
from compiler.specs.queue_spec import PriorityClassSpec
from solver.plan import Plan
from solver.problem import Problem
from solver.verify import verify
from tests.builders.plans import solve_without_repairs
from tests.builders.specs import document, gang, node, queue, role, specs

FIRST, STEP = 1_795_000_000, 600
GPUS = 4


@dataclass(frozen=True)
class Job:
    """comes, lasts: in steps. says: how long it says that it lasts, None where it says nothing."""

    name: str
    queue: str
    urgent: bool
    pods: int
    gpus: int
    comes: int
    lasts: int
    says: int | None

    def spec(self) -> GangSpec:
        return gang(
            self.name,
            role("worker", self.pods, gpu=self.gpus),
            queue=self.queue,
            priority_class="urgent" if self.urgent else None,
            times=JobTimes(expected_duration=None if self.says is None else self.says * STEP),
        )


@dataclass(frozen=True)
class Run:
    since: int
    pods: Mapping[str, int]
    """Node -> pods."""


@dataclass(frozen=True)
class Moment:
    """One plan. told: job -> the start that it was told before, in seconds since the epoch. late: jobs that run longer
    than they said, or say nothing. running: jobs that ran before the plan."""

    now: int
    outcome: Outcome
    told: Mapping[str, int]
    late: frozenset[str]
    running: frozenset[str]

    @property
    def problem(self) -> Problem:
        assert self.outcome.problem is not None
        return self.outcome.problem

    @property
    def plan(self) -> Plan:
        assert self.outcome.plan is not None
        return self.outcome.plan


@dataclass
class PromiseStream:
    """deserved: queue -> GPUs. running: job -> its run. told: job -> the start that its last plan told it."""

    nodes: int
    deserved: Mapping[str, int]
    plugins: tuple[str, ...]
    actions: tuple[str, ...]
    jobs: tuple[Job, ...]
    steps: int
    running: dict[str, Run] = field(default_factory=dict)
    told: dict[str, int] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)

    def moments(self) -> Iterator[Moment]:
        for step in range(self.steps):
            self._end_runs(step)
            present = tuple(job for job in self.jobs if job.comes <= step and job.name not in self.ended)
            outcome = self._outcome(step, present)
            late = {job.name for job in present if self._is_late(job, step)}
            moment = Moment(FIRST + step * STEP, outcome, dict(self.told), frozenset(late), frozenset(self.running))
            yield moment
            for decided in outcome.decisions:
                self._apply(decided, step)

    def _end_runs(self, step: int) -> None:
        lasts = {job.name: job.lasts for job in self.jobs}
        over = [name for name, run in self.running.items() if run.since + lasts[name] <= step]
        for name in over:
            del self.running[name]
            self.ended.add(name)

    def _is_late(self, job: Job, step: int) -> bool:
        run = self.running.get(job.name)
        return run is not None and (job.says is None or run.since + job.says <= step)

    def _outcome(self, step: int, present: tuple[Job, ...]) -> Outcome:
        scheduler = SchedulerSpec(
            document("SchedulerConfiguration", "s"),
            "s",
            "volcano-system",
            self.actions,
            (tuple(PluginSpec(name, {}, {}) for name in ("priority", *self.plugins)),),
            {},
        )
        read = specs(
            nodes=tuple(node(f"n{n}", gpu=GPUS) for n in range(self.nodes)),
            gangs=tuple(sorted((job.spec() for job in present), key=lambda spec: spec.document.name)),
            queues=tuple(
                queue(name, deserved={"nvidia.com/gpu": amount} if amount else {})
                for name, amount in self.deserved.items()
            ),
            priority_classes=(PriorityClassSpec(document("PriorityClass", "urgent"), "urgent", 10),),
            scheduler=scheduler,
        )
        objects = [thing for job in present for thing in self._objects(job)]
        problem, origins = lower(read, ClusterState.from_objects(objects, clock=FIRST + step * STEP))
        plan = solve_without_repairs(problem)
        assert verify(problem, plan) == []
        decisions, errors = job_decisions(read, problem, origins, plan)
        assert not errors
        return Outcome((), read, {}, problem, origins, plan, decisions)

    def _objects(self, job: Job) -> Iterator[dict[str, Any]]:
        told = {"gangplan.dev/starts-at": rfc3339(self.told[job.name])} if job.name in self.told else {}
        created = rfc3339(FIRST + job.comes * STEP - 60)
        yield {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "metadata": {"name": job.name, "namespace": "team", "creationTimestamp": created, "annotations": told},
        }
        run = self.running.get(job.name)
        hosts = [host for host, pods in run.pods.items() for _ in range(pods)] if run else []
        for at, host in enumerate(hosts):
            assert run is not None
            yield _pod(job, at, host, rfc3339(FIRST + run.since * STEP))

    def _apply(self, decided: JobDecision, step: int) -> None:
        name = decided.gang.document.name
        if decided.action == "start":
            self.running[name] = Run(step, decided.pods["worker"])
        elif decided.action == "evict":
            del self.running[name]
        if decided.action != "wait":
            self.told.pop(name, None)
        elif decided.start.starts_at is not None:
            self.told[name] = decided.start.starts_at


def _pod(job: Job, at: int, host: str, start: str) -> dict[str, Any]:
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": job.name}
    requests = {"nvidia.com/gpu": job.gpus}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{job.name}-worker-{at}",
            "namespace": "team",
            "creationTimestamp": start,
            "ownerReferences": [owner],
            "labels": {"volcano.sh/task-spec": "worker", "volcano.sh/job-name": job.name},
        },
        "spec": {"nodeName": host, "containers": [{"name": "c", "image": "a", "resources": {"requests": requests}}]},
        "status": {"phase": "Running", "startTime": start},
    }

"""A workload on the real Volcano: jobs are created at their times, kwok ends their pods, and what came of it is
compared with the model (`solver/simulation/volcano`)."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from solver.problem import Node, Policy, Problem, Queue, Role
from solver.semantics.device_slots import IntArray
from solver.semantics.entitlements import FloatArray
from solver.simulation.replay import Simulation
from solver.simulation.volcano.policy import Volcano
from solver.simulation.volcano_configuration import VolcanoScheduler
from solver.simulation.workload import SECOND, Job, Workload
from tests.builders.declared import Object, priority_class
from tests.builders.declared import queue as queue_object
from tests.controlplane import ControlPlane
from tests.differential.scheduler_log import SCHEDULER, Account, Log, log_decisions, read_log
from tests.e2e.stories.story import QUEUES_PATH, VOLCANO_JOBS_PATH, role, volcano_job

GIB = 1 << 30
NODE = (64_000, 512 * GIB, 110, 8)
RESOURCES = ("cpu", "memory", "pods", "nvidia.com/gpu")
LOOK = 0.5
NEAR = 1e-6


@dataclass(frozen=True, slots=True)
class TimedJob:
    """Pods of so many GPUs and millicores each. submit, runs: seconds. priority: 0, or of a class `p<priority>`."""

    submit: float
    runs: float
    pods: int
    gpus: int
    cpu: int
    queue: str
    priority: int = 0


@dataclass(frozen=True, slots=True)
class RealReplay:
    """names: of the jobs in the cluster. log: what the scheduler says. period: seconds from one of its cycles to the
    next, on average. starts: of the cycles that started the jobs."""

    names: Sequence[str]
    log: Log

    @property
    def accounts(self) -> list[Account]:
        return [self.log.jobs[name] for name in self.names]

    @property
    def period(self) -> float:
        cycles = self.log.cycles
        return (cycles[-1] - cycles[0]) / (len(cycles) - 1)

    @property
    def starts(self) -> list[float]:
        return [self.log.start(name) for name in self.names]


def scheduler_text(scheduler: VolcanoScheduler) -> str:
    """The configuration as Volcano reads it (JSON is YAML)."""
    tiers = [
        {"plugins": [{"name": each.name, **each.flags, "arguments": dict(each.arguments)} for each in tier]}
        for tier in scheduler.tiers
    ]
    return json.dumps({"actions": ", ".join(scheduler.actions), "tiers": tiers})


WEIGHTS = {"qa": 1, "qb": 2, "qc": 3}
"""Queue -> its weight."""


def lay_out(plane: ControlPlane) -> None:
    """What all replays share: queues, a priority class, and a scheduler with a period of a second that logs."""
    _create_queues(plane, WEIGHTS)
    plane.api("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", priority_class("p10", 10))
    log_decisions(plane, "1s")


def _create_queues(plane: ControlPlane, weights: Mapping[str, int]) -> None:
    """Make queues of these weights, and return when they are open."""
    for name, weight in weights.items():
        plane.api("POST", QUEUES_PATH, queue_object(name, weight=weight))

    def states() -> set[str]:
        found = plane.api("GET", QUEUES_PATH)["items"]
        return {each.get("status", {}).get("state", "") for each in found if each["metadata"]["name"] in weights}

    plane.wait_until(states, lambda seen: seen == {"Open"}, what="open queues")


def run_jobs(plane: ControlPlane, jobs: Sequence[TimedJob], timeout: float = 600.0) -> RealReplay:
    """Create each job at its time, and look until all have completed. The scheduler must log its decisions. Seconds
    count from a full one, since ages count in seconds."""
    since = datetime.now(tz=UTC).replace(microsecond=0)
    names = [
        f"r{int(since.timestamp())}-{j}" for j in range(len(jobs))
    ]  # Volcano may lose a job of a deleted one's name
    for j in sorted(range(len(jobs)), key=lambda j: jobs[j].submit):
        time.sleep(max(0.0, jobs[j].submit - (datetime.now(tz=UTC) - since).total_seconds()))
        plane.api("POST", VOLCANO_JOBS_PATH, job_object(names[j], jobs[j]))

    def living() -> set[str]:
        found = plane.api("GET", VOLCANO_JOBS_PATH)["items"]
        phases = {each["metadata"]["name"]: each.get("status", {}).get("state", {}).get("phase") for each in found}
        return {name for name in names if phases[name] != "Completed"}

    plane.wait_until(living, lambda left: not left, timeout=timeout, what="the end of all jobs", pause=LOOK)
    return RealReplay(names, read_log(plane.logs(SCHEDULER), since))


def delete_jobs(plane: ControlPlane) -> None:
    """Delete all jobs, and return when their pods are gone."""
    plane.api("DELETE", f"{VOLCANO_JOBS_PATH}?propagationPolicy=Background")
    pods = "/api/v1/namespaces/default/pods?limit=1"
    plane.wait_until(lambda: plane.api("GET", pods)["items"], lambda left: not left, what="an empty cluster")


def job_object(name: str, job: TimedJob) -> Object:
    """The job as a Volcano Job."""
    pods = role("pod", job.pods, gpus=job.gpus, cpu=f"{job.cpu}m", run_for=f"{job.runs:g}s")
    more: dict[str, Any] = {"priorityClassName": f"p{job.priority}"} if job.priority else {}
    return volcano_job(name, pods, queue=job.queue, **more)


class Drawn(Volcano):
    """The model, told which of equally good nodes Volcano drew for each pod. misses: jobs whose nodes it does not rate
    best."""

    def __init__(self, workload: Workload, drawn: Sequence[Sequence[int]]) -> None:
        super().__init__(workload)
        self._drawn = [Counter(nodes) for nodes in drawn]
        self.misses: set[int] = set()

    def best_node(self, j: int, nodes: IntArray, scores: FloatArray) -> int:
        best = np.flatnonzero(scores >= scores.max() - NEAR)
        for at in best:
            if self._drawn[j][int(nodes[at])]:
                self._drawn[j][int(nodes[at])] -= 1
                return int(at)
        self.misses.add(j)
        return int(best[0])


@dataclass(frozen=True, slots=True)
class Modelled:
    """starts: seconds. misses: jobs whose real nodes the model did not rate best."""

    starts: Sequence[float | None]
    misses: Collection[int]


def modelled(
    found: RealReplay,
    jobs: Sequence[TimedJob],
    nodes: Sequence[str],
    weights: Mapping[str, int],
    scheduler: VolcanoScheduler,
) -> Modelled:
    """What the model does with the jobs, which come when Volcano saw them come and hold their room as long as it saw
    them hold it, at its cycles."""
    world = replace(
        _workload(jobs, len(nodes), weights),
        scheduler=replace(scheduler, period=_moment(found.period), cycles=tuple(map(_moment, found.log.cycles))),
    )
    timed = [
        replace(
            job,
            name=name,
            submit=_moment(account.arrived),
            duration=(runs := _moment(account.ended - start)),
            requested=runs,
        )
        for job, name, account, start in zip(world.jobs, found.names, found.accounts, found.starts, strict=True)
    ]
    index = {name: at for at, name in enumerate(nodes)}
    policy = Drawn(
        world := replace(world, jobs=timed), [[index[node] for node in each.nodes] for each in found.accounts]
    )
    return Modelled(_starts(world, policy), policy.misses)


def predicted(
    found: RealReplay,
    jobs: Sequence[TimedJob],
    nodes: Sequence[str],
    weights: Mapping[str, int],
    scheduler: VolcanoScheduler,
) -> list[float | None]:
    """Seconds at which the model starts the jobs when it knows only what a trace states. Its cycles begin with the
    first real one."""
    period, first = _moment(found.period), _moment(found.log.cycles[0])
    world = replace(_workload(jobs, len(nodes), weights), scheduler=replace(scheduler, period=period, cycles=(first,)))
    return _starts(world, Volcano(world))


def _starts(world: Workload, policy: Volcano) -> list[float | None]:
    runs = Simulation(world, policy).run().runs
    return [None if run.start is None else run.start / SECOND for run in runs]


def _moment(seconds: float) -> int:
    return round(seconds * SECOND)


def _workload(jobs: Sequence[TimedJob], nodes: int, weights: Mapping[str, int]) -> Workload:
    nothing, names = (None,) * len(RESOURCES), list(weights)
    queues = tuple(Queue(q, None, weights[q], 0, nothing, nothing, nothing, (0,) * len(RESOURCES)) for q in names)
    places = tuple(Node(f"n{n}", 0, None, NODE, NODE) for n in range(nodes))
    cluster = Problem(RESOURCES, places, (), queues, (), policy=Policy(proportion=True))
    made = []
    for j, job in enumerate(jobs):
        pods = Role("pod", job.pods, job.pods, (job.cpu, 0, 1, job.gpus), frozenset({0}))
        submit, runs = _moment(job.submit), _moment(job.runs)
        made.append(Job(str(j), submit, runs, runs, pods, names.index(job.queue), job.priority))
    return Workload(cluster, made, RESOURCES.index("nvidia.com/gpu"))


def cycles_apart(found: RealReplay, starts: Sequence[float | None]) -> list[int]:
    """By how many of the scheduler's cycles each job really started later than in the model."""
    never = 2 * len(found.log.cycles)
    return [
        account.cycle - (never if start is None else found.log.number(start))
        for account, start in zip(found.accounts, starts, strict=True)
    ]


RACE = 0.005
"""Seconds: the scheduler logs a podgroup before it takes the lock that its look holds."""
RACED, LATE, SPLIT, FOLLOWS, UNKNOWN = (
    "its podgroup came during a look",
    "its pods came after the look of the cycle",
    "a gang's pods ended on both sides of a look",
    "follows an earlier difference",
    "unexplained",
)


def causes(found: RealReplay, starts: Sequence[float | None]) -> dict[int, str]:
    """Job -> why it really started at another cycle than in the model. The model lets all pods of a job come and end at
    once; nothing else excuses it."""
    log, apart = found.log, cycles_apart(found, starts)
    split = set[int]()
    for each in found.accounts:
        numbers = {log.number(moment) for moment in each.ends.values()}
        split |= numbers if len(numbers) > 1 else set()
    real = [each.cycle for each in found.accounts]
    first = [min(cycle, cycle - off) for cycle, off in zip(real, apart, strict=True)]
    named = dict[int, str]()
    for j in sorted((j for j, off in enumerate(apart) if off), key=lambda j: (first[j], j)):
        account, start = found.accounts[j], starts[j]
        if any(0 <= look - account.arrived < RACE for look in log.cycles) and abs(apart[j]) == 1:
            named[j] = RACED
        elif start is not None and account.let_in < start < account.pods_came:
            named[j] = LATE
        elif split & set(range(first[j] - 2, first[j] + 1)):
            named[j] = SPLIT
        elif any(first[i] < first[j] for i in named if named[i] != UNKNOWN):
            named[j] = FOLLOWS
        else:
            named[j] = UNKNOWN
    return named

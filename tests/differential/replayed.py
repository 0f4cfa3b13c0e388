"""A workload on the real Volcano: jobs are created at their times, kwok ends their pods, and what came of it is
compared with the model (`solver/simulation/volcano`)."""

from __future__ import annotations

import json
import re
import time
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from solver.problem import Node, Policy, Problem, Queue, Role
from solver.simulation.replay import Simulation
from solver.simulation.volcano.policy import Volcano
from solver.simulation.volcano_configuration import VolcanoScheduler
from solver.simulation.workload import SECOND, Job, Workload
from tests.builders.declared import Object
from tests.builders.declared import queue as queue_object
from tests.controlplane import ControlPlane
from tests.e2e.stories.story import QUEUES_PATH, VOLCANO_JOBS_PATH, role, volcano_job

LIVING_PODS = "/api/v1/namespaces/default/pods?fieldSelector=status.phase%21%3DSucceeded"
GIB = 1 << 30
NODE = (64_000, 512 * GIB, 110, 8)
RESOURCES = ("cpu", "memory", "pods", "nvidia.com/gpu")
LOOK = 0.1
JOB_NAME = "volcano.sh/job-name"
SESSION_OPENS = re.compile(r"^I(\d\d)(\d\d) (\S+) .*Open Session ", re.MULTILINE)


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
class Seen:
    """Seconds since the beginning: when the job was created, had nodes, and when all pods had ended."""

    created: float
    bound: float
    ended: float


@dataclass(frozen=True, slots=True)
class RealReplay:
    """seen: of each job. period: seconds from one cycle of the scheduler to the next, on average. cycles: when they
    were, as far as the scheduler logs them."""

    seen: Sequence[Seen]
    period: float
    cycles: Sequence[float]


def scheduler_text(scheduler: VolcanoScheduler) -> str:
    """The configuration as Volcano reads it (JSON is YAML)."""
    tiers = [
        {"plugins": [{"name": each.name, **each.flags, "arguments": dict(each.arguments)} for each in tier]}
        for tier in scheduler.tiers
    ]
    return json.dumps({"actions": ", ".join(scheduler.actions), "tiers": tiers})


def create_queues(plane: ControlPlane, weights: Mapping[str, int]) -> None:
    """Make queues of these weights, and return when they are open."""
    for name, weight in weights.items():
        plane.api("POST", QUEUES_PATH, queue_object(name, weight=weight))

    def states() -> set[str]:
        found = plane.api("GET", QUEUES_PATH)["items"]
        return {each.get("status", {}).get("state", "") for each in found if each["metadata"]["name"] in weights}

    plane.wait_until(states, lambda seen: seen == {"Open"}, what="open queues")


def run_jobs(plane: ControlPlane, jobs: Sequence[TimedJob], timeout: float = 600.0) -> RealReplay:
    """Create each job at its time, and look until the pods of all have ended."""
    began, cycles, clock = time.monotonic(), plane.scheduling_cycles(), datetime.now(tz=UTC)
    prefix = f"r{int(clock.timestamp())}-"  # Volcano may lose a job with the name of one that was just deleted
    left = sorted(range(len(jobs)), key=lambda j: jobs[j].submit)
    created, bound, ended = dict[int, float](), dict[int, float](), dict[int, float]()
    while len(ended) < len(jobs):
        now = time.monotonic() - began
        if now > timeout:
            raise TimeoutError(f"{len(jobs) - len(ended)} jobs have not ended: {sorted(created.keys() - ended.keys())}")
        while left and jobs[left[0]].submit <= now:
            j = left.pop(0)
            plane.api("POST", VOLCANO_JOBS_PATH, job_object(f"{prefix}{j}", jobs[j]))
            created[j] = time.monotonic() - began
        looked = time.monotonic() - began
        placed = _placed_jobs(plane, prefix)
        for j in created.keys() - ended.keys():
            if j in bound and j not in placed:
                ended[j] = looked
            elif j not in bound and j in placed:
                bound[j] = looked
        time.sleep(LOOK)
    period = (time.monotonic() - began) / max(1, plane.scheduling_cycles() - cycles)
    seen = [Seen(created[j], bound[j], ended[j]) for j in range(len(jobs))]
    return RealReplay(seen, period, logged_cycles(plane.logs("volcano-scheduler"), clock))


def logged_cycles(log: str, since: datetime) -> list[float]:
    """Seconds since then at which sessions of the scheduler opened, by its log."""
    zone, found = datetime.now().astimezone().tzinfo, list[float]()
    for month, day, clock in SESSION_OPENS.findall(log):
        when = datetime.strptime(f"{since.year}{month}{day} {clock}", "%Y%m%d %H:%M:%S.%f").replace(tzinfo=zone)
        found.append((when - since).total_seconds())
    return [seconds for seconds in found if seconds > 0]


def _placed_jobs(plane: ControlPlane, prefix: str) -> set[int]:
    """Jobs that have pods with a node that have not ended; a gang is bound at once."""
    placed = [pod["metadata"] for pod in plane.api("GET", LIVING_PODS)["items"] if pod["spec"].get("nodeName")]
    names = {about.get("annotations", {}).get(JOB_NAME, "") for about in placed}
    return {int(name.removeprefix(prefix)) for name in names if name.startswith(prefix)}


def job_object(name: str, job: TimedJob) -> Object:
    """The job as a Volcano Job."""
    pods = role("pod", job.pods, gpus=job.gpus, cpu=f"{job.cpu}m", run_for=f"{job.runs:g}s")
    more: dict[str, Any] = {"priorityClassName": f"p{job.priority}"} if job.priority else {}
    return volcano_job(name, pods, queue=job.queue, **more)


def modelled_starts(
    found: RealReplay, jobs: Sequence[TimedJob], nodes: int, weights: Mapping[str, int], scheduler: VolcanoScheduler
) -> list[float | None]:
    """Seconds at which the model starts the jobs, which come as they really did, and hold their room as long: from the
    cycle that bound them, where it is known."""
    nothing = (None,) * len(RESOURCES)
    names = list(weights)
    queues = tuple(Queue(q, None, weights[q], 0, nothing, nothing, nothing, (0,) * len(RESOURCES)) for q in names)
    places = tuple(Node(f"n{n}", 0, None, NODE, NODE) for n in range(nodes))
    cluster = Problem(RESOURCES, places, (), queues, (), policy=Policy(proportion=True))
    made = []
    for j, (job, seen) in enumerate(zip(jobs, found.seen, strict=True)):
        pods = Role("pod", job.pods, job.pods, (job.cpu, 0, 1, job.gpus), frozenset({0}))
        cycle = max((moment for moment in found.cycles if moment <= seen.bound), default=seen.bound)
        submit, runs = (round(seconds * SECOND) for seconds in (seen.created, seen.ended - cycle))
        made.append(Job(str(j), submit, runs, runs, pods, names.index(job.queue), job.priority))
    cycles = tuple(round(seconds * SECOND) for seconds in found.cycles)
    timed = replace(scheduler, period=round(found.period * SECOND), cycles=cycles)
    world = Workload(cluster, made, RESOURCES.index("nvidia.com/gpu"), scheduler=timed)
    runs_of = Simulation(world, Volcano(world)).run().runs
    return [None if run.start is None else run.start / SECOND for run in runs_of]


def cycles_apart(found: RealReplay, starts: Sequence[float | None]) -> list[int]:
    """By how many of the scheduler's cycles each job really started later than in the model."""
    cycles = found.cycles
    return [
        bisect_right(cycles, seen.bound) - (len(cycles) * 2 if start is None else bisect_right(cycles, start + 1e-6))
        for seen, start in zip(found.seen, starts, strict=True)
    ]

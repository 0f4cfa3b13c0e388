"""A workload on the real Volcano: jobs are created at their times, kwok ends their pods, and what came of it is
compared with the model (`solver/simulation/volcano`)."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from solver.problem import Node, Policy, Problem, Queue, Role
from solver.semantics.device_slots import IntArray
from solver.semantics.entitlements import FloatArray
from solver.simulation.replay import Run, Simulation
from solver.simulation.room import Hold, Holds
from solver.simulation.site import Site
from solver.simulation.volcano.evictions import MOST_EVICTIONS
from solver.simulation.volcano.policy import Volcano
from solver.simulation.volcano.session import JobState, Pod
from solver.simulation.workload import SECOND, Job, VolcanoScheduler, Workload
from tests.builders.declared import Object, priority_class
from tests.builders.declared import queue as queue_object
from tests.controlplane import ControlPlane
from tests.differential.scheduler_log import SCHEDULER, Account, Log, log_decisions, read_log
from tests.e2e.stories.story import QUEUES_PATH, VOLCANO_JOBS_PATH, role, volcano_job

GIB = 1 << 30
NODE = (64_000, 512 * GIB, 110, 8)
RESOURCES = ("cpu", "memory", "pods", "nvidia.com/gpu")
LOOK = 0.5
STANDSTILL = 20.0
"""Seconds in which nothing runs. Volcano may make pods of a restarted job before it lets the job in; they count in
proportion's shares as asked for, so that nobody may start although all is free."""
NEAR = 1e-6
RACE = 0.005
"""Seconds: the scheduler logs a podgroup before it takes the lock that its look holds."""


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
        """Of the last podgroup of each job."""
        return [self.log.jobs[name][-1] for name in self.names]

    @property
    def restarts(self) -> list[int]:
        """How often each job came again."""
        return [len(self.log.jobs[name]) - 1 for name in self.names]

    @property
    def period(self) -> float:
        cycles = self.log.cycles
        return (cycles[-1] - cycles[0]) / (len(cycles) - 1)

    @property
    def starts(self) -> list[float | None]:
        return [self.log.cycles[each.cycle] if each.cycle >= 0 else None for each in self.accounts]


def scheduler_text(scheduler: VolcanoScheduler) -> str:
    """The configuration as Volcano reads it (JSON is YAML)."""
    tiers = [
        {"plugins": [{"name": each.name, **each.flags, "arguments": dict(each.arguments)} for each in tier]}
        for tier in scheduler.tiers
    ]
    return json.dumps({"actions": ", ".join(scheduler.actions), "tiers": tiers})


WEIGHTS = {"qa": 1, "qb": 2, "qc": 3}
"""Queue -> its weight."""


def lay_out(plane: ControlPlane, scheduler: VolcanoScheduler) -> None:
    """What all replays share: queues, a priority class, and a scheduler with a period of a second that logs."""
    plane.scheduler_conf.write_text(scheduler_text(scheduler))
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
    """Create each job at its time, and look until all have completed, or nothing runs for long. The scheduler must log
    its decisions. Seconds count from a full one, since ages count in seconds."""
    since = datetime.now(tz=UTC).replace(microsecond=0)
    names = [
        f"r{int(since.timestamp())}-{j}" for j in range(len(jobs))
    ]  # Volcano may lose a job of a deleted one's name
    for j in sorted(range(len(jobs)), key=lambda j: jobs[j].submit):
        time.sleep(max(0.0, jobs[j].submit - (datetime.now(tz=UTC) - since).total_seconds()))
        plane.api("POST", VOLCANO_JOBS_PATH, job_object(names[j], jobs[j]))

    ran = time.monotonic()

    def standing() -> bool:
        nonlocal ran
        found = plane.api("GET", VOLCANO_JOBS_PATH)["items"]
        phases = {each["metadata"]["name"]: each.get("status", {}).get("state", {}).get("phase") for each in found}
        if any(phases[name] == "Running" for name in names):
            ran = time.monotonic()
        return time.monotonic() - ran > STANDSTILL or all(phases[name] == "Completed" for name in names)

    plane.wait_until(standing, bool, timeout=timeout, what="the end of all jobs", pause=LOOK)
    return RealReplay(names, read_log(plane.logs(SCHEDULER), since))


def delete_jobs(plane: ControlPlane) -> None:
    """Delete all jobs, and return when their pods are gone."""
    plane.api("DELETE", f"{VOLCANO_JOBS_PATH}?propagationPolicy=Background")
    pods = "/api/v1/namespaces/default/pods?limit=1"
    plane.wait_until(lambda: plane.api("GET", pods)["items"], lambda left: not left, what="an empty cluster")


def job_object(name: str, job: TimedJob) -> Object:
    """The job as a Volcano Job, which restarts where it loses a pod."""
    pods = role("pod", job.pods, gpus=job.gpus, cpu=f"{job.cpu}m", run_for=f"{job.runs:g}s")
    more: dict[str, Any] = {"policies": [{"event": "PodEvicted", "action": "RestartJob"}], "maxRetry": MOST_EVICTIONS}
    more |= {"priorityClassName": f"p{job.priority}"} if job.priority else {}
    return volcano_job(name, pods, queue=job.queue, **more)


@dataclass(frozen=True, slots=True)
class Told:
    """What the model is told of one podgroup.

    nodes: of its pods. given: where pods got room by eviction. arrived: when it came. delay: from the cycle that let it
    in to its last pod; None where its pods were before: the controller may make those of a job that restarts at once.
    runs: from its start to the end of its last pod; of one that was evicted, to its next podgroup. early: of each pod,
    how long before the last one it ended. evicted: pods that were; outlives: they ended before that took effect. In
    microseconds."""

    nodes: Sequence[int]
    given: Mapping[int, int]
    arrived: int
    delay: int | None
    runs: int
    early: Sequence[int]
    evicted: Collection[int]
    outlives: bool


class Logged(Volcano):
    """The model, told what it does not decide. misses: jobs whose nodes it does not rate best."""

    def __init__(self, workload: Workload, jobs: list[Job], told: Sequence[Sequence[Told]]) -> None:
        """jobs: of the workload, which holds the same list."""
        super().__init__(workload)
        self._jobs, self._told = jobs, told
        self._places = False
        self._coming: list[tuple[int, int]] = []
        self._returning: list[tuple[int, int]] = []
        self._freed: dict[int, dict[int, int]] = {}
        self._made_early: set[int] = set()
        self.misses: set[int] = set()

    def told(self, j: int) -> Told:
        return self._told[j][min(self.evictions.times[j], len(self._told[j]) - 1)]

    def best_node(self, pod: Pod, nodes: IntArray, scores: FloatArray) -> int:
        """The one of the best that Volcano drew."""
        (j, k), best = pod, np.flatnonzero(scores >= scores.max() - NEAR)
        drawn = dict(enumerate(self.told(j).nodes)) if self._places else self.told(j).given
        found = [int(at) for at in best if int(nodes[at]) == drawn.get(k)]
        if self._places and not found:
            self.misses.add(j)
        return found[0] if found else int(best[0])

    def looked_at(self, pods: Sequence[Pod]) -> Sequence[Pod]:
        """First those that were evicted."""
        return sorted(pods, key=lambda pod: pod[1] not in self.told(pod[0]).evicted)

    def _restart(self, site: Site, j: int) -> None:
        self.evictions.times[j] -= 1
        if not (self.told(j).evicted and self.told(j).outlives):
            self.evictions.times[j] += 1
            super()._restart(site, j)

    def _place(self, site: Site, j: int) -> Holds | None:
        self._places = True
        holds = super()._place(site, j)
        self._places = False
        return holds

    def _note_arrival(self, site: Site, j: int) -> None:
        """A job that restarts comes when its new podgroup does."""
        if self.evictions.times[j] and (at := max(site.now, self.told(j).arrived)) > site.now:
            self._returning.append((at, j))
            site.wake_at(at)
        else:
            super()._note_arrival(site, j)

    def _return(self, site: Site) -> None:
        for at, j in [each for each in self._returning if each[0] <= site.now]:
            self._returning.remove((at, j))
            self._states[j] = JobState(at)
            super()._note_arrival(site, j)
            if self.told(j).delay is None:
                self._made_early.add(j)

    def _enqueue(self, site: Site, queues: list[int]) -> list[int]:
        """Who has pods already may start at once."""
        let_in = super()._enqueue(site, queues)
        early = self._made_early.intersection(let_in)
        for j in early:
            self._made_early.remove(j)
            super().make_pods(site, j)
        return [j for j in let_in if j not in early]

    def _fill_shares(self) -> None:
        self._ask_early(1)
        super()._fill_shares()
        self._ask_early(-1)

    def _ask_early(self, times: int) -> None:
        for j in self._made_early:
            self.queues.ask(self._jobs[j].queue, self.demands[j], times)

    def make_pods(self, site: Site, j: int) -> None:
        at = site.now + (self.told(j).delay or 0)
        self._coming.append((at, j))
        site.wake_at(max(at, site.now + 1))

    def _run_cycle(self, site: Site) -> bool:
        self._return(site)
        come = [each for each in self._coming if each[0] <= site.now]
        for at, j in come:
            self._coming.remove((at, j))
            super().make_pods(site, j)
        for j, running in site.running.items():
            for at, early in enumerate(self.told(j).early):
                if early and running.start + site.job(j).duration - early <= site.now:
                    self._free_pod(site, j, at)
        return super()._run_cycle(site)

    def _free_pod(self, site: Site, j: int, at: int) -> None:
        """A pod of the job that ended before others, unless it has been freed; on its node, else on another."""
        freed = self._freed.setdefault(j, {})
        left = Counter(self._states[j].nodes) - Counter(freed.values())
        if at not in freed and left:
            real = self.told(j).nodes[at]
            freed[at] = real if left[real] else next(iter(left))
            self._take_pod(site, j, freed[at], -1)
            self._misfits.clear()

    def _take_pod(self, site: Site, j: int, node: int, times: int) -> None:
        role = site.job(j).role
        site.room.take(role, (Hold(node, 1),), times)
        self.queues.take(site.job(j).queue, role.request, times)
        self._count(role, (Hold(node, 1),), times)

    def _start(self, site: Site, j: int, holds: Holds) -> None:
        self._jobs[j] = replace(self._jobs[j], duration=self.told(j).runs)
        super()._start(site, j, holds)
        for early in self.told(j).early:
            site.wake_at(max(site.now + 1, site.now + site.job(j).duration - early))

    def _note_end(self, site: Site, j: int) -> None:
        for node in self._freed.pop(j, {}).values():
            self._take_pod(site, j, node, 1)
        super()._note_end(site, j)


@dataclass(frozen=True, slots=True)
class Modelled:
    """starts: seconds. restarts: of each job. misses: jobs whose real nodes the model did not rate best."""

    starts: Sequence[float | None]
    restarts: Sequence[int]
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
        replace(job, name=name, submit=_seen(found.log, found.log.jobs[name][0]))
        for job, name in zip(world.jobs, found.names, strict=True)
    ]
    index = {name: at for at, name in enumerate(nodes)}
    told = [_told(found.log, found.log.jobs[name], index) for name in found.names]
    policy = Logged(world := replace(world, jobs=timed), timed, told)
    ran = Simulation(world, policy).run().runs
    return Modelled(_starts(ran), [run.restarts for run in ran], policy.misses)


def _seen(log: Log, account: Account) -> int:
    """When the scheduler saw the podgroup: what comes during a look may have missed it."""
    look = log.number(account.arrived) + 1
    missed = look < len(log.cycles) and log.cycles[look] - account.arrived < RACE and log.number(account.let_in) > look
    return _moment(log.cycles[look]) + 1 if missed else _moment(account.arrived)


def _told(log: Log, accounts: Sequence[Account], index: Mapping[str, int]) -> list[Told]:
    found = []
    for at, each in enumerate(accounts):
        pods, let_in = sorted(each.nodes), log.cycles[max(0, log.number(each.let_in))]
        came = max(0, _moment(each.pods_came) - _moment(let_in)) if each.let_in else 0
        delay = None if at and (each.pods_came <= each.let_in or not each.let_in) else came
        ended = each.ended if each.ends else log.cycles[-1]
        end = accounts[at + 1].arrived if at + 1 < len(accounts) else ended
        early = [_moment(end - each.ends.get(pod, end)) for pod in pods]
        runs = _moment(end - log.cycles[each.cycle]) if pods else 0
        given = {pod: index[node] for pod, node in each.given.items()}
        outlives = bool(each.ends) and len(each.ends) == len(pods)
        found.append(
            Told(
                [index[each.nodes[pod]] for pod in pods],
                given,
                _moment(each.arrived),
                delay,
                runs,
                early,
                each.evicted,
                outlives,
            )
        )
    return found


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
    return _starts(Simulation(world, Volcano(world)).run().runs)


def _starts(runs: Sequence[Run]) -> list[float | None]:
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
        (never if account.cycle < 0 else account.cycle) - (never if start is None else found.log.number(start))
        for account, start in zip(found.accounts, starts, strict=True)
    ]


RACED, LOST, FOLLOWS, UNKNOWN = (
    "something came or ended during the look of the cycle",
    "that a job was let in was lost, and it was let in again",
    "follows an earlier difference",
    "unexplained",
)


def causes(found: RealReplay, starts: Sequence[float | None]) -> dict[int, str]:
    """Job -> why it really started at another cycle than in the model.

    It follows an earlier difference where, at the first cycle at which it started here or there, a job that was
    different before waits, runs or has ended here and not there: so that there is other room, or another order."""
    log, apart = found.log, cycles_apart(found, starts)
    real = [each.cycle if each.cycle >= 0 else 2 * len(log.cycles) for each in found.accounts]
    first = [min(cycle, cycle - off) for cycle, off in zip(real, apart, strict=True)]
    lasts = [log.number(each.ended) - each.cycle if each.ends else 0 for each in found.accounts]
    raced = {log.number(moment) + 1 for moment in _moments(found) if _comes_in_a_look(log, moment)}
    lost = set[int]()
    for each in found.accounts:
        lost.update(range(log.number(each.let_in) + 1, log.number(each.let_in_again) + 1))
    named = dict[int, str]()
    for j in sorted((j for j, off in enumerate(apart) if off), key=lambda j: (first[j], j)):
        state = {i: [_state(start, lasts[i], first[j]) for start in (real[i], real[i] - apart[i])] for i in named}
        if first[j] in raced:
            named[j] = RACED
        elif first[j] in lost:
            named[j] = LOST
        elif any(first[i] < first[j] and here != there for i, (here, there) in state.items() if named[i] != UNKNOWN):
            named[j] = FOLLOWS
        else:
            named[j] = UNKNOWN
    return named


def _state(start: int, lasts: int, cycle: int) -> str:
    """Of a job at a cycle, before it decides."""
    return "waits" if cycle <= start else "runs" if cycle <= start + lasts else "ended"


def _moments(found: RealReplay) -> Iterator[float]:
    for each in found.accounts:
        yield from (each.arrived, each.pods_came, *each.ends.values())


def _comes_in_a_look(log: Log, moment: float) -> bool:
    look = log.number(moment) + 1
    return look < len(log.cycles) and log.cycles[look] - moment < RACE

"""Results of a replay: waits by group of jobs, use of the devices, losses.

Promised starts of a replay against the real ones.

At moments at which jobs wait some of them are promised a start, from the facts known by then. Every n-th such moment is
taken, and n doubles after each `LOOKS` taken ones, so that long replays cost little more. A second promise uses the
assumption of EASY's reservation: every run takes its requested time.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np

from solver.forecast import (
    Correction,
    Outcome,
    Pool,
    PromiseScore,
    RunHistory,
    Window,
    draw_length,
    promise_score,
    start_times,
    starts_in_futures,
)
from solver.semantics.device_slots import IntArray
from solver.simulation.policies import Event
from solver.simulation.replay import Replay
from solver.simulation.site import Site
from solver.simulation.workload import SECOND, Workload

SLOWDOWN_FLOOR = 10 * SECOND
"""Shorter jobs count as this long, as in Feitelson's bounded slowdown (Metrics for Parallel Job Scheduling, 2001)."""

SIZES = (1, 8, 64, 512)
"""Upper ends of the classes of job sizes, in devices."""


@dataclass(frozen=True, slots=True)
class Waits:
    """Results of a group of jobs. Waits in microseconds, of started jobs: mean and percentiles by nearest rank; None
    where none started. slowdown: mean over ended jobs of (wait + run) / max(run, `SLOWDOWN_FLOOR`), at least 1."""

    jobs: int
    started: int
    mean: float | None
    p50: int | None
    p95: int | None
    p99: int | None
    longest: int | None
    slowdown: float | None


@dataclass(frozen=True, slots=True)
class Usage:
    """From the first arrival to the last event. utilisation: of all device time, the part that jobs held. peak: the
    most that was held at once, as a part of all. stranded: mean amount of the device resource that was free while a job
    waited that asks for no more. spread: mean over started jobs of nodes used / fewest nodes that could hold the job.
    restarts: runs that an outage or eviction ended; lost: their amounts times microseconds. span: microseconds."""

    utilisation: float
    peak: float
    stranded: float
    spread: float | None
    restarts: int
    lost: int
    span: int


def waits(replay: Replay, jobs: Iterable[int]) -> Waits:
    """Return the waits of these jobs."""
    chosen = [*jobs]
    found, slowdowns = list[int](), list[float]()
    for j in chosen:
        job, run = replay.workload.jobs[j], replay.runs[j]
        if run.start is not None:
            found.append(run.start - job.submit)
            if run.finish is not None:
                ran = run.finish - run.start
                slowdowns.append(max(1.0, (run.finish - job.submit) / max(ran, SLOWDOWN_FLOOR)))
    if not found:
        return Waits(len(chosen), 0, None, None, None, None, None, None)
    p50, p95, p99 = (percentile(np.array(found), share) for share in (50, 95, 99))
    slowdown = sum(slowdowns) / len(slowdowns) if slowdowns else None
    return Waits(len(chosen), len(found), sum(found) / len(found), p50, p95, p99, max(found), slowdown)


def waits_by(replay: Replay, group_of: Callable[[int], str]) -> Mapping[str, Waits]:
    """The waits of each group, in the order of their names."""
    return {name: waits(replay, jobs) for name, jobs in groups_of(len(replay.runs), group_of).items()}


def groups_of(jobs: int, group_of: Callable[[int], str]) -> Mapping[str, Sequence[int]]:
    """Return group -> its jobs, of so many; both in order."""
    groups: dict[str, list[int]] = {}
    for j in range(jobs):
        groups.setdefault(group_of(j), []).append(j)
    return {name: groups[name] for name in sorted(groups)}


def usage(replay: Replay) -> Usage:
    """Return how the devices were used."""
    workload = replay.workload
    total = max(1, workload.cluster.totals[workload.device])
    span = max(1, sum(part.end - part.start for part in replay.spans))
    held = sum((part.end - part.start) * part.used for part in replay.spans)
    stranded = sum((part.end - part.start) * part.stranded for part in replay.spans)
    largest = max(1, *(node.capacity[workload.device] for node in workload.cluster.nodes))
    spreads = [
        len({hold.node for hold in run.holds}) / -(-max(1, workload.devices(j)) // largest)
        for j, run in enumerate(replay.runs)
        if run.holds
    ]
    return Usage(
        held / (span * total),
        max((part.used for part in replay.spans), default=0) / total,
        stranded / span,
        sum(spreads) / len(spreads) if spreads else None,
        sum(run.restarts for run in replay.runs),
        sum(run.lost * workload.devices(j) for j, run in enumerate(replay.runs)),
        span,
    )


def size_class(devices: int) -> str:
    """Return the class of job sizes, named so that names sort by size."""
    low = 0
    for high in SIZES:
        if devices <= high:
            return f"{low or 1:>3}" if high in (low, 1) else f"{low + 1:>3} to {high}"
        low = high
    return f"{low + 1:>3} and more"


def percentile(values: IntArray, share: int) -> int:
    """By nearest rank, so that it is one of the values."""
    rank = max(0, -(-share * len(values) // 100) - 1)
    return int(np.partition(values, rank)[rank])


LOOKS, LOOKED_AT = 150, 20
"""Moments after which fewer are taken, and the number of waiting jobs drawn for a promise at each."""

LONGEST_LINE = 200
"""Waiting jobs that a future follows, from the head of the line."""


@dataclass(frozen=True, slots=True)
class Promise:
    """Made at the moment `made`. by_limits: from then, the start if every run takes its requested time."""

    made: int
    window: Window
    by_limits: int


class Promises:
    """Makes promises while a workload is replayed, and sees how they hold (`solver.simulation.replay.Watch`)."""

    def __init__(self, workload: Workload, seed: int) -> None:
        self.workload, self.seed, self.outcomes = workload, seed, list[Outcome]()
        self._history, self._correction = RunHistory(), Correction(60 * SECOND)
        self._open: dict[int, list[Promise]] = {}
        self._moments, self._looks = 0, 0

    def after(self, site: Site, event: Event, started: Sequence[int]) -> None:
        lost = {*event.arrived}
        for j in event.ended:
            if j not in lost:
                self._history.add(self._classes[j], site.job(j).duration)
        for j in started:
            for promise in self._open.pop(j, ()):
                self._correction.add(promise.window.raw, site.now - promise.made)
                window, wait, whole = promise.window, site.now - promise.made, site.now - site.job(j).submit
                times = (window.low, window.middle, window.high, promise.by_limits, wait, whole)
                self.outcomes.append(Outcome(*times, window.share))
        if site.waiting:
            self._moments += 1
            if self._moments % (1 << self._looks // LOOKS) == 0:
                self._looks += 1
                self._look(site)

    def score(self) -> PromiseScore | None:
        """Return how the promises held, in microseconds; None without any that stated a share."""
        return promise_score(self.outcomes)

    @cached_property
    def _classes(self) -> list[tuple[Hashable, ...]]:
        """Return job -> whom its run times are like: the user's of this size, the queue's of this size, the queue's,
        all."""
        found = list[tuple[Hashable, ...]]()
        for j, job in enumerate(self.workload.jobs):
            size = self.workload.devices(j)
            of_user = [("user", job.queue, job.user, size)] if job.user else []
            found.append((*of_user, ("queue and size", job.queue, size), ("queue", job.queue), ("size", size), "all"))
        return found

    def _look(self, site: Site) -> None:
        jobs, running = self.workload.jobs, site.running
        known = self._history.run_times((self._classes[j], site.now - run.start) for j, run in running.items())
        if "all" not in known:
            return
        waiting = [(j, self.workload.devices(j)) for j in islice(site.waiting_in_order(), LONGEST_LINE)]
        pool = Pool(site.now, self._free(site), [(j, self.workload.devices(j)) for j in running], waiting)

        def length(j: int, rng: random.Random) -> int:
            return draw_length(known, self._classes[j], 0, jobs[j].requested, rng)

        def rest(j: int, rng: random.Random) -> int:
            age = site.now - running[j].start
            return draw_length(known, self._classes[j], age, jobs[j].requested, rng) - age

        found = starts_in_futures(pool, length, rest, self.seed)
        by_limits = start_times(pool, lambda j: jobs[j].requested, lambda j: running[j].believed_end - site.now)
        started = sorted(found.keys() & by_limits.keys())
        draw = random.Random(f"{self.seed} {site.now}")  # noqa: S311  # the same draw each time
        for j in sorted(draw.sample(started, min(LOOKED_AT, len(started)))):
            promise = Promise(site.now, self._correction.window(found[j]), by_limits[j] - site.now)
            self._open.setdefault(j, []).append(promise)

    def _free(self, site: Site) -> int:
        """Free devices on nodes that are up."""
        return int(site.room.free.amounts[site.room.up, self.workload.device].sum())

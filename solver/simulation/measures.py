"""Results of a replay: waits by group of jobs, use of the devices, losses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from solver.semantics.device_slots import IntArray
from solver.simulation.replay import Replay
from solver.simulation.workload import SECOND

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

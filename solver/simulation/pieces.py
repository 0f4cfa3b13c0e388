"""A long workload by pieces of it: some windows of its jobs, each replayed alone.

Which windows is drawn by a replay in outline (`solver.simulation.pool`). The more jobs of a window wait there, the more
likely it is drawn, and the fewer jobs each of its jobs stands for (Horvitz and Thompson, A Generalization of Sampling
Without Replacement, 1952). A window begins with what runs and waits in the outline at its first arrival.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from solver.simulation.catalogue import WITH_LIMITS
from solver.simulation.pool import pool_starts
from solver.simulation.replay import Replay, Run, Span
from solver.simulation.shares import Floats
from solver.simulation.workload import Job, Workload

PIECES = 5
"""Windows that are drawn. What is carried into each makes more of them expensive."""

QUIET = 0.05
"""Chance of a window in which nobody waits, as a part of that of one in which all do."""

WORK, LEAST_WORK = {"gangplan": 20_000, "volcano": 2_000}, 1_000
"""Policy -> microseconds that a job takes in a replay, measured with a month of 20,000; of all others."""

LEAD = 20
"""Periods of Volcano from the start of what runs at the beginning of a window to its first arrival: it decides at the
third. What waits comes after half of that."""


@dataclass(frozen=True, slots=True)
class Window:
    """`number` jobs of a workload from job `first`. weight: how many jobs of the workload each of them stands for."""

    first: int
    number: int
    weight: float


@dataclass(frozen=True, slots=True)
class Piece:
    """The replay of a window. carried: of its jobs those at the beginning, which are not of the window."""

    replay: Replay
    carried: int
    weight: float

    @property
    def end(self) -> int:
        """The last moment of the replay."""
        return max((span.end for span in self.replay.spans), default=0)

    @property
    def is_complete(self) -> bool:
        """Whether the replay came to its end, or at least all jobs of the window have started."""
        return self.replay.is_complete or all(run.start is not None for run in self.replay.runs[self.carried :])

    def waits(self) -> list[int]:
        """Job of the window -> its wait; of one that never started until the end of the replay."""
        chosen = slice(self.carried, None)
        pairs = zip(self.replay.runs[chosen], self.replay.workload.jobs[chosen], strict=True)
        return [max(0, (self.end if run.start is None else run.start) - job.submit) for run, job in pairs]


@dataclass(frozen=True, slots=True)
class PieceTask:
    """A window to replay: its workload, with so many jobs that are carried into it. weight: as of the window."""

    policy: str
    workload: Workload
    carried: int
    weight: float

    @property
    def asked(self) -> range:
        """The jobs with whose starts the replay of a cut window may end; none for a replay of all."""
        return range(self.carried, len(self.workload.jobs)) if self.carried else range(0)

    @property
    def work(self) -> int:
        """About how many microseconds its replay takes."""
        return WORK.get(self.policy, LEAST_WORK) * len(self.workload.jobs)


def piece_tasks(sides: Sequence[tuple[str, Workload]], number: int | None, seed: int) -> Sequence[Sequence[PieceTask]]:
    """Side -> its windows to replay, the same of each. sides: (policy, workload) of the same jobs. number: of jobs in
    the windows together; None for one window of all."""
    if number is None or number >= len(sides[0][1].jobs):
        return [[PieceTask(policy, workload, 0, 1.0)] for policy, workload in sides]
    outlines = [pool_starts(workload, policy in WITH_LIMITS) for policy, workload in sides]
    is_late = [
        np.array([start != job.submit for start, job in zip(outline, workload.jobs, strict=True)])
        for outline, (_, workload) in zip(outlines, sides, strict=True)
    ]
    windows = draw_windows(np.mean(is_late, axis=0), number, seed)
    return [
        [PieceTask(policy, *cut(workload, outline, window), window.weight) for window in windows]
        for outline, (policy, workload) in zip(outlines, sides, strict=True)
    ]


def draw_windows(waiting: Floats, number: int, seed: int) -> Sequence[Window]:
    """Windows of about so many jobs together. waiting: job -> how likely it waits."""
    jobs, size = len(waiting), -(-number // PIECES)
    firsts = range(0, jobs, size)
    chances = np.array([waiting[first : first + size].mean() for first in firsts]) + QUIET
    upto = np.cumsum(PIECES * chances / chances.sum())
    offset = random.Random(seed).random()  # noqa: S311  # the same draw each time
    drawn = np.minimum(np.searchsorted(upto, offset + np.arange(PIECES)), len(firsts) - 1)
    times = [1 / chance for chance in np.diff(upto, prepend=0.0).tolist()]
    numbers, counts = np.unique(drawn, return_counts=True)
    return [
        Window(firsts[at], min(size, jobs - firsts[at]), count * times[at])
        for at, count in zip(numbers.tolist(), counts.tolist(), strict=True)
    ]


def cut(workload: Workload, starts: Sequence[int | None], window: Window) -> tuple[Workload, int]:
    """(the workload of a window, how many of its first jobs are carried into it). starts: in outline."""
    jobs = workload.jobs
    lead = LEAD * workload.scheduler.period
    arrival = jobs[window.first].submit
    begin = arrival - lead
    runs, waits = list[int](), list[int]()
    for j in range(window.first):
        start = starts[j]
        if start is not None and start + jobs[j].duration > arrival:
            (waits if start > arrival else runs).append(j)
    runs.sort(key=lambda j: -workload.devices(j))  # large ones first find room
    found = []
    for j in runs:
        ran = arrival - (starts[j] or 0)
        requested = max(1, jobs[j].requested - ran)
        found.append(replace(jobs[j], submit=0, duration=jobs[j].duration - ran, requested=requested))
    found += [replace(jobs[j], submit=lead // 2) for j in waits]
    members = jobs[window.first : window.first + window.number]
    outages = [
        replace(outage, start=max(0, outage.start - begin), end=outage.end - begin)
        for outage in workload.outages
        if outage.end > begin
    ]
    later = [replace(job, submit=job.submit - begin) for job in members]
    return replace(workload, jobs=[*found, *later], outages=outages), len(found)


def joined(pieces: Sequence[Piece]) -> Replay:
    """Pieces one after another as one replay, without the jobs that were carried into them; of each the time until its
    last arrival."""
    if len(pieces) == 1 and not pieces[0].carried:
        return pieces[0].replay
    jobs, runs, spans, begin = list[Job](), list[Run](), list[Span](), 0
    for piece in pieces:
        own = piece.replay.workload.jobs[piece.carried :]
        last = max(job.submit for job in own) + 1
        jobs += [replace(job, submit=job.submit + begin) for job in own]
        runs += [_shifted(run, begin) for run in piece.replay.runs[piece.carried :]]
        spans += [
            replace(span, start=span.start + begin, end=min(span.end, last) + begin)
            for span in piece.replay.spans
            if span.start < last
        ]
        begin += last
    first = pieces[0].replay
    workload = replace(first.workload, jobs=jobs, outages=())
    return Replay(workload, runs, spans, all(piece.is_complete for piece in pieces))


def _shifted(run: Run, by: int) -> Run:
    start, finish = (None if moment is None else moment + by for moment in (run.start, run.finish))
    return replace(run, start=start, finish=finish)

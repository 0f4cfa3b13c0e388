"""A long workload in pieces: some windows of its jobs, each replayed alone.

The windows are drawn by a replay in outline: the cluster is one pool of devices, and every job starts that fits into it
and its queues. It takes a second for 40,000 jobs and shows roughly when jobs wait under any policy that leaves no
devices idle; places, shares of queues and requested times are left out. The more jobs of a window wait there, the more
likely it is drawn, and the fewer jobs each of its jobs represents (Hansen and Hurwitz, On the Theory of Sampling from
Finite Populations, 1943). A window begins with the outline's running and waiting jobs at its first arrival.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import heappop, heappush

import numpy as np

from solver.semantics.queues import queue_path
from solver.simulation.catalogue import WITH_LIMITS
from solver.simulation.measures import Floats
from solver.simulation.replay import Replay, Run, Span
from solver.simulation.workload import Job, Workload

QUIET = 0.05
"""Chance of a window in which nobody waits, as a part of that of one in which all do."""

WORK, LEAST_WORK = {"gangplan": 20_000, "volcano": 2_000}, 1_000
"""Policy -> microseconds that a job takes in a replay, measured with a month of 20,000; of all others."""

LEAD = 20
"""Periods of Volcano from the start of the jobs running at the beginning of a window to its first arrival: it decides
at the third. Waiting jobs arrive after half of that."""


@dataclass(frozen=True, slots=True)
class Window:
    """`number` jobs of a workload from job `first`."""

    first: int
    number: int


@dataclass(frozen=True, slots=True)
class Piece:
    """The replay of a window. carried: the number of its jobs from before the window. weight: how many jobs of the
    workload each of the others represents."""

    replay: Replay
    carried: int
    weight: float = 1.0

    @property
    def end(self) -> int:
        """Return the last moment of the replay."""
        return max((span.end for span in self.replay.spans), default=0)

    @property
    def is_complete(self) -> bool:
        """Return whether the replay was completed, or at least all jobs of the window have started."""
        return self.replay.is_complete or all(run.start is not None for run in self.replay.runs[self.carried :])

    def waits(self) -> list[int]:
        """Return job of the window -> its wait; of one that never started until the end of the replay."""
        chosen = slice(self.carried, None)
        pairs = zip(self.replay.runs[chosen], self.replay.workload.jobs[chosen], strict=True)
        return [max(0, (self.end if run.start is None else run.start) - job.submit) for run, job in pairs]


@dataclass(frozen=True, slots=True)
class PieceTask:
    """A window to replay: its workload, with so many jobs that are carried into it."""

    policy: str
    workload: Workload
    carried: int = 0

    @property
    def asked(self) -> range:
        """Return the jobs with whose starts the replay of a cut window may end; none for a replay of all."""
        return range(self.carried, len(self.workload.jobs)) if self.carried else range(0)

    @property
    def work(self) -> int:
        """About how many microseconds its replay takes."""
        return WORK.get(self.policy, LEAST_WORK) * len(self.workload.jobs)


class WindowOrder:
    """The windows of a workload in the order of drawing. The first n draws are spread evenly over the chances, as in
    systematic sampling, for every n (van der Corput's sequence)."""

    def __init__(self, waiting: Floats, size: int, seed: int) -> None:
        """waiting: job -> how likely it waits. size: of a window, in jobs."""
        self.windows = [Window(first, min(size, len(waiting) - first)) for first in range(0, len(waiting), size)]
        chances = np.array([waiting[each.first : each.first + size].mean() for each in self.windows]) + QUIET
        self.chances, self.seed = chances / chances.sum(), seed
        self.offset = random.Random(seed).random()  # noqa: S311  # the same draw each time

    def first(self, draws: int) -> Mapping[Window, float]:
        """Window -> the weight of its jobs, by so many draws; in the order of time."""
        places = (np.array([_van_der_corput(n) for n in range(draws)]) + self.offset) % 1
        drawn = np.minimum(np.searchsorted(np.cumsum(self.chances), places), len(self.windows) - 1)
        counts = sorted(Counter(drawn.tolist()).items())
        return {self.windows[at]: count / (draws * float(self.chances[at])) for at, count in counts}

    def draws_of(self, number: int) -> int:
        """Return the fewest draws that have so many windows, or all there are."""
        draws = most = min(number, len(self.windows))
        while len(self.first(draws)) < most:
            draws += 1
        return draws


class Side:
    """A workload under a policy, and what its windows begin with."""

    def __init__(self, policy: str, workload: Workload) -> None:
        self.policy, self.workload = policy, workload
        self._tasks: dict[Window, PieceTask] = {}

    @cached_property
    def outline(self) -> Sequence[int | None]:
        """Return job -> when it starts in outline."""
        return pool_starts(self.workload, self.policy in WITH_LIMITS)

    @property
    def is_late(self) -> Floats:
        """Return job -> 1 where it waits in outline, else 0."""
        pairs = zip(self.outline, self.workload.jobs, strict=True)
        return np.array([float(start != job.submit) for start, job in pairs])

    def task(self, window: Window) -> PieceTask:
        """Return the replay of a window; the same object each time."""
        if window not in self._tasks:
            self._tasks[window] = PieceTask(self.policy, *cut(self.workload, self.outline, window))
        return self._tasks[window]


class Windows(WindowOrder):
    """The same windows of each side, to be replayed."""

    def __init__(self, sides: Sequence[Side], size: int, seed: int) -> None:
        """sides: of the same jobs."""
        super().__init__(np.mean([side.is_late for side in sides], axis=0), size, seed)
        self.sides = sides

    def draws_within(self, budget: float, least: int) -> int:
        """Return the most draws by which so many jobs of a side are replayed; `least` at least."""
        draws = least
        while draws < len(self.windows) and self.jobs_replayed(draws + 1) <= budget:
            draws += 1
        return draws

    def jobs_replayed(self, draws: int) -> float:
        """Return how many jobs of a side so many draws replay, including those carried into windows."""
        tasks = [side.task(window) for window in self.first(draws) for side in self.sides]
        return sum(len(task.workload.jobs) for task in tasks) / len(self.sides)


def _van_der_corput(n: int) -> float:
    """Return the binary digits of n behind the point, in reverse."""
    return int(f"{n:b}"[::-1], 2) / (1 << n.bit_length())


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
        replace(
            outage,
            start=max(0, outage.start - begin),
            end=outage.end - begin,
            known=None if outage.known is None else max(0, outage.known - begin),
        )
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


Kind = tuple[int, int]
"""(queue, devices): of the jobs of one kind that wait the first is next."""


def pool_starts(workload: Workload, has_limits: bool) -> Sequence[int | None]:
    """Return job -> when it starts; None where it never does. has_limits: whether queues' capabilities count."""
    return _Pool(workload, has_limits).starts()


class _Pool:
    def __init__(self, workload: Workload, has_limits: bool) -> None:
        cluster, device = workload.cluster, workload.device
        self.jobs = workload.jobs
        self.kinds = [(job.queue, workload.devices(j)) for j, job in enumerate(workload.jobs)]
        self.free = cluster.totals[device]
        most = [queue.capability[device] if has_limits else None for queue in cluster.queues]
        self.left = {q: amount for q, amount in enumerate(most) if amount is not None}
        self.limits = [[q for q in queue_path(cluster, own) if q in self.left] for own in range(len(cluster.queues))]
        self.waiting: dict[Kind, deque[int]] = {}
        self.ends: list[tuple[int, int]] = []
        self.found: list[int | None] = [None] * len(workload.jobs)

    def starts(self) -> Sequence[int | None]:
        for j in sorted(range(len(self.jobs)), key=lambda j: self.jobs[j].submit):
            self._pass_to(self.jobs[j].submit)
            if self.kinds[j] not in self.waiting and self._fits(self.kinds[j]):
                self._start(j, self.jobs[j].submit)
            else:
                self.waiting.setdefault(self.kinds[j], deque()).append(j)
        while self.ends:
            self._pass_to(self.ends[0][0])
        return self.found

    def _pass_to(self, moment: int) -> None:
        """End runs up to this moment, and start waiting jobs in the freed room."""
        while self.ends and self.ends[0][0] <= moment:
            now = self.ends[0][0]
            while self.ends and self.ends[0][0] == now:
                self._take(self.kinds[heappop(self.ends)[1]], -1)
            while (
                first := min((line[0] for kind, line in self.waiting.items() if self._fits(kind)), default=None)
            ) is not None:
                line = self.waiting[self.kinds[first]]
                line.popleft()
                if not line:
                    del self.waiting[self.kinds[first]]
                self._start(first, now)

    def _start(self, j: int, now: int) -> None:
        self.found[j] = now
        self._take(self.kinds[j], 1)
        heappush(self.ends, (now + self.jobs[j].duration, j))

    def _fits(self, kind: Kind) -> bool:
        queue, devices = kind
        return devices <= self.free and all(devices <= self.left[q] for q in self.limits[queue])

    def _take(self, kind: Kind, times: int) -> None:
        queue, devices = kind
        self.free -= times * devices
        for q in self.limits[queue]:
            self.left[q] -= times * devices

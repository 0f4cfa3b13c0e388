"""Results of a replay: waits by group of jobs, use of the devices, losses, promised starts, and shares of queues.

At moments at which jobs wait some of them are promised a start, from the facts known by then. Every n-th such moment is
taken, and n doubles after each `LOOKS` taken ones, so that long replays cost little more. A second promise uses the
assumption of EASY's reservation: every run takes its requested time.

Each queue's usage of the devices is seen over time, against its deserved amount while it requested any. Its demand is
its usage and waiting requests, within its capability. Of that it deserves, with d its `deserved` where queues are
measured by it (Volcano's capacity), else by its weight, so that weights share all that is asked for:

    deserved_q  =  min( asked_q, max( t * d_q, guarantee_q ) )
    t           :  the most for which  sum_q min( asked_q, t * d_q ) <= total,  at most 1 (with weights: total)

The tree of queues is not looked at.

Curves of several replays side by side are means over equal parts of the time.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np
import numpy.typing as npt

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
from solver.problem import Problem
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


Floats = npt.NDArray[np.double]


@dataclass(frozen=True, slots=True)
class ShareCurves:
    """lengths: of the replay's spans, microseconds. Span by queue, as parts of all devices: its usage, its demand (held
    and waiting, within the capability) and the deserved part of that. waits: whether a job of it waited."""

    lengths: Floats
    held: Floats
    asked: Floats
    deserved: Floats
    waits: npt.NDArray[np.bool_]

    @property
    def lacking(self) -> Floats:
        """Return span by queue: the usage missing to the deserved amount."""
        return np.maximum(self.deserved - self.held, 0.0)

    @property
    def starves(self) -> npt.NDArray[np.bool_]:
        """Return span by queue: whether a job of it waited while it held nothing of its deserved amount."""
        found: npt.NDArray[np.bool_] = self.waits & (self.deserved > 0) & (self.held == 0)
        return found


@dataclass(frozen=True, slots=True)
class QueueShare:
    """Means over the time in which the queue requested devices, as parts of all: deserved, held, and missing amounts.
    starved: the longest time in which it held nothing of its deserved amount while a job of it waited, microseconds.
    asking: microseconds."""

    deserved: float
    held: float
    error: float
    starved: int
    asking: int


def share_curves(replay: Replay) -> ShareCurves:
    """Return the shares of all queues over the spans of a replay."""
    cluster, device, spans = replay.workload.cluster, replay.workload.device, replay.spans
    total, shape = max(1, cluster.totals[device]), (len(spans), len(cluster.queues))
    held = np.array([span.held for span in spans], dtype=np.double).reshape(shape) / total
    waiting = np.array([span.waiting for span in spans], dtype=np.double).reshape(shape) / total
    most = _amounts([queue.capability[device] for queue in cluster.queues], total, np.inf)
    asked = np.minimum(held + waiting, most)
    lengths = np.array([span.end - span.start for span in spans], dtype=np.double)
    return ShareCurves(lengths, held, asked, _deserved(cluster, device, asked), waiting > 0)


def queue_share(curves: ShareCurves, q: int) -> QueueShare:
    """Return one queue's shares in short."""
    asking = np.where(curves.asked[:, q] > 0, curves.lengths, 0.0)
    deserved, held, error = (
        float((part[:, q] * asking).sum() / max(1.0, asking.sum()))
        for part in (curves.deserved, curves.held, curves.lacking)
    )
    return QueueShare(deserved, held, error, _longest(curves.lengths, curves.starves[:, q]), int(asking.sum()))


def share_error(curves: ShareCurves) -> float:
    """Mean over all time of what queues held less than they deserved, together, as a part of all devices."""
    return float((curves.lacking.sum(axis=1) * curves.lengths).sum() / max(1.0, curves.lengths.sum()))


def _longest(lengths: Floats, chosen: npt.NDArray[np.bool_]) -> int:
    """Return the longest sum of lengths of chosen spans that follow each other."""
    after = np.cumsum(np.where(chosen, lengths, 0.0))
    breaks = np.maximum.accumulate(np.where(chosen, 0.0, after))
    return int((after - breaks).max(initial=0.0))


def _amounts(amounts: Sequence[int | None], total: int, unset: float) -> Floats:
    return np.array([unset if amount is None else amount / total for amount in amounts], dtype=np.double)


def _deserved(cluster: Problem, device: int, asked: Floats) -> Floats:
    """Span by queue, as in the module's formula: queues that ask for least of their d are met first."""
    total = max(1, cluster.totals[device])
    guarantee = _amounts([queue.guarantee[device] for queue in cluster.queues], total, 0.0)
    if cluster.policy.capacity:
        due = np.maximum(_amounts([queue.deserved[device] for queue in cluster.queues], total, 0.0), guarantee)
    else:
        due = np.array([queue.weight for queue in cluster.queues], dtype=np.double)
    ratio = np.divide(asked, due, out=np.full_like(asked, np.inf), where=due > 0)
    order = np.argsort(ratio, axis=1, kind="stable")
    asked_in_order, due_in_order = np.take_along_axis(asked, order, axis=1), due[order]
    met = np.cumsum(asked_in_order, axis=1) - asked_in_order
    open_due = np.cumsum(due_in_order[:, ::-1], axis=1)[:, ::-1]
    levels = np.divide(1.0 - met, open_due, out=np.full_like(asked, np.inf), where=open_due > 0)
    is_reached = levels < np.take_along_axis(ratio, order, axis=1)
    first = np.take_along_axis(levels, is_reached.argmax(axis=1)[:, np.newaxis], axis=1)
    level = np.where(is_reached.any(axis=1)[:, np.newaxis], np.clip(first, 0.0, 1.0), 1.0)
    deserved: Floats = np.minimum(asked, np.maximum(level * due, guarantee))
    return deserved


Edges = IntArray
"""Moments between which means are taken, microseconds, ascending."""


@dataclass(frozen=True, slots=True)
class Curves:
    """By part of the time. used, stranded, lacking (what queues hold less than they deserve, together): parts of all
    devices. waiting: devices that waiting jobs ask for, also as a part. held, deserved: by queue, the same."""

    used: Floats
    stranded: Floats
    waiting: Floats
    lacking: Floats
    held: Floats
    deserved: Floats


def edges_of(replays: Iterable[Replay], parts: int) -> Edges:
    """The ends of so many equal parts of the time from the first arrival to the last event of all, microseconds."""
    spans = [span for replay in replays for span in replay.spans]
    first, last = min((span.start for span in spans), default=0), max((span.end for span in spans), default=0)
    return np.linspace(first, max(last, first + parts), parts + 1).round().astype(np.int64)


def curves(replay: Replay, shares: ShareCurves, edges: Edges) -> Curves:
    """Return the curves between these moments; nothing is held and nobody waits before and after the replay. shares:
    its `share_curves`."""
    total = max(1, replay.workload.cluster.totals[replay.workload.device])
    spans = replay.spans
    stranded = np.array([span.stranded for span in spans], dtype=np.double) / total
    waiting = np.array([sum(span.waiting) for span in spans], dtype=np.double) / total
    sums = [shares.held.sum(axis=1), stranded, waiting, shares.lacking.sum(axis=1)]
    of_all = np.column_stack([*sums, shares.held, shares.deserved])
    found, queues = _means(replay, of_all, edges), shares.held.shape[1]
    used, stranded, waiting, lacking = found[:, :4].T
    return Curves(used, stranded, waiting, lacking, found[:, 4 : 4 + queues], found[:, 4 + queues :])


def _means(replay: Replay, values: Floats, edges: Edges) -> Floats:
    """Part by column: the mean of the values, which the spans of the replay have."""
    times = np.array([span.start for span in replay.spans] + [replay.spans[-1].end if replay.spans else 0])
    lengths = np.diff(times).astype(np.double)[:, np.newaxis]
    sums = np.vstack([np.zeros(values.shape[1]), np.cumsum(values * lengths, axis=0)])
    at_edges = np.column_stack([np.interp(edges, times, column) for column in sums.T])
    means: Floats = np.diff(at_edges, axis=0) / np.diff(edges)[:, np.newaxis]
    return means

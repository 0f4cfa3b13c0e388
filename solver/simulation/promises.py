"""Promised starts of a replay against the real ones.

At moments at which jobs wait some of them are promised a start, from the facts known by then. Every n-th such moment is
taken, and n doubles after each `LOOKS` taken ones, so that long replays cost little more. A second promise uses the
assumption of EASY's reservation: every run takes its requested time.
"""

from __future__ import annotations

import random
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

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
from solver.simulation.policies import Event
from solver.simulation.site import Site
from solver.simulation.workload import SECOND, Workload

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

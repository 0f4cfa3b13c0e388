"""Windows of start times, corrected by how earlier ones held.

Futures err together: all of them think jobs too short, or places too easy to find. So a window is not their spread. It
is their median, times the ratios of earlier real waits to their medians (Vovk et al., Algorithmic Learning
in a Random World, 2005, chapter 2, with a multiplicative score):

    r_k     =  ( wait_k + C ) / ( median_k + C )                 for promise k whose job has started
    window  =  [ a * (median + C) - C,  b * (median + C) - C ],    [a, b] the shortest that holds PART of the r_k

One future: when waiting jobs start if every run takes its drawn time. The cluster is one pool of devices with EASY
backfilling (`solver.timeline.reservation`): jobs start in order; the first that does not fit has the room of the moment
at which it will fit, and others pass if they do not delay it. Later arrivals are unknown. Places, queues' limits and
evictions are left out; the windows compensate for the error.

How long jobs run, from ended and running runs.

A running run shows that its length exceeds its age. Leaving it out would make jobs look short, so the share of
runs longer than t is the product-limit estimate (Kaplan and Meier, Nonparametric Estimation from Incomplete
Observations, JASA 1958), with n_i runs that reached the age t_i of the i-th end:

    S(t)  =  product over t_i <= t of ( 1 - 1 / n_i )
"""

from __future__ import annotations

import math
import random
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from statistics import median
from typing import Protocol

SHARE = 80
"""Percent of the windows that are to hold."""

FUTURES = 20
PART = 0.9
"""Part of earlier ratios in a window. Jobs that wait at the same time have similar errors, so the last few hundred
ratios are less informative than independent ones: four fifths of them held 70 % on two traces."""

RECENT, ENOUGH = 400, 20
"""Ratios that are remembered, and with how many of them windows are corrected."""


class Lengths(Protocol):
    """The run time of a job, or the rest of it, in one future."""

    def __call__(self, j: int, rng: random.Random) -> int:
        """Drawn for job `j` from this source of chance."""


@dataclass(frozen=True, slots=True)
class Window:
    """Times from now at which a job starts: between `low` and `high` in `share` percent of the cases, before `middle`
    in half of them. raw: the median of the futures. share: percent of such windows that are to hold; None for a first
    estimate, which states none."""

    low: int
    middle: int
    high: int
    raw: int
    share: int | None


def starts_in_futures(pool: Pool, length: Lengths, rest: Lengths, seed: int) -> Mapping[int, Sequence[int]]:
    """Return job -> when it starts in each future, from now, in order; of jobs that start in all of them."""
    found: dict[int, list[int]] = {job: [] for job, _ in pool.waiting}
    for number in range(FUTURES):
        rng = random.Random(f"{seed} {number}")  # noqa: S311  # the same futures each time
        drawn = cache(partial(length, rng=rng))
        for job, start in start_times(pool, drawn, partial(rest, rng=rng)).items():
            found[job].append(start - pool.now)
    return {job: sorted(starts) for job, starts in found.items() if len(starts) == FUTURES}


class Correction:
    """Remembers the ratios of real waits to medians. minute: C of the formula, in the unit of the times."""

    def __init__(self, minute: int) -> None:
        self.minute = minute
        self._ratios: deque[float] = deque(maxlen=RECENT)

    def add(self, raw: int, wait: int) -> None:
        """A job whose futures had the median `raw` started after `wait`."""
        self._ratios.append((wait + self.minute) / (raw + self.minute))

    @property
    def share(self) -> int | None:
        """Return the percentage of the windows that should hold; None while too few ratios are known."""
        return SHARE if len(self._ratios) >= ENOUGH else None

    def window(self, starts: Sequence[int]) -> Window:
        """Return the window of a job that starts at these times, in order, in the futures."""
        raw = starts[len(starts) // 2]
        if self.share is None:
            outside = len(starts) // 10
            return Window(starts[outside], raw, starts[-1 - outside], raw, None)
        ratios = sorted(self._ratios)
        inside = math.ceil(len(ratios) * PART) - 1
        first = min(range(len(ratios) - inside), key=lambda at: ratios[at + inside] - ratios[at])
        chosen = (ratios[first], ratios[len(ratios) // 2], ratios[first + inside])
        low, middle, high = (max(0, round(ratio * (raw + self.minute)) - self.minute) for ratio in chosen)
        return Window(low, middle, high, raw, self.share)


End = tuple[int, int]
"""(when a run ends, devices that it gives back)."""


@dataclass(frozen=True, slots=True)
class Pool:
    """Times are integers of any unit from any origin. waiting: (job, devices) in order, none of which can start before
    a run ends, for places, limits or a reservation. running: (job, devices)."""

    now: int
    free: int
    running: Sequence[tuple[int, int]]
    waiting: Sequence[tuple[int, int]]


def start_times(pool: Pool, length: Callable[[int], int], rest: Callable[[int], int]) -> dict[int, int]:
    """Return job -> its start; without jobs that never fit and those behind them. length: of a waiting job's run. rest:
    remaining time of a running one."""
    return _Future(pool, length, rest).starts()


class _Future:
    def __init__(self, pool: Pool, length: Callable[[int], int], rest: Callable[[int], int]) -> None:
        self.now, self.free, self.length = pool.now, pool.free, length
        self.ends: list[End] = sorted((pool.now + max(1, rest(job)), devices) for job, devices in pool.running)
        self.waiting = [*pool.waiting]
        self.started: dict[int, int] = {}

    def starts(self) -> dict[int, int]:
        while self.waiting and self.ends:
            self._pass_to_next_end()
            self._start_in_order()
            if self.waiting and (fit := self._first_fit(self.waiting[0][1])) is not None:
                self._backfill(*fit)
        return self.started

    def _start_in_order(self) -> None:
        first = 0
        while first < len(self.waiting) and self.waiting[first][1] <= self.free:
            self._start(*self.waiting[first])
            first += 1
        del self.waiting[:first]

    def _first_fit(self, devices: int) -> tuple[int, int] | None:
        """(when so many devices are free, how many more are then); None where they never are."""
        free = self.free
        for end, given in self.ends:
            free += given
            if free >= devices:
                return end, free - devices
        return None

    def _backfill(self, shadow: int, spare: int) -> None:
        """Start jobs that end before the shadow, or that fit into the spare devices."""
        left = self.waiting[:1]
        for at in range(1, len(self.waiting)):
            if not self.free:
                left += self.waiting[at:]
                break
            job, devices = self.waiting[at]
            is_short = devices <= self.free and self.now + self.length(job) <= shadow
            if is_short or devices <= min(self.free, spare):
                spare -= 0 if is_short else devices
                self._start(job, devices)
            else:
                left.append((job, devices))
        self.waiting = left

    def _start(self, job: int, devices: int) -> None:
        self.free -= devices
        self.started[job] = self.now
        insort(self.ends, (self.now + max(1, self.length(job)), devices))

    def _pass_to_next_end(self) -> None:
        self.now = self.ends[0][0]
        while self.ends and self.ends[0][0] == self.now:
            self.free += self.ends.pop(0)[1]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a promise; times in any unit, from when it was made. low, middle, high: of its window. by_limits:
    the start if every run took its requested time, None where that is unknown. wait: until the real start. whole: the
    job's wait from its submission. share: percentage of such windows that should hold, None for a first estimate."""

    low: int
    middle: int
    high: int
    by_limits: int | None
    wait: int
    whole: int
    share: int | None


@dataclass(frozen=True, slots=True)
class PromiseScore:
    """Statistics of the promises that stated a share and whose job started. inside: the part that started in their
    window. width: median of the window's width / the whole wait of its job. error, limits_error: medians of the
    differences between the real start and the middle of the window, and the start by limits, None where no such start
    is known. estimates: the number of first estimates, which are not scored."""

    made: int
    estimates: int
    inside: float
    width: float
    error: int
    limits_error: int | None


def promise_score(outcomes: Sequence[Outcome]) -> PromiseScore | None:
    """Return how the promises held; None without any that stated a share."""
    stated = [each for each in outcomes if each.share is not None]
    if not stated:
        return None
    by_limits = [abs(each.by_limits - each.wait) for each in stated if each.by_limits is not None]
    return PromiseScore(
        len(stated),
        len(outcomes) - len(stated),
        sum(each.low <= each.wait <= each.high for each in stated) / len(stated),
        median((each.high - each.low) / max(1, each.whole) for each in stated),
        round(median(abs(each.middle - each.wait) for each in stated)),
        round(median(by_limits)) if by_limits else None,
    )


@dataclass(frozen=True, slots=True)
class PastRuns:
    """Times in seconds. classes: gang -> its classes, () for one that does not end. ages: gang -> how long it has run;
    0 where that is not known. score: how the promises to the recorded runs held; None without any."""

    history: RunHistory
    correction: Correction
    classes: Sequence[Classes]
    ages: Mapping[int, int]
    score: PromiseScore | None = None


LAST = 100
"""Ended runs of a class that are remembered."""

ENOUGH_RUNS = 10
"""Fewer ended runs than that do not speak for their class."""

Classes = Sequence[Hashable]
"""The classes of a job, the closest first; the last is that of all jobs."""


class RunTimes:
    """The distribution of run times of one class. Times are integers of any unit."""

    def __init__(self, ended: Sequence[int], ages: Iterable[int]) -> None:
        self._times: list[int] = []
        self._ended_by: list[float] = []
        lasting = 1.0
        order = sorted([*((time, False) for time in ended), *((age, True) for age in ages)])
        for at, (time, goes_on) in enumerate(order):
            if not goes_on:
                lasting *= 1 - 1 / (len(order) - at)
                self._times.append(time)
                self._ended_by.append(1 - lasting)

    def covers(self, age: int) -> bool:
        """Return whether a run of this class is known to have lasted longer."""
        return bool(self._times) and age < self._times[-1]

    def draw(self, age: int, rng: random.Random) -> int:
        """Return a random run time of a run of this age. Beyond the longest known one it follows Pareto's law with the
        exponent 1: half of the runs of an age double it."""
        known = bisect_right(self._times, age)
        gone = self._ended_by[known - 1] if known else 0.0
        at = bisect_left(self._ended_by, gone + rng.random() * (1 - gone), known)
        if at < len(self._times):
            return self._times[at]
        return int(max(age, self._times[-1]) / (1 - rng.random()))


class RunHistory:
    """Ended runs by class, and run times estimated from them together with the running ones."""

    def __init__(self) -> None:
        self._ended: dict[Hashable, deque[int]] = {}

    def add(self, classes: Classes, length: int) -> None:
        """Remember a run that ended."""
        for key in classes:
            self._ended.setdefault(key, deque(maxlen=LAST)).append(length)

    def run_times(self, running: Iterable[tuple[Classes, int]]) -> Mapping[Hashable, RunTimes]:
        """Return class -> its run times, of classes with enough runs. running: classes and age of each running run."""
        ages: dict[Hashable, list[int]] = {}
        for classes, age in running:
            for key in classes:
                ages.setdefault(key, []).append(age)
        return {key: RunTimes(of, ages.get(key, ())) for key, of in self._ended.items() if len(of) >= ENOUGH_RUNS}


def draw_length(
    known: Mapping[Hashable, RunTimes], classes: Classes, age: int, limit: int | None, rng: random.Random
) -> int:
    """A run time for a job that has run for `age`, at most its limit: of the closest class that knows longer runs.
    Raises KeyError where not even the class of all jobs is known."""
    of_job = (known[key] for key in classes if key in known)
    closest = next((times for times in of_job if times.covers(age)), known[classes[-1]])
    drawn = closest.draw(age, rng)
    return drawn if limit is None else min(drawn, limit)

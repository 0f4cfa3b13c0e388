"""How long jobs run, from ended and running runs.

A running run shows that its length exceeds its age. Leaving it out would make jobs look short, so the share of
runs longer than t is the product-limit estimate (Kaplan and Meier, Nonparametric Estimation from Incomplete
Observations, JASA 1958), with n_i runs that reached the age t_i of the i-th end:

    S(t)  =  product over t_i <= t of ( 1 - 1 / n_i )
"""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Hashable, Iterable, Mapping, Sequence

LAST = 100
"""Ended runs of a class that are remembered."""

ENOUGH = 10
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
        return {key: RunTimes(of, ages.get(key, ())) for key, of in self._ended.items() if len(of) >= ENOUGH}


def draw_length(
    known: Mapping[Hashable, RunTimes], classes: Classes, age: int, limit: int | None, rng: random.Random
) -> int:
    """A run time for a job that has run for `age`, at most its limit: of the closest class that knows longer runs.
    Raises KeyError where not even the class of all jobs is known."""
    of_job = (known[key] for key in classes if key in known)
    closest = next((times for times in of_job if times.covers(age)), known[classes[-1]])
    drawn = closest.draw(age, rng)
    return drawn if limit is None else min(drawn, limit)

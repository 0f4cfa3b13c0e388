"""Windows of start times, corrected by how earlier ones held.

Futures err together: all of them think jobs too short, or places too easy to find. So a window is not their spread. It
is their median, times the ratios of earlier real waits to their medians (Vovk et al., Algorithmic Learning
in a Random World, 2005, chapter 2, with a multiplicative score):

    r_k     =  ( wait_k + C ) / ( median_k + C )                 for promise k whose job has started
    window  =  [ a * (median + C) - C,  b * (median + C) - C ],    [a, b] the shortest that holds PART of the r_k
"""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Protocol

from solver.forecast.futures import Pool, start_times

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

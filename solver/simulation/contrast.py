"""Two replays of the same jobs: who waits longer under the second, and how certain that is.

The interval is a bootstrap over windows of time (Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter
13): jobs of one window depend on each other, so windows are drawn with replacement and not jobs.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from solver.semantics.device_slots import IntArray
from solver.simulation.measures import groups_of, percentile
from solver.simulation.replay import Replay

SHARE = 95
"""The percentile of waits that is compared."""

DRAWS, CERTAIN = 400, 90
"""Draws of the bootstrap, and how many percent of them the interval holds."""

WINDOWS = 30
"""Windows of equal length into which the arrivals are divided."""


@dataclass(frozen=True, slots=True)
class Contrast:
    """Of a group of jobs, in microseconds: the 95th percentile of waits before and after, and the interval of their
    difference."""

    jobs: int
    before: int
    after: int
    low: int
    high: int

    @property
    def verdict(self) -> str:
        """Whether the waits are longer, shorter, or not certainly different."""
        if self.low > 0:
            return "longer"
        return "shorter" if self.high < 0 else "no certain difference"


def contrasts_by(
    before: Replay, after: Replay, group_of: Callable[[int], str], seed: int = 1
) -> Mapping[str, Contrast]:
    """The contrast of each group, in the order of their names. Raises ValueError for replays of different jobs."""
    jobs = before.workload.jobs
    if [job.name for job in jobs] != [job.name for job in after.workload.jobs]:
        raise ValueError("the replays are of different jobs")
    waits = _waits(before), _waits(after)
    first = min((job.submit for job in jobs), default=0)
    span = max((job.submit for job in jobs), default=0) - first + 1
    window = np.array([(job.submit - first) * WINDOWS // span for job in jobs], dtype=np.int64)
    groups = groups_of(len(jobs), group_of)
    return {name: _contrast(*waits, window, np.array(group), seed) for name, group in groups.items()}


def _waits(replay: Replay) -> IntArray:
    """Job -> its wait; of one that never started until the end of the replay."""
    end = max((span.end for span in replay.spans), default=0)
    starts = (end if run.start is None else run.start for run in replay.runs)
    waits = [max(0, start - job.submit) for start, job in zip(starts, replay.workload.jobs, strict=True)]
    return np.array(waits, dtype=np.int64)


def _contrast(before: IntArray, after: IntArray, window: IntArray, chosen: IntArray, seed: int) -> Contrast:
    members = [chosen[window[chosen] == number] for number in range(WINDOWS)]
    draw, differences = random.Random(seed), list[int]()  # noqa: S311  # the same draw each time
    for _ in range(DRAWS):
        drawn = np.concatenate(draw.choices(members, k=WINDOWS))
        if len(drawn):
            differences.append(percentile(after[drawn], SHARE) - percentile(before[drawn], SHARE))
    spread, outside = np.array(differences or [0], dtype=np.int64), (100 - CERTAIN) // 2
    return Contrast(
        len(chosen),
        percentile(before[chosen], SHARE),
        percentile(after[chosen], SHARE),
        percentile(spread, outside),
        percentile(spread, 100 - outside),
    )

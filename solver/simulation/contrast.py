"""Two replays of the same jobs: who waits longer under the second, and how certain that is.

The interval is a bootstrap over windows of time (Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter
13): jobs of one window depend on each other, so windows are drawn with replacement and not jobs.

Two configurations on one workload: all of it where the budget allows, and its differences are known; else windows.

The interval of windows is examined once, with the whole budget spent. Examining it repeatedly until it excludes zero
errs more often. Giving each look a part of the error (Lan and DeMets, Discrete Sequential Boundaries for Clinical
Trials, Biometrika 70, 1983) does not help: an early look has few windows, and their interval is too narrow. Of 144
pairs of `bench compare-pairs` that method got 11 wrong, one look at all the windows 5.

Nothing depends on time: work is counted in jobs.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from solver.semantics.device_slots import IntArray
from solver.simulation.measures import Floats, groups_of, percentile
from solver.simulation.pieces import LEAST_WORK, WORK, Piece, PieceTask, Side, Windows
from solver.simulation.site import NEVER
from solver.simulation.workload import SECOND

SHARE = 95
"""The percentile of waits that is compared."""

DRAWS, CERTAIN = 400, 90
"""Draws of the bootstrap, and how many percent of them the interval holds."""

UNCERTAIN, EQUAL = "no certain difference", "no difference"

LEAST = SECOND
"""Microseconds up to which a known difference counts as zero: Volcano's cycle."""

WINDOWS = 30
"""Parts of equal length into which the arrivals of all windows are divided."""


@dataclass(frozen=True, slots=True)
class Contrast:
    """Waits of a group of jobs, in microseconds: the 95th percentile before and after, and the interval of their
    difference. is_known: all jobs of the group were replayed, and the interval is the difference itself."""

    jobs: int
    before: int
    after: int
    low: int
    high: int
    is_known: bool = False

    @property
    def verdict(self) -> str:
        """Return whether the waits are longer, shorter, or not certainly different."""
        least = LEAST if self.is_known else 0
        if self.low > least:
            return "longer"
        if self.high < -least:
            return "shorter"
        return EQUAL if self.is_known else UNCERTAIN


def contrasts_by(
    before: Sequence[Piece],
    after: Sequence[Piece],
    group_of: Callable[[int], str],
    seed: int = 1,
    is_whole: bool = False,
) -> Mapping[str, Contrast]:
    """Return the contrast of each group, in the order of their names. group_of: of a job of the windows, one after
    another. is_whole: the pieces are all of the workload. Raises ValueError for replays of different jobs."""
    if _names(before) != _names(after):
        raise ValueError("the replays are of different jobs")
    waits = [np.array([wait for piece in side for wait in piece.waits()], dtype=np.int64) for side in (before, after)]
    groups = groups_of(len(waits[0]), group_of)
    if is_whole:
        return {name: _known(waits, np.array(group)) for name, group in groups.items()}
    share = max(1, WINDOWS // max(1, len(before)))
    blocks = [_blocks(piece, share) + share * number for number, piece in enumerate(before)]
    weights = [np.full(len(own), piece.weight) for own, piece in zip(blocks, before, strict=True)]
    sample = _Sample(np.concatenate(blocks), np.concatenate(weights), _draws(share * len(before), seed))
    return {name: _contrast(sample, waits, np.array(group)) for name, group in groups.items()}


def _names(pieces: Sequence[Piece]) -> list[list[str]]:
    return [[job.name for job in piece.replay.workload.jobs[piece.carried :]] for piece in pieces]


def _blocks(piece: Piece, number: int) -> IntArray:
    """Return job of a window -> in which of so many equal parts of the window's time it arrives."""
    submits = np.array([job.submit for job in piece.replay.workload.jobs[piece.carried :]], dtype=np.int64)
    since = submits - submits.min(initial=NEVER)
    found: IntArray = since * number // (since.max(initial=0) + 1)
    return found


def _draws(blocks: int, seed: int) -> IntArray:
    """Draw by block: how often the block is drawn."""
    draw = random.Random(seed)  # noqa: S311  # the same draw each time
    drawn = (np.array(draw.choices(range(blocks), k=blocks)) for _ in range(DRAWS))
    return np.array([np.bincount(each, minlength=blocks) for each in drawn])


@dataclass(frozen=True, slots=True)
class _Sample:
    """Job -> its block and its weight; draw by block: how often it is drawn."""

    blocks: IntArray
    weights: Floats
    draws: IntArray


def _known(waits: Sequence[IntArray], group: IntArray) -> Contrast:
    """waits: before and after, job -> its wait; of all jobs."""
    before, after = (percentile(of_side[group], SHARE) for of_side in waits)
    return Contrast(len(group), before, after, after - before, after - before, is_known=True)


def _contrast(sample: _Sample, waits: Sequence[IntArray], group: IntArray) -> Contrast:
    """waits: before and after, job -> its wait."""
    before, after = (_Side.of(sample, of_side, group) for of_side in waits)
    once = np.ones_like(sample.draws[0])
    known = (draw for draw in sample.draws if draw[sample.blocks[group]].any())
    spread = sorted(after.percentile(draw) - before.percentile(draw) for draw in known) or [0]
    beyond = len(spread) * (100 - CERTAIN) // 200
    return Contrast(
        len(group), before.percentile(once), after.percentile(once), spread[beyond], spread[len(spread) - 1 - beyond]
    )


@dataclass(frozen=True, slots=True)
class _Side:
    """The waits of a group, ascending, with the block and weight of each."""

    waits: IntArray
    blocks: IntArray
    weights: Floats

    @classmethod
    def of(cls, sample: _Sample, waits: IntArray, chosen: IntArray) -> _Side:
        order = chosen[np.argsort(waits[chosen], kind="stable")]
        return cls(waits[order], sample.blocks[order], sample.weights[order])

    def percentile(self, times: IntArray) -> int:
        """By nearest rank, where each job counts with its weight as often as its block does."""
        upto = np.cumsum(self.weights * times[self.blocks])
        return int(self.waits[np.searchsorted(100 * upto, SHARE * upto[-1])])


DEFAULT_WORK = 400_000_000
"""Microseconds for each side where no number of jobs is given: 20,000 jobs of gangplan's planner."""

WINDOWS_IN_BUDGET, LEAST_WINDOWS = 15, 10
"""Windows that the budget would hold if nothing were carried into them, and their least number. Of certain verdicts one
in eight was wrong with two or three windows, one in seventeen with five, one in twenty with ten. Shorter windows seem
to be wrong more often: they depend more on their beginning, which is in outline."""

Replays = Callable[[Sequence[PieceTask]], Sequence[Piece]]
"""Replays windows, anywhere and in any order: of each the side before, then the one after."""


@dataclass(frozen=True, slots=True)
class Trial:
    """before, after: the replays of the same windows on both sides. is_whole: of all of the workload, so that
    differences are known."""

    before: Sequence[Piece]
    after: Sequence[Piece]
    seed: int
    is_whole: bool

    @property
    def is_complete(self) -> bool:
        """Return whether no replay was interrupted."""
        return all(piece.is_complete for piece in (*self.before, *self.after))

    def contrasts(self, group_of: Callable[[int], str]) -> Mapping[str, Contrast]:
        """Return the contrast of each group. group_of: of a job of the windows, one after another."""
        return contrasts_by(self.before, self.after, group_of, self.seed, self.is_whole)


def default_budget(policy: str) -> int:
    """Return jobs of a side that are replayed at most where no number is given."""
    return DEFAULT_WORK // WORK.get(policy, LEAST_WORK)


def try_sides(sides: Sequence[Side], budget: int, seed: int, replays: Replays) -> Trial:
    """Return the trial of two sides of the same jobs. budget: about how many jobs of a side are replayed, including
    those carried into windows."""
    jobs = len(sides[0].workload.jobs)
    if budget < jobs:
        windows = Windows(sides, max(1, budget // WINDOWS_IN_BUDGET), seed)
        draws = windows.draws_within(budget, windows.draws_of(LEAST_WINDOWS))
        if windows.jobs_replayed(draws) < jobs:
            return _try_windows(windows, draws, replays)
    before, after = replays([PieceTask(side.policy, side.workload) for side in sides])
    return Trial([before], [after], seed, is_whole=True)


def _try_windows(windows: Windows, draws: int, replays: Replays) -> Trial:
    weights = windows.first(draws)
    pieces = replays([side.task(window) for window in weights for side in windows.sides])
    before, after = (
        [replace(piece, weight=weight) for piece, weight in zip(of_side, weights.values(), strict=True)]
        for of_side in (pieces[::2], pieces[1::2])
    )
    return Trial(before, after, windows.seed, is_whole=False)

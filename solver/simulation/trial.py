"""Two configurations on one workload: all of it where the budget allows, and its differences are known; else windows.

The interval of windows is examined once, with the whole budget spent. Examining it repeatedly until it excludes zero
errs more often. Giving each look a part of the error (Lan and DeMets, Discrete Sequential Boundaries for Clinical
Trials, Biometrika 70, 1983) does not help: an early look has few windows, and their interval is too narrow. Of 144
pairs of `bench compare-pairs` that method got 11 wrong, one look at all the windows 5.

Nothing depends on time: work is counted in jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from solver.simulation.contrast import Contrast, contrasts_by
from solver.simulation.pieces import LEAST_WORK, WORK, Piece, PieceTask, Side, Windows

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

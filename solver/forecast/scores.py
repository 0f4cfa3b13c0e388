"""Known run times of gangs, and how promised starts held."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from solver.forecast.run_times import Classes, RunHistory
from solver.forecast.windows import Correction


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

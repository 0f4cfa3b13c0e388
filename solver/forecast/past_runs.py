"""Known run times of gangs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from solver.forecast.run_times import Classes, RunHistory
from solver.forecast.scores import PromiseScore
from solver.forecast.windows import Correction


@dataclass(frozen=True, slots=True)
class PastRuns:
    """Times in seconds. classes: gang -> its classes, () for one that does not end. ages: gang -> how long it has run;
    0 where that is not known. score: how the promises to the recorded runs held; None without any."""

    history: RunHistory
    correction: Correction
    classes: Sequence[Classes]
    ages: Mapping[int, int]
    score: PromiseScore | None = None

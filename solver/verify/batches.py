"""The verifier's rule about the bookkeeping of batches and verdicts."""

from __future__ import annotations

import math
from collections import Counter

from solver.plan import Batch, Objective
from solver.verify.checked_plan import CheckedPlan, Findings

GAP_TOLERANCE = 1e-9
PROVEN_GAP = 1e-6
VERDICTS = ("proven", "within gap", "limit reached")
"""From best to worst."""


def batches(x: CheckedPlan) -> Findings:
    """Each gang that starts or waits belongs to exactly one batch, one that is kept or evicted to at most one. A
    batch's verdict is its worst objective's."""
    times = Counter(g for batch in x.plan.batches for g in batch.gangs)
    for g in sorted(set(times) | set(x.decisions)):
        if not 0 <= g < len(x.problem.gangs):
            yield ("batches",), f"gang {g} does not exist"
        elif times[g] > 1 or (not times[g] and g in x.decisions and x.decisions[g].action not in ("keep", "evict")):
            yield ("batches",), f"gang {g} is decided {times[g]} times"
    for b, batch in enumerate(x.plan.batches):
        yield from _verdict_findings(b, batch)


def _verdict_findings(b: int, batch: Batch) -> Findings:
    for o, objective in enumerate(batch.objectives):
        if fault := _objective_fault(objective):
            yield ("batches", b, "objectives", o), fault
    if batch.verdict not in VERDICTS:
        yield ("batches", b, "verdict"), f"{batch.verdict!r} is none of {', '.join(VERDICTS)}"
    elif batch.objectives and all(objective.verdict in VERDICTS for objective in batch.objectives):
        worst = max((objective.verdict for objective in batch.objectives), key=VERDICTS.index)
        if batch.verdict != worst:
            yield ("batches", b, "verdict"), f"is {batch.verdict!r}, but an objective's is {worst!r}"


def _objective_fault(objective: Objective) -> str:
    """What is wrong with an objective; empty if nothing is.

    gap = |bound - value| / max(1, |value|); proven only when it is at most `PROVEN_GAP`.
    """
    if objective.verdict not in VERDICTS:
        return f"{objective.verdict!r} is none of {', '.join(VERDICTS)}"
    if not math.isfinite(objective.value):
        return f"value {objective.value} is no number"
    gap = abs(objective.bound - objective.value) / max(1.0, abs(objective.value))
    if gap != objective.gap and not abs(gap - objective.gap) <= GAP_TOLERANCE * max(1.0, gap):
        return f"gap is {objective.gap!r} instead of {gap!r}"
    if objective.verdict == "proven" and not gap <= PROVEN_GAP:
        return f"a gap of {gap!r} is not proven"
    return ""

"""The gangs that each model decided, and how good its decision is known to be, as plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from compiler.outcome import Outcome
from solver.plan import Batch
from solver.problem import Problem

if TYPE_CHECKING:
    from compiler.outputs import BatchEntry


def batch_entries(outcome: Outcome, *, timings: bool = False) -> list[BatchEntry]:
    if outcome.plan is None or outcome.problem is None:
        return []
    return [_batch_entry(batch, outcome.problem, timings) for batch in outcome.plan.batches]


def _batch_entry(batch: Batch, problem: Problem, timings: bool) -> BatchEntry:
    return {
        "gangs": [problem.gangs[j].name for j in batch.gangs],
        "verdict": batch.verdict,
        "objectives": [
            {
                "name": o.name,
                "value": json_number(o.value),
                "bound": json_number(o.bound),
                "gap": json_number(o.gap),
                "verdict": o.verdict,
            }
            for o in batch.objectives
        ],
        "seconds": round(batch.seconds, 3) if timings else None,
    }


def json_number(value: float) -> int | float:
    """Return the number for JSON: whole numbers without a point, others to nine digits, so that the last bit of a
    division makes no difference."""
    rounded = round(float(value), 9)
    return int(rounded) if rounded.is_integer() else rounded

"""What the benchmark of pairs counts."""

from __future__ import annotations

import pytest

from bench.cases.pairs import _outcomes
from solver.simulation.contrast import Contrast
from solver.simulation.workload import SECOND


def contrast(before: int, after: int, low: int, high: int) -> Contrast:
    return Contrast(10, *(seconds * SECOND for seconds in (before, after, low, high)))


TRUTH = contrast(100, 200, 0, 0)


@pytest.mark.parametrize(
    ("truth", "said", "counted"),
    [
        (TRUTH, contrast(90, 210, 50, 150), ["different", "certain, right", "p95 in the right order"]),
        (TRUTH, contrast(210, 90, -150, -50), ["different", "certain, wrong"]),
        (TRUTH, contrast(90, 210, -5, 150), ["different", "not certain", "p95 in the right order"]),
        (TRUTH, contrast(90, 90, 0, 0), ["different", "not certain"]),
        (contrast(100, 101, 0, 0), contrast(210, 90, -150, -50), []),
    ],
)
def test_a_wrong_verdict_is_counted_as_one(truth: Contrast, said: Contrast, counted: list[str]) -> None:
    assert [*_outcomes(truth, said)] == counted

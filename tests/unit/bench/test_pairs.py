"""What the benchmark of pairs counts."""

from __future__ import annotations

import pytest

from bench.cases.pairs import _outcomes
from solver.simulation.contrast import Contrast
from solver.simulation.workload import SECOND


def contrast(before: int, after: int, low: int, high: int, is_known: bool = False) -> Contrast:
    return Contrast(10, before * SECOND, after * SECOND, low * SECOND, high * SECOND, is_known)


TRUTH = contrast(100, 200, 100, 100, is_known=True)


@pytest.mark.parametrize(
    ("truth", "said", "counted"),
    [
        (TRUTH, contrast(90, 210, 50, 150), ["different", "certain, right", "p95 in the right order"]),
        (TRUTH, contrast(210, 90, -150, -50), ["different", "certain, wrong"]),
        (TRUTH, contrast(90, 210, -5, 150), ["different", "not certain", "p95 in the right order"]),
        (TRUTH, contrast(90, 90, 0, 0), ["different", "not certain"]),
        (TRUTH, TRUTH, ["different", "whole trace", "p95 in the right order"]),
        (contrast(100, 101, 1, 1, is_known=True), contrast(210, 90, -150, -50), []),
    ],
)
def test_a_wrong_verdict_is_counted_as_one(truth: Contrast, said: Contrast, counted: list[str]) -> None:
    assert [*_outcomes(truth, said)] == counted

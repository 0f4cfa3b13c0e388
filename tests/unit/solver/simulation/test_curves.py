"""Means over parts of the time, worked out by hand."""

from __future__ import annotations

import pytest

from solver.simulation.measures import curves, edges_of, share_curves
from solver.simulation.workload import SECOND
from tests.builders.simulations import job, machines, replay, workload

WORLD = workload(machines(2, weights=(1, 1)), job("a", size=2, runs=20), job("b", runs=10, at=5, queue=1))
"""a holds both GPUs to 20 while b waits since 5; b holds one to 30."""


def test_each_part_has_the_mean_of_its_time() -> None:
    found = replay("fifo", WORLD)
    edges = edges_of([found], 3)
    assert edges.tolist() == [0, 10 * SECOND, 20 * SECOND, 30 * SECOND]
    shown = curves(found, share_curves(found), edges)
    assert shown.used.tolist() == pytest.approx([1, 1, 0.5])
    assert shown.waiting.tolist() == pytest.approx([0.25, 0.5, 0])
    assert shown.lacking.tolist() == pytest.approx([0.25, 0.5, 0])
    assert shown.deserved[:, 1].tolist() == pytest.approx([0.25, 0.5, 0.5])
    assert shown.held[:, 1].tolist() == pytest.approx([0, 0, 0.5])
    assert shown.stranded.tolist() == [0, 0, 0]


def test_nothing_is_used_before_and_after_a_replay_and_no_time_is_lost() -> None:
    """Whatever the parts, the integral is what the jobs held."""
    found = replay("fifo", WORLD)
    longer = replay("fifo", workload(machines(1), job("c", runs=70)))
    edges = edges_of([found, longer], 7)
    shown = curves(found, share_curves(found), edges)
    assert shown.used.tolist() == pytest.approx([1, 1, 0.5, 0, 0, 0, 0])
    assert curves(longer, share_curves(longer), edges).used.tolist() == pytest.approx([1] * 7)


def test_a_replay_of_no_job_has_flat_curves() -> None:
    nothing = replay("fifo", workload(machines(1)))
    assert curves(nothing, share_curves(nothing), edges_of([nothing], 2)).used.tolist() == [0, 0]

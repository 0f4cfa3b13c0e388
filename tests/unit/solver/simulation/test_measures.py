"""Measures of replays, worked out by hand."""

from __future__ import annotations

import pytest

from solver.simulation.measures import size_class, usage, waits, waits_by
from solver.simulation.workload import SECOND
from tests.builders.simulations import job, machines, replay, workload

WORLD = workload(
    machines(2), job("a", runs=20), job("b", size=2, runs=20, at=10), job("c", size=3, runs=1), job("d", runs=5, at=50)
)
"""a runs 0 to 20 on one of two, b waits until 20 and runs to 40, c never, d 50 to 55."""


def test_waits_are_those_of_jobs_that_started() -> None:
    found = waits(replay("fifo", WORLD), range(4))
    assert (found.jobs, found.started, found.mean) == (4, 3, 10 * SECOND / 3)
    assert (found.p50, found.p95, found.p99, found.longest) == (0, 10 * SECOND, 10 * SECOND, 10 * SECOND)
    assert found.slowdown == (1 + 30 / 20 + 1) / 3  # d runs less than the floor of 10 s


def test_nothing_started_has_no_waits() -> None:
    assert waits(replay("fifo", WORLD), [2]).mean is None


def test_groups_are_in_order_of_size() -> None:
    found = waits_by(replay("fifo", WORLD), lambda j: size_class(WORLD.devices(j)))
    assert {name.strip(): of_size.jobs for name, of_size in found.items()} == {"1": 2, "2 to 8": 2}
    assert [size_class(size).strip() for size in (1, 2, 8, 9, 64, 65, 512, 513)] == [
        "1",
        "2 to 8",
        "2 to 8",
        "9 to 64",
        "9 to 64",
        "65 to 512",
        "65 to 512",
        "513 and more",
    ]


def test_usage_counts_device_time_from_the_first_arrival_to_the_last_event() -> None:
    found = usage(replay("fifo", WORLD))
    assert found.span == 55 * SECOND
    assert found.utilisation == pytest.approx((20 + 40 + 5) / (55 * 2))
    assert found.peak == 1.0
    assert found.stranded == 0.0  # b asks for two, one was free
    assert found.spread == 1.0


def test_devices_that_are_free_in_the_wrong_places_are_stranded() -> None:
    """From 7 to 36 one of two GPUs is free on each of two nodes, and d waits for two on one."""
    jobs = (job("a", gpus=2, runs=5), job("b", runs=40, at=1), job("c", runs=30, at=6), job("d", gpus=2, runs=5, at=7))
    found = usage(replay("fifo", workload(machines(2, gpus=2), *jobs)))
    assert found.span == 41 * SECOND
    assert found.stranded == pytest.approx(2 * 29 / 41)

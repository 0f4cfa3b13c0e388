"""Who waits longer under the second of two replays."""

from __future__ import annotations

import pytest

from solver.simulation.contrast import contrasts_by
from solver.simulation.workload import SECOND, Job, Workload
from tests.builders.simulations import job, machines, replay, workload


def world(count: int, names: str = "j", jobs: int = 60) -> Workload:
    return workload(machines(count), *(job(f"{names}{n}", runs=25, at=20 * n) for n in range(jobs)))


def group(j: int) -> str:
    return "even" if j % 2 == 0 else "odd"


def test_more_machines_make_waits_certainly_shorter() -> None:
    fewer, more = replay("fifo", world(1)), replay("fifo", world(2))
    for found in contrasts_by(fewer, more, group).values():
        assert (found.jobs, found.after, found.verdict) == (30, 0, "shorter")
        assert found.low <= found.high < 0
        assert found.before > 200 * SECOND
    assert {found.verdict for found in contrasts_by(more, fewer, group).values()} == {"longer"}


def test_what_is_the_same_is_not_different() -> None:
    found = contrasts_by(replay("fifo", world(1)), replay("easy", world(1)), group)["odd"]
    assert (found.low, found.high, found.verdict) == (0, 0, "no certain difference")
    assert found.before == found.after


def test_the_same_seed_draws_the_same() -> None:
    one, two = replay("fifo", world(1)), replay("fifo", world(2))
    assert contrasts_by(one, two, group, 7) == contrasts_by(one, two, group, 7)


def test_a_job_that_never_starts_waits_until_the_end() -> None:
    jobs: tuple[Job, ...] = (job("a", runs=100), job("b", size=2, runs=10))
    one, two = (replay("fifo", workload(machines(count), *jobs)) for count in (1, 2))
    found = contrasts_by(two, one, lambda j: jobs[j].name)["b"]
    assert (found.before, found.after) == (100 * SECOND, 100 * SECOND)  # b waits for a, or for ever
    assert contrasts_by(two, one, lambda j: "all")["all"].jobs == 2


def test_replays_of_different_jobs_are_not_compared() -> None:
    with pytest.raises(ValueError, match="different jobs"):
        contrasts_by(replay("fifo", world(1)), replay("fifo", world(1, "k")), group)

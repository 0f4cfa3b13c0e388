"""Who waits longer under the second of two replays."""

from __future__ import annotations

import pytest

from solver.simulation.contrast import contrasts_by
from solver.simulation.pieces import Piece
from solver.simulation.workload import SECOND, Job, Workload
from tests.builders.simulations import job, machines, replay, workload


def world(count: int, names: str = "j", jobs: int = 60) -> Workload:
    return workload(machines(count), *(job(f"{names}{n}", runs=25, at=20 * n) for n in range(jobs)))


def whole(policy: str, found: Workload) -> list[Piece]:
    return [Piece(replay(policy, found), 0)]


def group(j: int) -> str:
    return "even" if j % 2 == 0 else "odd"


def test_more_machines_make_waits_certainly_shorter() -> None:
    fewer, more = whole("fifo", world(1)), whole("fifo", world(2))
    for found in contrasts_by(fewer, more, group).values():
        assert (found.jobs, found.after, found.verdict) == (30, 0, "shorter")
        assert found.low <= found.high < 0
        assert found.before > 200 * SECOND
    assert {found.verdict for found in contrasts_by(more, fewer, group).values()} == {"longer"}


def test_what_is_the_same_is_not_different() -> None:
    found = contrasts_by(whole("fifo", world(1)), whole("easy", world(1)), group)["odd"]
    assert (found.low, found.high, found.verdict) == (0, 0, "no certain difference")
    assert found.before == found.after


def test_the_same_seed_draws_the_same() -> None:
    one, two = whole("fifo", world(1)), whole("fifo", world(2))
    assert contrasts_by(one, two, group, 7) == contrasts_by(one, two, group, 7)


def test_a_job_that_never_starts_waits_until_the_end() -> None:
    jobs: tuple[Job, ...] = (job("a", runs=100), job("b", size=2, runs=10))
    one, two = (whole("fifo", workload(machines(count), *jobs)) for count in (1, 2))
    found = contrasts_by(two, one, lambda j: jobs[j].name)["b"]
    assert (found.before, found.after) == (100 * SECOND, 100 * SECOND)  # b waits for a, or for ever
    assert contrasts_by(two, one, lambda j: "all")["all"].jobs == 2


def test_replays_of_different_jobs_are_not_compared() -> None:
    with pytest.raises(ValueError, match="different jobs"):
        contrasts_by(whole("fifo", world(1)), whole("fifo", world(1, "k")), group)


def test_a_job_counts_as_often_as_its_weight() -> None:
    """One job in thirty waits an hour: above the 95th percentile as it is, and below with 20 times the weight."""
    calm = workload(machines(1), *(job(f"c{n}", runs=1, at=10 * n) for n in range(29)))
    busy = workload(machines(1), job("long", runs=3600), job("waits", runs=1))
    for weight, wait in ((0.1, 0), (20.0, 3600 * SECOND)):
        pieces = [Piece(replay("fifo", calm), 0, 1.0), Piece(replay("fifo", busy), 1, weight)]
        assert contrasts_by(pieces, pieces, lambda j: "all")["all"].after == wait

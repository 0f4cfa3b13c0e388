"""Who starts when, worked out by hand."""

from __future__ import annotations

import pytest

from solver.problem import Role
from solver.simulation.policies import Conservative, lowest_numbered
from solver.simulation.replay import Simulation
from solver.simulation.room import Holds, Room
from solver.simulation.workload import SECOND
from tests.builders.simulations import POLICIES, job, machines, replay, starts, workload

BLOCKED = (job("runs", size=3, runs=10), job("head", size=4, runs=10, at=1))
"""On four machines: one is free until second 10, when the head can start."""


@pytest.mark.parametrize("policy", POLICIES)
def test_what_fits_starts_when_it_comes(policy: str) -> None:
    assert starts(policy, workload(machines(3), job("a", size=2, runs=5, at=3), job("b", runs=5, at=3))) == {
        "a": 3,
        "b": 3,
    }


@pytest.mark.parametrize("policy", POLICIES)
def test_a_job_that_no_cluster_of_this_size_holds_never_starts_and_holds_up_nobody(policy: str) -> None:
    assert starts(policy, workload(machines(2), job("large", size=3, runs=5), job("small", runs=5))) == {
        "large": None,
        "small": 0,
    }


@pytest.mark.parametrize(
    ("policy", "second"),
    {"fifo": 20, "easy": 2, "conservative": 2, "first-fit": 2, "best-fit": 2, "gangplan": 2}.items(),
)
def test_a_job_that_ends_before_the_reservation_is_backfilled(policy: str, second: int) -> None:
    found = starts(policy, workload(machines(4), *BLOCKED, job("short", runs=8, at=2)))
    assert found == {"runs": 0, "head": 10, "short": second}


@pytest.mark.parametrize(
    ("policy", "head", "long"),
    [("fifo", 10, 20), ("easy", 10, 20), ("conservative", 10, 20), ("first-fit", 11, 2), ("gangplan", 10, 20)],
)
def test_a_job_that_would_delay_the_head_waits_where_there_are_reservations(policy: str, head: int, long: int) -> None:
    found = starts(policy, workload(machines(4), *BLOCKED, job("long", runs=9, at=2)))
    assert (found["head"], found["long"]) == (head, long)


def test_easy_backfills_beyond_the_reservation_on_what_the_head_does_not_reserve() -> None:
    """At second 10 the head takes the three lowest of five machines; the last one is free for longer."""
    runs = job("runs", size=4, runs=10), job("head", size=3, runs=10, at=1)
    assert starts("easy", workload(machines(5), *runs, job("long", runs=30, at=2)))["long"] == 2


def test_easy_delays_the_second_in_line_and_conservative_does_not() -> None:
    """`second` could start at 20, next to `third`, were that not started early in front of it."""
    jobs = (
        job("runs", size=3, runs=10),
        job("head", size=4, runs=10, at=1),
        job("second", size=4, runs=10, at=2),
        job("third", runs=40, at=3),
    )
    world = workload(machines(5), *jobs)
    assert starts("easy", world) == {"runs": 0, "head": 10, "second": 20, "third": 3}
    tight = workload(machines(4), *jobs[:2], job("second", size=3, runs=10, at=2), job("third", runs=12, at=3))
    assert starts("conservative", tight) == {"runs": 0, "head": 10, "second": 20, "third": 20}


def test_the_reservation_moves_forward_when_a_job_ends_early() -> None:
    runs = job("runs", size=4, runs=5, requested=50), job("head", size=4, runs=1, at=1)
    for policy in ("easy", "conservative", "gangplan"):
        assert starts(policy, workload(machines(4), *runs))["head"] == 5


@pytest.mark.parametrize("policy", POLICIES)
def test_a_job_that_runs_longer_than_it_said_is_waited_for(policy: str) -> None:
    world = workload(
        machines(1), job("late", runs=30, requested=10), job("next", runs=1, at=1), job("other", runs=1, at=20)
    )
    assert starts(policy, world) == {"late": 0, "next": 30, "other": 31}


def test_higher_priority_goes_first() -> None:
    jobs = job("runs", runs=10), job("low", runs=1, at=1), job("high", runs=1, at=2, priority=5)
    for policy in ("fifo", "easy", "gangplan"):
        assert starts(policy, workload(machines(1), *jobs)) == {"runs": 0, "low": 11, "high": 10}


@pytest.mark.parametrize("policy", POLICIES)
def test_a_job_that_loses_a_node_begins_again(policy: str) -> None:
    world = workload(machines(1), job("a", runs=10), outages=[(0, 4, 20)])
    (run,) = replay(policy, world).runs
    assert (run.start, run.finish) == (20 * SECOND, 30 * SECOND)
    assert (run.restarts, run.lost) == (1, 4 * SECOND)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_job_whose_node_is_lost_moves_to_another(policy: str) -> None:
    world = workload(machines(2), job("a", runs=10), outages=[(0, 4, 50)])
    (run,) = replay(policy, world).runs
    assert (run.start, [held.node for held in run.holds]) == (4 * SECOND, [1])


def test_a_job_that_does_not_fit_when_it_comes_is_lost_where_jobs_are() -> None:
    world = workload(machines(1), job("a", runs=10), job("b", runs=1, at=5), job("c", runs=1, at=20), loses_jobs=True)
    assert starts("first-fit", world) == {"a": 0, "b": None, "c": 20}


def test_best_fit_keeps_whole_nodes_free() -> None:
    jobs = job("small", runs=20), job("large", runs=20, gpus=4), job("one", runs=9, at=1)
    world = workload(machines(3, gpus=4), *jobs)
    runs = replay("best-fit", world).runs
    assert [[held.node for held in run.holds] for run in runs] == [[0], [1], [0]]


def test_a_node_is_away_until_its_last_outage_ends() -> None:
    world = workload(machines(1), job("a", at=6, runs=5), outages=[(0, 5, 8), (0, 6, 20), (0, 7, 9)])
    assert starts("easy", world) == {"a": 20}


@pytest.mark.parametrize("policy", POLICIES)
def test_a_job_that_would_meet_announced_maintenance_waits_for_its_end(policy: str) -> None:
    jobs = job("long", runs=10, at=2), job("short", runs=3, at=2)
    assert starts(policy, workload(machines(1), *jobs, outages=[(0, 5, 20, 0)])) == {
        "long": 20,
        "short": 30 if policy == "fifo" else 2,
    }


@pytest.mark.parametrize("policy", POLICIES)
def test_maintenance_of_one_node_moves_a_job_to_another(policy: str) -> None:
    world = workload(machines(2), job("a", runs=10, at=1), outages=[(0, 5, 20, 1)])
    (run,) = replay(policy, world).runs
    assert (run.start, [held.node for held in run.holds]) == (SECOND, [1])


@pytest.mark.parametrize("policy", ["easy", "conservative", "gangplan"])
def test_the_head_has_its_reservation_after_the_maintenance_and_short_jobs_go_before(policy: str) -> None:
    """The head needs both nodes for ten seconds, one of which closes at 5."""
    jobs = job("head", size=2, runs=10), job("short", runs=5), job("beside", runs=20), job("late", runs=21)
    found = starts(policy, workload(machines(2), *jobs, outages=[(0, 5, 20, 0)]))
    assert found == {"head": 20, "short": 0, "beside": 0, "late": 30}


@pytest.mark.parametrize("policy", POLICIES)
def test_a_job_that_runs_when_maintenance_comes_late_begins_again(policy: str) -> None:
    (run,) = replay(policy, workload(machines(1), job("a", runs=10), outages=[(0, 5, 20, 4)])).runs
    assert (run.start, run.restarts) == (20 * SECOND, 1)


def test_reservations_are_not_made_again_when_jobs_end_as_expected() -> None:
    placed = []

    def place(room: Room, role: Role) -> Holds | None:
        placed.append(role)
        return lowest_numbered(room, role)

    world = workload(machines(2), *(job(f"j{n}", runs=10 + n) for n in range(20)))
    Simulation(world, Conservative(place)).run()
    assert len(placed) == 20

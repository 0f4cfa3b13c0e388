"""Who starts when, worked out by hand."""

from __future__ import annotations

import pytest

from solver.problem import Role
from solver.simulation.policies import Conservative, lowest_numbered
from solver.simulation.replay import Simulation
from solver.simulation.room import Holds, Room
from solver.simulation.workload import SECOND
from tests.builders.beside import beside
from tests.builders.replays import assert_replay
from tests.builders.simulations import POLICIES, job, machines, replay, workload

CASES = beside(__file__)


@pytest.mark.parametrize("case", CASES)
def test_replay(case: str) -> None:
    assert_replay(CASES[case])


BLOCKED = (job("runs", size=3, runs=10), job("head", size=4, runs=10, at=1))
"""On four machines: one is free until second 10, when the head can start."""


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


def test_best_fit_keeps_whole_nodes_free() -> None:
    jobs = job("small", runs=20), job("large", runs=20, gpus=4), job("one", runs=9, at=1)
    world = workload(machines(3, gpus=4), *jobs)
    runs = replay("best-fit", world).runs
    assert [[held.node for held in run.holds] for run in runs] == [[0], [1], [0]]


@pytest.mark.parametrize("policy", POLICIES)
def test_maintenance_of_one_node_moves_a_job_to_another(policy: str) -> None:
    world = workload(machines(2), job("a", runs=10, at=1), outages=[(0, 5, 20, 1)])
    (run,) = replay(policy, world).runs
    assert (run.start, [held.node for held in run.holds]) == (SECOND, [1])


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

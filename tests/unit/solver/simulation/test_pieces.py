"""Windows of a workload: which are drawn, what they begin with, and that workers replay them alike."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from solver.mip.executors import LOCAL_EXECUTOR, process_executor
from solver.simulation.catalogue import POLICIES
from solver.simulation.pieces import Piece, PieceTask, Side, Window, WindowOrder, Windows, cut, joined, pool_starts
from solver.simulation.replay import Simulation
from solver.simulation.workload import SECOND, Workload
from tests.builders.simulations import job, machines, replay, workload


def replayed(_: None, task: PieceTask) -> Piece:
    simulation = Simulation(task.workload, POLICIES[task.policy](task.workload))
    return Piece(simulation.run(asked=task.asked), task.carried)


def tasks_of(policy: str, world: Workload) -> list[PieceTask]:
    side = Side(policy, world)
    return [side.task(window) for window in Windows([side], 60, 1).first(5)]


def month(count: int, jobs: int = 1_000) -> Workload:
    """Calm, but for every fifth part of it, in which four times as many jobs come."""
    rng, at, found = random.Random(1), 0, []  # noqa: S311
    for n in range(jobs):
        at += rng.randrange(8) if n * 10 // jobs % 5 == 2 else rng.randrange(48)
        found.append(job(f"j{n}", size=rng.choice((1, 1, 2, 4)), runs=rng.randrange(20, 120), at=at))
    return workload(machines(count), *found)


@pytest.mark.parametrize("seed", range(20))
def test_the_pool_starts_jobs_of_equal_nodes_as_first_fit_does(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311
    jobs = (job(f"j{n}", size=rng.randrange(1, 7), runs=rng.randrange(1, 40), at=rng.randrange(300)) for n in range(80))
    world = workload(machines(6), *sorted(jobs, key=lambda one: one.submit))
    assert pool_starts(world, has_limits=False) == [run.start for run in replay("first-fit", world).runs]


def test_the_pool_keeps_queues_to_their_capability_where_it_counts() -> None:
    cluster = machines(4)
    limited = replace(cluster, queues=(replace(cluster.queues[0], capability=(2,)),))
    world = workload(limited, *(job(name, size=2, runs=10) for name in "ab"), job("large", size=3, runs=1))
    assert pool_starts(world, has_limits=True) == [0, 10 * SECOND, None]
    assert pool_starts(world, has_limits=False) == [0, 0, 10 * SECOND]


def test_windows_are_drawn_where_jobs_wait_and_weigh_less_there() -> None:
    waiting = np.repeat([0.0, 1.0, 0.0], [4_000, 1_000, 5_000])
    busy, weighed = 0, []
    for seed in range(200):
        windows = WindowOrder(waiting, 100, seed).first(5)
        assert windows == WindowOrder(waiting, 100, seed).first(5)
        of_busy = [window for window in windows if 4_000 <= window.first < 5_000]
        busy += len(of_busy)
        weighed.append(sum(window.number * weight for window, weight in windows.items()))
        assert all(windows[window] < 4 * 2 for window in of_busy)
        assert all(weight > 40 for window, weight in windows.items() if window not in of_busy)
    assert busy > 0.6 * 200 * 5
    assert sum(weighed) / len(weighed) == pytest.approx(10_000, rel=0.05)


@pytest.mark.parametrize("draws", [1, 2, 4, 8, 16])
def test_more_draws_keep_the_windows_and_stay_evenly_spread(draws: int) -> None:
    order = WindowOrder(np.zeros(1_600), 100, seed=draws)
    fewer, more = order.first(draws), order.first(2 * draws)
    assert fewer.keys() <= more.keys()
    assert len(fewer) == draws
    firsts = [window.first for window in fewer]
    assert {after - before for before, after in pairwise(firsts)} <= {1_600 // draws}
    assert order.draws_of(draws) == draws


def test_the_fewest_draws_that_have_so_many_windows() -> None:
    """Most draws are of the one window in which jobs wait; there are no more windows than five."""
    order = WindowOrder(np.repeat([0.0, 1.0, 0.0], [200, 100, 200]), 100, seed=1)
    assert len(order.first(3)) < 3
    draws = order.draws_of(3)
    assert len(order.first(draws)) == 3
    assert len(order.first(draws - 1)) == 2
    assert len(order.first(order.draws_of(9))) == 5


def test_a_window_begins_with_what_runs_and_what_waits() -> None:
    jobs = (
        job("over", runs=5),
        job("runs", size=2, runs=1_000, at=10),
        job("waits", size=3, runs=50, at=20),
        job("first", runs=7, at=100),
        job("later", runs=7, at=130),
    )
    world = workload(machines(4), *jobs, outages=[(0, 90, 110)])
    piece, carried = cut(world, pool_starts(world, has_limits=False), Window(3, 2))
    begin = piece.jobs[2].submit
    assert (carried, [one.name for one in piece.jobs]) == (2, ["runs", "waits", "first", "later"])
    assert (piece.jobs[0].submit, piece.jobs[0].duration, piece.jobs[0].requested) == (0, 910 * SECOND, 910 * SECOND)
    assert 0 < piece.jobs[1].submit < begin
    assert piece.jobs[3].submit - begin == 30 * SECOND
    assert (piece.outages[0].start, piece.outages[0].end) == (begin - 10 * SECOND, begin + 10 * SECOND)


def test_the_replay_of_a_window_has_about_the_waits_of_the_whole() -> None:
    world = month(12)
    whole, tasks = replay("first-fit", world), tasks_of("first-fit", world)
    waits = {one.name: (run.start or 0) - one.submit for one, run in zip(world.jobs, whole.runs, strict=True)}
    for task in tasks:
        piece = replayed(None, task)
        names = [one.name for one in task.workload.jobs[task.carried :]]
        real = sum(waits[name] for name in names) / len(names)
        assert sum(piece.waits()) / len(names) == pytest.approx(real, rel=0.25, abs=20 * SECOND)


def test_pieces_are_joined_in_time_without_what_was_carried_into_them() -> None:
    pieces = [replayed(None, task) for task in tasks_of("easy", month(12))]
    found = joined(pieces)
    assert len(found.runs) == len(found.workload.jobs) == sum(len(piece.waits()) for piece in pieces)
    submits = [one.submit for one in found.workload.jobs]
    assert submits == sorted(submits)
    assert all(span.start < span.end for span in found.spans)
    ends = [span.end for span in found.spans]
    assert all(end <= after.start for end, after in zip(ends, found.spans[1:], strict=False))
    assert found.is_complete
    alone = Piece(replay("easy", month(12, 50)), 0)
    assert joined([alone]) is alone.replay


def test_workers_replay_the_same_as_this_process() -> None:
    tasks = [task for policy in ("easy", "volcano") for task in tasks_of(policy, month(12, 200))]
    with process_executor(2, min_work=0) as mapper:
        assert mapper.map(replayed, None, tasks, 1) == LOCAL_EXECUTOR.map(replayed, None, tasks, 1)
        assert not mapper.faults

"""How much of a workload two sides are tried on, and what is known then."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from solver.simulation.contrast import LEAST_WINDOWS, UNCERTAIN, Trial, default_budget, try_sides
from solver.simulation.pieces import Piece, PieceTask, Side
from solver.simulation.workload import Workload
from tests.builders.simulations import replay
from tests.unit.solver.simulation.test_pieces import month, replayed


class Replays:
    """calls: jobs of each task, call by call."""

    def __init__(self) -> None:
        self.calls: list[list[int]] = []

    def __call__(self, tasks: Sequence[PieceTask]) -> list[Piece]:
        self.calls.append([len(task.workload.jobs) for task in tasks])
        return [replayed(None, task) for task in tasks]


def sides(fewer: int, more: int, jobs: int = 1_200) -> list[Side]:
    return [Side("first-fit", month(count, jobs)) for count in (fewer, more)]


def test_a_workload_within_the_budget_is_replayed_whole_and_its_differences_are_known() -> None:
    worlds = [month(count, 200) for count in (12, 15)]
    replays = Replays()
    trial = try_sides([Side("easy", world) for world in worlds], 200, 1, replays)
    assert (replays.calls, trial.is_whole, trial.is_complete) == ([[200, 200]], True, True)
    found = trial.contrasts(lambda j: "all")["all"]
    assert (found.before, found.after) == tuple(p95(world) for world in worlds)
    assert found.low == found.high == found.after - found.before < 0
    assert (found.is_known, found.verdict) == (True, "shorter")
    same = try_sides([Side("easy", worlds[0])] * 2, 200, 1, replays)
    assert verdict(same) == "no difference"


def verdict(trial: Trial) -> str:
    return trial.contrasts(lambda j: "all")["all"].verdict


def p95(world: Workload) -> int:
    waits = sorted(
        (run.start or 0) - job.submit for run, job in zip(replay("easy", world).runs, world.jobs, strict=True)
    )
    return waits[-(-95 * len(waits) // 100) - 1]


@pytest.mark.parametrize(("fewer", "more", "waits"), [(12, 15, "shorter"), (15, 12, "longer"), (12, 12, UNCERTAIN)])
def test_windows_within_the_budget_are_looked_at_once(fewer: int, more: int, waits: str) -> None:
    replays = Replays()
    trial = try_sides(sides(fewer, more), 900, 1, replays)
    assert (trial.is_whole, verdict(trial), len(replays.calls)) == (False, waits, 1)
    assert 0.8 * 900 < sum(replays.calls[0]) / 2 <= 900
    assert len(trial.before) == len(trial.after) >= LEAST_WINDOWS


@pytest.mark.parametrize("budget", [1, 50])
def test_so_few_jobs_that_windows_cost_as_much_are_replayed_whole(budget: int) -> None:
    assert try_sides(sides(12, 15, 60), budget, 1, Replays()).is_whole


def test_a_small_budget_has_as_many_windows_as_an_interval_needs() -> None:
    trial = try_sides(sides(12, 15), 10, 1, Replays())
    assert not trial.is_whole
    assert len(trial.before) == LEAST_WINDOWS


def test_policies_that_take_less_for_a_job_replay_more_by_default() -> None:
    assert default_budget("gangplan") == 20_000
    assert default_budget("volcano") == 200_000
    assert default_budget("easy") == default_budget("fgd") == 400_000

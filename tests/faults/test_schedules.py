"""Each kind of fault once, around the actions of a short story; `scripts/hunt --faults` has random ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controlplane import ControlPlane
from tests.faults.kinds import KINDS, Step
from tests.faults.schedule import Schedule

FIXED = {
    "watches": (
        Step("drift", "watches expire", 1.0),
        Step("lose_pod", "watches end at once", 1.0),
        Step("delete_gang", "watches are refused", 1.0),
    ),
}


def test_a_seed_gives_the_same_schedule_again_and_the_seeds_reach_every_kind() -> None:
    assert Schedule.from_seed(7) == Schedule.from_seed(7)
    reached = {step.fault for seed in range(500) for step in Schedule.from_seed(seed).steps}
    assert reached == set(KINDS)


@pytest.mark.e2e
@pytest.mark.parametrize("name", FIXED)
def test_the_cluster_is_as_planned_after_faults(name: str, bed: ControlPlane, tmp_path: Path) -> None:
    Schedule(1, FIXED[name]).run(bed, tmp_path)

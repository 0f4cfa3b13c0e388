"""Each kind of fault once, around the actions of a short story; `scripts/hunt --faults` has random ones."""

from __future__ import annotations

import pytest

from tests.builders.beside import beside
from tests.faults.kinds import KINDS, Step
from tests.faults.schedule import Schedule, run_step
from tests.faults.shared import SharedWorld

FAULTS = beside(__file__)
FIXED = {name: [Step(*step) for step in steps] for name, steps in FAULTS["fixed"].items()}


def test_every_kind_is_tested_once() -> None:
    fixed = [step.fault for steps in FIXED.values() for step in steps]
    assert sorted([*fixed, *FAULTS["in others"], *FAULTS["only random"]]) == sorted(KINDS)


def test_a_seed_gives_the_same_schedule_again_and_the_seeds_reach_every_kind() -> None:
    assert Schedule.from_seed(7) == Schedule.from_seed(7)
    reached = {step.fault for seed in range(500) for step in Schedule.from_seed(seed).steps}
    assert reached == set(KINDS)


@pytest.mark.e2e
@pytest.mark.parametrize("name", FIXED)
def test_the_cluster_is_as_planned_after_faults(name: str, shared_world: SharedWorld) -> None:
    with shared_world.use() as world:
        for step in FIXED[name]:
            run_step(world, step)

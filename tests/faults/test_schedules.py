"""Each kind of fault once, around the actions of a short story; `scripts/hunt --faults` has random ones."""

from __future__ import annotations

import pytest

from tests.faults.kinds import KINDS, Step
from tests.faults.schedule import Schedule, run_step
from tests.faults.shared import SharedWorld

FIXED = {
    "requests": (
        Step("change_settings", "409 on half of the writes", 1.0),
        Step("drift", "429 with Retry-After", 1.0),
    ),
    "answers": (
        Step("add_short_gang", "500 after a write", 1.0),
        Step("lose_pod", "truncated", 1.0),
    ),
    "watches": (
        Step("drift", "watches expire", 1.0),
        Step("delete_gang", "watches are refused", 1.0),
        Step("urgent_gang", "late watches of pods", 2.0),
    ),
    "process": (Step("run_again", "clock jumps", 0.5),),
    "evictions": (
        Step("lasting_urgent_gang", "a node is lost", 2.5),
        Step("lasting_urgent_gang", "a node is cordoned", 1.0),
        Step("fleeting_urgent_gang", "a budget allows no eviction", 1.0),
    ),
    "outages": (
        Step("remove_gang", "partition", 2.0),
        Step("add_gang", "disk full", 1.5),
        Step("relabel_gangs", "API server restarts"),
    ),
    "git": (
        Step("change_settings", "git: decoy refs"),  # S11
        Step("add_gang", "git: force-push", 1.0),
        Step("remove_gang", "git: empty tree", 1.0),
        Step("relabel_gangs", "git: corrupt object", 1.0),
        Step("add_gang", "git: hangs", 1.0),
    ),
}


IN_OTHERS = {
    "nothing",
    "404 of jobs",
    "403 and 404 after start",
    "half-open watches",
    "null",
    "credentials rotate",
    "watches end at once",
    "killed before a write",
    "killed after a write",
    "stopped at a write",
}
"""What `test_cases.py` and `test_writes.py` do already."""
ONLY_RANDOM = {
    "500 before a write",
    "503 of everything",
    "dripping",
    "no answer to a write",
    "no answer to an eviction",
    "evictions are refused",
    "a node is deleted",
    "git: huge blob",
}
"""What is like another kind; only random schedules have it."""


def test_every_kind_is_tested_once() -> None:
    fixed = [step.fault for steps in FIXED.values() for step in steps]
    assert sorted([*fixed, *IN_OTHERS, *ONLY_RANDOM]) == sorted(KINDS)


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

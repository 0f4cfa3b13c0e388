"""At each named write the reconciler is killed, and stopped for a while. A sample has fewer stops: nothing is lost by
one but time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.builders.depth import sample
from tests.faults import story
from tests.faults.kinds import WRITES, Step
from tests.faults.schedule import run_step
from tests.faults.shared import SharedWorld

STOPPED = "stopped at a write"
STEPS = (
    Step("run_again", "killed after a write", write="a job"),
    Step("relabel_gangs", STOPPED, 0.5, write="a job"),
    Step("lose_pod", "killed before a write", write="a gate"),
    Step("lose_pod", STOPPED, 0.5, write="a gate"),
    Step("urgent_gang", "killed after a write", write="an eviction"),
    Step("reclaiming_gang", STOPPED, 0.5, write="an eviction"),
    Step("change_settings", "killed before a write", write="the inventory"),
    Step("change_settings", STOPPED, 0.5, write="the inventory"),
    Step("change_settings", "killed before a write", write="the status"),
    Step("change_settings", STOPPED, 0.5, write="the status"),
    Step("change_settings", "killed after a write", write="a queue"),
    Step("change_settings", STOPPED, 0.5, write="a queue"),
    Step("run_again", STOPPED, 0.5, write="a delete"),
    Step("change_settings", "killed before a write", write="the lease"),
    Step("change_settings", STOPPED, 0.5, write="the lease"),
    Step("drift", "killed before a write", write="an event"),
    Step("drift", STOPPED, 0.5, write="an event"),
)


STOPS = [step for step in STEPS if step.fault == STOPPED]
TRIED = [step for step in STEPS if step.fault != STOPPED] + STOPS[: sample(len(STOPS))]
IN_CASES = {("a delete", "killed")}
"""What `test_cases.py` does already."""


def test_every_named_write_is_struck() -> None:
    struck = [(step.write, step.fault.split()[0]) for step in STEPS]
    assert sorted([*struck, *IN_CASES]) == sorted((write, how) for write in WRITES for how in ("killed", "stopped"))


@pytest.mark.e2e
@pytest.mark.parametrize("step", TRIED, ids=lambda step: f"{step.fault}, {step.write}")
def test_nothing_is_lost_or_doubled_where_the_reconciler_is_struck(step: Step, shared_world: SharedWorld) -> None:
    with shared_world.use() as world:
        story.meet_needs(world, step.action)
        run_step(world, replace(step, is_certain=True))

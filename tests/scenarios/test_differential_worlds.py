"""Worlds of the differential test that once went wrong, without the real Volcano: compiled, verified, judged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.differential.bed import Outcome
from tests.differential.compare import worse_than
from tests.differential.generator import random_world
from tests.differential.mixed import illegal_evictions
from tests.differential.mixtures import mixed_world
from tests.differential.planned import compile_world


@pytest.mark.parametrize("seed", [11, 1007, 1187, 1264, 1372])
def test_the_plan_is_one_that_the_verifier_accepts(seed: int) -> None:
    """1264: a victim came back although a gang had started in its share of the queue. 11: a gang was decided twice."""
    planned = compile_world(random_world(seed))
    assert {decision.gang for decision in planned.plan.decisions} == set(range(len(planned.problem.gangs)))


def test_no_queue_gets_nothing_of_its_entitlement_for_the_sake_of_a_borrower() -> None:
    """Seed 1187: q2 is entitled to 4 of 8 GPUs; its gang of 5 and priority 1000 borrows. q1's borrower kept it out, and
    with it q2's gang of 4."""
    running = compile_world(random_world(1187)).running
    assert any(job in ("j0", "j2") for job, *_ in running)


def test_a_share_that_is_lent_while_a_job_is_not_enqueued_is_none_behind_gates() -> None:
    """Seed 105054947: `enqueue` keeps j1 out while j0 runs in its queue, so that j2 gets more than its third. Behind
    gates j1 is let in, and Volcano refuses j2 (seen on the real one)."""
    world = random_world(105054947)
    planned = compile_world(world)
    theirs = {("j0", "t0", "n0"): 4, ("j2", "t0", "n0"): 1}
    assert planned.running == {("j0", "t0", "n0"): 4}
    assert worse_than(world, Outcome(theirs, {}, {}, at_rest=True), planned) == []
    nothing = replace(planned, running={})
    assert worse_than(world, Outcome(planned.running, {}, {}, at_rest=True), nothing) != []


def test_no_mixed_world_has_a_capability_that_volcano_does_not_obey() -> None:
    """0 CPUs are no limit to it: a difference that is told, and that would be found again and again."""
    said = [queue.capability for seed in (910048, *range(200)) for queue in mixed_world(seed).queues]
    assert [each for each in said if each and each.get("cpu") == 0] == []
    assert {"gpu": 4} in said


def test_equals_that_a_later_tier_lets_volcano_evict_are_no_finding() -> None:
    """Seed 910042: for a job of r0's priority the first tier names nobody, so that drf and pdb of the second decide."""
    world = mixed_world(910042)
    outcome = Outcome({}, {("r0", "t0", "n2"): 1}, {}, at_rest=True)
    assert illegal_evictions(world, outcome, compile_world(world)) == []
    world = replace(world, one_tier=True)
    assert illegal_evictions(world, outcome, compile_world(world)) == ["Volcano evicted r0, which nobody may evict"]

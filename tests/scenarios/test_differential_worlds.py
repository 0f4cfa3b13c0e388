"""Worlds of the differential test that once went wrong, without the real Volcano: compiled, verified, judged."""

from __future__ import annotations

import pytest

from tests.differential.generator import random_world
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

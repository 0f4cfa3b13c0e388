"""Order and time: strict queues, overdue gangs, dedicated domains and maintenance."""

from __future__ import annotations

import pytest

from tests.builders.beside import beside
from tests.builders.plans import started_in, verified_plan
from tests.builders.problems import gang, nodes, problem, queue, role, running_pods
from tests.builders.stories import assert_story

STORIES = beside(__file__)


@pytest.mark.parametrize("story", STORIES)
def test_story(story: str) -> None:
    assert_story(STORIES[story])


# ---- the overdue


# ---- strict order


def test_strict_order_goes_on_over_priorities_that_are_decided_one_by_one() -> None:
    world = problem(
        nodes(1, gpu=8),
        queue("default", strict_order=True),
        gang("runs", role(1, gpu=8), running=(running_pods(0, 0, 1),)),
        gang("first", role(1, gpu=8), priority=2, may_evict=False),
        gang("second", role(1, gpu=8), priority=1),
        gang("small", role(1, cpu=0)),
        preempt_enabled=True,
    )
    evictable = problem(
        nodes(1, gpu=8),
        queue("default", strict_order=True),
        gang("runs", role(1, gpu=8), running=(running_pods(0, 0, 1),), loss=5),
        gang("first", role(1, gpu=8), priority=2, may_evict=False),
        gang("second", role(1, gpu=8), priority=1),
        preempt_enabled=True,
    )
    assert started_in(world, verified_plan(world)) == set()
    assert started_in(evictable, verified_plan(evictable)) == set()  # the second one could preempt, the first may not


# ---- domains that a queue keeps

TREE = {"s0": (1, None), "s1": (1, None)}


# ---- nodes that close for maintenance

"""Evictions that open an anti-affinity, and places that those before a preemptor leave it."""

from __future__ import annotations

import pytest

from solver.problem import Problem
from tests.builders.beside import beside
from tests.builders.plans import actions_by_gang
from tests.builders.problems import RoleSpec, gang, nodes, pod_rule, problem, role, running_pods
from tests.builders.stories import assert_story

STORIES = beside(__file__)


@pytest.mark.parametrize("story", STORIES)
def test_story(story: str) -> None:
    assert_story(STORIES[story])


def apart(gpu: int) -> RoleSpec:
    """One pod that keeps its like away."""
    return role(1, owned_rules=(0,), selecting_rules=(0,), gpu=gpu)


def closed(gpu: int) -> Problem:
    """A node on which a pod runs that keeps the one that waits away."""
    return problem(
        nodes(1, gpu=gpu),
        gang("runs", apart(1), running=(running_pods(0, 0, 1),), loss=9),
        gang("waits", apart(1), priority=10),
        preempt_enabled=True,
        pod_rules=(pod_rule("anti-affinity", (0,)),),
    )


def test_who_lacks_no_room_evicts_nobody_for_its_anti_affinity() -> None:
    assert actions_by_gang(closed(gpu=2)) == {"runs": "keep", "waits": "wait"}
    assert actions_by_gang(closed(gpu=1)) == {"runs": "evict", "waits": "start"}

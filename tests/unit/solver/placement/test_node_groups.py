"""Node groups that a queue prefers: the last goal of placement, and nothing at all to a queue that prefers none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solver import solve
from solver.problem import Problem
from solver.verify import verify
from tests.builders.beside import beside
from tests.builders.problems import GangSpec, NodeSpec, QueueSpec, gang, nodes, problem, queue, role
from tests.builders.stories import assert_story

STORIES = beside(__file__)


@pytest.mark.parametrize("story", STORIES)
def test_story(story: str) -> None:
    assert_story(STORIES[story])


TREE = {"s0": (1, None), "s1": (1, None)}
GROUPS = ("", "cheap", "dear")
HOME = queue("home", node_group_ranks=(0, 1, 0))


def grouped(*things: list[NodeSpec] | QueueSpec | GangSpec) -> Problem:
    return problem(*things, hypernodes=TREE, node_groups=GROUPS)


def test_what_a_batch_says_of_its_groups_is_counted() -> None:
    used = nodes(1, gpu=8, free={"gpu": 4}, node_group=1)
    world = grouped(used, nodes(1, gpu=8, node_group=2), HOME, gang("a", role(1, gpu=4), queue="home"))
    made = solve(world)
    (batch,) = made.batches
    told = tuple(
        replace(goal, value=0.0, bound=0.0, gap=0.0) if goal.name == "node groups" else goal
        for goal in batch.objectives
    )
    boasting = replace(made, batches=(replace(batch, objectives=told),))
    assert [finding.message for finding in verify(world, boasting)] == [
        "node groups is said to be 0.0, and is not what the batch's pods cost"
    ]

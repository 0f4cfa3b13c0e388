"""What the scheduler's plugins, and disruption budgets, let go: each rule, and the same world without it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from solver import solve
from solver.problem import DisruptionBudget, EvictionVotes, InvalidProblemError, Policy, Problem
from tests.builders.beside import beside
from tests.builders.plans import evicted_pods_by_gang
from tests.builders.problems import GangSpec, NodeSpec, gang, nodes, problem, queue, role, running_pods
from tests.builders.stories import assert_story

STORIES = beside(__file__)


@pytest.mark.parametrize("story", STORIES)
def test_story(story: str) -> None:
    assert_story(STORIES[story])


SHARES = EvictionVotes(compare_shares=True)


def elastic(name: str, node: int, pods: int, minimum: int, *, loss: int = 60, gpu: int = 1, **more: Any) -> GangSpec:
    there = (running_pods(0, node, pods),)
    return gang(name, role(pods, minimum=minimum, gpu=gpu), running=there, loss=loss, **more)


def contested(asked: int, *running: GangSpec | list[NodeSpec]) -> Problem:
    """A node of 8 GPUs that is full, and a gang of higher priority that asks for some of them."""
    winner = gang("winner", role(1, gpu=asked), priority=10)
    return problem(nodes(1, gpu=8), *running, winner, preempt_enabled=True)


# --- the plugin gang


# --- the plugin drf


@pytest.mark.parametrize(("asked", "gone"), [(3, {"rich": 3}), (4, {"rich": 4}), (5, {})])
def test_with_drfs_vote_the_victim_keeps_at_least_the_share_of_its_preemptor(asked: int, gone: dict[str, int]) -> None:
    """8 of 16 GPUs are held: 3 leave 5, 4 leave 4, and 5 would leave 3."""
    world = contested(asked, nodes(1, node_class=1, gpu=8), elastic("rich", 0, 8, 1))
    assert evicted_pods_by_gang(replace(world, preempt_votes=SHARES)) == gone


# --- disruption budgets


def test_a_budget_of_a_role_that_is_not_there_is_refused() -> None:
    world = problem(nodes(1, gpu=8), elastic("a", 0, 4, 1))
    with pytest.raises(InvalidProblemError, match=r"budgets\.0\.roles\.0"):
        solve(replace(world, disruption_budgets=(DisruptionBudget("b", 1, ((0, 1),)),)))


# --- capacity's ancestors


def families(*, lenders: int, takers: int, owner: int | None, asked: int = 2, level: int = 0) -> Problem:
    """lenders/lender deserves nothing and runs 8; takers/owner asks for 2. lenders, takers, owner: what these
    deserve."""
    return problem(
        queue("lenders", deserved={"gpu": lenders}),
        queue("takers", deserved={"gpu": takers}),
        queue("lender", "lenders", deserved={"gpu": 0}),
        queue("owner", "takers", deserved={} if owner is None else {"gpu": owner}),
        nodes(1, gpu=8),
        elastic("lent", 0, 8, 1, queue="lender"),
        gang("winner", role(1, gpu=asked), queue="owner"),
        policy=Policy(capacity=True, capacity_hierarchy=True, ancestor_reclaim_levels=level),
        reclaim_enabled=True,
    )


def test_a_queue_above_the_victims_is_asked_when_the_level_says_so() -> None:
    assert evicted_pods_by_gang(families(lenders=8, takers=4, owner=4)) == {"lent": 2}
    assert evicted_pods_by_gang(families(lenders=8, takers=4, owner=4, level=1)) == {}
    assert evicted_pods_by_gang(families(lenders=6, takers=4, owner=4, level=1)) == {"lent": 2}
    assert evicted_pods_by_gang(families(lenders=7, takers=4, owner=4, level=1)) == {}


def test_a_queue_above_the_winners_may_have_the_right_to_take() -> None:
    assert evicted_pods_by_gang(families(lenders=0, takers=4, owner=1)) == {}
    assert evicted_pods_by_gang(families(lenders=0, takers=4, owner=1, level=1)) == {"lent": 2}
    assert evicted_pods_by_gang(families(lenders=0, takers=1, owner=1, level=1)) == {}

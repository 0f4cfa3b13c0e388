"""What the scheduler's plugins, and disruption budgets, let go: each rule, and the same world without it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from solver import solve
from solver.problem import DisruptionBudget, EvictionVotes, InvalidProblemError, Policy, Problem
from tests.builders.plans import evicted_pods_by_gang
from tests.builders.problems import GangSpec, NodeSpec, gang, nodes, problem, queue, role, running_pods, with_fields

SURPLUS, SHARES = EvictionVotes(whole_gangs=False), EvictionVotes(compare_shares=True)


def elastic(name: str, node: int, pods: int, minimum: int, *, loss: int = 60, gpu: int = 1, **more: Any) -> GangSpec:
    there = (running_pods(0, node, pods),)
    return gang(name, role(pods, minimum=minimum, gpu=gpu), running=there, loss=loss, **more)


def contested(asked: int, *running: GangSpec | list[NodeSpec]) -> Problem:
    """A node of 8 GPUs that is full, and a gang of higher priority that asks for some of them."""
    winner = gang("winner", role(1, gpu=asked), priority=10)
    return problem(nodes(1, gpu=8), *running, winner, preempt_enabled=True)


# --- the plugin gang


def test_with_the_gang_plugins_vote_surplus_is_evicted_though_a_whole_gang_would_be_cheaper() -> None:
    world = problem(
        nodes(2, gpu=8),
        elastic("cheap", 0, 8, 8, loss=1),
        elastic("dear", 1, 8, 4, loss=100),
        gang("winner", role(1, gpu=4), priority=10),
        preempt_enabled=True,
    )
    assert evicted_pods_by_gang(world) == {"cheap": 8}
    assert evicted_pods_by_gang(replace(world, preempt_votes=SURPLUS)) == {"dear": 4}


def test_with_the_gang_plugins_vote_gangs_without_surplus_keep_their_pods() -> None:
    world = contested(4, elastic("tight", 0, 8, 8))
    assert evicted_pods_by_gang(replace(world, preempt_votes=SURPLUS)) == {}


def test_a_gang_below_its_minimum_has_no_surplus() -> None:
    rest = gang("rest", role(4, gpu=4), running=(running_pods(0, 0, 2),), loss=1)
    world = contested(4, rest)
    assert evicted_pods_by_gang(world) == {"rest": 2}
    assert evicted_pods_by_gang(replace(world, preempt_votes=SURPLUS)) == {}


def test_the_votes_on_reclaim_are_no_votes_on_preemption() -> None:
    world = problem(
        nodes(1, gpu=8),
        elastic("tight", 0, 8, 8),
        gang("winner", role(1, gpu=4), priority=10),
        preempt_enabled=True,
        reclaim_enabled=True,
    )
    assert evicted_pods_by_gang(replace(world, reclaim_votes=SURPLUS)) == {"tight": 8}


def test_the_gang_plugin_votes_on_reclaim_as_well() -> None:
    world = problem(
        queue("lender", deserved={"gpu": 2}),
        queue("owner", deserved={"gpu": 6}),
        nodes(1, gpu=8),
        elastic("lent", 0, 8, 5, queue="lender"),
        gang("winner", role(1, gpu=3), queue="owner"),
        reclaim_enabled=True,
    )
    assert evicted_pods_by_gang(replace(world, reclaim_votes=SURPLUS)) == {"lent": 3}
    larger = replace(
        world, gangs=(world.gangs[0], replace(world.gangs[1], roles=(replace(world.gangs[1].roles[0], request=(4,)),)))
    )
    assert evicted_pods_by_gang(replace(larger, reclaim_votes=SURPLUS)) == {}


def test_a_gang_without_a_minimum_may_lose_its_last_pod_though_the_gang_plugin_votes() -> None:
    free = gang("free", role(2, minimum=0, gpu=4), running=(running_pods(0, 0, 2),), loss=9, may_lose_all=True)
    world = contested(8, free)
    assert evicted_pods_by_gang(replace(world, preempt_votes=SURPLUS)) == {"free": 2}
    bound = replace(world, gangs=(with_fields(world.gangs[0], may_lose_all=False), world.gangs[1]))
    assert evicted_pods_by_gang(replace(bound, preempt_votes=SURPLUS)) == {}


# --- protected pods


@pytest.mark.parametrize(("minimum", "asked", "gone"), [(4, 4, {"mixed": 4}), (4, 5, {}), (6, 4, {})])
def test_the_unprotected_role_of_a_gang_loses_pods_down_to_its_minima(
    minimum: int, asked: int, gone: dict[str, int]
) -> None:
    mixed = gang(
        "mixed",
        role(4, minimum=0, gpu=1),
        role(4, minimum=0, gpu=1),
        minimum=minimum,
        running=(running_pods(0, 0, 4), running_pods(1, 0, 4)),
        loss=60,
        protected=(running_pods(0, 0, 4),),
    )
    world = contested(asked, mixed)
    assert evicted_pods_by_gang(world) == gone


def test_one_protected_pod_of_a_role_stays_and_the_others_on_its_node_go() -> None:
    world = problem(
        nodes(1, gpu=8),
        elastic("a", 0, 8, 0, protected=(running_pods(0, 0, 1),)),
        gang("winner", role(7, gpu=1), priority=10),
        preempt_enabled=True,
    )
    assert evicted_pods_by_gang(world) == {"a": 7}


# --- the plugin drf


@pytest.mark.parametrize(("asked", "gone"), [(3, {"rich": 3}), (4, {"rich": 4}), (5, {})])
def test_with_drfs_vote_the_victim_keeps_at_least_the_share_of_its_preemptor(asked: int, gone: dict[str, int]) -> None:
    """8 of 16 GPUs are held: 3 leave 5, 4 leave 4, and 5 would leave 3."""
    world = contested(asked, nodes(1, node_class=1, gpu=8), elastic("rich", 0, 8, 1))
    assert evicted_pods_by_gang(replace(world, preempt_votes=SHARES)) == gone


def test_with_drfs_vote_no_whole_gang_is_evicted_for_a_gang_that_requests_anything() -> None:
    world = contested(1, elastic("tight", 0, 8, 8))
    assert evicted_pods_by_gang(world) == {"tight": 8}
    assert evicted_pods_by_gang(replace(world, preempt_votes=SHARES)) == {}


def test_drf_measures_the_dominant_share_of_either_whatever_resource_that_is() -> None:
    """The winner gets half of the GPUs, the victim keeps half of the CPUs."""
    memory = gang("memory", role(4, minimum=1, gpu=1, cpu=4), running=(running_pods(0, 0, 4),), loss=60)
    world = problem(
        nodes(1, gpu=4, cpu=16),
        memory,
        gang("winner", role(1, gpu=2, cpu=1), priority=10),
        preempt_enabled=True,
        reclaim_enabled=False,
    )
    assert evicted_pods_by_gang(replace(world, preempt_votes=SHARES)) == {"memory": 2}


def test_with_two_winners_the_larger_share_is_what_the_victim_keeps() -> None:
    """Once 4 of 8 are gone for a share of 4, not even the pod of another winner may go."""
    winners = [gang(f"w{n}", role(1, gpu=asked), priority=10) for n, asked in enumerate((4, 1))]
    world = problem(nodes(1, gpu=8), elastic("rich", 0, 8, 1), *winners, preempt_enabled=True)
    assert evicted_pods_by_gang(world) == {"rich": 5}
    assert evicted_pods_by_gang(replace(world, preempt_votes=SHARES)) == {"rich": 4}


# --- disruption budgets


@pytest.mark.parametrize(
    ("allowed", "gone"), [(0, {"dear": 2}), (1, {"cheap": 1, "dear": 1}), (2, {"cheap": 2}), (8, {"cheap": 2})]
)
def test_no_more_pods_go_than_a_budget_allows(allowed: int, gone: dict[str, int]) -> None:
    world = contested(2, elastic("cheap", 0, 4, 1, loss=1), elastic("dear", 0, 4, 1, loss=9))
    assert (
        evicted_pods_by_gang(replace(world, disruption_budgets=(DisruptionBudget("cheap", allowed, ((0, 0),)),)))
        == gone
    )


def test_a_budget_over_several_gangs_counts_them_together() -> None:
    world = contested(2, elastic("a", 0, 4, 1, loss=1), elastic("b", 0, 4, 1, loss=1))
    assert (
        evicted_pods_by_gang(replace(world, disruption_budgets=(DisruptionBudget("both", 1, ((0, 0), (1, 0))),))) == {}
    )


def test_pods_evicted_for_one_preemptor_are_charged_to_the_disruption_budget_of_the_next() -> None:
    winners = [gang(f"w{n}", role(1, gpu=2), priority=10) for n in range(2)]
    world = problem(nodes(1, gpu=8), elastic("rich", 0, 8, 1), *winners, preempt_enabled=True)
    assert evicted_pods_by_gang(replace(world, disruption_budgets=(DisruptionBudget("rich", 3, ((0, 0),)),))) == {
        "rich": 2
    }


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


def test_sisters_that_deserve_nothing_take_nothing_from_each_other() -> None:
    world = problem(
        queue("family", deserved={"gpu": 8}),
        queue("one", "family"),
        queue("other", "family"),
        nodes(1, gpu=8),
        elastic("lent", 0, 8, 1, queue="one"),
        gang("winner", role(1, gpu=2), queue="other"),
        policy=Policy(capacity=True, capacity_hierarchy=True, ancestor_reclaim_levels=1),
        reclaim_enabled=True,
    )
    assert evicted_pods_by_gang(world) == {}


def test_a_sister_is_not_protected_by_the_queue_above_both() -> None:
    world = problem(
        queue("family", deserved={"gpu": 8}),
        queue("one", "family", deserved={"gpu": 4}),
        queue("other", "family", deserved={"gpu": 4}),
        nodes(1, gpu=8),
        elastic("lent", 0, 8, 1, queue="one"),
        gang("winner", role(1, gpu=4), queue="other"),
        policy=Policy(capacity=True, capacity_hierarchy=True, ancestor_reclaim_levels=3),
        reclaim_enabled=True,
    )
    assert evicted_pods_by_gang(world) == {"lent": 4}

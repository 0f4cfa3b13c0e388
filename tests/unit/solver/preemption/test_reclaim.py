"""Reclaim across queues: what was borrowed goes back, in stories. Relations are asserted, not node names."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from solver.problem import Policy, Problem
from solver.verify import verify
from tests.builders.beside import beside
from tests.builders.plans import actions_by_gang, evicted_pods_by_gang, verified_plan
from tests.builders.problems import (
    GangSpec,
    QueueSpec,
    RoleSpec,
    gang,
    nodes,
    preemptor,
    problem,
    queue,
    role,
    running_pods,
    single_pod_gang,
    with_fields,
)
from tests.builders.stories import assert_story

STORIES = beside(__file__)


@pytest.mark.parametrize("story", STORIES)
def test_story(story: str) -> None:
    assert_story(STORIES[story])


def teams(**more: Any) -> list[QueueSpec]:
    return [queue("lender", deserved={"gpu": 8}, **more), queue("owner", deserved={"gpu": 16})]


def lent(runs: int, asks: int, *queues: QueueSpec, running_priority: int = 0, priority: int = 10) -> Problem:
    """So many full nodes, each with a gang of the lender, and a gang of the owner that asks for some of them."""
    running = [single_pod_gang(f"g{n}", n, queue="lender", priority=running_priority) for n in range(runs)]
    winner = preemptor(asks, queue="owner", priority=priority)
    return problem(*(queues or teams()), nodes(runs, gpu=8), *running, winner, reclaim_enabled=True)


def test_a_queue_takes_back_what_it_deserves_from_one_that_borrowed_though_priorities_are_equal() -> None:
    world = lent(3, 2, priority=0)
    assert sorted(actions_by_gang(world).values()) == ["evict", "evict", "keep", "start"]


def test_borrowed_resources_are_reclaimed_regardless_of_priority() -> None:
    world = lent(3, 1, running_priority=1000, priority=0)
    assert [*evicted_pods_by_gang(world).values()] == [1]  # of any: they are alike


def borrowed(*roles: RoleSpec, asked: int, lender: int = 1, owner: int = 2) -> Problem:
    """A gang of the lender holds all CPUs of the only node; the owner asks for some of them."""
    running = tuple(running_pods(t, 0, role.replicas) for t, role in enumerate(roles))
    return problem(
        queue("lender", deserved={"cpu": lender}),
        queue("owner", deserved={"cpu": owner}),
        nodes(1, cpu=sum(role.replicas * role.request["cpu"] for role in roles)),
        gang("lent", *roles, queue="lender", running=running, loss=60),
        gang("winner", role(1, cpu=asked), queue="owner"),
        reclaim_enabled=True,
    )


def test_the_last_victim_may_take_its_queue_below_what_it_deserves() -> None:
    """One gang of 2 in a queue that deserves 1, for a gang of 2 in a queue that deserves 2."""
    assert evicted_pods_by_gang(borrowed(role(1, cpu=2), asked=2)) == {"lent": 1}
    assert evicted_pods_by_gang(borrowed(role(2, cpu=1), asked=2)) == {"lent": 2}
    assert evicted_pods_by_gang(borrowed(role(1, cpu=2), asked=2, lender=2)) == {}
    assert evicted_pods_by_gang(borrowed(role(1, cpu=2), asked=2, owner=1)) == {}


def test_pods_that_a_gang_can_spare_go_one_by_one() -> None:
    """Of eight, five are the lender's: three go, and the one that is left above none goes with a larger pod."""
    assert evicted_pods_by_gang(borrowed(role(8, minimum=1, cpu=1), asked=3, lender=5, owner=8)) == {"lent": 3}
    assert evicted_pods_by_gang(borrowed(role(8, minimum=1, cpu=1), asked=4, lender=5, owner=8)) == {}
    assert evicted_pods_by_gang(borrowed(role(4, minimum=1, cpu=2), asked=4, lender=5, owner=8)) == {"lent": 2}


def test_a_plan_after_the_evictions_evicts_and_restores_no_pod() -> None:
    world = borrowed(role(1, cpu=2), asked=2)
    lent, started = world.gangs
    after = replace(
        world, gangs=(with_fields(lent, running=(), loss=0), with_fields(started, running=lent.running, evictable=True))
    )
    assert actions_by_gang(after) == {"lent": "wait", "winner": "keep"}


OWNER = gang("winner", role(1, gpu=2, cpu=2), queue="owner")


def short_of_gpus(*, free_cpu: int, owner: dict[str, int], lender: dict[str, int], winner: GangSpec = OWNER) -> Problem:
    """A node without free GPUs, on which the lender holds 8 GPUs and 8 CPUs; the owner asks for 2 and 2."""
    return problem(
        queue("lender", deserved=lender),
        queue("owner", deserved=owner),
        nodes(1, gpu=8, cpu=8 + free_cpu),
        gang("lent", role(8, minimum=1, gpu=1, cpu=1), queue="lender", running=(running_pods(0, 0, 8),), loss=60),
        winner,
        reclaim_enabled=True,
    )


def open_gang(*roles: RoleSpec) -> GangSpec:
    """One pod starts it, of whichever role."""
    return gang("winner", *roles, minimum=1, queue="owner")


SMALL, LARGE = role(2, minimum=0, gpu=2, cpu=2), role(1, minimum=0, gpu=4, cpu=3)
MINIMA = pytest.mark.parametrize(
    "winner", [OWNER, open_gang(SMALL), open_gang(LARGE, SMALL)], ids=["of the role", "of the gang", "of two roles"]
)


@MINIMA
def test_only_the_resources_that_are_short_count(winner: GangSpec) -> None:
    """The lender holds too many CPUs, and the GPUs that it deserves; the owner deserves the GPUs, and no more CPUs. The
    minimum may be the roles' or the gang's."""
    rich, poor = {"gpu": 8, "cpu": 2}, {"gpu": 4, "cpu": 2}
    both = {"gpu": 4, "cpu": 4}
    assert evicted_pods_by_gang(short_of_gpus(free_cpu=8, lender=rich, owner=both, winner=winner)) == {}
    assert evicted_pods_by_gang(short_of_gpus(free_cpu=0, lender=rich, owner=both, winner=winner)) == {"lent": 2}
    owner = {"gpu": 4, "cpu": 1}
    assert evicted_pods_by_gang(short_of_gpus(free_cpu=8, lender=poor, owner=owner, winner=winner)) == {"lent": 2}
    owner = {"gpu": 1, "cpu": 4}
    assert evicted_pods_by_gang(short_of_gpus(free_cpu=8, lender=poor, owner=owner, winner=winner)) == {}


@MINIMA
def test_the_verifier_objects_to_victims_for_what_is_not_short(winner: GangSpec) -> None:
    deserved = {"gpu": 8, "cpu": 2}
    unfair = short_of_gpus(free_cpu=8, lender=deserved, owner={"gpu": 4, "cpu": 4}, winner=winner)
    fair = short_of_gpus(free_cpu=0, lender=deserved, owner={"gpu": 4, "cpu": 4}, winner=winner)
    assert "reclaim_limits" in {violation.rule for violation in verify(unfair, verified_plan(fair))}


def test_a_gang_that_may_start_with_more_than_its_queue_deserves_has_no_right() -> None:
    """It holds 2 GPUs with a small pod, 4 with a large one."""
    unequal = open_gang(SMALL, LARGE)
    lender, owner = {"gpu": 4, "cpu": 2}, {"gpu": 3}
    assert evicted_pods_by_gang(short_of_gpus(free_cpu=8, lender=lender, owner=owner)) == {"lent": 2}
    assert evicted_pods_by_gang(short_of_gpus(free_cpu=8, lender=lender, owner=owner, winner=unequal)) == {}
    fair = short_of_gpus(free_cpu=8, lender=lender, owner={"gpu": 4}, winner=unequal)
    unfair = short_of_gpus(free_cpu=8, lender=lender, owner=owner, winner=unequal)
    assert "entitlement" in {violation.rule for violation in verify(unfair, verified_plan(fair))}


def test_the_plan_after_an_eviction_starts_the_preemptor_without_further_victims() -> None:
    world = lent(3, 1, priority=0)
    gone = {d.gang for d in verified_plan(world).decisions if d.action == "evict"}
    after = replace(world, gangs=tuple(replace(g, running=()) if i in gone else g for i, g in enumerate(world.gangs)))
    assert actions_by_gang(after)["winner"] == "start"
    assert evicted_pods_by_gang(after) == {}


def test_a_queue_that_holds_what_it_deserves_loses_nothing_to_reclaim() -> None:
    assert actions_by_gang(lent(1, 1)) == {"g0": "keep", "winner": "wait"}


def test_a_queue_is_not_pressed_below_what_it_deserves() -> None:
    world = lent(2, 2)
    assert evicted_pods_by_gang(world) == {}


def test_a_queue_that_is_not_reclaimable_keeps_everything() -> None:
    assert evicted_pods_by_gang(lent(3, 1, *teams(reclaimable=False))) == {}


def test_a_queue_cannot_take_more_than_it_deserves_itself() -> None:
    world = lent(4, 3)
    assert evicted_pods_by_gang(world) == {}


def test_a_guarantee_is_not_taken() -> None:
    queues = queue("lender", guarantee={"gpu": 16}), queue("owner", deserved={"gpu": 8})
    assert evicted_pods_by_gang(lent(2, 1, *queues)) == {}


def test_two_queues_do_not_take_the_same_pods_from_each_other_in_turn() -> None:
    world = lent(3, 1)
    lost = next(iter(evicted_pods_by_gang(world)))
    again = problem(
        *teams(),
        nodes(3, gpu=8),
        *(single_pod_gang(f"g{n}", n, queue="lender") for n in range(3) if f"g{n}" != lost),
        gang("winner", role(1, gpu=8), queue="owner", running=(running_pods(0, int(lost[1:]), 1),), loss=1),
        gang(lost, role(1, gpu=8), queue="lender"),
        reclaim_enabled=True,
    )
    assert evicted_pods_by_gang(again) == {}


def test_with_proportion_shares_by_weight_say_what_may_be_taken_back() -> None:
    """Eight nodes by weights 1 and 3: two for the lender, six for the owner."""
    running = [single_pod_gang(f"g{n}", n, queue="lender") for n in range(8)]
    waiting = [gang(f"w{n}", role(1, gpu=8), queue="owner") for n in range(7)]
    world = problem(
        queue("lender"),
        queue("owner", weight=3),
        nodes(8, gpu=8),
        *running,
        *waiting,
        policy=Policy(proportion=True),
        reclaim_enabled=True,
    )
    assert Counter(actions_by_gang(world).values()) == {"keep": 2, "evict": 6, "start": 6, "wait": 1}

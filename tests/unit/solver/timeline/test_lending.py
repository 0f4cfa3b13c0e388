"""Domains that queues keep: lent while they lie idle, to whom the owner can have evicted, and taken back at once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solver.problem import DisruptionBudget, EvictionVotes, Placement, Problem
from tests.builders.beside import beside
from tests.builders.plans import actions_by_gang, verified_plan
from tests.builders.problems import (
    GangSpec,
    NodeSpec,
    QueueSpec,
    gang,
    nodes,
    problem,
    queue,
    role,
    running_pods,
    with_fields,
)
from tests.builders.stories import assert_story

STORIES = beside(__file__)


@pytest.mark.parametrize("story", STORIES)
def test_story(story: str) -> None:
    assert_story(STORIES[story])


TREE = {"s0": (1, None), "s1": (1, None)}


def kept(*things: list[NodeSpec] | QueueSpec | GangSpec, reclaim: bool = True) -> Problem:
    """Node 0 in s0, which `owner` keeps for itself and its child; node 1 in s1; a queue of others."""
    return problem(
        nodes(1, leaf="s0", gpu=8),
        nodes(1, leaf="s1", gpu=8),
        queue("owner", dedicated_domains=("s0",)),
        queue("child", "owner"),
        queue("other"),
        *things,
        hypernodes=TREE,
        reclaim_enabled=reclaim,
    )


def borrower(name: str, gpu: int = 8, *, loss: int | None = 0, priority: int = 0, at: int | None = None) -> GangSpec:
    """A gang of another queue. loss: None for one that may not be evicted. at: the node where it runs already."""
    running = () if at is None else (running_pods(0, at, 1),)
    return gang(name, role(1, gpu=gpu), queue="other", loss=loss, priority=priority, running=running)


# --- who borrows


def test_an_idle_domain_is_lent_to_a_gang_that_finds_nothing_else() -> None:
    world = kept(borrower("one"), borrower("two"))
    assert actions_by_gang(world) == {"one": "start", "two": "start"}


@pytest.mark.parametrize(
    "change",
    [
        {"reclaim_enabled": False},
        {"reclaim_votes": EvictionVotes(whole_gangs=False)},
        {"reclaim_votes": EvictionVotes(compare_shares=True)},
        {"disruption_budgets": (DisruptionBudget("b", 5, ((0, 0),)),)},
    ],
)
def test_a_domain_that_the_owner_could_not_take_back_at_once_is_not_lent(change: dict[str, object]) -> None:
    world = kept(borrower("one"), gang("mine", role(1, gpu=8), queue="other", running=(running_pods(0, 1, 1),)))
    assert actions_by_gang(world)["one"] == "start"
    assert actions_by_gang(replace(world, **change))["one"] == "wait"  # type: ignore[arg-type]


# --- taken back


@pytest.mark.parametrize("home", ["owner", "child"])
def test_the_owner_takes_back_at_once_whatever_the_borrowers_priority(home: str) -> None:
    world = kept(borrower("lent", at=0, priority=99), borrower("there", at=1), gang("mine", role(1, gpu=8), queue=home))
    assert actions_by_gang(world) == {"lent": "evict", "there": "keep", "mine": "start"}
    assert verified_plan(world).decisions[0].evicted_for == (2,)


def test_a_lent_domain_is_returned_in_the_very_next_plan() -> None:
    world = kept(borrower("one"), borrower("two"))
    lent = {d.gang: d.placements for d in verified_plan(world).decisions}
    running = tuple(with_fields(g, running=lent[i], loss=60) for i, g in enumerate(world.gangs))
    mine = with_fields(world.gangs[0], name="mine", queue=0, age=9, evictable=False)
    after = replace(world, gangs=(*running, mine))
    found = verified_plan(after).decisions
    assert found[2].action == "start"
    assert sorted(d.action for d in found[:2]) == ["evict", "keep"]
    assert [p for d in found[:2] if d.action == "evict" for p in d.evicted_pods] == [Placement(0, 0, 1)]

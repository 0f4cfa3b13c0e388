"""Domains that queues keep: lent while they lie idle, to whom the owner can have evicted, and taken back at once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solver.problem import DisruptionBudget, EvictionVotes, Placement, Problem
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


def test_a_gang_that_fits_elsewhere_borrows_no_dedicated_domain() -> None:
    world = kept(borrower("one"))
    assert [p.node for p in verified_plan(world).decisions[0].placements] == [1]


def test_a_gang_that_may_not_be_evicted_borrows_no_domain_and_its_fact_names_the_owner() -> None:
    world = kept(borrower("one"), borrower("two", loss=None, priority=-1))
    plan = verified_plan(world)
    assert [d.action for d in plan.decisions] == ["start", "wait"]
    assert [
        fact.code for fact in verified_plan(kept(borrower("one", at=1), borrower("two", loss=None))).decisions[1].facts
    ] == ["GW106"]


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


def test_a_queue_that_is_not_reclaimable_borrows_no_domain() -> None:
    world = kept(borrower("one"), borrower("two", at=1))
    closed = tuple(replace(q, reclaimable=q.name != "other") for q in world.queues)
    assert actions_by_gang(replace(world, queues=closed))["one"] == "wait"


def test_the_owners_gangs_come_first_whatever_their_priority() -> None:
    world = kept(borrower("one", priority=9), borrower("two", priority=9), gang("mine", role(1, gpu=8), queue="child"))
    assert actions_by_gang(world) == {"one": "start", "two": "wait", "mine": "start"}
    assert [fact.code for fact in verified_plan(world).decisions[1].facts] == ["GW105"]
    assert all(repair.code != "GR114" for repair in verified_plan(world).decisions[1].repairs)


def test_a_borrower_may_stand_partly_in_its_own_room() -> None:
    world = kept(gang("wide", role(2, gpu=8), queue="other", loss=0))
    assert actions_by_gang(world) == {"wide": "start"}


def test_no_gang_grows_into_a_lent_domain() -> None:
    world = kept(gang("elastic", role(3, minimum=1, gpu=8), queue="other", loss=0), borrower("one", at=1))
    assert [p.pods for p in verified_plan(world).decisions[0].placements] == [1]


def test_no_pod_is_evicted_for_a_gang_that_would_borrow() -> None:
    """The owner's own gang is open to reclaim, and yet no stranger comes to its domain over it."""
    mine = gang("mine", role(1, gpu=8), queue="child", running=(running_pods(0, 0, 1),), loss=1)
    world = kept(mine, borrower("here", at=1, loss=None), borrower("one", priority=5))
    deserving = tuple(replace(q, deserved=(8,) if q.name == "other" else (0,)) for q in world.queues)
    assert actions_by_gang(replace(world, queues=deserving)) == {"mine": "keep", "here": "keep", "one": "wait"}


# --- taken back


@pytest.mark.parametrize("home", ["owner", "child"])
def test_the_owner_takes_back_at_once_whatever_the_borrowers_priority(home: str) -> None:
    world = kept(borrower("lent", at=0, priority=99), borrower("there", at=1), gang("mine", role(1, gpu=8), queue=home))
    assert actions_by_gang(world) == {"lent": "evict", "there": "keep", "mine": "start"}
    assert verified_plan(world).decisions[0].evicted_for == (2,)


def test_no_borrower_is_evicted_when_the_owner_fits_beside_it() -> None:
    world = kept(borrower("lent", at=0), gang("mine", role(1, gpu=8), queue="owner"))
    assert actions_by_gang(world) == {"lent": "keep", "mine": "start"}


def test_of_two_borrowers_the_cheaper_goes() -> None:
    world = kept(
        borrower("old", 4, at=0, loss=90),
        borrower("young", 4, at=0, loss=10),
        borrower("there", at=1),
        gang("mine", role(1, gpu=4), queue="owner"),
    )
    assert actions_by_gang(world) == {"old": "keep", "young": "evict", "there": "keep", "mine": "start"}


def test_other_queues_take_nothing_back_from_a_domain_that_is_not_theirs() -> None:
    world = kept(
        borrower("lent", at=0),
        borrower("there", at=1),
        queue("third"),
        gang("third", role(1, gpu=8), queue="third", priority=5),
    )
    assert actions_by_gang(world)["lent"] == "keep"


def test_a_gang_that_never_preempts_takes_nothing_back() -> None:
    world = kept(
        borrower("lent", at=0), borrower("there", at=1), gang("mine", role(1, gpu=8), queue="owner", may_evict=False)
    )
    assert actions_by_gang(world) == {"lent": "keep", "there": "keep", "mine": "wait"}


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

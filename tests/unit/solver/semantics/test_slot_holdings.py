"""Victims that hold devices or NUMA cells: what they give back, and to whom."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solver import InvalidProblemError, solve
from solver.problem import Gang, Problem, SlotHold
from solver.validation.values import validate
from solver.verify import verify
from tests.builders.beside import beside
from tests.builders.plans import actions_by_gang, evicted_pods_by_gang, verified_plan
from tests.builders.problems import GangSpec, device_slots, gang, nodes, problem, role, running_pods
from tests.builders.stories import assert_story

STORIES = beside(__file__)


@pytest.mark.parametrize("story", STORIES)
def test_story(story: str) -> None:
    assert_story(STORIES[story])


FULL = device_slots("dev", 2, free={"gpu": 0}, gpu=100)
DEVICE = [("dev", 1, {"gpu": 100})]


def low(name: str, cell: int | None, *, loss: int = 60, gpu: int = 100, node: int = 0) -> GangSpec:
    """One running pod with all or a part of one device, which is known unless cell is None."""
    holds = () if cell is None else (SlotHold(0, node, cell, 1),)
    return gang(
        name,
        role(1, gpu=gpu, slot_requests=[("dev", 1, {"gpu": gpu})]),
        running=(running_pods(0, node, 1),),
        loss=loss,
        slot_holds=holds,
    )


def high(name: str = "high", *, number: int = 1, gpu: int = 100) -> GangSpec:
    return gang(name, role(1, gpu=number * gpu, slot_requests=[("dev", number, {"gpu": gpu})]), priority=10)


def test_a_device_of_a_victim_is_given_to_the_gang_that_it_goes_for() -> None:
    world = problem(
        nodes(1, gpu=200, slots=FULL), low("a", 0, loss=90), low("b", 1, loss=30), high(), preempt_enabled=True
    )
    assert actions_by_gang(world) == {"a": "keep", "b": "evict", "high": "start"}
    (use,) = verified_plan(world).decisions[2].slot_uses
    assert (use.node, use.slot, use.pods) == (0, 1, 1)


def test_two_halves_of_one_device_go_and_not_the_cheaper_halves_of_two() -> None:
    """What is free in sum would do with any two."""
    halves = [low(f"{c}{i}", c, gpu=50, loss=loss) for c in (0, 1) for i, loss in enumerate((10, 40))]
    world = problem(nodes(1, gpu=200, slots=FULL), *halves, high(), preempt_enabled=True)
    assert sorted(evicted_pods_by_gang(world)) in (["00", "01"], ["10", "11"])


def elastic(*holds: SlotHold, pods: int = 2, loss: int = 60) -> GangSpec:
    return gang(
        "elastic",
        role(pods, minimum=1, gpu=50, slot_requests=[("dev", 1, {"gpu": 50})]),
        running=(running_pods(0, 0, pods),),
        loss=loss,
        slot_holds=holds,
    )


def test_in_a_large_cluster_the_node_with_the_cheap_device_is_found_and_proved() -> None:
    """All nodes have room in sum: on each two halves of two devices are free."""
    half = [("dev", {"gpu": 100}, {"gpu": 50})] * 2
    running = [low(f"g{n}", 0, gpu=50, node=n, loss=5 if n == 110 else 60) for n in range(120)]
    world = problem(nodes(120, gpu=200, free={"gpu": 150}, slots=half), *running, high(), preempt_enabled=True)
    assert evicted_pods_by_gang(world) == {"g110": 1}


def test_the_verifier_gives_back_no_more_than_is_sure() -> None:
    world = problem(nodes(1, gpu=200, slots=FULL), low("a", 0), low("b", 1), high(), preempt_enabled=True)
    plan = solve(world)
    assert verify(world, plan) == []
    (gone,) = (g for g in (0, 1) if plan.decisions[g].evicted_pods)
    forgotten = replace(
        world, gangs=tuple(replace(x, slot_holds=()) if g == gone else x for g, x in enumerate(world.gangs))
    )
    assert {v.rule for v in verify(forgotten, plan)} == {"device_slots"}


@pytest.mark.parametrize(
    ("where", "holds"),
    [
        (("gangs", 0, "slot_holds", 0), (SlotHold(0, 0, 0, 2),)),
        (("gangs", 0, "slot_holds", 0, "slot"), (SlotHold(0, 0, 2, 1),)),
        (("gangs", 0, "slot_holds", 0), (SlotHold(0, 1, 0, 1),)),
        (("gangs", 0, "slot_holds", 1), (SlotHold(0, 0, 0, 1), SlotHold(0, 0, 1, 1))),
        (("gangs", 0, "slot_holds", 0, "pods"), (SlotHold(0, 0, 0, 0),)),
    ],
    ids=["more pods than run", "no such cell", "nothing runs there", "more cells than a pod takes", "no pods"],
)
def test_what_cannot_be_held_is_refused(where: tuple[str | int, ...], holds: tuple[SlotHold, ...]) -> None:
    with pytest.raises(InvalidProblemError) as caught:
        validate(_holding(holds))
    assert caught.value.where == where
    validate(_holding((SlotHold(0, 0, 0, 1),)))


def _holding(holds: tuple[SlotHold, ...], free: int = 0) -> Problem:
    world = problem(
        nodes(2, gpu=200, slots=device_slots("dev", 2, free={"gpu": free}, gpu=100)),
        low("a", None),
        preempt_enabled=True,
    )
    first: Gang = world.gangs[0]
    return replace(world, gangs=(replace(first, slot_holds=holds),))


def test_a_cell_holds_no_more_than_it_has() -> None:
    with pytest.raises(InvalidProblemError, match="more than slot 0"):
        validate(_holding((SlotHold(0, 0, 0, 1),), free=1))


def test_holds_are_sorted() -> None:
    two = gang(
        "two",
        role(2, gpu=100, slot_requests=DEVICE),
        running=(running_pods(0, 0, 2),),
        loss=1,
        slot_holds=(SlotHold(0, 0, 1, 1), SlotHold(0, 0, 0, 1)),
    )
    with pytest.raises(InvalidProblemError, match="not sorted"):
        validate(problem(nodes(1, gpu=200, slots=FULL), two))

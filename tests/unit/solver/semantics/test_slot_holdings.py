"""Victims that hold devices or NUMA cells: what they give back, and to whom."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solver import InvalidProblemError, solve
from solver.problem import Gang, Problem, SlotHold
from solver.validation.values import validate
from solver.verify import verify
from tests.builders.plans import actions_by_gang, evicted_pods_by_gang, verified_plan
from tests.builders.problems import GangSpec, device_slots, gang, nodes, problem, role, running_pods

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


def test_a_pod_on_an_unknown_device_is_not_evicted() -> None:
    world = problem(nodes(1, gpu=200, slots=FULL), low("a", None), low("b", None), high(), preempt_enabled=True)
    assert actions_by_gang(world) == {"a": "keep", "b": "keep", "high": "wait"}


def test_the_dearer_victim_is_evicted_when_only_its_device_is_known() -> None:
    world = problem(
        nodes(1, gpu=200, slots=FULL), low("a", 0, loss=90), low("b", None, loss=30), high(), preempt_enabled=True
    )
    assert evicted_pods_by_gang(world) == {"a": 1}


def test_two_halves_of_one_device_go_and_not_the_cheaper_halves_of_two() -> None:
    """What is free in sum would do with any two."""
    halves = [low(f"{c}{i}", c, gpu=50, loss=loss) for c in (0, 1) for i, loss in enumerate((10, 40))]
    world = problem(nodes(1, gpu=200, slots=FULL), *halves, high(), preempt_enabled=True)
    assert sorted(evicted_pods_by_gang(world)) in (["00", "01"], ["10", "11"])


def test_a_gang_that_takes_two_devices_gets_those_of_two_victims() -> None:
    world = problem(nodes(1, gpu=200, slots=FULL), low("a", 0), low("b", 1), high(number=2), preempt_enabled=True)
    assert actions_by_gang(world) == {"a": "evict", "b": "evict", "high": "start"}


def test_free_room_of_a_device_adds_to_what_its_victim_returns() -> None:
    half = [("dev", {"gpu": 100}, {"gpu": 40}), ("dev", {"gpu": 100}, {"gpu": 40})]
    world = problem(
        nodes(1, gpu=200, slots=half),
        low("a", 0, gpu=60, loss=90),
        low("b", 1, gpu=60, loss=30),
        high(),
        preempt_enabled=True,
    )
    assert evicted_pods_by_gang(world) == {"b": 1}


def elastic(*holds: SlotHold, pods: int = 2, loss: int = 60) -> GangSpec:
    return gang(
        "elastic",
        role(pods, minimum=1, gpu=50, slot_requests=[("dev", 1, {"gpu": 50})]),
        running=(running_pods(0, 0, pods),),
        loss=loss,
        slot_holds=holds,
    )


def test_one_of_two_pods_that_share_a_device_gives_back_its_part() -> None:
    world = problem(
        nodes(1, gpu=200, slots=FULL),
        elastic(SlotHold(0, 0, 0, 2)),
        low("other", 1, loss=900),
        high(gpu=50),
        preempt_enabled=True,
    )
    assert (actions_by_gang(world)["elastic"], evicted_pods_by_gang(world)) == ("keep", {"elastic": 1})


def test_of_pods_on_two_devices_none_can_be_told_apart_so_the_gang_goes_whole() -> None:
    """Whichever of the two goes, the other one may be the one that stays on the device; half of each is free."""
    half = [("dev", {"gpu": 100}, {"gpu": 50}), ("dev", {"gpu": 100}, {"gpu": 50})]
    world = problem(
        nodes(1, gpu=200, slots=half), elastic(SlotHold(0, 0, 0, 1), SlotHold(0, 0, 1, 1)), high(), preempt_enabled=True
    )
    assert (actions_by_gang(world)["elastic"], evicted_pods_by_gang(world)) == ("evict", {"elastic": 2})


def test_of_three_pods_two_on_a_device_two_that_go_free_one_part_of_it() -> None:
    part = [("dev", {"gpu": 100}, {"gpu": 0}), ("dev", {"gpu": 100}, {"gpu": 0})]
    world = problem(
        nodes(1, gpu=200, slots=part),
        elastic(SlotHold(0, 0, 0, 2), SlotHold(0, 0, 1, 1), pods=3),
        high(gpu=50),
        preempt_enabled=True,
    )
    assert evicted_pods_by_gang(world) == {"elastic": 2}


def test_two_winners_share_the_devices_of_their_victims() -> None:
    world = problem(
        nodes(1, gpu=200, slots=FULL),
        low("a", 0),
        low("b", 1),
        high("one"),
        high("two"),
        high("three"),
        preempt_enabled=True,
    )
    assert actions_by_gang(world) == {"a": "evict", "b": "evict", "one": "start", "two": "start", "three": "wait"}


def test_a_victim_that_is_spared_gets_its_device_back() -> None:
    """`first` takes the cheap device of node 0; together with `pair`, which needs both devices of one node, everybody
    is placed anew."""
    running = [low("a", 0, loss=10), low("b", 1, loss=10), low("c", 0, loss=11, node=1), low("d", 1, loss=100, node=1)]
    world = problem(
        nodes(2, gpu=200, slots=FULL), *running, high("first"), high("pair", number=2), preempt_enabled=True
    )
    assert evicted_pods_by_gang(world) == {"a": 1, "b": 1, "c": 1}


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

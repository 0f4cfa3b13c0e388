"""Devices and NUMA cells: what fits into the sum of a node does not always fit into its parts."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from solver.facts import PrecedingGangs
from solver.plan import Plan
from solver.problem import DeviceSlot, InvalidProblemError, Placement, SlotRequest
from solver.semantics.device_slots import exact_assignment
from solver.validation.values import validate
from tests.builders.beside import beside
from tests.builders.plans import actions, verified_plan
from tests.builders.problems import device_slots, gang, nodes, problem, role
from tests.builders.stories import assert_story

STORIES = beside(__file__)


@pytest.mark.parametrize("story", STORIES)
def test_story(story: str) -> None:
    assert_story(STORIES[story])


Share = tuple[str, int, dict[str, int]]


def one(**share: int) -> list[Share]:
    return [("device", 1, share)]


def used(plan: Plan) -> dict[tuple[int, int], int]:
    """(node, cell) -> pods."""
    total: Counter[tuple[int, int]] = Counter()
    for decision in plan.decisions:
        for use in decision.slot_uses:
            total[use.node, use.slot] += use.pods
    return dict(total)


TRIPLES = "33 30 37, 29 38 33, 41 27 32, 28 28 44, 26 38 36, 43 28 29, 27 33 40, 42 30 28"
"""Three pods to a device of 100 each: eight devices are full, and 20,000 steps do not find how."""


def test_what_the_search_for_devices_gives_up_on_is_packed_by_the_model() -> None:
    shares = [int(share) for share in TRIPLES.replace(",", "").split()]
    slots, pods = np.full((8, 1), 100), {SlotRequest(0, 1, (share,)): n for share, n in Counter(shares).items()}
    assert exact_assignment(slots, pods) is None
    roles = (role(1, gpu=share, slot_requests=one(gpu=share)) for share in shares)
    world = problem(nodes(1, gpu=800, slots=device_slots("device", 8, gpu=100)), gang("a", *roles))
    assert actions(verified_plan(world)) == ["start"]


def test_a_numa_cell_must_hold_all_of_a_pod_beside_its_device() -> None:
    """Cells of two divisions: one device of four, and cpu and memory from one of two NUMA cells."""
    node = nodes(1, cpu=16, gpu=4, slots=[*device_slots("numa", 2, cpu=8), *device_slots("device", 4, gpu=1)])
    shares: list[Share] = [("numa", 1, {"cpu": 5}), ("device", 1, {"gpu": 1})]
    world = problem(node, gang("a", role(3, minimum=1, cpu=5, gpu=1, slot_requests=shares)))
    plan = verified_plan(world)
    assert [p.pods for p in plan.decisions[0].placements] == [2]


def test_running_pods_hold_their_cells_already() -> None:
    running = gang("r", role(1, gpu=10, slot_requests=one(gpu=10)), running=(Placement(0, 0, 1),))
    node = nodes(1, gpu=20, slots=[*device_slots("device", 1, {"gpu": 0}, gpu=10), *device_slots("device", 1, gpu=10)])
    plan = verified_plan(problem(node, running, gang("a", role(1, gpu=10, slot_requests=one(gpu=10)))))
    assert actions(plan) == ["keep", "start"]
    assert used(plan) == {(0, 1): 1}


def test_the_gang_that_took_the_device_is_named() -> None:
    node = nodes(1, gpu=20, slots=device_slots("device", 2, gpu=10))
    first = gang("first", role(2, gpu=7, slot_requests=one(gpu=7)), priority=1)
    plan = verified_plan(problem(node, first, gang("second", role(1, gpu=6, slot_requests=one(gpu=6)))))
    assert plan.decisions[1].facts == (PrecedingGangs(asked=1, available=0, gangs=(0,)),)


def test_different_gpu_models_need_no_cells_eligibility_keeps_them_apart() -> None:
    world = problem(
        nodes(1, node_class=0, gpu=8),
        nodes(1, node_class=1, gpu=8),
        gang("a100", role(2, node_classes=(0,), gpu=8)),
        gang("l40", role(1, node_classes=(1,), gpu=8)),
    )
    assert actions(verified_plan(world)) == ["wait", "start"]


@pytest.mark.parametrize(
    ("where", "portion"),
    [
        (("gangs", 0, "roles", 0, "slot_requests", 0, "slot_group"), SlotRequest(1, 1, (1,))),
        (("gangs", 0, "roles", 0, "slot_requests", 0, "number"), SlotRequest(0, 0, (1,))),
        (("gangs", 0, "roles", 0, "slot_requests", 0, "share"), SlotRequest(0, 1, (0,))),
        (("gangs", 0, "roles", 0, "slot_requests", 0, "share"), SlotRequest(0, 1, (1, 1))),
        (("gangs", 0, "roles", 0, "slot_requests", 0, "share", 0), SlotRequest(0, 1, (-1,))),
    ],
)
def test_a_bad_portion_is_refused_by_its_index(where: tuple[str | int, ...], portion: SlotRequest) -> None:
    world = problem(nodes(1, gpu=1, slots=device_slots("device", 1, gpu=1)), gang("a", role(1, gpu=1)))
    bad = replace(
        world, gangs=(replace(world.gangs[0], roles=(replace(world.gangs[0].roles[0], slot_requests=(portion,)),)),)
    )
    with pytest.raises(InvalidProblemError) as error:
        validate(bad)
    assert error.value.where == where


def test_a_second_portion_of_one_division_is_refused() -> None:
    world = problem(
        nodes(1, gpu=1, slots=device_slots("device", 1, gpu=1)),
        gang("a", role(1, gpu=1, slot_requests=[*one(gpu=1), *one(gpu=1)])),
    )
    with pytest.raises(InvalidProblemError, match=r"slot_requests\.1\.slot_group"):
        validate(world)


@pytest.mark.parametrize(
    ("where", "cell"),
    [
        (("nodes", 0, "slots", 0, "slot_group"), DeviceSlot(1, (1,), (1,))),
        (("nodes", 0, "slots", 0, "capacity"), DeviceSlot(0, (1, 2), (1,))),
        (("nodes", 0, "slots", 0, "free", 0), DeviceSlot(0, (1,), (2,))),
    ],
)
def test_a_bad_cell_is_refused_by_its_index(where: tuple[str | int, ...], cell: DeviceSlot) -> None:
    world = problem(nodes(1, gpu=1, slots=device_slots("device", 1, gpu=1)), gang("a", role(1, gpu=1)))
    with pytest.raises(InvalidProblemError) as error:
        validate(replace(world, nodes=(replace(world.nodes[0], slots=(cell,)),)))
    assert error.value.where == where


def test_a_division_named_twice_is_refused() -> None:
    with pytest.raises(InvalidProblemError, match=r"slot_groups\.1"):
        validate(replace(problem(nodes(1, gpu=1), gang("a", role(1, gpu=1))), slot_groups=("a", "a")))

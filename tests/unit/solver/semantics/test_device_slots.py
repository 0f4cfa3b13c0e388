"""Devices and NUMA cells: what fits into the sum of a node does not always fit into its parts."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from solver.facts import PrecedingGangs, SlotShortage
from solver.plan import Plan
from solver.problem import DeviceSlot, InvalidProblemError, Placement, SlotRequest, Topology
from solver.repairs import SmallerPods
from solver.semantics.device_slots import exact_assignment
from solver.validation.values import validate
from tests.builders.plans import actions, verified_plan
from tests.builders.problems import device_slots, gang, hard_topology, nodes, problem, role

Share = tuple[str, int, dict[str, int]]


def one(**share: int) -> list[Share]:
    return [("device", 1, share)]


def each_of(number: int, **share: int) -> list[Share]:
    return [("device", number, share)]


def used(plan: Plan) -> dict[tuple[int, int], int]:
    """(node, cell) -> pods."""
    total: Counter[tuple[int, int]] = Counter()
    for decision in plan.decisions:
        for use in decision.slot_uses:
            total[use.node, use.slot] += use.pods
    return dict(total)


def test_a_pod_whose_share_no_device_has_waits_though_the_node_has_it_in_sum() -> None:
    half_full = nodes(1, gpu=200, free={"gpu": 100}, slots=device_slots("device", 2, {"gpu": 50}, gpu=100))
    plan = verified_plan(problem(half_full, gang("a", role(1, gpu=60, slot_requests=one(gpu=60)))))
    assert plan.decisions[0].facts == (SlotShortage(asked=60, available=50, role=0, resource=0, limit=100),)
    assert actions(verified_plan(problem(half_full, gang("a", role(1, gpu=50, slot_requests=one(gpu=50)))))) == [
        "start"
    ]
    assert actions(verified_plan(problem(half_full, gang("a", role(1, gpu=60))))) == ["start"]


def test_a_share_above_every_device_is_never_to_be_had_and_no_fault_of_the_nodes_size() -> None:
    plan = verified_plan(
        problem(
            nodes(2, gpu=200, slots=device_slots("device", 2, gpu=100)),
            gang("a", role(1, gpu=120, slot_requests=one(gpu=120))),
        )
    )
    assert plan.decisions[0].facts == (
        SlotShortage(asked=120, available=100, role=0, resource=0, limit=100, never=True),
    )
    assert plan.decisions[0].repairs[0] == SmallerPods(role=0, resource=0, amount=100, current_amount=120)


def test_the_largest_cell_is_no_repair_where_the_share_is_not_what_the_pod_asks_for() -> None:
    """Two shares of 60 of different devices: nobody wrote 60, so it would not help to write 50."""
    world = problem(
        nodes(1, gpu=200, slots=device_slots("device", 2, gpu=50)),
        gang("a", role(1, gpu=120, slot_requests=each_of(2, gpu=60))),
    )
    decision = verified_plan(world).decisions[0]
    assert decision.facts == (SlotShortage(asked=60, available=50, role=0, resource=0, limit=50, never=True),)
    assert "GR115" not in {repair.code for repair in decision.repairs}


def test_an_over_constrained_gang_has_no_permanent_fact() -> None:
    world = problem(nodes(1, gpu=8), gang("a", role(2, gpu=8)))
    held = replace(world, gangs=tuple(replace(made, over_constrained=True) for made in world.gangs))
    assert [fact.never for fact in verified_plan(world).decisions[0].facts] == [True]
    assert [(fact.code, fact.never) for fact in verified_plan(held).decisions[0].facts] == [("GW108", False)]


def test_a_node_without_such_cells_takes_no_pod_with_a_portion() -> None:
    world = problem(
        nodes(1, gpu=8),
        nodes(1, gpu=1, slots=device_slots("device", 1, gpu=1)),
        gang("a", role(2, gpu=1, slot_requests=one(gpu=1))),
    )
    plan = verified_plan(world)
    assert plan.decisions[0].facts == (SlotShortage(asked=2, available=1, role=0, never=True),)


def test_fractions_go_to_the_fullest_device_that_holds_them_so_that_a_whole_one_stays_free() -> None:
    world = problem(
        nodes(1, gpu=200, slots=device_slots("device", 2, gpu=100)),
        gang("quarter", role(1, gpu=25, slot_requests=one(gpu=25))),
        gang("half", role(1, gpu=50, slot_requests=one(gpu=50))),
        gang("another quarter", role(1, gpu=25, slot_requests=one(gpu=25))),
        gang("whole", role(1, gpu=100, slot_requests=one(gpu=100))),
    )
    plan = verified_plan(world)
    assert actions(plan) == ["start"] * 4
    assert sorted(used(plan).values()) == [1, 3]


def test_the_devices_of_one_pod_are_all_different() -> None:
    world = problem(
        nodes(1, gpu=30, slots=device_slots("device", 3, gpu=10)),
        gang("a", role(2, gpu=10, slot_requests=each_of(2, gpu=5))),
    )
    plan = verified_plan(world)
    assert actions(plan) == ["start"]
    lopsided = problem(
        nodes(1, gpu=22, slots=[*device_slots("device", 1, gpu=20), *device_slots("device", 1, gpu=2)]),
        gang("a", role(1, gpu=10, slot_requests=each_of(2, gpu=5))),
    )
    assert verified_plan(lopsided).decisions[0].facts[0].code == "GW118"


def test_whole_devices_beside_fractions() -> None:
    """Two whole ones of a node whose devices are shared: a whole device is all of it."""
    world = problem(
        nodes(1, gpu=4000, slots=device_slots("device", 4, gpu=1000)),
        gang("fractions", role(4, gpu=500, slot_requests=one(gpu=500))),
        gang("whole", role(1, gpu=2000, slot_requests=each_of(2, gpu=1000))),
    )
    plan = verified_plan(world)
    assert actions(plan) == ["start", "start"]
    assert sorted(used(plan).values()) == [1, 1, 2, 2]


AWKWARD = (
    role(1, gpu=5, slot_requests=one(gpu=5)),
    role(2, gpu=4, slot_requests=one(gpu=4)),
    role(1, gpu=3, slot_requests=one(gpu=3)),
)
LITTLE = role(2, gpu=2, slot_requests=one(gpu=2))


@pytest.mark.parametrize("topology", [None, hard_topology(1)])
def test_what_best_fit_cannot_pack_onto_the_devices_of_a_node_is_packed_exactly(topology: Topology | None) -> None:
    """5 + 3 + 2 and 4 + 4 + 2 fill two devices of 10; the fullest first leaves 1 + 1 over."""
    node = nodes(1, gpu=20, leaf="s" if topology else None, slots=device_slots("device", 2, gpu=10))
    world = problem(
        node, gang("a", *AWKWARD, LITTLE, topology=topology), hypernodes={"s": (1, None)} if topology else None
    )
    assert actions(verified_plan(world)) == ["start"]


TRIPLES = "33 30 37, 29 38 33, 41 27 32, 28 28 44, 26 38 36, 43 28 29, 27 33 40, 42 30 28"
"""Three pods to a device of 100 each: eight devices are full, and 20,000 steps do not find how."""


def test_what_the_search_for_devices_gives_up_on_is_packed_by_the_model() -> None:
    shares = [int(share) for share in TRIPLES.replace(",", "").split()]
    slots, pods = np.full((8, 1), 100), {SlotRequest(0, 1, (share,)): n for share, n in Counter(shares).items()}
    assert exact_assignment(slots, pods) is None
    roles = (role(1, gpu=share, slot_requests=one(gpu=share)) for share in shares)
    world = problem(nodes(1, gpu=800, slots=device_slots("device", 8, gpu=100)), gang("a", *roles))
    assert actions(verified_plan(world)) == ["start"]


def test_what_cannot_be_packed_onto_a_leaf_counted_together_is_packed_node_by_node() -> None:
    world = problem(nodes(2, gpu=10, slots=device_slots("device", 1, gpu=10)), gang("a", *AWKWARD, LITTLE))
    plan = verified_plan(world)
    assert actions(plan) == ["start"]
    crowded = problem(
        nodes(2, gpu=20, slots=device_slots("device", 2, gpu=10)),
        gang("a", role(4, gpu=7, slot_requests=one(gpu=7)), role(1, gpu=4, slot_requests=one(gpu=4))),
    )
    plan = verified_plan(crowded)
    assert actions(plan) == ["wait"], "every count allows it: 32 of 40, and the exact rows of the single nodes do not"
    assert {objective.verdict for batch in plan.batches for objective in batch.objectives} == {"proven"}
    too_much = problem(
        nodes(2, gpu=10, slots=device_slots("device", 1, gpu=10)), gang("a", role(3, gpu=6, slot_requests=one(gpu=6)))
    )
    assert verified_plan(too_much).decisions[0].facts[0].code == "GW119"


def test_several_gangs_that_only_one_arrangement_holds_all_start() -> None:
    shares = (5, 4, 4, 3, 2, 2)
    gangs = [gang(f"g{i}", role(1, gpu=share, slot_requests=one(gpu=share))) for i, share in enumerate(shares)]
    plan = verified_plan(problem(nodes(1, gpu=20, slots=device_slots("device", 2, gpu=10)), *gangs))
    assert actions(plan) == ["start"] * 6
    assert {objective.verdict for batch in plan.batches for objective in batch.objectives} == {"proven"}


def test_an_elastic_gang_grows_only_as_far_as_its_devices_go() -> None:
    world = problem(
        nodes(1, gpu=20, free={"gpu": 20}, slots=device_slots("device", 2, gpu=10)),
        gang("a", role(5, minimum=1, gpu=4, slot_requests=one(gpu=4))),
    )
    plan = verified_plan(world)
    assert [p.pods for p in plan.decisions[0].placements] == [4]
    assert sorted(used(plan).values()) == [2, 2]


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

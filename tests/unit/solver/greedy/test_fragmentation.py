"""Fragments: what a node could no longer give to the rest of a batch, in whole numbers; and the greedy that keeps them
few."""

from __future__ import annotations

import numpy as np

from solver import solve
from solver.greedy.fragmentation import Fragmentation
from solver.placement.batch import fragmentation_aware_placers
from solver.problem import Placement, PodRequest, Problem
from solver.semantics.gang_classes import may_go_anywhere
from solver.state.free_nodes import FreeNodes, free_and_overcommitted
from solver.state.state import State
from solver.verify import verify
from tests.builders.problems import device_slots, gang, hard_topology, nodes, problem, role


def fragments(world: Problem) -> Fragmentation:
    return Fragmentation(
        world,
        FreeNodes(free_and_overcommitted(world)[0]),
        [(r.pod_request, r.node_classes) for g in world.gangs for r in g.roles],
    )


def test_a_pod_that_breaks_what_others_need_whole_costs_all_that_is_left_for_each_of_them() -> None:
    world = problem(
        [*nodes(1, gpu=8), *nodes(1, gpu=8, free={"gpu": 7})], gang("a", role(1, gpu=1)), gang("b", role(1, gpu=8))
    )
    # the empty node loses the pod of 8 (7 left of no use to it); the other one had lost it before, and gets one less
    # fragment
    assert fragments(world).increase(PodRequest((1,))).tolist() == [7, -1]


def test_nodes_closed_to_a_pod_are_of_no_use_to_it() -> None:
    world = problem([*nodes(1, gpu=8), *nodes(1, gpu=8, node_class=1)], gang("a", role(1, gpu=1, node_classes=(0,))))
    assert fragments(world).increase(PodRequest((1,))).tolist() == [0, -1]


def test_the_resource_that_runs_out_first_is_the_one_that_counts() -> None:
    world = problem(nodes(2, cpu=4, gpu=8), gang("a", role(2, cpu=4, gpu=1)), gang("b", role(1, cpu=4)))
    assert world.resources[fragments(world).workload.scarcest_resource] == "cpu"


def test_rises_follow_what_is_taken_and_given_back() -> None:
    world = problem(nodes(2, gpu=8), gang("a", role(1, gpu=1)), gang("b", role(1, gpu=8)))
    of = fragments(world)
    before = of.increase(PodRequest((1,))).tolist()
    mark = of.free_nodes.mark()
    of.free_nodes.take_pods(0, PodRequest((1,)), 1)
    assert of.increase(PodRequest((1,))).tolist() == [-1, 7]
    of.free_nodes.undo(mark)
    assert of.increase(PodRequest((1,))).tolist() == before


def test_what_is_free_on_cells_too_full_for_a_pod_is_of_no_use_to_it() -> None:
    """Two devices, one half used: a pod of a whole one sees the half as a fragment, one of half a device sees none."""
    half = [*device_slots("device", 1, gpu=10), *device_slots("device", 1, {"gpu": 5}, gpu=10)]
    world = problem(
        nodes(1, gpu=20, free={"gpu": 15}, slots=half),
        gang("whole", role(1, gpu=10, slot_requests=(("device", 1, {"gpu": 10}),))),
        gang("half", role(1, gpu=5, slot_requests=(("device", 1, {"gpu": 5}),))),
    )
    of = fragments(world)
    whole, half_of = (world.gangs[j].roles[0].pod_request for j in (0, 1))
    # the half goes onto the used device: 10 are left, of use to both; the whole one takes 10: the 5 that are left were
    # none to it before
    assert (of.increase(half_of).tolist(), of.increase(whole).tolist()) == ([-5], [0])
    of.free_nodes.take_pods(0, half_of, 1)
    # now the half would break the last whole device: 5 are left that only the half can use
    assert (of.increase(half_of).tolist(), of.increase(whole).tolist()) == ([5], [0])


def test_a_pod_of_several_cells_needs_that_many_of_them() -> None:
    two = (("device", 2, {"gpu": 10}),)
    world = problem(
        nodes(1, gpu=30, slots=device_slots("device", 3, gpu=10)),
        gang("two", role(1, gpu=20, slot_requests=two)),
        gang("one", role(1, gpu=10, slot_requests=(("device", 1, {"gpu": 10}),))),
    )
    # of three whole devices each pod of two leaves one, which another of two cannot use
    assert fragments(world).increase(world.gangs[0].roles[0].pod_request).tolist() == [10]


def test_the_second_greedy_takes_shares_of_devices() -> None:
    """Best fit would put the half onto the node with less CPU and break its only device, which the whole one needs: it
    fits nowhere else."""
    device, used = device_slots("device", 1, gpu=10), device_slots("device", 2, {"gpu": 5}, gpu=10)
    world = problem(
        nodes(1, cpu=10, gpu=10, slots=device),
        nodes(1, cpu=99, gpu=20, free={"cpu": 99, "gpu": 10}, slots=used),
        gang("half", role(1, cpu=1, gpu=5, slot_requests=(("device", 1, {"gpu": 5}),))),
        gang("whole", role(1, cpu=1, gpu=10, slot_requests=(("device", 1, {"gpu": 10}),))),
        gang("huge", role(1, cpu=99, gpu=10, slot_requests=(("device", 1, {"gpu": 10}),))),
    )
    second = next(fragmentation_aware_placers(State.initial(world), range(3)))
    assert [second.place_gang(j) for j in range(3)] == [(Placement(0, 1, 1),), (Placement(0, 0, 1),), None]
    plan = solve(world)
    assert [decision.action for decision in plan.decisions] == ["start", "start", "wait"]
    assert verify(world, plan) == []


def broken_by_best_fit() -> Problem:
    """The node with less CPU has room for fewer of the small pod, which there would leave 7 GPUs that the large one
    needs whole."""
    tight, used = nodes(1, cpu=10, gpu=8), nodes(1, cpu=90, gpu=8, free={"cpu": 90, "gpu": 7})
    small = [gang(f"small{i}", role(1, cpu=2, gpu=1)) for i in range(2)]
    return problem([*tight, *used], *small, gang("large", role(1, cpu=2, gpu=8)), gang("huge", role(1, cpu=80, gpu=8)))


def test_the_second_greedy_starts_what_the_first_broke_the_room_of() -> None:
    world = broken_by_best_fit()
    state = State.initial(world)
    second = next(fragmentation_aware_placers(state, range(4)))
    placed = [second.place_gang(j) is not None for j in range(4)]
    assert placed == [True, True, True, False]
    assert state.free.amounts.tolist() == free_and_overcommitted(world)[0].amounts.tolist()


def test_the_plan_is_no_worse_than_the_second_greedy() -> None:
    world = broken_by_best_fit()
    plan = solve(world)
    assert [decision.action for decision in plan.decisions] == ["start", "start", "start", "wait"]
    assert verify(world, plan) == []


def test_gangs_bound_to_domains_are_left_to_the_first_greedy() -> None:
    world = problem(
        nodes(2, leaf="s", gpu=8), gang("a", role(2, gpu=8), topology=hard_topology(1)), hypernodes={"s": (1, None)}
    )
    assert not may_go_anywhere(world, [0])


def test_the_largest_first_leave_room_that_only_small_ones_need() -> None:
    """The small ones are older; a node filled by one of them and the middle one holds no large one."""
    world = problem(
        nodes(2, gpu=8),
        *(gang(f"small{i}", role(1, gpu=3)) for i in range(4)),
        gang("large", role(1, gpu=8)),
        gang("b", role(1, gpu=5)),
    )
    plan = solve(world)
    assert (
        sum(
            p.pods * world.gangs[d.gang].roles[p.role].request[0]
            for d in plan.decisions
            if d.action == "start"
            for p in d.placements
        )
        == 16
    )
    largest, oldest = fragmentation_aware_placers(State.initial(world), range(6))
    assert list(oldest.serving_order(range(6))) == [0, 1, 2, 3, 4, 5]
    assert list(largest.serving_order(range(6))) == [4, 5, 0, 1, 2, 3]


def test_nodes_that_tie_are_taken_by_what_is_free_and_not_as_they_are_written() -> None:
    small, large = nodes(1, gpu=2), nodes(1, gpu=4)
    for first, second in ((small, large), (large, small)):
        of = fragments(problem([*first, *second], gang("a", role(1, gpu=2))))
        assert of.increase(PodRequest((2,))).tolist() == [0, 0]
        assert [
            int(of.free_nodes.vectors.amounts[n, 0])
            for n in of.positions_by_increase(PodRequest((2,)), np.array([0, 1]))
        ] == [2, 4]

"""Fragmentation of nodes, and the gradient."""

from __future__ import annotations

from solver.problem import Problem
from solver.simulation.gradient import FragmentationGradient
from solver.simulation.room import Room
from tests.builders.problems import device_slots, gang, nodes, problem, role


def gradient(world: Problem, unit: int = 1) -> FragmentationGradient:
    return FragmentationGradient(world, [gang.roles[0] for gang in world.gangs], 0, unit)


def test_the_fragmentation_of_a_node_is_what_the_workload_cannot_use() -> None:
    # 3 free GPUs: of use to the pods of 1 and 2, not to those of 4, which are half of the workload
    world = problem(nodes(1, gpu=8), *(gang(f"g{size}{i}", role(1, gpu=size)) for i, size in enumerate((1, 2, 4, 4))))
    assert gradient(world).fragmentation((0, (3,), ())) == 3 * 2


def share(of: int) -> tuple[tuple[str, int, dict[str, int]], ...]:
    """So many tenths of one device."""
    return (("device", 1, {"gpu": of}),)


def test_what_is_free_on_devices_that_are_too_full_is_a_fragment() -> None:
    # 15 free on two devices: all of use to the half, 10 of them to the whole one
    half = [*device_slots("device", 1, gpu=10), *device_slots("device", 1, {"gpu": 5}, gpu=10)]
    world = problem(
        nodes(1, gpu=20, free={"gpu": 15}, slots=half),
        gang("a", role(1, gpu=5, slot_requests=share(5))),
        gang("b", role(1, gpu=10, slot_requests=share(10))),
    )
    assert gradient(world, 10).fragmentation((0, (15,), (5, 10))) == 5


def test_each_device_of_a_node_is_tried() -> None:
    """Devices with 7 and 9 left and a pod of 2: the fuller one leaves room for a pod of 8 on the other, the other one
    room for two of 7."""
    used = [*device_slots("device", 1, {"gpu": 7}, gpu=10), *device_slots("device", 1, {"gpu": 9}, gpu=10)]
    for large, slots in ((8, (1, 0)), (7, (0, 1))):
        world = problem(
            nodes(1, gpu=20, free={"gpu": 16}, slots=used),
            gang("small", role(1, gpu=2, slot_requests=share(2))),
            gang("large", role(1, gpu=large, slot_requests=share(large))),
        )
        (held,) = gradient(world, 10)(Room.of_cluster(world), world.gangs[0].roles[0]) or ()
        assert (held.node, held.slots) == (0, (slots,))


def test_pods_of_a_job_are_placed_one_after_another_and_leave_the_room_as_it_was() -> None:
    """Two pods of half a device fill the one that is half full, then half of another; three whole ones do not fit."""
    used = [*device_slots("device", 1, {"gpu": 5}, gpu=10), *device_slots("device", 2, gpu=10)]
    world = problem(
        nodes(1, gpu=30, free={"gpu": 25}, slots=used),
        gang("halves", role(2, gpu=5, slot_requests=share(5))),
        gang("wholes", role(3, gpu=10, slot_requests=share(10))),
    )
    place, room = gradient(world, 10), Room.of_cluster(world)
    halves, wholes = (gang.roles[0] for gang in world.gangs)
    (held,) = place(room, halves) or ()
    assert (held.node, held.pods, sorted(held.slots[0])) == (0, 2, [0, 1, 1])
    assert held.slots[0][0] == 1
    assert place(room, wholes) is None
    assert room.free.amounts.tolist() == [[25]]


def test_a_job_counts_in_the_workload_as_often_as_it_has_pods() -> None:
    world = problem(nodes(1, gpu=8), gang("g1", role(1, gpu=1)), gang("g4", role(3, gpu=4)))
    assert gradient(world).fragmentation((0, (3,), ())) == 3 * 3

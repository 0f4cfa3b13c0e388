"""Exchange: a node that some pods leave a remainder of asks for others; and the floor that this raises where no model
over single nodes is asked."""

from __future__ import annotations

from solver import solve
from solver.admission.greedy_floor import floor_objectives
from solver.options import Budget, Options
from solver.placement.batch import floor_after_exchange, unpackable_objective
from solver.placement.node_exchange import exchange_pods
from solver.plan import Objective
from solver.problem import Placement, Problem
from solver.state.state import State
from solver.verify import verify
from tests.builders.models import sets_of
from tests.builders.problems import device_slots, gang, nodes, problem, queue, role, running_pods


def better(world: Problem, *placed: tuple[int, int]) -> dict[int, int]:
    """Gang -> node after the exchange. placed: (gang, its node) before it."""
    floor = {j: (Placement(0, node, 1),) for j, node in placed}
    state, found = exchange_pods(State.initial(world), floor, range(len(world.gangs)), Options())
    expected = State.initial(world)
    for j, pods in found.items():
        expected.start_gang(j, pods)
    assert expected.free.amounts.tolist() == state.free.amounts.tolist()
    held = [sum(world.gangs[j].roles[0].request[r] for j in found) for r in range(len(world.resources))]
    assert [
        sum(state.queue_books.held[q][r] for q, x in enumerate(world.queues) if x.parent is None)
        for r in range(len(world.resources))
    ] == held
    return {j: pods[0].node for j, pods in sorted(found.items())}


def test_a_pod_that_takes_the_last_cpu_makes_way_for_those_that_use_the_gpus() -> None:
    world = problem(
        nodes(1, cpu=10, gpu=8),
        gang("hungry", role(1, cpu=8, gpu=2)),
        gang("a", role(1, cpu=4, gpu=4)),
        gang("b", role(1, cpu=4, gpu=4)),
    )
    assert better(world, (0, 0)) == {1: 0, 2: 0}


def test_of_identical_gangs_the_oldest_start_and_the_youngest_wait() -> None:
    alike = [gang(f"small{i}", role(1, gpu=3)) for i in range(3)]
    world = problem(nodes(1, gpu=8), *alike, *(gang(f"two{i}", role(1, gpu=2)) for i in range(3)))
    assert better(world, (1, 0), (2, 0)) == {1: 0, 2: 0, 3: 0}
    world = problem(nodes(1, gpu=7), *alike, *(gang(f"four{i}", role(1, gpu=4)) for i in range(2)))
    assert better(world, (0, 0), (1, 0)) == {0: 0, 3: 0}


def test_nothing_moves_where_nothing_is_left_or_nothing_better_waits() -> None:
    full = problem(nodes(1, gpu=8), gang("a", role(1, gpu=4)), gang("b", role(1, gpu=4)), gang("c", role(1, gpu=8)))
    assert better(full, (0, 0), (1, 0)) == {0: 0, 1: 0}
    least = problem(nodes(1, gpu=8), gang("a", role(1, gpu=6)), gang("b", role(1, gpu=5)))
    assert better(least, (0, 0)) == {0: 0}


def test_what_the_queue_may_hold_is_not_exceeded() -> None:
    gangs = gang("a", role(1, gpu=5), queue="q"), gang("b", role(1, gpu=8), queue="q")
    assert better(problem(nodes(1, gpu=8), queue("q", capability={"gpu": 6}), *gangs), (0, 0)) == {0: 0}
    assert better(problem(nodes(1, gpu=8), queue("q", capability={"gpu": 8}), *gangs), (0, 0)) == {1: 0}


def test_no_queue_gives_to_another_and_none_with_strict_order_at_all() -> None:
    gangs = gang("a", role(1, gpu=5), queue="q"), gang("b", role(1, gpu=8), queue="r")
    assert better(problem(nodes(1, gpu=8), queue("q"), queue("r"), *gangs), (0, 0)) == {0: 0}
    strict = gang("a", role(1, gpu=5), queue="q"), gang("b", role(1, gpu=8), queue="q")
    assert better(problem(nodes(1, gpu=8), queue("q", strict_order=True), *strict), (0, 0)) == {0: 0}


def test_gangs_of_several_pods_stay() -> None:
    world = problem(nodes(1, gpu=8), gang("two", role(2, gpu=3)), gang("large", role(1, gpu=8)))
    state, found = exchange_pods(State.initial(world), {0: (Placement(0, 0, 2),)}, range(2), Options())
    assert found == {0: (Placement(0, 0, 2),)}
    assert state.free.amounts.tolist() == [[2]]


def share(of: int) -> tuple[tuple[str, int, dict[str, int]], ...]:
    return (("device", 1, {"gpu": of}),)


def test_devices_are_asked_one_by_one() -> None:
    """A device with 8 of 10 taken would rather have 6 and 4; the other one, which is full, keeps what it has."""
    world = problem(
        nodes(1, gpu=20, slots=device_slots("device", 2, gpu=10)),
        *(gang(f"g{of}{i}", role(1, gpu=of, slot_requests=share(of))) for i, of in enumerate((8, 10, 6, 4))),
    )
    assert better(world, (0, 0), (1, 0)) == {1: 0, 2: 0, 3: 0}


def scattered() -> Problem:
    """16 GPUs, and gangs that ask for 6, 6 and 4: no two of them lie on one node of 8."""
    return problem(nodes(2, gpu=8), *(gang(f"g{i}", role(1, gpu=of)) for i, of in enumerate((6, 6, 4))))


def test_the_floor_is_raised() -> None:
    world = problem(
        nodes(2, gpu=8),
        *(gang(f"a{i}", role(1, gpu=5)) for i in range(2)),
        *(gang(f"b{i}", role(1, gpu=3)) for i in range(3)),
    )
    floor = {0: (running_pods(0, 0, 1),), 1: (running_pods(0, 1, 1),)}
    s = sets_of(world)
    assert sorted(floor_after_exchange(s, floor, list(range(5)), Options())) == [0, 1, 2, 3]


def test_the_first_goal_of_what_the_nodes_cannot_hold_is_a_bound() -> None:
    bound = unpackable_objective(sets_of(scattered()), {}, Options())
    assert bound is not None
    assert (bound.name, bound.value) == ("placed[0]", 8)  # in units of 2 GPUs
    assert (
        unpackable_objective(
            sets_of(problem(nodes(2, gpu=8), gang("a", role(1, gpu=8)), gang("b", role(1, gpu=8)))), {}, Options()
        )
        is None
    )


def test_only_the_first_goal_of_a_relaxation_is_believed() -> None:
    s = sets_of(scattered())
    for name, most in (("placed[0]", 7), ("gangs[0]", 8)):
        found = floor_objectives(s, [0, 1], Options(), Objective(name, 7, 7, 0, "proven"))
        assert [(o.name, o.value, o.bound) for o in found] == [("placed[0]", 6, most), ("gangs[0]", 2, 3)]


def test_a_plan_of_a_batch_too_large_for_single_nodes_stands_on_its_floor() -> None:
    world = scattered()
    exact = solve(world)
    plan = solve(world, Options(budget=Budget(node_model_factor=0)))
    assert verify(world, plan) == []
    assert [d.action for d in plan.decisions] == [d.action for d in exact.decisions] == ["start", "start", "wait"]
    placed = [
        [(o.value, o.bound) for batch in of.batches for o in batch.objectives if o.name == "placed[0]"]
        for of in (exact, plan)
    ]
    assert placed == [[(6, 6)], [(6, 8)]]

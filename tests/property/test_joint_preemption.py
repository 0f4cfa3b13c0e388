"""Several gangs that room is made for, against brute force: together they lose what all of them have to lose, and
those that can start with the others do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from hypothesis import assume, given, settings

from solver.problem import Problem
from solver.verify import verify
from tests.builders.evictions import contested
from tests.builders.plans import solve_without_repairs as solve
from tests.property.brute import FreeCapacity, RoleOnNode, new_pod_sets
from tests.property.brute_evictions import cost, losses, paid


def least_loss(world: Problem, winners: Sequence[int]) -> tuple[int, int] | None:
    """`cost` of the best choice of victims after which all winners fit at once; None where there is none."""
    room, best = FreeCapacity(world), None
    victims = [v for v, gang in enumerate(world.gangs) if gang.running]
    for choice in product(*(list(losses(world, v)) for v in victims)):
        gone = {v: pods for v, pods in zip(victims, choice, strict=True) if pods}
        lost = cost(world, gone)
        if (best is None or lost < best) and all_fit(world, room, winners, gone):
            best = lost
    return best


def all_fit(world: Problem, room: FreeCapacity, winners: Sequence[int], gone: dict[int, Counter[RoleOnNode]]) -> bool:
    free, held = [list(node) for node in room.free], list(room.held[0])
    for v, pods in gone.items():
        for (role, node), number in pods.items():
            _add(free[node], world.gangs[v].roles[role].request, number)
            _add(held, world.gangs[v].roles[role].request, -number)
    return _placed(world, room, list(winners), free, held)


def _placed(world: Problem, room: FreeCapacity, winners: list[int], free: list[list[int]], held: list[int]) -> bool:
    if not winners:
        return all(
            limit is None or amount <= limit for amount, limit in zip(held, world.queues[0].capability, strict=True)
        )
    for option in new_pod_sets(world, winners[0]):
        use = [vector[: len(held)] for vector in room.use_of(winners[0], option)]
        if all(
            not asked or asked <= have
            for vector, node in zip(use, free, strict=True)
            for asked, have in zip(vector, node, strict=True)
        ):
            less, more = [list(node) for node in free], list(held)
            for node, vector in zip(less, use, strict=True):
                _add(node, vector, -1)
                _add(more, vector, 1)
            if _placed(world, room, winners[1:], less, more):
                return True
    return False


def _add(total: list[int], vector: Sequence[int], times: int) -> None:
    for r, amount in enumerate(vector):
        total[r] += times * amount


@settings(max_examples=20)
@given(contested())
def test_all_preemptors_that_can_start_jointly_do_so_at_the_least_loss(world: Problem) -> None:
    """Where nobody who waits starts without evictions; whoever does keeps the place that it got before."""
    waiting = [g for g, gang in enumerate(world.gangs) if not gang.running]
    assume(all(decision.action != "start" for decision in solve(replace(world, preempt_enabled=False)).decisions))
    plan = solve(world)
    assert verify(world, plan) == []
    started = [g for g in waiting if plan.decisions[g].action == "start"]
    assert paid(plan, world) == (least_loss(world, started) if started else (0, 0))
    assert started == waiting or least_loss(world, waiting) is None

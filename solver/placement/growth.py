"""Growth: elastic gangs take what is left, one unit at a time, the queue with the lowest share first."""

from __future__ import annotations

import math
from collections.abc import Container
from dataclasses import dataclass, replace

from solver.greedy.best_fit import GreedyPlacer
from solver.options import Budget
from solver.problem import Gang, Placement
from solver.semantics.gang_classes import breaks_topology, growing_class, has_partial_subgroup, pods_per_role
from solver.semantics.placements import Placements, merge_placements
from solver.semantics.share_measures import gang_dominant_share, queue_priority
from solver.state.queue_books import QueueBooks
from solver.state.state import State


@dataclass(frozen=True, slots=True)
class GrowthRequest:
    """What a gang would still like: whole units of one role after another, `stride` units at a time, fewer where that
    many do not fit."""

    role: int
    unit: int
    stride: int


def grow_gangs(
    state: State,
    placements: Placements,
    books_at_start: QueueBooks | None = None,
    lasting_gangs: Container[int] = (),
    budget: Budget | None = None,
) -> dict[int, tuple[Placement, ...]]:
    """The placements with the growth, which is also taken from the state.

    placements: gang -> pods of all gangs that run or start. A unit is a pod, or a whole subgroup where the pod belongs
    to one. books_at_start: what the queues hold at the start of a reservation; lasting gangs, which are still there
    then, grow within it.
    """
    problem, tree, queue_books = state.problem, state.tree, state.queue_books
    totals, grown, wanting = problem.totals, dict(placements), dict[int, GrowthRequest]()
    greedy, strides = GreedyPlacer(state, budget=budget), (budget or Budget()).growth_strides
    for j, pods in placements.items():
        wish = _next_request(problem.gangs[j], pods, 0, strides)
        if wish is None or breaks_topology(tree, problem.gangs[j], pods):
            continue
        if not has_partial_subgroup(tree, problem.gangs[j], pods):
            wanting[j] = wish
    holds = {j: gang_dominant_share(problem, problem.gangs[j], grown[j], totals) for j in wanting}

    def turn(j: int) -> tuple[object, ...]:
        gang = problem.gangs[j]
        queue = -queue_priority(problem, gang.queue), queue_books.share_order_key(gang.queue)
        order = (queue, -gang.priority) if problem.policy.queues_first else (-gang.priority, queue)
        return *order, holds[j], gang.age, j

    while wanting:
        j = min(wanting, key=turn)
        gang, wish = problem.gangs[j], wanting[j]
        mix = [wish.stride * wish.unit if t == wish.role else 0 for t in range(len(gang.roles))]
        amount = tuple(sum(mix) * x for x in gang.roles[wish.role].request)
        bound = [queue_books] if books_at_start is None or j not in lasting_gangs else [queue_books, books_at_start]
        allowed = all(each.allows_amount(gang.queue, amount) for each in bound)
        more = greedy.place_gang(j, growing_class(j, gang, grown[j]).with_fixed_mix(mix)) if allowed else None
        if more is None and wish.stride > 1:
            wanting[j] = replace(wish, stride=wish.stride // 2)
            continue
        if more is not None:
            for each in bound:
                each.charge_queue(gang.queue, amount)
            grown[j] = merge_placements([*grown[j], *more])
            holds[j] = gang_dominant_share(problem, gang, grown[j], totals)
        again = _next_request(gang, grown[j], wish.role + (more is None), strides, wish)
        if again is None:
            del wanting[j]
        else:
            wanting[j] = again
    return grown


def _next_request(
    gang: Gang, pods: tuple[Placement, ...], first: int, strides: int, previous: GrowthRequest | None = None
) -> GrowthRequest | None:
    """The next stride of the first role, from `first` on, that has not reached its replicas; never longer than the one
    before it in that role."""
    have = pods_per_role(len(gang.roles), pods)
    for t, role in enumerate(gang.roles):
        unit = math.lcm(*(s.size for s in gang.subgroups if t in s.roles))
        left = (role.replicas - have[t]) // unit
        if t >= first and left > 0:
            stride = max(1, left // strides) if previous is None or previous.role != t else min(previous.stride, left)
            return GrowthRequest(t, unit, stride)
    return None

"""Growth: elastic gangs take what is left, one unit at a time, the queue with the lowest share first."""

from __future__ import annotations

import math
from collections.abc import Container
from dataclasses import dataclass

from solver.greedy.best_fit import Greedy
from solver.problem import Gang, Placement, Problem, Vector
from solver.semantics.gang_classes import Shape, broken, growing_shape, uneven
from solver.semantics.placements import Placements, merged
from solver.semantics.queue_limits import gang_share, rank
from solver.semantics.topology import Tree
from solver.state.room import Ledger, Room, add

STEPS = 32
"""Into so many strides the growth of a role is divided, so that queues take turns and a job of 100,000 pods still grows
in seconds."""


@dataclass(slots=True)
class Wish:
    """What a gang would still like: whole units of one role after another, `stride` units at a time, fewer where that
    many do not fit."""

    role: int
    unit: int
    stride: int


def grow(
    problem: Problem,
    tree: Tree,
    room: Room,
    ledger: Ledger,
    placements: Placements,
    totals: Vector,
    later: Ledger | None = None,
    lasting: Container[int] = (),
) -> dict[int, tuple[Placement, ...]]:
    """The placements with the growth. Charges room and ledger for what it adds.

    placements: gang -> pods of all gangs that run or start. A unit is a pod, or a whole subgroup where the pod belongs
    to one. later: what the queues hold when a reservation falls due; the gangs in `lasting`, which are still there
    then, grow within it.
    """
    grown = dict(placements)
    greedy = Greedy(problem, tree, room)
    wishes = ((j, _wish(problem.gangs[j], pods, 0)) for j, pods in placements.items())
    wanting = {j: wish for j, wish in wishes if wish is not None and not _stuck(tree, problem.gangs[j], placements[j])}
    holds = {j: gang_share(problem, problem.gangs[j], grown[j], totals) for j in wanting}

    def turn(j: int) -> tuple[int, int, tuple[tuple[float, int], ...], float, int, int]:
        gang = problem.gangs[j]
        return -gang.priority, -rank(problem, gang.queue), ledger.standing(gang.queue), holds[j], gang.age, j

    while wanting:
        j = min(wanting, key=turn)
        gang, wish = problem.gangs[j], wanting[j]
        pods = wish.stride * wish.unit
        amount: Vector = add((0,) * len(problem.resources), gang.roles[wish.role].request, pods)
        bound = [ledger] if later is None or j not in lasting else [ledger, later]
        allowed = all(each.allows(gang.queue, amount) for each in bound)
        more = greedy.place(j, _stride_shape(j, gang, grown[j], wish.role, pods)) if allowed else None
        if more is None and wish.stride > 1:
            wish.stride //= 2
            continue
        if more is not None:
            for each in bound:
                each.charge(gang.queue, amount)
            grown[j] = merged([*grown[j], *more])
            holds[j] = gang_share(problem, gang, grown[j], totals)
        again = _wish(gang, grown[j], wish.role + (more is None), wish)
        if again is None:
            del wanting[j]
        else:
            wanting[j] = again
    return grown


def _wish(gang: Gang, pods: tuple[Placement, ...], first: int, before: Wish | None = None) -> Wish | None:
    """The next stride of the first role, from `first` on, that has not reached its replicas; never longer than the one
    before it in that role."""
    have = [0] * len(gang.roles)
    for p in pods:
        have[p.role] += p.pods
    for t, role in enumerate(gang.roles):
        unit = math.lcm(*(s.size for s in gang.subgroups if t in s.roles))
        left = (role.replicas - have[t]) // unit
        if t >= first and left > 0:
            stride = max(1, left // STEPS) if before is None or before.role != t else min(before.stride, left)
            return Wish(t, unit, stride)
    return None


def _stuck(tree: Tree, gang: Gang, placed: tuple[Placement, ...]) -> bool:
    return broken(tree, gang, placed) or uneven(tree, gang, placed)


def _stride_shape(j: int, gang: Gang, placed: tuple[Placement, ...], t: int, pods: int) -> Shape:
    """A shape that asks for just these pods beside the placed ones."""
    return growing_shape(j, gang, placed).pinned([pods if i == t else 0 for i in range(len(gang.roles))])

"""Growth: elastic gangs take what is left, one unit at a time, the queue with the lowest share first."""

from __future__ import annotations

from dataclasses import replace

from solver.greedy import Greedy
from solver.problem import Gang, Placement, Problem, Vector
from solver.quotas import gang_share, rank
from solver.room import Ledger, Room, add
from solver.shapes import Shape, broken, growing_shape, uneven
from solver.stages.admit import Placements
from solver.stages.pack import merged
from solver.tree import Tree


def grow(problem: Problem, tree: Tree, room: Room, ledger: Ledger, placements: Placements, totals: Vector) -> dict[int, tuple[Placement, ...]]:
    """The placements with the growth. Charges room and ledger for what it adds.

    placements: gang -> pods of all gangs that run or start. A unit is a pod, or a whole subgroup where the pod belongs to one.
    """
    grown = dict(placements)
    greedy = Greedy(problem, tree, room)
    wanting = {j: _units(problem.gangs[j], pods) for j, pods in placements.items() if not _stuck(tree, problem.gangs[j], pods)}
    holds = {j: gang_share(problem, problem.gangs[j], placements[j], totals) for j in wanting}

    def turn(j: int) -> tuple[int, int, tuple[tuple[float, int], ...], float, int, int]:
        gang = problem.gangs[j]
        return -gang.priority, -rank(problem, gang.queue), ledger.standing(gang.queue), holds[j], gang.age, j

    while True:
        wanting = {j: units for j, units in wanting.items() if units}
        if not wanting:
            break
        j = min(wanting, key=turn)
        t, pods = wanting[j][0]
        gang = problem.gangs[j]
        amount: Vector = add((0,) * len(problem.resources), gang.roles[t].request, pods)
        more = greedy.place(j, _unit_shape(j, gang, grown[j], t, pods)) if ledger.allows(gang.queue, amount) else None
        if more is None:
            wanting[j] = wanting[j][1:]
            continue
        ledger.charge(gang.queue, amount)
        grown[j] = merged([*grown[j], *more])
        holds[j] = gang_share(problem, gang, grown[j], totals)
        wanting[j] = _units(gang, grown[j], wanting[j][0][0])
    return grown


def _stuck(tree: Tree, gang: Gang, placed: tuple[Placement, ...]) -> bool:
    return broken(tree, gang, placed) or uneven(tree, gang, placed)


def _units(gang: Gang, pods: tuple[Placement, ...], first: int = 0) -> list[tuple[int, int]]:
    """(role, pods) of the next unit of each role from role `first` on that has not reached its replicas."""
    have = [0] * len(gang.roles)
    for p in pods:
        have[p.role] += p.pods
    found = []
    for t, role in enumerate(gang.roles):
        size = max((s.size for s in gang.subgroups if t in s.roles), default=1)
        if t >= first and have[t] + size <= role.replicas:
            found.append((t, size))
    return found


def _unit_shape(j: int, gang: Gang, placed: tuple[Placement, ...], t: int, pods: int) -> Shape:
    """A shape that asks for just these pods beside the placed ones."""
    shape = growing_shape(j, gang, placed)
    roles = tuple(replace(r, need=pods if i == t else 0, room=pods if i == t else 0) for i, r in enumerate(shape.roles))
    return replace(shape, roles=roles, least=pods, most=pods)

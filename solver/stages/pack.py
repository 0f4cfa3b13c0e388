"""Stage C: pods of a place onto its nodes. Largest first is exact where pod sizes divide one another; else a small exact model decides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pulp

from solver.engine import solve_model
from solver.model.constraints import at_least, at_most
from solver.model.sets import Place
from solver.options import Options
from solver.problem import Gang, Placement, Problem, Vector
from solver.room import Room

Wish = tuple[int, int]
"""(gang, role)."""


def pack(problem: Problem, room: Room, place: Place, wishes: Mapping[Wish, int], options: Options) -> dict[int, list[Placement]] | None:
    """Gang -> its pods on the nodes of one place, taken from the room. None, and nothing taken, when they provably do not fit."""
    mark = room.mark()
    requests = {wish: problem.gangs[wish[0]].roles[wish[1]].request for wish in wishes}
    found: dict[int, list[Placement]] = {}
    nodes = np.array(place.nodes, dtype=np.intp)
    for wish in sorted(wishes, key=lambda w: (_size(room, nodes, requests[w]), w), reverse=True):
        left = wishes[wish]
        fits = room.slots(requests[wish])[nodes]
        for at in np.argsort(fits, kind="stable"):
            pods = min(int(fits[at]), left)
            if pods:
                room.take(int(nodes[at]), requests[wish], pods)
                found.setdefault(wish[0], []).append(Placement(wish[1], int(nodes[at]), pods))
                left -= pods
            if not left:
                break
        if left:
            room.undo(mark)
            return _exactly(room, place, wishes, requests, options)
    return found


def _size(room: Room, nodes: np.ndarray, request: Vector) -> float:
    """The largest part of any resource of the place that one pod takes."""
    free = room.free[nodes].sum(axis=0)
    return max((a / int(f) for a, f in zip(request, free, strict=True) if a and f), default=0.0)


def _exactly(
    room: Room, place: Place, wishes: Mapping[Wish, int], requests: Mapping[Wish, Vector], options: Options
) -> dict[int, list[Placement]] | None:
    """Pods of equal requests are one variable per node.

    sum_{nodes v} n[a,v] >= wished_a        sum_a a_r * n[a,v] <= free[v,r]
    """
    wished: dict[Vector, int] = {}
    for wish, pods in wishes.items():
        wished[requests[wish]] = wished.get(requests[wish], 0) + pods
    model = pulp.LpProblem("pack", pulp.LpMinimize)
    kinds = sorted(wished)
    n = {
        (a, v): model.add_variable(f"n_{a}_{v}", 0, min(wished[request], int(room.slots(request)[v])), cat=pulp.LpInteger)
        for a, request in enumerate(kinds)
        for v in place.nodes
    }
    for a, request in enumerate(kinds):
        model.addConstraint(at_least([(n[a, v], 1) for v in place.nodes], wished[request]), f"wished_{a}")
    for v in place.nodes:
        for r, free in enumerate(room.free[v]):
            unit = int(np.gcd.reduce([request[r] for request in kinds if request[r]] or [0]))
            if unit:
                model.addConstraint(
                    at_most([(n[a, v], request[r] // unit) for a, request in enumerate(kinds) if request[r]], int(free) // unit), f"free_{v}_{r}"
                )
    model.setObjective(pulp.lpSum(n.values()))
    answer = solve_model(model, options)
    if not answer.values:
        return None
    left = {(request, v): round(answer.values[n[a, v].name]) for a, request in enumerate(kinds) for v in place.nodes}
    found: dict[int, list[Placement]] = {}
    for wish in sorted(wishes):
        pods = wishes[wish]
        for v in place.nodes:
            some = min(pods, left[requests[wish], v])
            if some:
                room.take(v, requests[wish], some)
                left[requests[wish], v] -= some
                pods -= some
                found.setdefault(wish[0], []).append(Placement(wish[1], v, some))
    return found


def fresh(gang: Gang, placements: Iterable[Placement]) -> tuple[Placement, ...]:
    """Those of a gang's pods that do not run yet."""
    return merged([*placements, *(Placement(p.role, p.node, -p.pods) for p in gang.running)])


def merged(placements: Iterable[Placement]) -> tuple[Placement, ...]:
    """One entry per (role, node), sorted."""
    total: dict[tuple[int, int], int] = {}
    for p in placements:
        total[p.role, p.node] = total.get((p.role, p.node), 0) + p.pods
    return tuple(Placement(role, node, pods) for (role, node), pods in sorted(total.items()) if pods)

"""Stage C: pods of a place onto its nodes. Largest first is exact where pod sizes divide one another; else a small
exact model decides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pulp

from solver.mip.engine import solve_model
from solver.mip.rows import at_least, at_most
from solver.models.sets import Place
from solver.options import Options
from solver.problem import Ask, Placement, Portion, Problem, Role
from solver.semantics.device_slots import PLENTY, counters, rows
from solver.semantics.placement_cost import Wholes
from solver.state.pod_rules import Neighbours
from solver.state.room import Room

LARGEST = 500
"""Pairs of what pods ask for and nodes, or cells of them, up to which a model is asked how to pack a place; a larger
place is split at once."""

Wish = tuple[int, int]
"""(gang, role)."""


def pack(
    problem: Problem, room: Room, place: Place, wishes: Mapping[Wish, int], options: Options
) -> dict[int, list[Placement]] | None:
    """Gang -> its pods on the nodes of one place, taken from the room. None, and nothing taken, when they provably do
    not fit, when the model that would tell is too large, or when relations between pods on several of the nodes were
    not kept one pod after another: the place is too coarse."""
    mark = room.mark()
    roles = {wish: problem.gangs[wish[0]].roles[wish[1]] for wish in wishes}
    asks = {wish: role.ask for wish, role in roles.items()}
    found: dict[int, list[Placement]] = {}
    nodes = np.array(place.nodes, dtype=np.intp)
    bound: list[Wish] = []
    if room.neighbours is not None and (minded := straddled(room.neighbours, nodes)):
        bound = [wish for wish in sorted(wishes) if minded.intersection((*roles[wish].bears, *roles[wish].matches))]
        for wish in bound:
            if not (beside := _one_by_one(room, room.neighbours, nodes, roles[wish], wish, wishes[wish], minded)):
                room.undo(mark)
                return None
            found.setdefault(wish[0], []).extend(beside)
    for wish in sorted(wishes.keys() - set(bound), key=lambda w: (size(room, nodes, asks[w]), w), reverse=True):
        left = wishes[wish]
        fits = room.slots(asks[wish])[nodes]
        for at in np.argsort(fits, kind="stable"):
            pods = min(int(fits[at]), left)
            if pods:
                room.put(int(nodes[at]), roles[wish], pods)
                found.setdefault(wish[0], []).append(Placement(wish[1], int(nodes[at]), pods))
                left -= pods
            if not left:
                break
        if left:
            room.undo(mark)
            size_of = len({*asks.values()}) * len(nodes) * max(1, room.free.cells.shape[2])
            return None if bound or size_of > LARGEST else exactly(problem, room, place, wishes, options)
    return found


def straddled(neighbours: Neighbours, nodes: np.ndarray) -> frozenset[int]:
    """The relations of which these nodes are in several domains: only of them the model of aggregated places knows too
    little."""
    return frozenset(rho for rho in neighbours.enforced if len(np.unique(neighbours.standing.at[rho][nodes])) > 1)


def _one_by_one(
    room: Room, neighbours: Neighbours, nodes: np.ndarray, role: Role, wish: Wish, pods: int, minded: frozenset[int]
) -> list[Placement]:
    """The fullest node that these relations leave open, pod after pod; empty where for one none is left. What is placed
    stays."""
    found = []
    for _ in range(pods):
        fits = np.where(neighbours.open_to(role, minded), room.slots(role.ask), 0)[nodes]
        if not fits.any():
            return []
        at = int(nodes[int(np.argmin(np.where(fits > 0, fits, PLENTY + 1)))])
        room.put(at, role, 1)
        found.append(Placement(wish[1], at, 1))
    return found


def size(room: Room, nodes: np.ndarray, ask: Ask) -> float:
    """The largest part of any resource of the place that one pod takes."""
    free = room.free.amounts[nodes].sum(axis=0)
    return max((a / int(f) for a, f in zip(ask.request, free, strict=True) if a and f), default=0.0)


def exactly(
    problem: Problem,
    room: Room,
    place: Place,
    wishes: Mapping[Wish, int],
    options: Options,
    wholes: Wholes | None = None,
) -> dict[int, list[Placement]] | None:
    """As `pack`, by a model in which pods of equal asks are one variable per node. wholes: and as few whole nodes are
    opened as can be.

    min sum_v w[v] sum_{nodes v} n[a,v] >= wished_a        sum_a a_r * n[a,v] <= free[v,r]        ... <= free[v,r] *
    w[v] where v is whole and counts by r and on the cells of v as `solver.semantics.device_slots.rows`
    """
    asks = {wish: problem.gangs[wish[0]].roles[wish[1]].ask for wish in wishes}
    wished: dict[Ask, int] = {}
    for wish, pods in wishes.items():
        wished[asks[wish]] = wished.get(asks[wish], 0) + pods
    model = pulp.LpProblem("pack", pulp.LpMinimize)
    kinds = sorted(wished)
    n = {
        (a, v): model.add_variable(f"n_{a}_{v}", 0, min(wished[ask], int(room.slots(ask)[v])), cat=pulp.LpInteger)
        for a, ask in enumerate(kinds)
        for v in place.nodes
    }
    w = {
        v: model.add_variable(f"w_{v}", 0, 1, cat=pulp.LpInteger)
        for v in place.nodes
        if wholes is not None and wholes.nodes[v]
    }
    for a, ask in enumerate(kinds):
        model.addConstraint(at_least([(n[a, v], 1) for v in place.nodes], wished[ask]), f"wished_{a}")
    for v in place.nodes:
        for r, free in enumerate(room.free.amounts[v]):
            unit = int(np.gcd.reduce([ask.request[r] for ask in kinds if ask.request[r]] or [0]))
            if unit:
                taken: list[tuple[pulp.LpVariable, float]] = [
                    (n[a, v], ask.request[r] // unit) for a, ask in enumerate(kinds) if ask.request[r]
                ]
                closed = wholes is not None and v in w and bool(wholes.counted[v, r])
                most = int(free) // unit
                model.addConstraint(
                    at_most([*taken, (w[v], -most)], 0) if closed else at_most(taken, most), f"free_{v}_{r}"
                )
        _on_cells(model, room, v, [(ask, n[a, v]) for a, ask in enumerate(kinds)])
    model.setObjective(pulp.lpSum(w.values()))
    answer = solve_model(model, options)
    if not answer.values:
        return None
    left = {(ask, v): round(answer.values[n[a, v].name]) for a, ask in enumerate(kinds) for v in place.nodes}
    found: dict[int, list[Placement]] = {}
    for wish in sorted(wishes):
        pods = wishes[wish]
        for v in place.nodes:
            some = min(pods, left[asks[wish], v])
            if some:
                room.put(v, problem.gangs[wish[0]].roles[wish[1]], some)
                left[asks[wish], v] -= some
                pods -= some
                found.setdefault(wish[0], []).append(Placement(wish[1], v, some))
    return found


def _on_cells(model: pulp.LpProblem, room: Room, v: int, users: Iterable[tuple[Ask, pulp.LpVariable]]) -> None:
    pods: dict[Portion, list[tuple[pulp.LpVariable, float]]] = {}
    for ask, n in users:
        for portion in ask.portions:
            pods.setdefault(portion, []).append((n, 1.0))
    for division in sorted({portion.division for portion in pods}):
        here = {portion: terms for portion, terms in sorted(pods.items()) if portion.division == division}
        cells = room.free.cells[v, division]
        m = counters(
            model, f"m_{v}", cells, [(portion, sum(n.upBound for n, _ in terms)) for portion, terms in here.items()]
        )
        for number, row in enumerate(rows(cells, {portion: (terms, 0) for portion, terms in here.items()}, m)):
            model.addConstraint(row, f"cells_{v}_{division}_{number}")

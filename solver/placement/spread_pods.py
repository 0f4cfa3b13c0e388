"""The last step where pods are to be scattered: inside each supernode the new pods go to the least loaded nodes, after
everything is decided."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from solver.models.sets import aggregate
from solver.placement.pack import Wish, size
from solver.problem import Placement, Problem
from solver.semantics.placements import Placements, fresh, merged
from solver.state.room import Room


def scatter(problem: Problem, room: Room, placements: Placements) -> dict[int, tuple[Placement, ...]]:
    """The same new pods per place (one leaf, one kind of node), dealt out evenly; a place where that finds no way stays
    as it is, and so do pods in relations.

    room: what is free beside these placements, kept up to date.
    """
    new = {j: fresh(problem.gangs[j], pods) for j, pods in placements.items()}
    found = {j: list(problem.gangs[j].running) for j in placements}
    places = aggregate(problem)
    place_of = {n: i for i, place in enumerate(places) for n in place.nodes}
    here: dict[int, list[tuple[int, Placement]]] = {}
    for j, pods in new.items():
        for p in pods:
            role = problem.gangs[j].roles[p.role]
            if role.bears or role.matches:  # relations ask on which node it is
                found[j].append(p)
                continue
            here.setdefault(place_of[p.node], []).append((j, p))
    for i, packed in sorted(here.items()):
        mark = room.mark()
        wishes: dict[Wish, int] = {}
        for j, p in packed:
            room.take(p.node, problem.gangs[j].roles[p.role].ask, -p.pods)
            wishes[j, p.role] = wishes.get((j, p.role), 0) + p.pods
        even = _dealt(problem, room, np.array(places[i].nodes, dtype=np.intp), wishes)
        if even is None:
            room.undo(mark)
        for j, p in packed if even is None else even:
            found[j].append(p)
    return {j: merged(pods) for j, pods in found.items()}


def _dealt(
    problem: Problem, room: Room, nodes: np.ndarray, wishes: Mapping[Wish, int]
) -> list[tuple[int, Placement]] | None:
    """One pod after another, the largest first, each to the node that has most room for its like; None when one finds
    no node."""
    found = []
    asks = {(j, t): problem.gangs[j].roles[t].ask for j, t in wishes}
    for j, t in sorted(wishes, key=lambda w: (-size(room, nodes, asks[w]), w)):
        for _ in range(wishes[j, t]):
            slots = room.slots(asks[j, t])[nodes]
            at = int(slots.argmax())
            if not slots[at]:
                return None
            room.take(int(nodes[at]), asks[j, t], 1)
            found.append((j, Placement(t, int(nodes[at]), 1)))
    return found

"""Fewer whole supernodes opened, without a model: the gangs in one of them are placed again among the others that are
open anyway."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

import numpy as np

from solver.greedy.best_fit import Greedy
from solver.models.sets import Sets
from solver.options import Options
from solver.placement.realise import cost_of, repacked
from solver.problem import Placement
from solver.semantics.gang_classes import Shape
from solver.semantics.placement_cost import Cost, Wholes
from solver.semantics.placements import Placements, fresh, merged


def in_order(s: Sets, shapes: Mapping[int, Shape]) -> list[int]:
    """The gangs as the greedy spreads them: the most constrained first, those whose subgroups must be whole before
    others, then the largest."""
    tier = {j: shape.tier if shape.tier is not None else s.tree.top + 1 for j, shape in shapes.items()}
    return sorted(shapes, key=lambda j: (tier[j], not shapes[j].subgroups, -_size(s, shapes[j]), j))


def _size(s: Sets, shape: Shape) -> float:
    return max((d / t for d, t in zip(shape.demand(s.width), s.totals, strict=True) if t), default=0.0)


def emptied(
    s: Sets, shapes: Mapping[int, Shape], placements: Placements, low: Cost, wholes: Wholes, options: Options
) -> Placements:
    """These placements, or some that cost less because a supernode is not opened after all; again until none helps, or
    `low` is reached."""
    cost = cost_of(s, placements, wholes)
    while cost.supernodes > low.supernodes:
        opened = _opened(s, placements, wholes)
        for h in _least_filled(s, placements, opened):
            # What its own gangs have opened besides h stays open to them: only h is to be spared.
            other = _without(s, shapes, placements, h, (wholes.supernodes - opened) | {h})
            if other is None:
                continue
            again = repacked(s, other, wholes, options)
            new = cost_of(s, again, wholes)
            if new < cost:
                placements, cost = again, new
                break
        else:
            return placements
    return placements


def _least_filled(s: Sets, placements: Placements, opened: Collection[int]) -> list[int]:
    """These supernodes, those with the fewest new pods first."""
    pods: Counter[int] = Counter()
    for j, placed in placements.items():
        for p in fresh(s.problem.gangs[j], placed):
            pods[int(s.tree.leaf_of[p.node])] += p.pods
    return sorted(opened, key=lambda h: (pods[h], h))


def _opened(s: Sets, placements: Placements, wholes: Wholes) -> frozenset[int]:
    """The whole supernodes that the placements open."""
    new = {j: fresh(s.problem.gangs[j], pods) for j, pods in placements.items()}
    return frozenset(int(s.tree.leaf_of[n]) for n in wholes.opened_nodes(new)) & wholes.supernodes


def _without(
    s: Sets, shapes: Mapping[int, Shape], placements: Placements, h: int, shut: Collection[int]
) -> Placements | None:
    """The gangs with new pods in supernode h placed by the greedy outside the supernodes that are shut; None where one
    of them finds no place."""
    gangs = {
        j: shape
        for j, shape in shapes.items()
        if any(s.tree.leaf_of[p.node] == h for p in fresh(s.problem.gangs[j], placements[j]))
    }
    others = {j: pods for j, pods in placements.items() if j not in gangs}
    room = s.room_beside(others)
    closed = np.isin(s.tree.leaf_of, sorted(shut))
    room.free.amounts[closed], room.free.cells[closed] = 0, 0
    greedy = Greedy(s.problem, s.tree, room)
    found: dict[int, tuple[Placement, ...]] = dict(others)
    for j in in_order(s, gangs):
        placed = greedy.place(j, gangs[j])
        if placed is None:
            return None
        found[j] = merged([*gangs[j].fixed, *placed])
    return None if room.broken else {j: found[j] for j in placements}

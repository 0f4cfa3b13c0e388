"""Fewer whole supernodes opened, without a model: the gangs in one of them are placed again among the others that are
open anyway."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

import numpy as np

from solver.greedy.best_fit import GreedyPlacer
from solver.models.sets import Sets
from solver.options import Options
from solver.placement.realise import placement_cost, repack_tighter
from solver.problem import Placement
from solver.semantics.gang_classes import GangClass
from solver.semantics.placement_cost import PlacementCost, UnopenedCapacity
from solver.semantics.placements import Placements, merge_placements, new_placements


def most_constrained_first(s: Sets, shapes: Mapping[int, GangClass]) -> list[int]:
    """The gangs as the greedy spreads them: the most constrained first, those whose subgroups must be whole before
    others, then the largest."""
    tier = {
        j: shape.hard_tier if shape.hard_tier is not None else s.tree.highest_tier + 1 for j, shape in shapes.items()
    }
    return sorted(shapes, key=lambda j: (tier[j], not shapes[j].subgroups, -_dominant_share(s, shapes[j]), j))


def _dominant_share(s: Sets, shape: GangClass) -> float:
    return max(
        (d / t for d, t in zip(shape.min_demand(s.resource_count), s.cluster_totals, strict=True) if t), default=0.0
    )


def empty_supernodes(
    s: Sets,
    shapes: Mapping[int, GangClass],
    placements: Placements,
    lower_bound: PlacementCost,
    unopened: UnopenedCapacity,
    options: Options,
) -> Placements:
    """These placements, or some that cost less because a supernode is not opened after all; again until none helps, or
    `low` is reached."""
    cost = placement_cost(s, placements, unopened)
    while cost.supernodes > lower_bound.supernodes:
        opened = _opened_supernodes(s, placements, unopened)
        for h in _fewest_pods_first(s, placements, opened):
            # What its own gangs have opened besides h stays open to them: only h is to be spared.
            other = _place_outside(s, shapes, placements, h, (unopened.unopened_supernodes - opened) | {h})
            if other is None:
                continue
            again = repack_tighter(s, other, unopened, options)
            new = placement_cost(s, again, unopened)
            if new < cost:
                placements, cost = again, new
                break
        else:
            return placements
    return placements


def _fewest_pods_first(s: Sets, placements: Placements, opened: Collection[int]) -> list[int]:
    """These supernodes, those with the fewest new pods first."""
    pods: Counter[int] = Counter()
    for j, placed in placements.items():
        for p in new_placements(s.problem.gangs[j], placed):
            pods[int(s.tree.leaf_of[p.node])] += p.pods
    return sorted(opened, key=lambda h: (pods[h], h))


def _opened_supernodes(s: Sets, placements: Placements, unopened: UnopenedCapacity) -> frozenset[int]:
    """The whole supernodes that the placements open."""
    new = {j: new_placements(s.problem.gangs[j], pods) for j, pods in placements.items()}
    return frozenset(int(s.tree.leaf_of[n]) for n in unopened.opened_nodes(new)) & unopened.unopened_supernodes


def _place_outside(
    s: Sets, shapes: Mapping[int, GangClass], placements: Placements, h: int, excluded_supernodes: Collection[int]
) -> Placements | None:
    """The gangs with new pods in supernode h placed by the greedy outside the supernodes that are shut; None where one
    of them finds no place."""
    gangs = {
        j: shape
        for j, shape in shapes.items()
        if any(s.tree.leaf_of[p.node] == h for p in new_placements(s.problem.gangs[j], placements[j]))
    }
    others = {j: pods for j, pods in placements.items() if j not in gangs}
    state = s.state_after(others)
    room = state.free_nodes
    closed = np.isin(s.tree.leaf_of, sorted(excluded_supernodes))
    room.vectors.amounts[closed], room.vectors.slots[closed] = 0, 0
    greedy = GreedyPlacer(state)
    found: dict[int, tuple[Placement, ...]] = dict(others)
    for j in most_constrained_first(s, gangs):
        placed = greedy.place_gang(j, gangs[j])
        if placed is None:
            return None
        found[j] = merge_placements([*gangs[j].running_pods, *placed])
    return None if room.breaks_pod_rules else {j: found[j] for j in placements}

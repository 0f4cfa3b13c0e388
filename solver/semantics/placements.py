"""Where pods are put: a few questions that every room asks of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise

from solver.problem import Gang, Placement

Placements = Mapping[int, tuple[Placement, ...]]
"""Gang -> all its pods, those that run among them."""


def new_placements(gang: Gang, placements: Iterable[Placement]) -> tuple[Placement, ...]:
    """Those of a gang's pods that do not run yet."""
    return merge_placements([*placements, *(Placement(p.role, p.node, -p.pods) for p in gang.running)])


def merge_placements(placements: Iterable[Placement]) -> tuple[Placement, ...]:
    """One entry per (role, node), sorted."""
    placements = tuple(placements)
    if all(p.pods for p in placements) and all((p.role, p.node) < (q.role, q.node) for p, q in pairwise(placements)):
        return placements  # as most are
    total: dict[tuple[int, int], int] = {}
    for p in placements:
        total[p.role, p.node] = total.get((p.role, p.node), 0) + p.pods
    return tuple(Placement(role, node, pods) for (role, node), pods in sorted(total.items()) if pods)

"""Sums over placements and resource vectors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from solver.problem import Gang, Placement, Vector

Placements = Mapping[int, tuple[Placement, ...]]
"""Gang -> all its pods, running ones included."""


def add_vectors(a: Sequence[int], b: Sequence[int], times: int = 1) -> Vector:
    """a + times * b"""
    return tuple([x + times * y for x, y in zip(a, b, strict=True)])


def vector_sum(vectors: Iterable[Vector], times: int = 1) -> Vector:
    """Return the sum of the vectors, of which there is at least one, times a number."""
    return tuple([times * sum(amounts) for amounts in zip(*vectors, strict=True)])


def negative_of(a: Vector) -> Vector:
    """-a"""
    return tuple([-x for x in a])


def requested_resources(requests: Iterable[Vector]) -> set[int]:
    """Return the resources of which any of the requests asks for something."""
    return {r for r, amounts in enumerate(zip(*requests, strict=True)) if any(amounts)}


def dominant_share(amounts: Iterable[int], totals: Vector) -> float:
    """max over r of amounts_r / totals_r, of the resources that there are."""
    return max((a / t for a, t in zip(amounts, totals, strict=True) if t), default=0.0)


def placed_demand(gang: Gang, placements: Iterable[Placement], resources: int) -> Vector:
    """Return the sum of what the placed pods request."""
    pods = [0] * len(gang.roles)
    for p in placements:
        pods[p.role] += p.pods
    total = (0,) * resources
    for role, number in zip(gang.roles, pods, strict=True):
        total = add_vectors(total, role.request, number) if number else total
    return total


def new_placements(gang: Gang, placements: Iterable[Placement]) -> tuple[Placement, ...]:
    """Return the gang's pods that do not run yet."""
    return subtract_placements(placements, gang.running)


def subtract_placements(placements: Iterable[Placement], removed: Iterable[Placement]) -> tuple[Placement, ...]:
    """Return the placements without the removed pods, merged."""
    return merge_placements([*placements, *(Placement(p.role, p.node, -p.pods) for p in removed)])


def merge_placements(placements: Iterable[Placement]) -> tuple[Placement, ...]:
    """Return one entry per (role, node), sorted."""
    placements = tuple(placements)
    if all(p.pods for p in placements) and all((p.role, p.node) < (q.role, q.node) for p, q in pairwise(placements)):
        return placements  # as most are
    total: dict[tuple[int, int], int] = {}
    for p in placements:
        total[p.role, p.node] = total.get((p.role, p.node), 0) + p.pods
    return tuple(Placement(role, node, pods) for (role, node), pods in sorted(total.items()) if pods)

"""What placements cost, whoever starts: subgroups torn apart, gangs spread, whole supernodes and whole nodes opened
(docs/model.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from solver.problem import Gang, Placement, Problem
from solver.semantics.device_slots import Ints
from solver.semantics.topology import Tree

NAMES = ("subgroups", "spread", "supernodes", "nodes")
"""The objectives of stage B, the most important first."""

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, order=True)
class Cost:
    """Compared entry by entry, the first one first: that is the lexicographic order of the objectives."""

    subgroups: int
    spread: int
    supernodes: int
    nodes: int

    @property
    def entries(self) -> tuple[int, int, int, int]:
        """In the order of `NAMES`."""
        return self.subgroups, self.spread, self.supernodes, self.nodes


def torn(tree: Tree, gang: Gang, pods: Iterable[Placement]) -> int:
    """Parts of the gang's subgroups that are not whole in one domain, at each tier, weighed by tier.

    sum_S sum_tier weight_tier * ( floor(pods_S / size_S)  -  sum_{d of the tier} floor(pods_S in d / size_S) )
    """
    if not gang.subgroups:
        return 0
    pods = tuple(pods)
    cost = 0
    for part in gang.subgroups:
        mine = [(tree.line(tree.problem.nodes[p.node].leaf), p.pods) for p in pods if p.role in part.roles]
        parts = sum(number for _, number in mine) // part.size
        for level, weight in enumerate(tree.weights):
            inside: dict[int, int] = {}
            for line, number in mine:
                inside[line[level]] = inside.get(line[level], 0) + number
            cost += weight * (parts - sum(number // part.size for number in inside.values()))
    return cost


def span(tree: Tree, pods: Iterable[Placement]) -> int:
    """Domains that a gang touches beyond the first, weighed by tier (Tree.span)."""
    return tree.span(tree.problem.nodes[p.node].leaf for p in pods)


def nearness(tree: Tree, gang: Gang, pods: Iterable[Placement]) -> tuple[int, int]:
    """(torn, span) of one gang."""
    pods = tuple(pods)
    return torn(tree, gang, pods), span(tree, pods)


@dataclass(frozen=True)
class Wholes:
    """Which nodes and supernodes are whole where `free` (node x resource) is free.

    A node counts by the resources of `Problem.devices` that it has, one that has none of them by all that it has. It is
    whole when of these everything is free, and opened by the first new pod that asks for one of them. A supernode is a
    hypernode that holds nodes itself; it is whole when all these nodes are, and opened with the first of them.
    """

    problem: Problem
    tree: Tree
    free: Ints

    @cached_property
    def counted(self) -> Flags:
        """Node x resource: by what a node counts."""
        has = _capacity(self.problem) > 0
        named = has & np.isin(np.arange(has.shape[1]), self.problem.devices)
        return np.where(named.any(axis=1, keepdims=True), named, has)

    @cached_property
    def nodes(self) -> Flags:
        """Node -> whole."""
        return np.asarray(
            ((self.free == _capacity(self.problem)) | ~self.counted).all(axis=1) & self.counted.any(axis=1)
        )

    @cached_property
    def supernodes(self) -> frozenset[int]:
        return frozenset(h for h, nodes in self.tree.held.items() if h >= 0 and len(nodes) and self.nodes[nodes].all())

    @cached_property
    def inside(self) -> Flags:
        """Node -> whether it is in a whole supernode."""
        return np.isin(self.tree.leaf_of, sorted(self.supernodes))

    def opened_nodes(self, gangs: Mapping[int, Iterable[Placement]]) -> frozenset[int]:
        """The whole nodes that these new pods open. gangs: index -> pods that did not run before."""
        found = set()
        for j, pods in gangs.items():
            opens = [
                self._opened_by(tuple(r for r, amount in enumerate(role.request) if amount))
                for role in self.problem.gangs[j].roles
            ]
            found |= {p.node for p in pods if opens[p.role][p.node]}
        return frozenset(found)

    def _opened_by(self, resources: tuple[int, ...]) -> list[bool]:
        """Node -> whether a pod that asks for these resources opens it."""
        if resources not in self._opening:
            self._opening[resources] = (self.nodes & self.counted[:, resources].any(axis=1)).tolist()
        return self._opening[resources]

    @cached_property
    def _opening(self) -> dict[tuple[int, ...], list[bool]]:
        return {}

    def opened(self, gangs: Mapping[int, Iterable[Placement]]) -> tuple[int, int]:
        """(whole supernodes, whole nodes) that these new pods open."""
        nodes = self.opened_nodes(gangs)
        return len({int(self.tree.leaf_of[n]) for n in nodes} & self.supernodes), len(nodes)


def _capacity(problem: Problem) -> Ints:
    return np.array([n.capacity for n in problem.nodes], dtype=np.int64).reshape(
        len(problem.nodes), len(problem.resources)
    )

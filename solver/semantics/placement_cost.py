"""What placements cost, whoever starts: subgroups torn apart, gangs spread, whole supernodes and whole nodes opened
(docs/model.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from solver.problem import Gang, Placement, Problem
from solver.semantics.device_slots import IntArray
from solver.semantics.topology import TopologyTree

COST_NAMES = ("subgroups", "spread", "supernodes", "nodes")
"""The objectives of stage B, the most important first."""

BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, order=True)
class PlacementCost:
    """Compared entry by entry, the first one first: that is the lexicographic order of the objectives."""

    subgroups: int
    spread: int
    supernodes: int
    nodes: int

    @property
    def values(self) -> tuple[int, int, int, int]:
        """In the order of `NAMES`."""
        return self.subgroups, self.spread, self.supernodes, self.nodes


def split_subgroups(tree: TopologyTree, gang: Gang, pods: Iterable[Placement]) -> int:
    """Parts of the gang's subgroups that are not whole in one domain, at each tier, weighed by tier.

    sum_S sum_tier weight_tier * ( floor(pods_S / size_S)  -  sum_{d of the tier} floor(pods_S in d / size_S) )
    """
    if not gang.subgroups:
        return 0
    pods = tuple(pods)
    cost = 0
    for part in gang.subgroups:
        mine = [(tree.domains_by_tier(tree.problem.nodes[p.node].leaf), p.pods) for p in pods if p.role in part.roles]
        parts = sum(number for _, number in mine) // part.size
        for level, weight in enumerate(tree.tier_weights):
            inside: dict[int, int] = {}
            for line, number in mine:
                inside[line[level]] = inside.get(line[level], 0) + number
            cost += weight * (parts - sum(number // part.size for number in inside.values()))
    return cost


def tier_span(tree: TopologyTree, pods: Iterable[Placement]) -> int:
    """Domains that a gang touches beyond the first, weighed by tier (Tree.span)."""
    return tree.tier_span(tree.problem.nodes[p.node].leaf for p in pods)


def topology_cost(tree: TopologyTree, gang: Gang, pods: Iterable[Placement]) -> tuple[int, int]:
    """(torn, span) of one gang."""
    pods = tuple(pods)
    return split_subgroups(tree, gang, pods), tier_span(tree, pods)


@dataclass(frozen=True)
class UnopenedCapacity:
    """Which nodes and supernodes are whole where `free` (node x resource) is free.

    A node counts by the resources of `Problem.devices` that it has, one that has none of them by all that it has. It is
    whole when of these everything is free, and opened by the first new pod that asks for one of them. A supernode is a
    hypernode that holds nodes itself; it is whole when all these nodes are, and opened with the first of them.
    """

    problem: Problem
    tree: TopologyTree
    free: IntArray

    @cached_property
    def counted_resources(self) -> BoolArray:
        """Node x resource: by what a node counts."""
        has = _capacity_array(self.problem) > 0
        named = has & np.isin(np.arange(has.shape[1]), self.problem.device_resources)
        return np.where(named.any(axis=1, keepdims=True), named, has)

    @cached_property
    def unopened_nodes(self) -> BoolArray:
        """Node -> whole."""
        return np.asarray(
            ((self.free == _capacity_array(self.problem)) | ~self.counted_resources).all(axis=1)
            & self.counted_resources.any(axis=1)
        )

    @cached_property
    def unopened_supernodes(self) -> frozenset[int]:
        return frozenset(
            h
            for h, nodes in self.tree.direct_nodes.items()
            if h >= 0 and len(nodes) and self.unopened_nodes[nodes].all()
        )

    @cached_property
    def in_unopened_supernode(self) -> BoolArray:
        """Node -> whether it is in a whole supernode."""
        return np.isin(self.tree.leaf_of, sorted(self.unopened_supernodes))

    def opened_nodes(self, gangs: Mapping[int, Iterable[Placement]]) -> frozenset[int]:
        """The whole nodes that these new pods open. gangs: index -> pods that did not run before."""
        found = set()
        for j, pods in gangs.items():
            opens = [
                self._nodes_opened_by(tuple(r for r, amount in enumerate(role.request) if amount))
                for role in self.problem.gangs[j].roles
            ]
            found |= {p.node for p in pods if opens[p.role][p.node]}
        return frozenset(found)

    def _nodes_opened_by(self, resources: tuple[int, ...]) -> list[bool]:
        """Node -> whether a pod that asks for these resources opens it."""
        if resources not in self._opened_by_resources:
            self._opened_by_resources[resources] = (
                self.unopened_nodes & self.counted_resources[:, resources].any(axis=1)
            ).tolist()
        return self._opened_by_resources[resources]

    @cached_property
    def _opened_by_resources(self) -> dict[tuple[int, ...], list[bool]]:
        return {}

    def opened_counts(self, gangs: Mapping[int, Iterable[Placement]]) -> tuple[int, int]:
        """(whole supernodes, whole nodes) that these new pods open."""
        nodes = self.opened_nodes(gangs)
        return len({int(self.tree.leaf_of[n]) for n in nodes} & self.unopened_supernodes), len(nodes)


def _capacity_array(problem: Problem) -> IntArray:
    return np.array([n.capacity for n in problem.nodes], dtype=np.int64).reshape(
        len(problem.nodes), len(problem.resources)
    )

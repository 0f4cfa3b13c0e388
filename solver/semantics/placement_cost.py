"""The cost of placements: subgroups split, tier span, unwanted company, unopened supernodes and nodes opened, less
wanted node groups (docs/develop/model.md).

Wishes of gangs to keep out of the domains of others cost as much as their conflicts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from solver.problem import Gang, Placement, Problem, SeparationWish, Vector
from solver.semantics.device_slots import IntArray, vector_array
from solver.semantics.topology import ROOT, TopologyTree

SEPARATIONS = "separations"
NODE_GROUPS = "node groups"
COST_NAMES = ("subgroups", "spread", SEPARATIONS, "supernodes", "nodes", NODE_GROUPS)
"""The placement objectives, the most important first."""
MOVES = "moves"
"""Gangs that leave the places of the plan in force: minimised before all of these."""

BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, order=True)
class PlacementCost:
    """Compared entry by entry: the lexicographic order of the objectives."""

    subgroups: int = 0
    spread: int = 0
    separations: int = 0
    supernodes: int = 0
    nodes: int = 0
    node_groups: int = 0

    @property
    def values(self) -> tuple[int, ...]:
        """In the order of `COST_NAMES`."""
        return self.subgroups, self.spread, self.separations, self.supernodes, self.nodes, self.node_groups


def split_subgroups(tree: TopologyTree, gang: Gang, pods: Iterable[Placement]) -> int:
    """Subgroups of the gang that are split over domains, summed over tiers with the tiers' weights.

    sum_S sum_tier weight_tier * ( floor(pods_S / size_S)  -  sum_{d of the tier} floor(pods_S in d / size_S) )
    """
    if not gang.subgroups:
        return 0
    pods = tuple(pods)
    cost = 0
    for subgroup in gang.subgroups:
        own = [p for p in pods if p.role in subgroup.roles]
        located = [(tree.domains_by_tier(tree.problem.nodes[p.node].leaf), p.pods) for p in own]
        complete = sum(number for _, number in located) // subgroup.size
        for level, weight in enumerate(tree.tier_weights):
            inside: dict[int, int] = {}
            for domains, number in located:
                inside[domains[level]] = inside.get(domains[level], 0) + number
            cost += weight * (complete - sum(number // subgroup.size for number in inside.values()))
    return cost


def tier_span(tree: TopologyTree, pods: Iterable[Placement]) -> int:
    """Communication cost of a gang's pods (`TopologyTree.tier_span`)."""
    return tree.tier_span(tree.problem.nodes[p.node].leaf for p in pods)


def topology_cost(tree: TopologyTree, gang: Gang, pods: Iterable[Placement]) -> tuple[int, int]:
    """(split subgroups, tier span) of one gang."""
    pods = tuple(pods)
    return split_subgroups(tree, gang, pods), tier_span(tree, pods)


def node_group_cost(problem: Problem, gang: Gang, new_pods: Iterable[Placement]) -> int:
    """Return how far new pods are from the node groups that their queue prefers.

    sum over pods of rank_q(group of their node)
    """
    ranks = problem.queues[gang.queue].node_group_ranks
    return sum(ranks[problem.nodes[p.node].node_group] * p.pods for p in new_pods) if ranks else 0


@dataclass(frozen=True)
class UnopenedCapacity:
    """The unopened nodes and supernodes. free: node x resource.

    A node counts by its resources in `Problem.device_resources`, by all of its resources if it has none of them. It is
    unopened while these are all free; the first new pod that requests one of them opens it. A supernode is a hypernode
    that holds nodes itself; it is unopened while all of them are, and opens with the first of them.
    """

    problem: Problem
    tree: TopologyTree
    free: IntArray

    @cached_property
    def counted_resources(self) -> BoolArray:
        """Return node x resource: whether the node counts by it."""
        has = self._capacity > 0
        named = has & np.isin(np.arange(has.shape[1]), self.problem.device_resources)
        return np.where(named.any(axis=1, keepdims=True), named, has)

    @cached_property
    def _capacity(self) -> IntArray:
        return vector_array([n.capacity for n in self.problem.nodes], len(self.problem.resources))

    @cached_property
    def unopened_nodes(self) -> BoolArray:
        """Return node -> unopened."""
        unused = (self.free == self._capacity) | ~self.counted_resources
        return np.asarray(unused.all(axis=1) & self.counted_resources.any(axis=1))

    @cached_property
    def unopened_supernodes(self) -> frozenset[int]:
        with_nodes = ((h, nodes) for h, nodes in self.tree.direct_nodes.items() if len(nodes))
        return frozenset(h for h, nodes in with_nodes if self.unopened_nodes[nodes].all()) - {ROOT}

    @cached_property
    def in_unopened_supernode(self) -> BoolArray:
        """Node -> whether its supernode is unopened."""
        return np.isin(self.tree.leaf_of, sorted(self.unopened_supernodes))

    def opened_nodes(self, gangs: Mapping[int, Iterable[Placement]]) -> frozenset[int]:
        """Return the unopened nodes that new pods open. gangs: index -> new pods."""
        found = set()
        for j, pods in gangs.items():
            opens = [self._nodes_opened_by(role.request) for role in self.problem.gangs[j].roles]
            found |= {p.node for p in pods if opens[p.role][p.node]}
        return frozenset(found)

    def _nodes_opened_by(self, request: Vector) -> list[bool]:
        """Return node -> whether a pod of this request opens it."""
        resources = tuple(r for r, amount in enumerate(request) if amount)
        if resources not in self._opened_by_resources:
            counted = self.counted_resources[:, resources].any(axis=1)
            self._opened_by_resources[resources] = (self.unopened_nodes & counted).tolist()
        return self._opened_by_resources[resources]

    @cached_property
    def _opened_by_resources(self) -> dict[tuple[int, ...], list[bool]]:
        return {}

    def opened_counts(self, gangs: Mapping[int, Iterable[Placement]]) -> tuple[int, int]:
        """(unopened supernodes, unopened nodes) that new pods open."""
        nodes = self.opened_nodes(gangs)
        return len({int(self.tree.leaf_of[n]) for n in nodes} & self.unopened_supernodes), len(nodes)


Pods = tuple[Placement, ...]


@dataclass(frozen=True)
class HeldDomains:
    """The hypernodes in which gangs have pods: running ones, and these new ones (gang, pods). Evicted pods count as
    staying."""

    tree: TopologyTree
    new_pods: tuple[tuple[int, Pods], ...]

    def with_pods(self, placements: Mapping[int, Pods]) -> HeldDomains:
        """Return the same with these gangs' new pods as well."""
        return HeldDomains(self.tree, (*self.new_pods, *placements.items()))

    @cached_property
    def _pods_by_node(self) -> dict[int, dict[int, int]]:
        """Return gang -> node -> its pods; pods that were started and stopped again do not count."""
        found: dict[int, dict[int, int]] = {}
        running = ((j, gang.running) for j, gang in enumerate(self.tree.problem.gangs))
        for j, pods in (*running, *self.new_pods):
            here = found.setdefault(j, {})
            for p in pods:
                here[p.node] = here.get(p.node, 0) + p.pods
        return found

    @cached_property
    def _holders_by_tier(self) -> dict[int, dict[int, set[int]]]:
        return {}

    def holders(self, tier: int) -> dict[int, set[int]]:
        """Hypernode of exactly this tier -> the gangs that have pods in it."""
        if tier not in self._holders_by_tier:
            found, domains = dict[int, set[int]](), self.tree.hypernodes_of_tier(tier).tolist()
            for j, nodes in self._pods_by_node.items():
                for n in (n for n, pods in nodes.items() if pods):
                    found.setdefault(domains[n], set()).add(j)
            found.pop(ROOT, None)
            self._holders_by_tier[tier] = found
        return self._holders_by_tier[tier]

    def is_held(self, wish: SeparationWish, h: int) -> bool:
        """Return whether the hypernode holds pods of a gang that the wish selects, or foreign ones."""
        return h in wish.present or not wish.gangs.isdisjoint(self.holders(wish.tier).get(h, ()))

    def conflicts(self, wish: SeparationWish, nodes: Iterable[int]) -> int:
        """Return the domains of the wish that these nodes lie in, and that others hold."""
        domains = self.tree.hypernodes_of_tier(wish.tier)[sorted(set(nodes))].tolist()
        return sum(self.is_held(wish, h) for h in set(domains))

    def cost(self, gang: Gang, new_pods: Iterable[Placement]) -> int:
        """Return the cost of the gang's new pods, which need not be counted here.

        sum over wishes of weight * (domains of the tier with new pods of the gang and with pods that it selects)
        """
        nodes = [p.node for p in new_pods] if gang.separation_wishes else []
        return sum(wish.weight * self.conflicts(wish, nodes) for wish in gang.separation_wishes)

    def node_costs(self, gang: Gang) -> IntArray:
        """Return node -> what the first pod of the gang in its domains costs."""
        found = np.zeros(len(self.tree.problem.nodes), dtype=np.int64)
        for wish in gang.separation_wishes:
            domains = self.tree.hypernodes_of_tier(wish.tier)
            held = [h for h in np.unique(domains).tolist() if self.is_held(wish, h)]
            found += wish.weight * np.isin(domains, held)
        return found

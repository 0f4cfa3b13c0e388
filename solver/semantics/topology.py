"""The hypernode tree: the nodes under each domain, and the domain around each node at a given tier."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from solver.problem import Problem, Topology

ROOT = -1
"""The whole cluster, nodes outside the topology included."""

IntArray = npt.NDArray[np.int64]
IndexArray = npt.NDArray[np.intp]
Key = TypeVar("Key")
Value = TypeVar("Value")


def cached_per_tree(method: Callable[[TopologyTree, Key], Value]) -> Callable[[TopologyTree, Key], Value]:
    """Decorator: a method of one argument whose answers are computed once for each tree."""

    @wraps(method)
    def answer(tree: TopologyTree, key: Key) -> Value:
        known: dict[Key, Value] = vars(tree).setdefault(f"_{method.__name__}", {})
        if key not in known:
            known[key] = method(tree, key)
        return known[key]

    return answer


@dataclass(frozen=True)
class TopologyTree:
    """Read-only index over `problem.hypernodes`. A domain is the index of a hypernode, or ROOT."""

    problem: Problem

    @cached_property
    def highest_tier(self) -> int:
        """Return the highest tier of any hypernode, 0 without hypernodes."""
        return max((h.tier for h in self.problem.hypernodes), default=0)

    def confines(self, topology: Topology | None) -> bool:
        """Return whether the topology is hard, at a tier of the tree: a higher one means the whole cluster."""
        return topology is not None and topology.is_hard and topology.tier <= self.highest_tier

    @cached_property
    def tiers(self) -> tuple[int, ...]:
        return tuple(sorted({h.tier for h in self.problem.hypernodes}))

    @cached_property
    def children(self) -> dict[int, tuple[int, ...]]:
        """Return domain -> hypernodes right below it. ROOT's children are the hypernodes without a parent."""
        below: dict[int, list[int]] = {h: [] for h in range(ROOT, len(self.problem.hypernodes))}
        for h, hypernode in enumerate(self.problem.hypernodes):
            below[ROOT if hypernode.parent is None else hypernode.parent].append(h)
        return {h: tuple(c) for h, c in below.items()}

    @cached_property
    def direct_nodes(self) -> dict[int, IndexArray]:
        """Return domain -> the nodes that it holds directly; for ROOT those outside the topology."""
        by_leaf: dict[int, list[int]] = {h: [] for h in self.children}
        for n, leaf in enumerate(self.leaf_of.tolist()):
            by_leaf[leaf].append(n)
        return {h: np.array(nodes, dtype=np.intp) for h, nodes in by_leaf.items()}

    @cached_per_tree
    def nodes_under(self, h: int) -> IndexArray:
        """Return all nodes under a domain, ascending."""
        return np.sort(self.nodes_in_tree_order(h))

    @cached_per_tree
    def nodes_in_tree_order(self, h: int) -> IndexArray:
        """Return all nodes under a domain: its direct ones, then child by child."""
        return np.concatenate([self.direct_nodes[h], *map(self.nodes_in_tree_order, self.children[h])])

    @cached_per_tree
    def children_with_nodes(self, h: int) -> tuple[tuple[int, ...], IndexArray, IndexArray]:
        """(children of a domain that have nodes, their nodes child by child, the position where each child begins)."""
        children = tuple(child for child in self.children[h] if len(self.nodes_under(child)))
        below = [self.nodes_under(child) for child in children]
        nodes = np.concatenate(below) if below else np.array([], dtype=np.intp)
        return children, nodes, np.cumsum([0, *map(len, below)], dtype=np.intp)[:-1]

    @cached_per_tree
    def structure(self, h: int) -> tuple[object, ...]:
        """Tier, number of direct nodes and the children's structures: equal for domains built alike."""
        tier = 0 if h == ROOT else self.problem.hypernodes[h].tier
        return tier, len(self.direct_nodes[h]), tuple(map(self.structure, self.children[h]))

    @cached_property
    def leaf_of(self) -> IndexArray:
        """Return node -> its leaf, ROOT outside the topology."""
        return np.array([ROOT if n.leaf is None else n.leaf for n in self.problem.nodes], dtype=np.intp)

    @cached_property
    def node_class_of(self) -> IntArray:
        """Return node -> its class."""
        return np.array([n.node_class for n in self.problem.nodes], dtype=np.int64)

    @cached_per_tree
    def node_group_ranks(self, q: int) -> IntArray:
        """Return node -> the rank of its group for queue q; nothing where the queue prefers none. Do not write to the
        result."""
        ranks = self.problem.queues[q].node_group_ranks
        return np.array([ranks[node.node_group] for node in self.problem.nodes] if ranks else (), dtype=np.int64)

    @cached_per_tree
    def hypernodes_of_tier(self, tier: int) -> IntArray:
        """Return node -> the hypernode of exactly this tier around it, ROOT without one. Do not write to the result."""
        at = np.full(len(self.problem.hypernodes) - ROOT, ROOT, dtype=np.int64)
        for leaf in set(self.leaf_of.tolist()):
            at[leaf - ROOT] = next((h for h in self.path(leaf) if self.problem.hypernodes[h].tier == tier), ROOT)
        found: IntArray = at[self.leaf_of - ROOT]
        return found

    @cached_property
    def alike_nodes(self) -> tuple[tuple[int, ...], ...]:
        """Return the nodes of each leaf and node class, and of each domain of the pod rules whose domains hold several
        nodes."""
        partitions = dict.fromkeys(rule.domains for rule in self.problem.pod_rules)
        coarse = [domains for domains in partitions if len(set(domains)) < len(domains)]
        in_domains = [np.array([ROOT if d is None else d for d in domains], dtype=np.int64) for domains in coarse]
        columns = np.array([self.leaf_of, self.node_class_of, *in_domains])
        order = np.lexsort(columns[::-1])
        first = np.flatnonzero((columns[:, order[1:]] != columns[:, order[:-1]]).any(axis=0)) + 1
        return tuple(tuple(nodes.tolist()) for nodes in np.split(order, first) if len(nodes))

    @cached_per_tree
    def class_mask(self, node_classes: frozenset[int]) -> npt.NDArray[np.bool_]:
        """Return node -> whether it is of one of these classes. Do not write to the result."""
        return np.isin(self.node_class_of, sorted(node_classes))

    def path(self, leaf: int | None) -> tuple[int, ...]:
        """Return the leaf and its ancestors, lowest first; empty for None."""
        found: list[int] = []
        while leaf is not None and leaf != ROOT:
            found.append(leaf)
            leaf = self.problem.hypernodes[leaf].parent
        return tuple(found)

    def enclosing_domain(self, leaf: int | None, tier: int) -> int | None:
        """Return the largest domain of tier <= `tier` around a leaf: ROOT for a tier above the tree, None without
        one."""
        return self._enclosing_domain((leaf, tier))

    @cached_per_tree
    def _enclosing_domain(self, key: tuple[int | None, int]) -> int | None:
        leaf, tier = key
        if tier > self.highest_tier:
            return ROOT
        return next((h for h in reversed(self.path(leaf)) if self.problem.hypernodes[h].tier <= tier), None)

    @cached_per_tree
    def domains_at_tier(self, tier: int) -> tuple[int, ...]:
        """Return the largest domains of tier <= `tier`: disjoint; pods obey a hard limit iff one of them holds all."""
        if tier > self.highest_tier:
            return (ROOT,)
        hypernodes = self.problem.hypernodes
        below = {h for h, x in enumerate(hypernodes) if x.tier <= tier}
        return tuple(h for h in sorted(below) if hypernodes[h].parent not in below)

    def sum_per_domain(self, per_node: IntArray) -> dict[int, int]:
        """Return domain -> sum over all nodes under it. per_node: one number per node."""
        return dict(enumerate(self.domain_sum_array(per_node).tolist(), ROOT))

    def domain_sum_array(self, per_node: IntArray) -> IntArray:
        """Return `sum_per_domain` as an array, in which domain h is at h - ROOT."""
        domains = len(self.problem.hypernodes) - ROOT
        total: IntArray = np.bincount(self.leaf_of - ROOT, weights=per_node, minlength=domains).astype(np.int64)
        for children, parents in self._parents_by_tier:
            np.add.at(total, parents, total[children])
        return total

    @cached_property
    def tier_of(self) -> IntArray:
        """Hypernode -> its tier."""
        return np.array([h.tier for h in self.problem.hypernodes], dtype=np.int64)

    @cached_property
    def _parents_by_tier(self) -> tuple[tuple[IntArray, IntArray], ...]:
        """Return tier by tier, the lowest first: its hypernodes and their parents, as positions of
        `domain_sum_array`."""
        above = np.array([ROOT if h.parent is None else h.parent for h in self.problem.hypernodes], dtype=np.int64)
        members = [np.flatnonzero(self.tier_of == tier) for tier in self.tiers]
        return tuple((of - ROOT, above[of] - ROOT) for of in members)

    @cached_per_tree
    def domains_by_tier(self, leaf: int | None) -> tuple[int, ...]:
        """Return the domain around a leaf at each of `tiers`. Where a tier has none (a ragged tree, a node outside) the
        one below is used."""
        at = {self.problem.hypernodes[h].tier: h for h in self.path(leaf)}
        found, below = [], ROOT if leaf is None else leaf
        for tier in self.tiers:
            below = at.get(tier, below)
            found.append(below)
        return tuple(found)

    @cached_property
    def leaf_domains_by_tier(self) -> IndexArray:
        """Return tier (in the order of `tiers`) x leaf (at leaf - ROOT) -> the domain around it, as
        `domains_by_tier`."""
        leaves = (None, *range(len(self.problem.hypernodes)))
        lines = [self.domains_by_tier(leaf) for leaf in leaves]
        return np.array(lines, dtype=np.intp).reshape(len(lines), len(self.tiers)).T

    def tier_span(self, leaves: Iterable[int | None]) -> int:
        """Communication cost of a set of leaves: sum over tiers of weight * (domains touched - 1)."""
        lines = [self.domains_by_tier(leaf) for leaf in set(leaves)]
        touched = [len(set(domains)) for domains in zip(*lines, strict=True)]
        return sum(weight * (number - 1) for weight, number in zip(self.tier_weights, touched, strict=False))

    @cached_property
    def tier_weights(self) -> Sequence[int]:
        """Cost of one more domain at each of `tiers`: four times that of the tier below."""
        return tuple(4**i for i in range(len(self.tiers)))

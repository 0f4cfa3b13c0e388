"""The hypernode tree seen from the nodes: what lies under what, and which domain a pod is in at a given tier."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from solver.problem import Problem

ROOT = -1
"""Stands for the whole cluster, nodes outside the topology included."""

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class TopologyTree:
    """Read-only index over `problem.hypernodes`. A domain is the index of a hypernode, or ROOT."""

    problem: Problem

    @cached_property
    def highest_tier(self) -> int:
        """The highest tier of any hypernode, 0 without hypernodes."""
        return max((h.tier for h in self.problem.hypernodes), default=0)

    @cached_property
    def tiers(self) -> tuple[int, ...]:
        return tuple(sorted({h.tier for h in self.problem.hypernodes}))

    @cached_property
    def children(self) -> dict[int, tuple[int, ...]]:
        """Domain -> hypernodes right below it. ROOT's children are the hypernodes without a parent."""
        below: dict[int, list[int]] = {h: [] for h in range(ROOT, len(self.problem.hypernodes))}
        for h, hypernode in enumerate(self.problem.hypernodes):
            below[ROOT if hypernode.parent is None else hypernode.parent].append(h)
        return {h: tuple(c) for h, c in below.items()}

    @cached_property
    def direct_nodes(self) -> dict[int, npt.NDArray[np.intp]]:
        """Domain -> the nodes that it holds directly; for ROOT those outside the topology."""
        by_leaf: dict[int, list[int]] = {h: [] for h in self.children}
        for n, node in enumerate(self.problem.nodes):
            by_leaf[ROOT if node.leaf is None else node.leaf].append(n)
        return {h: np.array(nodes, dtype=np.intp) for h, nodes in by_leaf.items()}

    def nodes_under(self, h: int) -> npt.NDArray[np.intp]:
        """All nodes under a domain, ascending."""
        if h not in self._nodes_under:
            self._nodes_under[h] = np.sort(
                np.concatenate([self.direct_nodes[h], *(self.nodes_under(child) for child in self.children[h])])
            )
        return self._nodes_under[h]

    @cached_property
    def _nodes_under(self) -> dict[int, npt.NDArray[np.intp]]:
        return {}

    def children_with_nodes(self, h: int) -> tuple[tuple[int, ...], npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """The children of a domain that have nodes, all these nodes child by child, and where each child's begin."""
        if h not in self._children_with_nodes:
            children = tuple(child for child in self.children[h] if len(self.nodes_under(child)))
            below = [self.nodes_under(child) for child in children]
            nodes = np.concatenate(below) if below else np.array([], dtype=np.intp)
            self._children_with_nodes[h] = (
                children,
                nodes,
                np.cumsum([0, *(len(of) for of in below)], dtype=np.intp)[:-1],
            )
        return self._children_with_nodes[h]

    @cached_property
    def _children_with_nodes(self) -> dict[int, tuple[tuple[int, ...], npt.NDArray[np.intp], npt.NDArray[np.intp]]]:
        return {}

    def nodes_in_tree_order(self, h: int) -> npt.NDArray[np.intp]:
        """All nodes under a domain in the order of its form: those that it holds directly, then child by child."""
        if h not in self._tree_orders:
            self._tree_orders[h] = np.concatenate(
                [self.direct_nodes[h], *(self.nodes_in_tree_order(child) for child in self.children[h])]
            )
        return self._tree_orders[h]

    @cached_property
    def _tree_orders(self) -> dict[int, npt.NDArray[np.intp]]:
        return {}

    def structure(self, h: int) -> tuple[object, ...]:
        """Tier, number of nodes held directly, and the forms of the children: equal for domains that are built alike."""
        if h not in self._structures:
            tier = 0 if h == ROOT else self.problem.hypernodes[h].tier
            self._structures[h] = (
                tier,
                len(self.direct_nodes[h]),
                tuple(self.structure(child) for child in self.children[h]),
            )
        return self._structures[h]

    @cached_property
    def _structures(self) -> dict[int, tuple[object, ...]]:
        return {}

    @cached_property
    def leaf_of(self) -> npt.NDArray[np.intp]:
        """Node -> its leaf, ROOT for none."""
        return np.array([ROOT if n.leaf is None else n.leaf for n in self.problem.nodes], dtype=np.intp)

    @cached_property
    def node_class_of(self) -> IntArray:
        """Node -> its kind."""
        return np.array([n.node_class for n in self.problem.nodes], dtype=np.int64)

    def class_mask(self, node_classes: frozenset[int]) -> npt.NDArray[np.bool_]:
        """Node -> whether it is of one of these kinds. Do not write to the result."""
        if node_classes not in self._class_masks:
            self._class_masks[node_classes] = np.isin(self.node_class_of, sorted(node_classes))
        return self._class_masks[node_classes]

    @cached_property
    def _class_masks(self) -> dict[frozenset[int], npt.NDArray[np.bool_]]:
        return {}

    def path(self, leaf: int | None) -> tuple[int, ...]:
        """The leaf and its ancestors, lowest first; empty for None."""
        found: list[int] = []
        while leaf is not None and leaf != ROOT:
            found.append(leaf)
            leaf = self.problem.hypernodes[leaf].parent
        return tuple(found)

    def enclosing_domain(self, leaf: int | None, tier: int) -> int | None:
        """The maximal domain of tier <= `tier` around a leaf; ROOT when the tier is above the whole tree; None when
        there is no such domain."""
        if tier > self.highest_tier:
            return ROOT
        best = None
        for h in self.path(leaf):
            if self.problem.hypernodes[h].tier > tier:
                break
            best = h
        return best

    def domains_at_tier(self, tier: int) -> tuple[int, ...]:
        """The maximal domains of tier <= `tier`: they do not overlap, and a set of pods obeys a hard limit exactly when
        one of them holds it."""
        if tier > self.highest_tier:
            return (ROOT,)
        if tier not in self._domains_at_tier:
            nodes = self.problem.hypernodes
            self._domains_at_tier[tier] = tuple(
                h for h, x in enumerate(nodes) if x.tier <= tier and (x.parent is None or nodes[x.parent].tier > tier)
            )
        return self._domains_at_tier[tier]

    @cached_property
    def _domains_at_tier(self) -> dict[int, tuple[int, ...]]:
        return {}

    def sum_per_domain(self, per_node: IntArray) -> dict[int, int]:
        """Domain -> sum of a figure over all nodes under it. per_node: one figure per node."""
        return dict(enumerate(self.domain_sum_array(per_node).tolist(), ROOT))

    def domain_sum_array(self, per_node: IntArray) -> IntArray:
        """As `sums`, as an array: what is under domain h stands at h - ROOT."""
        total: IntArray = np.bincount(
            self.leaf_of - ROOT, weights=per_node, minlength=len(self.problem.hypernodes) - ROOT
        ).astype(np.int64)
        for children, parents in self._parents_by_tier:
            np.add.at(total, parents, total[children])
        return total

    @cached_property
    def tier_of(self) -> IntArray:
        """Hypernode -> its tier."""
        return np.array([h.tier for h in self.problem.hypernodes], dtype=np.int64)

    @cached_property
    def _parents_by_tier(self) -> tuple[tuple[IntArray, IntArray], ...]:
        """For each tier, the lowest first, its hypernodes and their parents, at the places where `totals` has them."""
        above = np.array([ROOT if h.parent is None else h.parent for h in self.problem.hypernodes], dtype=np.int64)
        members = [np.flatnonzero(self.tier_of == tier) for tier in self.tiers]
        return tuple((of - ROOT, above[of] - ROOT) for of in members)

    def domains_by_tier(self, leaf: int | None) -> tuple[int, ...]:
        """For each of `tiers` the domain around a leaf. One missing at some tier (a ragged tree, a node outside) is
        stood in for by the one below."""
        known = self._domains_by_tier.get(leaf)
        if known is None:
            at = {self.problem.hypernodes[h].tier: h for h in self.path(leaf)}
            found, below = [], ROOT if leaf is None else leaf
            for tier in self.tiers:
                below = at.get(tier, below)
                found.append(below)
            known = self._domains_by_tier[leaf] = tuple(found)
        return known

    @cached_property
    def _domains_by_tier(self) -> dict[int | None, tuple[int, ...]]:
        return {}

    @cached_property
    def leaf_domains_by_tier(self) -> npt.NDArray[np.intp]:
        """Tier (in the order of `tiers`) x leaf (at leaf - ROOT) -> the domain around it, as `line` has it."""
        lines = [
            self.domains_by_tier(None if leaf == ROOT else leaf) for leaf in range(ROOT, len(self.problem.hypernodes))
        ]
        return np.array(lines, dtype=np.intp).reshape(len(lines), len(self.tiers)).T

    def tier_span(self, leaves: Iterable[int | None]) -> int:
        """Communication cost of a set of leaves: over all tiers, the domains touched beyond the first, one tier up
        weighing four times as much."""
        lines = [self.domains_by_tier(leaf) for leaf in set(leaves)]
        return (
            sum(weight * (len({line[level] for line in lines}) - 1) for level, weight in enumerate(self.tier_weights))
            if lines
            else 0
        )

    @cached_property
    def tier_weights(self) -> Sequence[int]:
        """Cost of one more domain at each of `tiers`."""
        return tuple(4**i for i in range(len(self.tiers)))

"""Wishes of gangs to keep out of the domains of others: which domains these hold, and what a conflict costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from solver.problem import Gang, Placement, SeparationWish
from solver.semantics.topology import ROOT, IntArray, TopologyTree

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

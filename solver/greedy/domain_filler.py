"""Fills one domain with pods of one gang: whole subgroups only, child domain by child domain, best fit on the nodes."""

from __future__ import annotations

import numpy as np

from solver.greedy.fragmentation import Fragmentation
from solver.problem import Gang, Placement, Subgroup
from solver.semantics.gang_classes import GangClass
from solver.semantics.gang_sizes import hard_subgroup_tiers
from solver.semantics.topology import ROOT
from solver.state.state import Pods, State


class DomainFiller:
    """gang: whose subgroups to respect; gang_class: its remaining request."""

    def __init__(
        self, state: State, gang: Gang, gang_class: GangClass, fragmentation: Fragmentation | None = None
    ) -> None:
        self.tree, self.free_nodes = state.tree, state.free_nodes
        self.state, self.gang, self.gang_class, self.fragmentation = state, gang, gang_class, fragmentation

    def place_pods(self, h: int, unplaced: list[int]) -> Pods:
        """Return the unplaced pods (per role, counted down) that fit under h, complete subgroups only."""
        mark, before = self.free_nodes.mark(), list(unplaced)
        placed = self._place_ignoring_subgroups(h, unplaced)
        for s in self.gang.subgroups:
            excess = self._pods_inside(s, h, placed) % s.size if self._is_confined_to(s, h) else 0
            if not excess:
                continue
            self.free_nodes.undo(mark)
            wanted = _trim(before, s, sum(p.pods for p in placed if p.role in s.roles) - excess)
            left = list(wanted)
            placed = self._place_ignoring_subgroups(h, left)
            unplaced[:] = [b - w + n for b, w, n in zip(before, wanted, left, strict=True)]
            if self._pods_inside(s, h, placed) % s.size:
                self.free_nodes.undo(mark)
                unplaced[:] = before
                return ()
        return placed

    def _is_confined_to(self, s: Subgroup, h: int) -> bool:
        """Return whether the subgroup is hard, and h one of its maximal domains."""
        return h != ROOT and s.topology.is_hard and h in self.tree.domains_at_tier(s.topology.tier)

    def _pods_inside(self, subgroup: Subgroup, h: int, placed: Pods) -> int:
        """Return the subgroup's pods under h: placed ones, and running ones."""
        under = [p for p in self.gang_class.running_pods if h in self.tree.path(self.state.problem.nodes[p.node].leaf)]
        return sum(p.pods for p in (*placed, *under) if p.role in subgroup.roles)

    def _place_ignoring_subgroups(self, h: int, unplaced: list[int]) -> Pods:
        """Place pods under h: on its own nodes, then in the smallest child that holds all remaining ones, or in the
        child that holds most of them."""
        placed = self._place_on_direct_nodes(h, unplaced)
        children, nodes, starts = self.tree.children_with_nodes(h)
        if not children or not any(unplaced):
            return placed
        asked = [t for t, pods in enumerate(unplaced) if pods]
        counts = [self.state.fit_counts_on(nodes, self.gang_class.roles[t]) for t in asked]
        # Role x child; of equal children the first is taken.
        fits = np.array([np.add.reduceat(of_role, starts) for of_role in counts])
        capacity, is_left = fits.sum(axis=0), np.ones(len(children), dtype=np.bool_)
        while any(unplaced):
            left = np.array([unplaced[t] for t in asked])
            amount = np.minimum(fits, left[:, None]).sum(axis=0) * is_left
            holding_all = np.flatnonzero(amount == left.sum())
            at = holding_all[capacity[holding_all].argmin()] if len(holding_all) else amount.argmax()
            if not amount[at]:
                break
            is_left[at] = False
            placed += self.place_pods(children[at], unplaced)
        return placed

    def _place_on_direct_nodes(self, h: int, unplaced: list[int]) -> Pods:
        """Return pods on the nodes that h itself holds: large requests first, the fullest nodes first, of equal ones
        those of the node groups that the queue wants most."""
        nodes = self.tree.direct_nodes[h]
        if not len(nodes):
            return ()
        roles = self.gang_class.roles
        placed: list[Placement] = []
        missing = [t for t, pods in enumerate(unplaced) if pods]
        for t in sorted(missing, key=lambda t: roles[t].pod_request, reverse=True):
            if self._lacks_domain(h, t):
                continue
            request, fits = roles[t].pod_request, self.state.fit_counts_on(nodes, roles[t])
            eligible, fits = nodes[fits > 0], fits[fits > 0]
            ranks = self.tree.node_group_ranks(self.gang.queue)
            order = np.lexsort((ranks[eligible], fits)) if len(ranks) else np.argsort(fits, kind="stable")
            if self.gang.former and self.gang_class.running_pods:  # it has begun: it is completed where it is
                own = np.isin(eligible[order], [p.node for p in self.gang_class.running_pods])
                order = order[np.argsort(~own, kind="stable")]
            if self.fragmentation is not None:
                order = self.fragmentation.positions_by_increase(request, eligible)
            taken = self.free_nodes.fill_nodes(eligible[order], fits[order], request, unplaced[t])
            placed += [
                Placement(t, n, pods) for n, pods in zip(eligible[order].tolist(), taken.tolist(), strict=True) if pods
            ]
            unplaced[t] -= int(taken.sum())
        return tuple(placed)

    def _lacks_domain(self, h: int, t: int) -> bool:
        """Return whether h is outside every domain of a hard subgroup of the role."""
        leaf = None if h == ROOT else h
        tiers = hard_subgroup_tiers(self.gang.subgroups, t)
        return any(self.tree.enclosing_domain(leaf, tier) is None for tier in tiers)


def _trim(want: list[int], subgroup: Subgroup, total: int) -> list[int]:
    """Return the wanted pods, those of the subgroup's last roles lowered until its sum is `total`."""
    found, excess = list(want), sum(want[t] for t in subgroup.roles) - max(0, total)
    for t in reversed(subgroup.roles):
        cut = min(excess, found[t])
        found[t] -= cut
        excess -= cut
    return found

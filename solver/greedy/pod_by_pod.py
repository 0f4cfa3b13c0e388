"""The greedy for gangs with pod rules: pod after pod, each where the rules allow it, near the pods placed already."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from solver.problem import Gang, Placement, Subgroup
from solver.semantics.device_slots import IntArray
from solver.semantics.gang_classes import GangClass, subgroup_pods_by_domain
from solver.semantics.topology import ROOT
from solver.state.state import Pods, State

MAX_FIT_COUNT = 1 << 20
"""Fits of one node beyond this count no more when domains are compared."""


class PodByPodPlacer:
    """Fills domains with one gang. subgroup_tries: `Budget.subgroup_tries`."""

    def __init__(self, state: State, gang: Gang, gang_class: GangClass, subgroup_tries: int) -> None:
        self.state, self.tree, self.free_nodes = state, state.tree, state.free_nodes
        self.gang, self.gang_class, self.subgroup_tries = gang, gang_class, subgroup_tries
        self.rule_counts = state.counted_pods
        self.near_gang = np.zeros(len(state.problem.nodes), dtype=np.bool_)
        for p in gang_class.running_pods:
            self._mark_near_gang(p.node)

    def is_forbidden_by_rules(self, h: int, want: Sequence[int]) -> bool:
        """Return whether pod rules alone keep these pods from lying under h together."""
        nodes = self.tree.nodes_under(h)
        wanted = ((role, n) for role, n in zip(self.gang_class.roles, want, strict=True) if n)
        return any(n > self.rule_counts.max_new_pods(role, h, nodes) for role, n in wanted)

    def place_pods(self, h: int, unplaced: list[int]) -> Pods:
        """Return the unplaced pods (per role, counted down) that fit under h one after another; none where a subgroup
        would be incomplete."""
        mark, before = self.free_nodes.mark(), list(unplaced)
        placed: list[Placement] = []
        subgroups = self._largest_subgroups()
        for s in subgroups:
            while sum(unplaced[t] for t in s.roles) >= s.size and (more := self._place_subgroup(s, h, unplaced)):
                placed += more
        free_roles = sorted(set(range(len(unplaced))) - {t for s in subgroups for t in s.roles})
        placed += self._place_one_by_one(self.tree.nodes_under(h), unplaced, free_roles)
        if self._splits_subgroup((*self.gang_class.running_pods, *placed)):
            self.free_nodes.undo(mark)
            unplaced[:] = before
            return ()
        return tuple(placed)

    def _splits_subgroup(self, pods: Pods) -> bool:
        """Return whether a domain holds part of a subgroup, or a pod of one is outside its domains."""
        for s in self.gang.subgroups:
            count = subgroup_pods_by_domain(self.tree, s, pods)
            if None in count or any(number % s.size for number in count.values()):
                return True
        return False

    def _largest_subgroups(self) -> list[Subgroup]:
        """Return the largest of the hard subgroups that share roles; the smaller ones are formed inside its domains."""
        hard = [s for s in self.gang.subgroups if self.tree.confines(s.topology)]
        return [s for n, s in enumerate(hard) if not any(_precedes(o, s, m < n) for m, o in enumerate(hard))]

    def _place_subgroup(self, subgroup: Subgroup, h: int, unplaced: list[int]) -> list[Placement]:
        """Return one complete subgroup inside one domain under h; counts `unplaced` down."""
        want, missing = [0] * len(unplaced), subgroup.size
        for t in subgroup.roles:
            want[t] = min(unplaced[t], missing)
            missing -= want[t]
        fits = [np.minimum(self.state.fit_counts(self.gang_class.roles[t]), want[t]) for t in subgroup.roles]
        reach = self.tree.sum_per_domain(np.sum(fits, axis=0))
        domains: Sequence[int] = self.tree.domains_at_tier(subgroup.topology.tier)
        if h != ROOT:
            domains = [d for d in domains if h in self.tree.path(d)]
        able = sorted((d for d in domains or [h] if reach[d] >= subgroup.size), key=lambda d: (reach[d], d))
        for d in able[: self.subgroup_tries]:
            mark, rest = self.free_nodes.mark(), list(want)
            placed = self._place_one_by_one(self.tree.nodes_under(d), rest, subgroup.roles)
            if not any(rest):
                unplaced[:] = [a - b for a, b in zip(unplaced, want, strict=True)]
                return placed
            self.free_nodes.undo(mark)
        return []

    def _place_one_by_one(self, nodes: IntArray, unplaced: list[int], roles: Sequence[int]) -> list[Placement]:
        """Place role after role, first those that others need next to them, then the largest requests, until no further
        pod fits."""
        placed: list[Placement] = []
        own, rule = self.gang_class.roles, self.rule_counts.rule
        needs_others = {t: any(rule(rho).rule_kind == "affinity" for rho in own[t].owned_rules) for t in roles}
        order = sorted(roles, key=lambda t: (needs_others[t], [-a for a in own[t].request], t))
        progress = True
        while progress and any(unplaced[t] for t in order):
            progress = False
            for t in order:
                while unplaced[t] and (node := self._best_node(nodes, t)) is not None:
                    self.free_nodes.add_pods(node, own[t], 1)
                    self._mark_near_gang(node)
                    placed.append(Placement(t, node, 1))
                    unplaced[t] -= 1
                    progress = True
        return placed

    def _best_node(self, nodes: IntArray, t: int) -> int | None:
        """Return the node for one more pod: where most pods under affinity fit together, then near the gang, then the
        fullest."""
        role = self.gang_class.roles[t]
        fits = self.state.fit_counts(role)
        if role.owned_rules or role.selecting_rules:
            fits = np.where(self.rule_counts.allowed_nodes(role), fits, 0)
        able = nodes[fits[nodes] > 0]
        if not len(able):
            return None
        capacity = self._affinity_capacity(t, fits)[able]
        return int(able[np.lexsort((able, fits[able], ~self.near_gang[able], -capacity))[0]])

    def _affinity_capacity(self, t: int, fit_counts: IntArray) -> IntArray:
        """Return node -> the fits in its domains of the role's affinity rules; 0 without one."""
        found = np.zeros(len(fit_counts), dtype=np.int64)
        for rho in self.rule_counts.rules_of(self.gang_class.roles[t]):
            rule, domain = self.rule_counts.rule(rho), self.rule_counts.existing_pods.partitions[rho]
            if rule.rule_kind == "affinity":
                weights = np.minimum(fit_counts[domain >= 0], MAX_FIT_COUNT)
                sums = np.bincount(domain[domain >= 0], weights=weights, minlength=len(rule.selected_present))
                found += np.append(sums, 0).astype(np.int64)[domain]
        return found

    def _mark_near_gang(self, node: int) -> None:
        leaf = self.tree.leaf_of[node]
        self.near_gang[node if leaf == ROOT else self.tree.leaf_of == leaf] = True


def _precedes(one: Subgroup, other: Subgroup, is_earlier: bool) -> bool:
    """Return whether two subgroups share roles and the first is larger, or as large and earlier."""
    if set(one.roles).isdisjoint(other.roles):
        return False
    return one.size > other.size or (one.size == other.size and is_earlier)

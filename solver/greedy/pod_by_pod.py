"""The greedy's way with gangs in relations: pod after pod, each where the relations leave it room, near the pods that
are placed already."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from solver.problem import Gang, Placement, Subgroup
from solver.semantics.device_slots import IntArray
from solver.semantics.gang_classes import GangClass
from solver.semantics.topology import ROOT
from solver.state.state import State

BoolArray = npt.NDArray[np.bool_]

MAX_FIT_COUNT = 1 << 20
"""Slots of one node beyond this count no more when domains are compared."""


class PodByPodPlacer:
    """Fills domains with one gang. open_to: role -> node -> whether its kind is open to the role. subgroup_tries: `Budget.subgroup_tries`."""

    def __init__(
        self,
        state: State,
        gang: Gang,
        gang_class: GangClass,
        eligible_nodes: Sequence[BoolArray],
        subgroup_tries: int,
    ) -> None:
        self.tree, self.free_nodes, self.rule_counts = state.tree, state.free_nodes, state.counted_pods
        self.gang, self.gang_class, self.eligible_nodes = gang, gang_class, eligible_nodes
        self.subgroup_tries = subgroup_tries
        self.near_gang = np.zeros(len(state.problem.nodes), dtype=np.bool_)
        for p in gang_class.running_pods:
            self._mark_near_gang(p.node)

    def is_forbidden_by_rules(self, h: int, want: Sequence[int]) -> bool:
        """Whether relations alone keep the gang from being whole under h."""
        nodes = self.tree.nodes_under(h)
        return any(
            want[t] > self.rule_counts.max_new_pods(role, h, nodes)
            for t, role in enumerate(self.gang_class.roles)
            if want[t]
        )

    def fit_counts(self, t: int) -> IntArray:
        """Node -> pods of the role that fit, lasting rules minded."""
        role = self.gang_class.roles[t]
        return self.rule_counts.cap_fit_counts(
            role, np.where(self.eligible_nodes[t], self.free_nodes.fit_counts(role.pod_request), 0)
        )

    def place_pods(self, h: int, unplaced: list[int]) -> tuple[Placement, ...]:
        """As many of `left` (pods per role, counted down) under h as come one after another; nothing where a subgroup
        would not be whole."""
        mark, before = self.free_nodes.mark(), list(unplaced)
        placed: list[Placement] = []
        nodes = self.tree.nodes_under(h)
        for part in self._largest_subgroups():
            while sum(unplaced[t] for t in part.roles) >= part.size and (
                more := self._place_subgroup(part, h, unplaced)
            ):
                placed += more
        in_parts = {t for part in self._largest_subgroups() for t in part.roles}
        placed += self._place_one_by_one(nodes, unplaced, [t for t in range(len(unplaced)) if t not in in_parts])
        if self._has_split_subgroup(placed):
            self.free_nodes.undo(mark)
            unplaced[:] = before
            return ()
        return tuple(placed)

    def _largest_subgroups(self) -> list[Subgroup]:
        """Of the hard subgroups that share roles the largest, in whose domains the parts of the others are formed as it
        goes."""
        hard = [
            s for s in self.gang.subgroups if s.topology.mode == "hard" and s.topology.tier <= self.tree.highest_tier
        ]
        return [
            s
            for n, s in enumerate(hard)
            if not any(set(s.roles) & set(o.roles) and (o.size, -m) > (s.size, -n) for m, o in enumerate(hard))
        ]

    def _place_subgroup(self, subgroup: Subgroup, h: int, unplaced: list[int]) -> list[Placement]:
        """One whole part inside one domain under h; counts `left` down."""
        want, missing = [0] * len(unplaced), subgroup.size
        for t in subgroup.roles:
            want[t] = min(unplaced[t], missing)
            missing -= want[t]
        reach = self.tree.sum_per_domain(
            np.sum([np.minimum(self.fit_counts(t), want[t]) for t in subgroup.roles], axis=0)
        )
        inside = [
            d for d in self.tree.domains_at_tier(subgroup.topology.tier) if h == ROOT or h in self.tree.path(d)
        ] or [h]
        able = sorted((d for d in inside if reach[d] >= subgroup.size), key=lambda d: (reach[d], d))
        for d in able[: self.subgroup_tries]:
            mark, rest = self.free_nodes.mark(), list(want)
            placed = self._place_one_by_one(self.tree.nodes_under(d), rest, list(subgroup.roles))
            if not any(rest):
                unplaced[:] = [a - b for a, b in zip(unplaced, want, strict=True)]
                return placed
            self.free_nodes.undo(mark)
        return []

    def _place_one_by_one(self, nodes: IntArray, unplaced: list[int], roles: Sequence[int]) -> list[Placement]:
        """Role after role, those that others need beside them and those that ask for most first, until no further pod
        comes."""
        placed: list[Placement] = []
        order = sorted(roles, key=lambda t: (self._has_affinity(t), [-a for a in self.gang_class.roles[t].request], t))
        progress = True
        while progress and any(unplaced[t] for t in order):
            progress = False
            for t in order:
                while unplaced[t] and (node := self._best_node(nodes, t)) is not None:
                    self.free_nodes.add_pods(node, self.gang_class.roles[t], 1)
                    self._mark_near_gang(node)
                    placed.append(Placement(t, node, 1))
                    unplaced[t] -= 1
                    progress = True
        return placed

    def _has_affinity(self, t: int) -> bool:
        """Whether pods of the role need others beside them."""
        relations = self.rule_counts.existing_pods.pod_rules
        return any(relations[rho].rule_kind == "affinity" for rho in self.gang_class.roles[t].owned_rules)

    def _best_node(self, nodes: IntArray, t: int) -> int | None:
        """The node for one more pod: where the pods of its relations have most room together, then near the gang, then
        the fullest."""
        role = self.gang_class.roles[t]
        slots = self.fit_counts(t)
        if role.owned_rules or role.selecting_rules:
            slots = np.where(self.rule_counts.allowed_nodes(role), slots, 0)
        able = nodes[slots[nodes] > 0]
        if not len(able):
            return None
        wide = self._affinity_capacity(t, slots)[able]
        return int(able[np.lexsort((able, slots[able], ~self.near_gang[able], -wide))[0]])

    def _affinity_capacity(self, t: int, fit_counts: IntArray) -> IntArray:
        """Node -> the slots in its domain, of the widest partition whose pods must stay together; 0 everywhere without
        one."""
        found = np.zeros(len(fit_counts), dtype=np.int64)
        for rho in self.rule_counts.rules_of(self.gang_class.roles[t]):
            relation = self.rule_counts.existing_pods.pod_rules[rho]
            if relation.rule_kind == "affinity":
                at = self.rule_counts.existing_pods.partitions[rho]
                room = np.bincount(
                    at[at >= 0],
                    weights=np.minimum(fit_counts[at >= 0], MAX_FIT_COUNT),
                    minlength=len(relation.selected_present),
                )
                found += np.append(room, 0).astype(np.int64)[at]
        return found

    def _mark_near_gang(self, node: int) -> None:
        leaf = self.tree.leaf_of[node]
        if leaf == ROOT:
            self.near_gang[node] = True
        else:
            self.near_gang |= self.tree.leaf_of == leaf

    def _has_split_subgroup(self, placed: Sequence[Placement]) -> bool:
        """Whether a subgroup, with the pods that run, has a part that is not whole in one of its domains, or pods
        outside them."""
        for part in self.gang.subgroups:
            inside: dict[int | None, int] = {}
            for p in (*self.gang_class.running_pods, *placed):
                if p.role in part.roles:
                    hard = part.topology.mode == "hard"
                    d = (
                        self.tree.enclosing_domain(self.tree.problem.nodes[p.node].leaf, part.topology.tier)
                        if hard
                        else ROOT
                    )
                    inside[d] = inside.get(d, 0) + p.pods
            if None in inside or any(pods % part.size for pods in inside.values()):
                return True
        return False

"""Which gangs of a large batch are placed again together, and where: one that could be nearer, a domain that would hold
it, and who is in its way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from solver.models.sets import Sets
from solver.options import Budget
from solver.placement.bounds import TopologyCost, excess_sort_key
from solver.problem import PodRequest
from solver.semantics.device_slots import IntArray
from solver.semantics.gang_classes import ClassRole, GangClass
from solver.semantics.placement_cost import topology_cost
from solver.semantics.placements import Placements, new_placements
from solver.semantics.topology import ROOT
from solver.state.free_nodes import FreeNodes


@dataclass(frozen=True)
class Neighbourhood:
    """gangs: who is placed again. places: where these may be."""

    gangs: tuple[int, ...]
    buckets: frozenset[int]


@dataclass(frozen=True)
class NeighbourhoodSelector:
    """What is known of the gangs as they are placed now."""

    s: Sets
    gang_classes: Mapping[int, GangClass]
    placements: Placements
    min_costs: Mapping[int, TopologyCost]
    budget: Budget

    def next_neighbourhood(self, tried: set[int]) -> Neighbourhood | None:
        """Around the gang not treated yet that is furthest from what it could be alone; None where every other is as
        near as it could be."""
        first = min(
            (j for j in self.placements if self._current_costs[j] > self.min_costs[j] and j not in tried),
            key=lambda j: (self._excess_keys[j], j),
            default=None,
        )
        if first is None:
            return None
        anywhere = self._neighbourhood_of(first, set(range(len(self.s.buckets))))
        return (
            anywhere
            if len(anywhere.gangs) >= self.budget.neighbourhood_gangs
            else self._neighbourhood_of(first, self._touched_buckets[first] | self._target_buckets(first))
        )

    def _neighbourhood_of(self, first: int, buckets: set[int]) -> Neighbourhood:
        """The gang and, as many as one model holds, those that share most of these places with it."""
        gangs = [first]
        mine = self._touched_buckets[first]
        near = [j for j in self.placements if j != first and self._touched_buckets[j] & buckets]
        for j in sorted(
            near,
            key=lambda j: (
                -len(self._touched_buckets[j] & mine),
                -len(self._touched_buckets[j] & buckets),
                self._excess_keys[j],
                j,
            ),
        ):
            more = buckets | self._touched_buckets[j]
            if self._variable_count([*gangs, j], more) > self.budget.neighbourhood_variables:
                break
            gangs.append(j)
            buckets = more
        return Neighbourhood(tuple(sorted(gangs)), frozenset(buckets))

    def _variable_count(self, gangs: list[int], buckets: set[int]) -> int:
        """Pod variables of these gangs: a place counts for a role where there is room beside everybody, or one of them
        might leave some."""
        left = set[int]().union(*(self._touched_buckets[j] for j in gangs))
        return sum(
            1
            for j in gangs
            for role in self.gang_classes[j].roles
            for i in buckets
            if i in left or self._vacant_by_bucket(role.pod_request)[i]
        )

    def _target_buckets(self, j: int) -> set[int]:
        """The places of the lowest and emptiest domain that would hold the whole gang if nobody else came, and a few
        that have room anyway."""
        s, roles = self.s, self.gang_classes[j].roles
        held, vacant = (
            [s.tree.domain_sum_array(self._fit_counts(room, role)) for role in roles]
            for room in (self._initial_free_nodes, self._remaining_free_nodes)
        )
        room = np.sum([np.minimum(below, role.min_pods) for below, role in zip(vacant, roles, strict=True)], axis=0)
        home = ROOT
        for tier in s.tree.tiers:
            fits = s.tree.tier_of == tier
            for below, role in zip(held, roles, strict=True):
                fits &= below[-ROOT:] >= role.min_pods
            if fits.any():
                home = max(np.flatnonzero(fits).tolist(), key=lambda h: (room[h - ROOT], -h))
                break
        inside = set(s.bucket_of[s.tree.nodes_under(home)].tolist())
        empty = np.sum([self._vacant_by_bucket(role.pod_request) for role in roles], axis=0)
        order = np.argsort(-empty, kind="stable").tolist()
        return {
            *[i for i in order if i in inside][: self.budget.neighbourhood_buckets],
            *order[: self.budget.neighbourhood_spare_buckets],
        }

    def _fit_counts(self, room: FreeNodes, role: ClassRole) -> IntArray:
        """Node -> pods of the role that it holds."""
        return np.where(self.s.tree.class_mask(role.node_classes), room.fit_counts(role.pod_request), 0)

    def _vacant_by_bucket(self, ask: PodRequest) -> list[int]:
        """Place -> pods that it holds beside everything that is placed."""
        if ask not in self._vacant_cache:
            self._vacant_cache[ask] = self.s.sum_per_bucket(self._remaining_free_nodes.fit_counts(ask))
        return self._vacant_cache[ask]

    @cached_property
    def _vacant_cache(self) -> dict[PodRequest, list[int]]:
        return {}

    @cached_property
    def _initial_free_nodes(self) -> FreeNodes:
        return self.s.free_nodes()

    @cached_property
    def _remaining_free_nodes(self) -> FreeNodes:
        """What is left beside everything that is placed."""
        return self.s.free_nodes_after(self.placements)

    @cached_property
    def _current_costs(self) -> dict[int, TopologyCost]:
        return {j: topology_cost(self.s.tree, self.s.problem.gangs[j], pods) for j, pods in self.placements.items()}

    @cached_property
    def _excess_keys(self) -> dict[int, TopologyCost]:
        return {j: excess_sort_key(self.min_costs[j], now) for j, now in self._current_costs.items()}

    @cached_property
    def _touched_buckets(self) -> dict[int, set[int]]:
        """Gang -> the places that its new pods are in."""
        gangs = self.s.problem.gangs
        return {
            j: {int(self.s.bucket_of[p.node]) for p in new_placements(gangs[j], pods)}
            for j, pods in self.placements.items()
        }

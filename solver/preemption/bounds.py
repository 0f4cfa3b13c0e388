"""Lower bounds on the loss of one gang's start, per domain and node, so that a model of a large cluster can be written
over the few nodes that matter, and its answer still be proved.

On node i, k pods of a role that requests `a` cannot be held with less loss than

    c_i(k) = max over r of F_ir(k a_r - free_ir)
    F_ir(x): the least loss of x of resource r, were the victims' pods there divisible

where the sum of a resource over the slots of one group counts as a resource of its own. c_i is convex. So the least sum
over a domain of the required pods is that of the smallest steps c_i(k) - c_i(k - 1); no gang rule makes it smaller.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from solver.models.sets import Sets
from solver.problem import Problem, Vector
from solver.semantics.device_slots import UNLIMITED, FreeVectors
from solver.semantics.eviction_rights import Victim, evictable_placements, loss_per_pod
from solver.semantics.gang_classes import ClassRole


@dataclass(frozen=True, slots=True)
class NodeChoice:
    """nodes: where the model may place. outside_bound: no placement that touches another node loses less."""

    nodes: frozenset[int]
    outside_bound: float


EvictablePods = list[tuple[int, Vector, int]]
"""(loss, amounts that each returns, number) of the pods on a node that may go: of the node, then of each slot group."""


def evictable_pods(problem: Problem, victims: Sequence[Victim]) -> dict[int, EvictablePods]:
    """Return node -> the pods there that may be evicted. Of several pods that share slots, the first are assumed to
    hold all of them."""
    found: dict[int, EvictablePods] = {}
    for v in victims:
        gang = problem.gangs[v.gang]
        loss = loss_per_pod(gang)
        for p in evictable_placements(gang, v.running):
            request, pods = gang.roles[p.role].request, found.setdefault(p.node, [])
            held = [h for h in v.held_shares if (h.role, h.node) == (p.role, p.node)]
            if not held:
                pods.append((loss, extended_vector(problem, request, ()), p.pods))
                continue
            for k in range(p.pods):
                slots = ((h.slot_group, 1, h.share) for h in held if h.pods > k)
                pods.append((loss, extended_vector(problem, request, slots), 1))
    return found


def extended_vector(problem: Problem, request: Vector, slots: Iterable[tuple[int, int, Vector]]) -> Vector:
    """Return the request, and behind it the sums over the slots of each group. slots: (group, number, share of
    each)."""
    width = len(problem.resources)
    sums = [0] * (len(problem.slot_groups) * width)
    for group, number, share in slots:
        for r, amount in enumerate(share):
            sums[group * width + r] += number * amount
    return (*request, *sums)


def loss_steps(request: Vector, free: Vector, pods: EvictablePods, max_pods: int) -> list[float]:
    """c(1) - c(0), c(2) - c(1), ... for one node, as long as k <= max_pods pods can be held."""
    curves = []
    for r, a in enumerate(request):
        if a:
            segments = sorted(
                (cost / returned[r], returned[r], number) for cost, returned, number in pods if returned[r]
            )
            curves.append((a, free[r], segments))
    found: list[float] = []
    last = 0.0
    for k in range(1, max_pods + 1):
        now = max((_fractional_loss(segments, k * a - left) for a, left, segments in curves), default=0.0)
        if math.isinf(now):
            break
        found.append(now - last)
        last = now
    return found


def _fractional_loss(segments: list[tuple[float, int, int]], amount: int) -> float:
    """F(amount): the cheapest pods first, the last one in part."""
    total = 0.0
    for density, returned, number in segments:
        for _ in range(number):
            if amount <= 0:
                return total
            total += density * min(amount, returned)
            amount -= returned
    return total if amount <= 0 else math.inf


class LossBounds:
    """The bounds for the one gang of `s`, whose free vectors exclude every victim. free: the free amounts with all of
    them."""

    def __init__(self, s: Sets, free: FreeVectors, victims: Sequence[Victim]) -> None:
        self.s, self.gang_class = s, s.gang_classes[0]
        self.domain_nodes: Mapping[int, tuple[int, ...]] = {
            h: tuple(n for i in buckets for n in s.buckets[i].nodes) for h, buckets in s.buckets_in[0].items()
        }
        self.surplus_nodes: set[int] = set()
        """Nodes with pods that may go while their gang stays: before others that are as cheap."""
        for v in victims:
            if v.max_surplus:
                self.surplus_nodes |= {p.node for p in v.running if v.surplus_per_role[p.role]}
        amounts = np.concatenate([free.amounts, free.slots.sum(axis=2).reshape(len(free.amounts), -1)], axis=1)
        pods = evictable_pods(s.problem, victims)
        self.role_steps = [self._steps_of(role, amounts.tolist(), pods) for role in self.gang_class.roles]

    def _steps_of(
        self, role: ClassRole, free: list[list[int]], pods: Mapping[int, EvictablePods]
    ) -> dict[int, list[float]]:
        """Return node that the role may use -> its loss steps."""
        slots = ((a.slot_group, a.number, a.share) for a in role.pod_request.slot_requests)
        request, most = extended_vector(self.s.problem, role.request, slots), min(role.max_pods, UNLIMITED)
        nodes = sorted(n for inside in self.domain_nodes.values() for n in inside)
        eligible = (n for n in nodes if self.s.problem.nodes[n].node_class in role.node_classes)
        return {n: loss_steps(request, tuple(free[n]), pods.get(n, []), most) for n in eligible}

    def choose_nodes(self, size: int) -> NodeChoice:
        """Return the cheapest domains, and of each the cheapest nodes, until there are `size` nodes; of the first
        domain all that are needed."""
        chosen: set[int] = set()
        outside = math.inf
        for least, h in sorted((self._domain_bound(h), h) for h in self.domain_nodes):
            if math.isinf(least):
                break
            if len(chosen) >= size:
                outside = min(outside, least)
                continue
            bounds = self._node_bounds(h)
            ranked = sorted((cost, n not in self.surplus_nodes, n) for n, cost in bounds.items() if math.isfinite(cost))
            room = max(1, size - len(chosen))
            chosen |= {n for _, _, n in ranked[:room]}
            outside = min([outside, *(cost for cost, _, _ in islice(ranked, room, None))])
        return NodeChoice(frozenset(chosen), outside)

    def _sorted_steps(self, t: int, h: int) -> list[float]:
        return sorted(step for n in self.domain_nodes[h] for step in self.role_steps[t].get(n, ()))

    def _domain_bound(self, h: int) -> float:
        """No placement inside h loses less."""
        roles = enumerate(self.gang_class.roles)
        return max((_cheapest_sum(self._sorted_steps(t, h), role.min_pods) for t, role in roles), default=0.0)

    def _node_bounds(self, h: int) -> dict[int, float]:
        """Return node of h -> no placement inside h that uses it loses less: the domain's own bound, with one pod of
        some role on it."""
        least = self._domain_bound(h)
        found = dict.fromkeys(self.domain_nodes[h], math.inf)
        for t, role in enumerate(self.gang_class.roles):
            others = _cheapest_sum(self._sorted_steps(t, h), max(0, role.min_pods - 1))
            for n in self.domain_nodes[h]:
                for first in self.role_steps[t].get(n, ())[:1]:
                    found[n] = min(found[n], max(least, others + first))
        return found


def _cheapest_sum(ranked: list[float], number: int) -> float:
    return math.inf if len(ranked) < number else sum(ranked[:number])

"""Where room for one gang is cheapest to make: a lower bound on the loss for every domain and node, so that a model of
a large cluster can be written over the few nodes that matter, and its answer still be proved.

On node i, k pods of a role that asks for `a` cannot be held with less loss than

    c_i(k) = max over r of F_ir(k a_r - free_ir)        F_ir(x): the least loss of x of resource r, were the victims' pods there divisible

where what the cells of a division have of a resource in sum, and portions ask of it, counts as a resource of its own.
It is convex in k. So the least sum over a domain of `need` pods is that of the smallest steps c_i(k) - c_i(k - 1); no
gang rule makes it smaller.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from solver.models.sets import Sets
from solver.problem import Problem, Vector
from solver.semantics.device_slots import UNLIMITED, FreeVectors
from solver.semantics.eviction_rights import Victim, loss_per_pod


@dataclass(frozen=True, slots=True)
class NodeChoice:
    """nodes: where the model may place. beyond: no placement that touches another node loses less than this."""

    nodes: frozenset[int]
    outside_bound: float


EvictablePods = list[tuple[int, Vector, int]]
"""(loss, what each gives back, how many) of the pods on a node that may go: of the node's resources, then of each
division's."""


def evictable_pods(problem: Problem, victims: Sequence[Victim]) -> dict[int, EvictablePods]:
    """Node -> the pods there that may be evicted. Of several pods that share what they hold of cells, the first are
    said to hold all of it."""
    found: dict[int, EvictablePods] = {}
    for v in victims:
        gang = problem.gangs[v.gang]
        for p in v.running:
            request, here = gang.roles[p.role].request, found.setdefault(p.node, [])
            held = [h for h in v.held_shares if (h.role, h.node) == (p.role, p.node)]
            if not held:
                here.append((loss_per_pod(gang), extended_vector(problem, request, ()), p.pods))
            for k in range(p.pods) if held else ():
                here.append(
                    (
                        loss_per_pod(gang),
                        extended_vector(problem, request, ((h.slot_group, 1, h.share) for h in held if h.pods > k)),
                        1,
                    )
                )
    return found


def extended_vector(problem: Problem, request: Vector, slot_requests: Iterable[tuple[int, int, Vector]]) -> Vector:
    """The request, and behind it in sum what is asked, or held, of the cells of each division. parts: (division, cells,
    share of each)."""
    width = len(problem.resources)
    sums = [0] * (len(problem.slot_groups) * width)
    for division, number, share in slot_requests:
        for r, amount in enumerate(share):
            sums[division * width + r] += number * amount
    return (*request, *sums)


def loss_steps(request: Vector, free: Vector, pods: EvictablePods, max_pods: int) -> list[float]:
    """c(1) - c(0), c(2) - c(1), ... for one node, as long as k <= most pods can be held."""
    curves = []
    for r, a in enumerate(request):
        if a:
            segments = sorted((cost / take[r], take[r], number) for cost, take, number in pods if take[r])
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
    for density, holds, number in segments:
        for _ in range(number):
            if amount <= 0:
                return total
            total += density * min(amount, holds)
            amount -= holds
    return total if amount <= 0 else math.inf


class LossBounds:
    """The bounds for the one gang of `s`, whose free vectors count every victim as gone; `free`: what is free while
    none of them is."""

    def __init__(self, s: Sets, free: FreeVectors, victims: Sequence[Victim]) -> None:
        self.s, self.gang_class = s, s.gang_classes[0]
        pods = evictable_pods(s.problem, victims)
        self.domain_nodes: Mapping[int, tuple[int, ...]] = {
            h: tuple(n for i in at for n in s.buckets[i].nodes) for h, at in s.buckets_in[0].items()
        }
        self.surplus_nodes = {
            p.node for v in victims for p in v.running if v.max_surplus and v.surplus_per_role[p.role]
        }
        """Nodes with pods that may go while their gang stays: before others that are as cheap."""
        nodes = sorted(n for inside in self.domain_nodes.values() for n in inside)
        there = np.concatenate([free.amounts, free.slots.sum(axis=2).reshape(len(free.amounts), -1)], axis=1)
        self.role_steps: list[dict[int, list[float]]] = [
            {
                n: loss_steps(
                    extended_vector(
                        s.problem,
                        role.request,
                        ((p.slot_group, p.number, p.share) for p in role.pod_request.slot_requests),
                    ),
                    tuple(there[n].tolist()),
                    pods.get(n, []),
                    min(role.max_pods, UNLIMITED),
                )
                for n in nodes
                if s.problem.nodes[n].node_class in role.node_classes
            }
            for role in self.gang_class.roles
        ]

    def choose_nodes(self, size: int) -> NodeChoice:
        """The cheapest domains, and of each the cheapest nodes, until there are `size` nodes; all of the first domain's
        that are needed."""
        chosen: set[int] = set()
        beyond = math.inf
        for least, h in sorted((self._domain_bound(h), h) for h in self.domain_nodes):
            if math.isinf(least):
                break
            if len(chosen) >= size:
                beyond = min(beyond, least)
                continue
            ranked = sorted(
                (cost, n not in self.surplus_nodes, n)
                for n, cost in self._node_bounds(h).items()
                if not math.isinf(cost)
            )
            room = max(1, size - len(chosen))
            chosen |= {n for _, _, n in ranked[:room]}
            beyond = min([beyond, *(cost for cost, _, _ in ranked[room:])])
        return NodeChoice(frozenset(chosen), beyond)

    def _sorted_steps(self, t: int, h: int) -> list[float]:
        return sorted(step for n in self.domain_nodes[h] for step in self.role_steps[t].get(n, ()))

    def _domain_bound(self, h: int) -> float:
        """No placement inside h loses less."""
        return max(
            (
                self._cheapest_sum(self._sorted_steps(t, h), role.min_pods)
                for t, role in enumerate(self.gang_class.roles)
            ),
            default=0.0,
        )

    @staticmethod
    def _cheapest_sum(ranked: list[float], need: int) -> float:
        return math.inf if len(ranked) < need else sum(ranked[:need])

    def _node_bounds(self, h: int) -> dict[int, float]:
        """Node of h -> no placement inside h that uses it loses less: the domain's own bound, with one pod of some role
        on it."""
        least = self._domain_bound(h)
        found = dict.fromkeys(self.domain_nodes[h], math.inf)
        for t, role in enumerate(self.gang_class.roles):
            ranked = self._sorted_steps(t, h)
            others = self._cheapest_sum(ranked, max(0, role.min_pods - 1))
            for n in self.domain_nodes[h]:
                for step in self.role_steps[t].get(n, ())[:1]:
                    found[n] = min(found[n], max(least, others + step))
        return found

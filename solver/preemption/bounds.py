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
from solver.semantics.device_slots import PLENTY, Free
from solver.semantics.eviction_rights import Victim, loss


@dataclass(frozen=True, slots=True)
class Choice:
    """nodes: where the model may place. beyond: no placement that touches another node loses less than this."""

    nodes: frozenset[int]
    beyond: float


Pods = list[tuple[int, Vector, int]]
"""(loss, what each gives back, how many) of the pods on a node that may go: of the node's resources, then of each
division's."""


def pods_at(problem: Problem, victims: Sequence[Victim]) -> dict[int, Pods]:
    """Node -> the pods there that may be evicted. Of several pods that share what they hold of cells, the first are
    said to hold all of it."""
    found: dict[int, Pods] = {}
    for v in victims:
        gang = problem.gangs[v.gang]
        for p in v.running:
            request, here = gang.roles[p.role].request, found.setdefault(p.node, [])
            held = [h for h in v.holds if (h.role, h.node) == (p.role, p.node)]
            if not held:
                here.append((loss(gang), wide(problem, request, ()), p.pods))
            for k in range(p.pods) if held else ():
                here.append(
                    (loss(gang), wide(problem, request, ((h.division, 1, h.share) for h in held if h.pods > k)), 1)
                )
    return found


def wide(problem: Problem, request: Vector, parts: Iterable[tuple[int, int, Vector]]) -> Vector:
    """The request, and behind it in sum what is asked, or held, of the cells of each division. parts: (division, cells,
    share of each)."""
    width = len(problem.resources)
    sums = [0] * (len(problem.divisions) * width)
    for division, number, share in parts:
        for r, amount in enumerate(share):
            sums[division * width + r] += number * amount
    return (*request, *sums)


def steps(request: Vector, free: Vector, pods: Pods, most: int) -> list[float]:
    """c(1) - c(0), c(2) - c(1), ... for one node, as long as k <= most pods can be held."""
    curves = []
    for r, a in enumerate(request):
        if a:
            segments = sorted((cost / take[r], take[r], number) for cost, take, number in pods if take[r])
            curves.append((a, free[r], segments))
    found: list[float] = []
    last = 0.0
    for k in range(1, most + 1):
        now = max((_filled(segments, k * a - left) for a, left, segments in curves), default=0.0)
        if math.isinf(now):
            break
        found.append(now - last)
        last = now
    return found


def _filled(segments: list[tuple[float, int, int]], amount: int) -> float:
    """F(amount): the cheapest pods first, the last one in part."""
    total = 0.0
    for density, holds, number in segments:
        for _ in range(number):
            if amount <= 0:
                return total
            total += density * min(amount, holds)
            amount -= holds
    return total if amount <= 0 else math.inf


class Cheapest:
    """The bounds for the one gang of `s`, whose free vectors count every victim as gone; `free`: what is free while
    none of them is."""

    def __init__(self, s: Sets, free: Free, victims: Sequence[Victim]) -> None:
        self.s, self.shape = s, s.shapes[0]
        pods = pods_at(s.problem, victims)
        self.domains: Mapping[int, tuple[int, ...]] = {
            h: tuple(n for i in at for n in s.places[i].nodes) for h, at in s.places_in[0].items()
        }
        self.elastic = {p.node for v in victims for p in v.running if v.spare and v.surplus[p.role]}
        """Nodes with pods that may go while their gang stays: before others that are as cheap."""
        nodes = sorted(n for inside in self.domains.values() for n in inside)
        there = np.concatenate([free.amounts, free.cells.sum(axis=2).reshape(len(free.amounts), -1)], axis=1)
        self.steps: list[dict[int, list[float]]] = [
            {
                n: steps(
                    wide(s.problem, role.request, ((p.division, p.number, p.share) for p in role.ask.portions)),
                    tuple(there[n].tolist()),
                    pods.get(n, []),
                    min(role.room, PLENTY),
                )
                for n in nodes
                if s.problem.nodes[n].kind in role.kinds
            }
            for role in self.shape.roles
        ]

    def choose(self, size: int) -> Choice:
        """The cheapest domains, and of each the cheapest nodes, until there are `size` nodes; all of the first domain's
        that are needed."""
        chosen: set[int] = set()
        beyond = math.inf
        for least, h in sorted((self._least(h), h) for h in self.domains):
            if math.isinf(least):
                break
            if len(chosen) >= size:
                beyond = min(beyond, least)
                continue
            ranked = sorted(
                (cost, n not in self.elastic, n) for n, cost in self._through(h).items() if not math.isinf(cost)
            )
            room = max(1, size - len(chosen))
            chosen |= {n for _, _, n in ranked[:room]}
            beyond = min([beyond, *(cost for cost, _, _ in ranked[room:])])
        return Choice(frozenset(chosen), beyond)

    def _sorted(self, t: int, h: int) -> list[float]:
        return sorted(step for n in self.domains[h] for step in self.steps[t].get(n, ()))

    def _least(self, h: int) -> float:
        """No placement inside h loses less."""
        return max(
            (self._cheapest(self._sorted(t, h), role.need) for t, role in enumerate(self.shape.roles)), default=0.0
        )

    @staticmethod
    def _cheapest(ranked: list[float], need: int) -> float:
        return math.inf if len(ranked) < need else sum(ranked[:need])

    def _through(self, h: int) -> dict[int, float]:
        """Node of h -> no placement inside h that uses it loses less: the domain's own bound, with one pod of some role
        on it."""
        least = self._least(h)
        found = dict.fromkeys(self.domains[h], math.inf)
        for t, role in enumerate(self.shape.roles):
            ranked = self._sorted(t, h)
            others = self._cheapest(ranked, max(0, role.need - 1))
            for n in self.domains[h]:
                for step in self.steps[t].get(n, ())[:1]:
                    found[n] = min(found[n], max(least, others + step))
        return found

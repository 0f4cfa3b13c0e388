"""The goals of the admission model, each maximised and then held while the next one is. Letters as in model.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulp

from solver.mip.lexicographic import Goal
from solver.mip.rows import Row, Terms, add_rows, at_most, equal, scale_terms
from solver.models.sets import AdmissionClass, PrecedenceLevel, Sets
from solver.models.variables import Variables
from solver.problem import Vector
from solver.semantics.order import SiblingQueues

Counts = Mapping[AdmissionClass, pulp.LpVariable]
"""Admission class -> the variable with its gangs: y, or e for those within their queue's entitlement."""


def placed_resources(s: Sets, counts: Counts, level: PrecedenceLevel, name: str = "placed") -> Goal:
    """Return resources of the level's gangs that count, in dominant units: max sum_{q,k} units_k * y[q,p,k]"""
    terms: Terms = [(counts[key], s.dominant_units[key[2]]) for key in s.classes_of_level(level)]
    return Goal(f"{name}[{s.level_label(level)}]", terms, sum(y.upBound * units for y, units in terms), 1)


def started_gangs(s: Sets, counts: Counts, level: PrecedenceLevel, name: str = "gangs") -> Goal:
    """Return gangs of the level that count: max sum_{q,k} y[q,p,k]"""
    terms: Terms = [(counts[key], 1) for key in s.classes_of_level(level)]
    return Goal(f"{name}[{s.level_label(level)}]", terms, sum(y.upBound for y, _ in terms), 1)


def oldest_first(s: Sets, x: Variables) -> Goal:
    """Return the fixed tie-break: the gangs that have waited longest, as a sum of ranks.

    max  sum_j rank_j * z_j        sum_{j in class} z_j = y[class],  0 <= z_j <= 1

    rank: 1 for the last in `age_order_key`. Within a class ranks fall with age, so that z is integral where y is and
    the oldest of a class go first.
    """
    gangs = sorted((j for js in s.waiting_gangs.values() for j in js), key=s.age_order_key, reverse=True)
    rank = {j: i + 1 for i, j in enumerate(gangs)}
    terms: Terms = []
    for key, js in sorted(s.waiting_gangs.items()):
        z: Terms = [(x.model.add_variable(f"z_{j}", 0, 1), 1.0) for j in js]
        add_rows(x.model, [Row("oldest", key, equal([*z, (x.y[key], -1.0)], 0))])
        terms += [(v, rank[j]) for (v, _), j in zip(z, js, strict=True)]
    return Goal("oldest first", terms, sum(rank.values()), 1)


@dataclass(frozen=True, slots=True)
class ShareGoal:
    """A queue's share as a goal. by_resource: in each resource that may dominate, as (terms, constant). choices: the
    binaries d that choose among several."""

    goal: Goal
    by_resource: list[tuple[Terms, float]]
    choices: list[pulp.LpVariable]

    def own_values(self, values: Mapping[str, float]) -> dict[str, float]:
        """Return the values of the share's own variables in a known solution."""
        if not self.choices:
            return {}
        shares = [constant + sum(values.get(v.name, 0.0) * c for v, c in terms) for terms, constant in self.by_resource]
        best = shares.index(max(shares))
        chosen = {d.name: float(i == best) for i, d in enumerate(self.choices)}
        return {self.goal.terms[0][0].name: shares[best], **chosen}


@dataclass(frozen=True, slots=True)
class ComparedQueues:
    """Queues of one group whose shares are compared. counts: the admission classes that count. label: the objectives'
    name. tag: in the names of variables."""

    group: SiblingQueues
    queues: tuple[int, ...]
    counts: Counts
    label: str
    tag: str


def share_goals(s: Sets, x: Variables, compared: ComparedQueues) -> tuple[dict[int, ShareGoal], float]:
    """(q -> the share of each compared queue, the unit in which shares are counted).

    share_q  =  base_q + max_r ( held_q[r] + sum_{classes of q} demand_k[r] * y[class] ) / per_q[r] / weight_q

    base, per, weight: the queue's `ShareMeasure`. Where several resources may dominate, a binary d[q,r] chooses one:

    share_q <= (..)_r + (1 - d[q,r]) * M        sum_r d[q,r] = 1

    The unit is the smallest rise that one gang can make, so that a MIP solver's tolerances cannot hide it.
    """
    shares = {q: _share_terms(s, q, compared) for q in compared.queues}
    every = (terms for by_resource in shares.values() for terms, _ in by_resource)
    unit = min((c for terms in every for _, c in terms), default=1.0)
    found = {}
    for q, by_resource in shares.items():
        scaled = [([(y, c / unit) for y, c in terms], constant / unit) for terms, constant in by_resource]
        found[q] = _share_goal(x, f"{compared.tag}_{q}", scaled)
    return found, unit


def _share_goal(x: Variables, tag: str, by_resource: list[tuple[Terms, float]]) -> ShareGoal:
    """Return the largest of these as a goal, with a variable and rows of its own where there are several."""
    most = max((constant + sum(c * y.upBound for y, c in terms) for terms, constant in by_resource), default=0.0)
    if len(by_resource) == 1:
        terms, constant = by_resource[0]
        return ShareGoal(Goal(f"share {tag}", terms, most, 0, constant), by_resource, [])
    share = x.model.add_variable(f"share_{tag}", 0, most)
    choices = [x.model.add_variable(f"d_{tag}_{r}", cat=pulp.LpBinary) for r in range(len(by_resource))]
    for r, ((terms, constant), d) in enumerate(zip(by_resource, choices, strict=True)):
        row = at_most([(share, 1.0), *scale_terms(terms, -1), (d, most)], constant + most)
        add_rows(x.model, [Row(f"share.dominant.{tag}", (r,), row)])
    add_rows(x.model, [Row(f"share.one.{tag}", (), equal([(d, 1.0) for d in choices], 1))])
    return ShareGoal(Goal(f"share {tag}", [(share, 1.0)], most, 0), by_resource, choices)


def _share_terms(s: Sets, q: int, compared: ComparedQueues) -> list[tuple[Terms, float]]:
    """For each resource that may dominate the share of queue q, with what counts inside it: (terms, constant)."""
    measure = s.queue_books.queue_rules.share_measures[q]

    def fractions(amounts: Vector) -> list[float]:
        return [a / per if per else 0.0 for a, per in zip(amounts, measure.denominators, strict=True)]

    inside = [
        (y, fractions(s.min_demands[k])) for (of, _, k), y in compared.counts.items() if of in compared.group.members[q]
    ]
    held = fractions(s.queue_books.held[q])
    found = []
    for r in _dominant_candidates([held, *(part for _, part in inside)]):
        terms = [(y, part[r] / measure.weight) for y, part in inside if part[r]]
        found.append((terms, measure.base + held[r] / measure.weight))
    return found


def _dominant_candidates(parts: list[list[float]]) -> list[int]:
    """Return the resources that may be dominant: no other is at least as large in every part."""
    width = len(parts[0])

    def covers(b: int, r: int) -> bool:
        return all(part[b] >= part[r] for part in parts) and (b < r or any(part[b] > part[r] for part in parts))

    return [r for r in range(width) if not any(covers(b, r) for b in range(width) if b != r)]

"""The goals of the admission model, each maximised and then held while the next one is. Letters as in docs/model.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulp

from solver.mip.lexicographic import Goal
from solver.mip.rows import Terms, at_most, equal, scale_terms
from solver.models.sets import PrecedenceLevel, Sets
from solver.models.variables import Variables
from solver.semantics.queue_limits import SiblingQueues


def placed_resources(s: Sets, x: Variables, level: PrecedenceLevel) -> Goal:
    """Resources of priority p, in queues of one priority, that start, in units of the dominant resource.

    max  sum_{q,k} worth_k * y[q,p,k]
    """
    here = [key for key in s.waiting_gangs if s.precedence_level(*key[:2]) == level]
    most = sum(s.dominant_units[key[2]] * len(s.waiting_gangs[key]) for key in here)
    return Goal(f"placed[{s.level_label(level)}]", [(x.y[key], s.dominant_units[key[2]]) for key in here], most, 1)


def started_gangs(s: Sets, x: Variables, level: PrecedenceLevel) -> Goal:
    """Gangs of priority p, in queues of one priority, that start.

    max  sum_{q,k} y[q,p,k]
    """
    here = [key for key in s.waiting_gangs if s.precedence_level(*key[:2]) == level]
    return Goal(
        f"gangs[{s.level_label(level)}]",
        [(x.y[key], 1) for key in here],
        sum(len(s.waiting_gangs[key]) for key in here),
        1,
    )


def oldest_first(s: Sets, x: Variables) -> Goal:
    """The fixed tie-break: among plans that are equal so far, the one whose gangs have waited longest, as a sum of
    ranks.

    max  sum_j rank_j * z_j        sum_{j in class} z_j = y[class],  0 <= z_j <= 1        rank: 1 for the youngest of
    the batch

    With drf a gang that holds more already is younger than one that holds less.

    Within a class the ranks fall with age, so z is integral where y is, and the oldest of a class go first.
    """
    gangs = sorted((j for js in s.waiting_gangs.values() for j in js), key=s.age_order_key, reverse=True)
    rank = {j: i + 1 for i, j in enumerate(gangs)}
    terms: Terms = []
    for number, (key, js) in enumerate(sorted(s.waiting_gangs.items())):
        z = [x.model.add_variable(f"z_{j}", 0, 1) for j in js]
        x.model.addConstraint(equal([*((v, 1.0) for v in z), (x.y[key], -1.0)], 0), f"oldest_{number:06d}")
        terms += [(v, rank[j]) for v, j in zip(z, js, strict=True)]
    return Goal("oldest first", terms, sum(rank.values()), 1)


@dataclass(frozen=True, slots=True)
class ShareGoal:
    """A queue's share as a goal. lines: the terms and offset per resource that may dominate; picks: the binaries that
    choose among them."""

    goal: Goal
    resource_terms: list[tuple[Terms, float]]
    resource_choices: list[pulp.LpVariable]

    def own_values(self, values: Mapping[str, float]) -> dict[str, float]:
        """The values of the share's own variables for a known solution: the largest line, and its pick."""
        if not self.resource_choices:
            return {}
        at = [h + sum(values.get(v.name, 0.0) * c for v, c in terms) for terms, h in self.resource_terms]
        best = at.index(max(at))
        return {self.goal.terms[0][0].name: at[best]} | {
            d.name: float(i == best) for i, d in enumerate(self.resource_choices)
        }


def share_goals(
    s: Sets, x: Variables, level: PrecedenceLevel, group: SiblingQueues
) -> tuple[dict[int, ShareGoal], float]:
    """(q -> the share of each of these queues that has gangs of this level, the unit that the shares are counted in).

        share_q  =  ( base_q + max_r ( held_q[r] + sum_{classes of q at this level or above} demand_k[r] * y[class] ) / (per_q[r] * weight_q) ) / unit

    per: the cluster's total, or what the queue deserves; see `quotas.yardsticks`. What the queue holds and its gangs of
    this and higher levels count, with capacity's hierarchy those of the queues below it too. Where several resources
    may dominate, a binary d[q,r] picks one: share_q <= (..)_r + (1 - d[q,r]) * M, sum_r d[q,r] = 1. The unit is the
    smallest rise that one gang can make, so that a MIP solver's tolerances cannot hide it.
    """
    tag = f"{level[0] + 2**32}" if s.is_only_level(level) else f"{level[0] + 2**32}_{level[1]}"
    lines = {q: _share_terms(s, x, q, group.members[q], level) for q in s.competing_queues(level, group)}
    unit = min((c for at in lines.values() for terms, _ in at for _, c in terms), default=1.0)
    found: dict[int, ShareGoal] = {}
    for q in lines:
        mine = [([(y, c / unit) for y, c in terms], held / unit) for terms, held in lines[q]]
        top = max((held + sum(c * y.upBound for y, c in terms) for terms, held in mine), default=0.0)
        if len(mine) == 1:
            found[q] = ShareGoal(Goal(f"share {q}", mine[0][0], top, 0, mine[0][1]), mine, [])
            continue
        share = x.model.add_variable(f"share_{tag}_{q}", 0, top)
        picks = [x.model.add_variable(f"d_{tag}_{q}_{r}", cat=pulp.LpBinary) for r in range(len(mine))]
        rows = [
            at_most([(share, 1.0), *scale_terms(terms, -1), (d, top)], h + top)
            for (terms, h), d in zip(mine, picks, strict=True)
        ]
        rows.append(equal([(d, 1.0) for d in picks], 1))
        for number, row in enumerate(rows):
            x.model.addConstraint(row, f"share_{tag}_{q}_{number}")
        found[q] = ShareGoal(Goal(f"share {q}", [(share, 1.0)], top, 0), mine, picks)
    return found, unit


def _share_terms(
    s: Sets, x: Variables, q: int, inside: frozenset[int], level: PrecedenceLevel
) -> list[tuple[Terms, float]]:
    """For each resource that may be the dominant one of queue q: its share as (terms, what is held already). inside:
    whose gangs are its own."""
    measure = s.queue_books.queue_rules.share_measures[q]
    mine = [(key, y) for key, y in x.y.items() if key[0] in inside and s.precedence_level(*key[:2]) >= level]
    held = [h / t if t else 0.0 for h, t in zip(s.queue_books.held[q], measure.denominators, strict=True)]
    parts = [
        [d / t if t else 0.0 for d, t in zip(s.min_demands[key[2]], measure.denominators, strict=True)]
        for key, _ in mine
    ]
    return [
        (
            [(y, part[r] / measure.weight) for (_, y), part in zip(mine, parts, strict=True) if part[r]],
            measure.base + held[r] / measure.weight,
        )
        for r in _dominant_candidates(held, parts)
    ]


def _dominant_candidates(held: list[float], parts: list[list[float]]) -> list[int]:
    """Resources that may be the dominant one: no other is at least as large in every part."""
    rows = [held, *parts]
    width = len(held)

    def covers(b: int, r: int) -> bool:
        return all(row[b] >= row[r] for row in rows) and (b < r or any(row[b] > row[r] for row in rows))

    return [r for r in range(width) if not any(covers(b, r) for b in range(width) if b != r)]

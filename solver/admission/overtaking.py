"""Overtaking: a gang waits although it could have used the room of gangs of lower precedence in its own queue.

Shares and entitlements count resources, so that two small gangs may be worth more to them than a large one ahead of
them. A plan in which a gang is overtaken is cut off, and the goals are solved again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pulp

from solver.mip.engine import solve_model
from solver.mip.rows import Terms, at_least, at_most
from solver.models import constraints, variables
from solver.models.sets import AdmissionClass, Sets
from solver.models.variables import Variables
from solver.options import Options


@dataclass(frozen=True, slots=True)
class OvertakingCut:
    """More than `started` gangs of the class start, or those of lower precedence in its queue take no more than
    `lower_units`: what fits next to one more, and less than they took when they overtook it. Or all others take more
    than the `other_units` that they had then: next to more of them there may be no room for one more."""

    key: AdmissionClass
    started: int
    lower_units: int
    other_units: int


def find_overtaking(
    s: Sets, x: Variables, values: Mapping[str, float], cuts: Sequence[OvertakingCut], options: Options
) -> tuple[OvertakingCut, dict[str, float]] | None:
    """(a cut that the solution breaks, a solution that keeps it); None where no gang is overtaken. The first in the
    order of precedence. Limits count as "not overtaken"."""
    started = {key: round(values[y.name]) for key, y in x.y.items()}
    starting = {key: n for key, n in started.items() if n}
    for key in sorted(started, key=lambda key: (-key[1], key)):
        lower = {of: n for of, n in starting.items() if _yields_to(of, key)}
        if lower and started[key] < len(s.waiting_gangs[key]) and _may_fit(s, started, key, lower):
            found = _solution_with_one_more(s, started, key, cuts, options)
            if found is not None:
                taken = sum(s.dominant_units[of[2]] * n for of, n in lower.items())
                rest = sum(s.dominant_units[of[2]] * round(found[x.y[of].name]) for of in lower)
                others = sum(s.dominant_units[of[2]] * starting.get(of, 0) for of in x.y if _is_other(of, key))
                return OvertakingCut(key, started[key], min(rest, taken - 1), others), found
    return None


def _may_fit(
    s: Sets, started: Mapping[AdmissionClass, int], key: AdmissionClass, lower: Mapping[AdmissionClass, int]
) -> bool:
    """Return whether one more gang of the class fits by number without the lower ones."""
    left = s.free.amounts.sum(axis=0).tolist()
    for of, n in started.items():
        if of not in lower:
            left = [have - n * amount for have, amount in zip(left, s.min_demands[of[2]], strict=True)]
    return all(amount <= have for amount, have in zip(s.min_demands[key[2]], left, strict=True) if amount)


def _solution_with_one_more(
    s: Sets, started: Mapping[AdmissionClass, int], key: AdmissionClass, cuts: Sequence[OvertakingCut], options: Options
) -> dict[str, float] | None:
    """Return values with one more gang of the class, most of the gangs of lower precedence, and all others unchanged;
    None where there are none."""
    x = variables.build_variables(s)
    constraints.add_constraints(s, x)
    add_cuts(s, x, cuts)
    for of, y in x.y.items():
        low, high = started[of], started[of]
        if of == key:
            low, high = low + 1, high + 1
        elif _yields_to(of, key):
            low = 0
        y.lowBound, y.upBound = low, high
    x.model.sense = pulp.LpMaximize
    x.model.setObjective(pulp.LpAffineExpression(_lower_terms(s, x, key)))
    answer = solve_model(x.model, options)
    choice = {f"first_{len(cuts)}": 1.0, f"others_{len(cuts)}": 0.0}
    return {**answer.values, **choice} if answer.values else None


def _lower_terms(s: Sets, x: Variables, key: AdmissionClass) -> Terms:
    """Return the dominant units of the gangs of lower precedence in the class's queue."""
    return [(y, s.dominant_units[of[2]]) for of, y in x.y.items() if _yields_to(of, key)]


def _yields_to(lower: AdmissionClass, key: AdmissionClass) -> bool:
    """Return whether it is a class of lower precedence in the same queue."""
    return lower[0] == key[0] and lower[1] < key[1]


def _is_other(of: AdmissionClass, key: AdmissionClass) -> bool:
    """Return whether it is neither the class nor one that yields to it."""
    return of != key and not _yields_to(of, key)


def add_cuts(s: Sets, x: Variables, cuts: Iterable[OvertakingCut]) -> None:
    """Add each cut with its choices b and c:

    y[key]  >=  (started + 1) b
    sum_{all others} units_k y  >=  (other_units + 1) c
    sum_{lower precedence in its queue} units_k y  <=  lower_units + (most - lower_units) (b + c)
    """
    for index, cut in enumerate(cuts):
        terms = _lower_terms(s, x, cut.key)
        most = sum(y.upBound * c for y, c in terms)
        b = x.model.add_variable(f"first_{index}", cat=pulp.LpBinary)
        c = x.model.add_variable(f"others_{index}", cat=pulp.LpBinary)
        others = [(y, s.dominant_units[of[2]]) for of, y in x.y.items() if _is_other(of, cut.key)]
        x.model.addConstraint(at_least([(x.y[cut.key], 1), (b, -cut.started - 1)], 0), f"first_{index}_starts")
        x.model.addConstraint(at_least([*others, (c, -cut.other_units - 1)], 0), f"others_{index}_take")
        row = at_most([*terms, (b, cut.lower_units - most), (c, cut.lower_units - most)], cut.lower_units)
        x.model.addConstraint(row, f"first_{index}_lower")

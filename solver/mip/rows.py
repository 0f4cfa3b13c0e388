"""Rows of a model: constraints named by family and key, and the few ways to write one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pulp

Term = tuple[pulp.LpVariable, float]
Terms = list[Term]
"""A linear expression: (variable, coefficient); variables may repeat."""

MAX_FLOOR_SIZES = 12
"""Sizes of one resource up to which each gets a row of floors; with more (bytes of memory) plain sums must do."""


@dataclass(frozen=True, slots=True)
class Row:
    """A constraint, its family and its index in it. No two rows of a model have the same family and key."""

    family: str
    key: tuple[int, ...]
    constraint: pulp.LpConstraint

    @property
    def name(self) -> str:
        return f"{self.family}[{','.join(map(str, self.key))}]"


def add_rows(model: pulp.LpProblem, rows: Iterable[Row]) -> None:
    """Add the rows to the model under their names."""
    for row in rows:
        model.addConstraint(row.constraint, row.name)


def at_most(terms: Iterable[Term], most: float) -> pulp.LpConstraint:
    return pulp.LpConstraint(linear(terms), pulp.LpConstraintLE, rhs=most)


def at_least(terms: Iterable[Term], least: float) -> pulp.LpConstraint:
    return pulp.LpConstraint(linear(terms), pulp.LpConstraintGE, rhs=least)


def equal(terms: Iterable[Term], value: float) -> pulp.LpConstraint:
    return pulp.LpConstraint(linear(terms), pulp.LpConstraintEQ, rhs=value)


def normalized_at_most(terms: Terms, most: int) -> pulp.LpConstraint:
    """`at_most` divided by the coefficients' common divisor, rounded down: bytes become a handful of units."""
    unit = math.gcd(*(int(c) for _, c in terms))
    return at_most([(v, int(c) // unit) for v, c in terms], most // unit)


def linear(terms: Iterable[Term]) -> pulp.LpAffineExpression:
    """Return the expression with repeated variables added up; PuLP's own constructor would keep the last of them."""
    total: dict[pulp.LpVariable, float] = {}
    for v, c in terms:
        total[v] = total.get(v, 0) + c
    return pulp.LpAffineExpression(total)


def scale_terms(terms: Iterable[Term], factor: float) -> Terms:
    return [(v, c * factor) for v, c in terms]


def value_of(terms: Iterable[Term], values: Mapping[str, float]) -> float:
    """Return the expression's value in a solution by variable name."""
    return sum(values[v.name] * c for v, c in terms)

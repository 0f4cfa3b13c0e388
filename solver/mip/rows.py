"""Rows: a constraint with the name of its family, and the few ways to write one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pulp


@dataclass(frozen=True, slots=True)
class Row:
    """A constraint, its family and its index; never parsed out of a name."""

    family: str
    key: tuple[int, ...]
    constraint: pulp.LpConstraint


def at_most(terms: Iterable[tuple[pulp.LpVariable, float]], most: float) -> pulp.LpConstraint:
    return pulp.LpConstraint(linear(terms), pulp.LpConstraintLE, rhs=most)


def at_least(terms: Iterable[tuple[pulp.LpVariable, float]], least: float) -> pulp.LpConstraint:
    return pulp.LpConstraint(linear(terms), pulp.LpConstraintGE, rhs=least)


def equal(terms: Iterable[tuple[pulp.LpVariable, float]], value: float) -> pulp.LpConstraint:
    return pulp.LpConstraint(linear(terms), pulp.LpConstraintEQ, rhs=value)


def linear(terms: Iterable[tuple[pulp.LpVariable, float]]) -> pulp.LpAffineExpression:
    """Adds up repeated variables, which PuLP's own constructor would let the last one win."""
    total: dict[pulp.LpVariable, float] = {}
    for v, c in terms:
        total[v] = total.get(v, 0) + c
    return pulp.LpAffineExpression(total)


def scale_terms(terms: Iterable[tuple[pulp.LpVariable, float]], factor: float) -> list[tuple[pulp.LpVariable, float]]:
    return [(v, c * factor) for v, c in terms]


def normalized_at_most(terms: Sequence[tuple[pulp.LpVariable, float]], most: int) -> pulp.LpConstraint:
    """The same row divided by its coefficients' common divisor, rounded down: bytes become a handful of units."""
    unit = int(np.gcd.reduce([int(c) for _, c in terms]))
    return at_most([(v, int(c) // unit) for v, c in terms], most // unit)

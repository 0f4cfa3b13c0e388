"""Gangs with something changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from solver.problem import Gang, GangTimes, Problem


def anonymous_gang(gang: Gang) -> Gang:
    """The gang without what its facts do not depend on, so that gangs of one class are equal."""
    return replace(
        gang,
        name="",
        queue=0,
        priority=0,
        age=0,
        times=GangTimes(),
        role_affinities=(),
        former=(),
    )


def gang_kinds(problem: Problem) -> Sequence[int]:
    """Gang -> a number, the same for gangs that differ in nothing but what `anonymous_gang` leaves out."""

    def make() -> Sequence[int]:
        numbers = dict[Gang, int]()
        return [numbers.setdefault(anonymous_gang(gang), len(numbers)) for gang in problem.gangs]

    return problem.memoize("kinds", make)


def with_role(gang: Gang, t: int, **changes: Any) -> Gang:
    """The gang with role t changed."""
    return replace(gang, roles=tuple(replace(r, **changes) if k == t else r for k, r in enumerate(gang.roles)))


def with_subgroup(gang: Gang, i: int, **changes: Any) -> Gang:
    """The gang with its subgroup i changed."""
    parts = tuple(replace(part, **changes) if k == i else part for k, part in enumerate(gang.subgroups))
    return replace(gang, subgroups=parts)


def has_pod_rules(gang: Gang) -> bool:
    """Whether its pods own pod rules, or are selected by some."""
    return any(role.owned_rules or role.selecting_rules for role in gang.roles)

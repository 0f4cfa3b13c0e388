"""How many pods of which roles make a gang: minima, replicas, and complete subgroups.

Roles that share a subgroup form a block, which grows in units; a role without subgroups grows pod by pod. A total is
reachable when it is a sum of units, each block between its minimum and its replicas.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from solver.problem import Gang, Problem, Subgroup
from solver.semantics.placements import add_vectors

Minima = tuple[int, tuple[int, ...]]
"""The pods that a gang needs over all roles, and of each role."""


def with_minima(problem: Problem, minima: Mapping[int, Minima]) -> Problem:
    """Return the problem in which these gangs need so many pods."""
    gangs = list(problem.gangs)
    for j, (total, of_roles) in minima.items():
        roles = (replace(role, minimum=n) for role, n in zip(gangs[j].roles, of_roles, strict=True))
        gangs[j] = replace(gangs[j], minimum=total, roles=tuple(roles))
    return replace(problem, gangs=tuple(gangs))


@dataclass(frozen=True, slots=True)
class RoleBlock:
    """Roles that grow together: min_pods, and up to max_extra_units units of `unit` pods."""

    roles: tuple[int, ...]
    unit: int
    min_pods: int
    max_extra_units: int


def required_pods(gang: Gang, have: Sequence[int]) -> tuple[tuple[int, ...], int]:
    """(pods per role, pods in total) that the gang needs to start: its minima, complete subgroups, the smallest
    reachable total. have: running pods per role.

    An unreachable total (7 pods in subgroups of 4, at most 7 replicas) stays as requested: no placement reaches it.
    """
    need = [max(r.minimum, h) for r, h in zip(gang.roles, have, strict=True)]
    for s in gang.subgroups:
        if len(s.roles) == 1:
            (t,) = s.roles
            need[t] = s.size * max(s.minimum, -(-need[t] // s.size))
    made = role_blocks(need, [r.replicas for r in gang.roles], gang.subgroups)
    base = sum(b.min_pods for b in made)
    missing = max(0, gang.minimum - base)
    widest = max((b.unit for b in made), default=1)
    extra = next((x for x in range(missing, missing + widest) if _reachable_extras(made, x) >> x & 1), missing)
    return tuple(need), base + extra


def hard_subgroup_tiers(subgroups: Iterable[Subgroup], t: int) -> set[int]:
    """Return the tiers of the hard subgroups that cover role t."""
    topologies = (s.topology for s in subgroups if t in s.roles)
    return {topology.tier for topology in topologies if topology.is_hard}


def least_demand(gang: Gang, r: int) -> int:
    """Return the least of resource r that the gang's minima ask for."""
    return least_amount(gang.minimum, [(role.request[r], role.minimum, role.replicas) for role in gang.roles])


def least_amount(pods: int, roles: Iterable[tuple[int, int, int]]) -> int:
    """Return the least that so many pods ask for of one resource. roles: (request, at least, at most) of each role.
    Pods beyond the most of all roles are not counted."""
    cheapest_first = sorted(roles)
    total, missing = 0, pods - sum(least for _, least, _ in cheapest_first)
    for request, least, most in cheapest_first:
        more = max(0, min(missing, most - least))
        total, missing = total + (least + more) * request, missing - more
    return total


def most_amount(pods: int, roles: Iterable[tuple[int, int, int]]) -> int:
    """As `least_amount`, the most."""
    return -least_amount(pods, [(-request, least, most) for request, least, most in roles])


def role_blocks(need: Sequence[int], most: Sequence[int], subgroups: Iterable[Subgroup]) -> list[RoleBlock]:
    """Return the blocks of a gang in the order of their first roles. need, most: pods per role, at least and at
    most."""
    parts = tuple(subgroups)
    if not parts:
        return [RoleBlock((t,), 1, least, max(0, most[t] - least)) for t, least in enumerate(need)]
    home = list(range(len(need)))
    for s in parts:
        first = min(home[t] for t in s.roles)
        joined = {home[t] for t in s.roles}
        home = [first if h in joined else h for h in home]
    found = []
    for h in sorted(set(home)):
        roles = tuple(t for t, at in enumerate(home) if at == h)
        inside = [s for s in parts if home[s.roles[0]] == h]
        unit = math.lcm(*(s.size for s in inside))
        least = max([sum(need[t] for t in roles), *(s.minimum * s.size for s in inside)])
        base = unit * -(-least // unit)
        found.append(RoleBlock(roles, unit, base, max(0, (sum(most[t] for t in roles) - base) // unit)))
    return found


def role_mix(
    need: Sequence[int], most: Sequence[int], have: Sequence[int], subgroups: Iterable[Subgroup], total: int
) -> list[int]:
    """Return new pods per role that sum to `total`, the first blocks taking most; the needs alone if `total` is
    unreachable.

    need, most: new pods per role, at least and at most. have: running pods per role.
    """
    made = role_blocks(add_vectors(need, have), add_vectors(most, have), subgroups)
    missing = total - sum(b.min_pods for b in made) + sum(have)
    want = list(need)
    if missing < 0 or not _reachable_extras(made, missing) >> missing & 1:
        return want
    for number, block in enumerate(made):
        rest = _reachable_extras(made[number + 1 :], missing)
        units = min(block.max_extra_units, missing // block.unit)
        while not rest >> (missing - units * block.unit) & 1:
            units -= 1
        missing -= units * block.unit
        pods = block.min_pods + units * block.unit - sum(have[t] + want[t] for t in block.roles)
        for t in block.roles:
            some = min(pods, most[t] - want[t])
            want[t] += some
            pods -= some
    return want


def _reachable_extras(made: Sequence[RoleBlock], most: int) -> int:
    """Return the reachable sums of extra pods up to `most`, as the bits of a number."""
    bits, mask = 1, (1 << (most + 1)) - 1
    for block in made:
        left, step = block.max_extra_units, 1
        while left and step * block.unit <= most:
            some = min(step, left)
            bits |= bits << (some * block.unit) & mask
            left, step = left - some, step * 2
    return bits & mask

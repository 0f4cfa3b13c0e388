"""What the gang's owner may change: each kind of change as steps, the smallest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import isqrt, lcm

import numpy as np

from solver.diagnosis.trial import Bench, Step, Steps, Trial
from solver.plan import Repair
from solver.problem import Gang, Topology, Vector
from solver.semantics.gang_sizes import required

KINDS = 4
"""Kinds of nodes that are tried for a role."""


def tiers(bench: Bench, t: Trial) -> list[Step]:
    """GR102: a higher tier for the whole gang. GR107, beyond the highest: a wish instead of a limit."""
    topology = t.setting.gang.topology
    tree = bench.case.world.tree
    if topology is None or topology.mode != "hard" or topology.tier > tree.top:
        return []
    higher = [
        partial(_tier, None, Topology("hard", tier), Repair("GR102", tier=tier))
        for tier in tree.tiers
        if tier > topology.tier
    ]
    return [*higher, partial(_tier, None, Topology("soft", topology.tier), Repair("GR107"))]


def part_tiers(bench: Bench, i: int, t: Trial) -> list[Step]:
    """GR102, GR107: the same for its subgroups of kind i; no higher tier where its owner cannot choose one."""
    topology, tiered = t.setting.gang.subgroups[i].topology, t.setting.gang.subgroups[i].tiered
    tree = bench.case.world.tree
    if topology.mode != "hard" or topology.tier > tree.top:
        return []
    higher = [
        partial(_tier, i, Topology("hard", tier), Repair("GR102", subgroup=i, tier=tier))
        for tier in tree.tiers
        if tier > topology.tier and tiered
    ]
    return [*higher, partial(_tier, i, Topology("soft", topology.tier), Repair("GR107", subgroup=i))]


def _tier(i: int | None, topology: Topology, repair: Repair, t: Trial) -> Trial:
    gang = t.setting.gang
    if i is None:
        return _with(t, replace(gang, topology=topology), repair)
    parts = tuple(replace(part, topology=topology) if k == i else part for k, part in enumerate(gang.subgroups))
    return _with(t, replace(gang, subgroups=parts), repair)


def sizes(i: int, t: Trial) -> list[Step]:
    """GR106: subgroups of kind i in halves, quarters ...: each size divides the one before it, so that whole parts stay
    whole."""
    found: list[Step] = []
    smaller = t.setting.gang.subgroups[i].size
    while smaller > 1:
        smaller //= next((f for f in range(2, isqrt(smaller) + 1) if smaller % f == 0), smaller)
        found.append(partial(_size, i, smaller))
    return found


def _size(i: int, size: int, t: Trial) -> Trial:
    gang = t.setting.gang
    was = gang.subgroups[i]
    smaller = replace(was, size=size, minimum=was.minimum * (was.size // size))
    parts = tuple(smaller if k == i else part for k, part in enumerate(gang.subgroups))
    return _with(t, replace(gang, subgroups=parts), Repair("GR106", subgroup=i, amount=size, now=was.size))


def fewer(role: int, t: Trial) -> Sequence[Step]:
    """GR105: fewer pods of a role, whole subgroups; of an elastic role a smaller minimum. Not where other roles share
    the subgroup."""
    gang = t.setting.gang
    need = required(gang, (0,) * len(gang.roles))[0][role]
    parts = [part for part in gang.subgroups if role in part.roles]
    if gang.running or any(len(part.roles) > 1 for part in parts):
        return []
    unit = lcm(*(part.size for part in parts))
    return Steps(range((need - 1) // unit * unit, 0, -unit), partial(partial, _fewer, role))


def _fewer(role: int, pods: int, t: Trial) -> Trial:
    gang = t.setting.gang
    was = gang.roles[role]
    rigid = was.minimum >= was.replicas
    now = was.replicas if rigid else required(gang, (0,) * len(gang.roles))[0][role]
    less = replace(was, minimum=min(was.minimum, pods), replicas=pods if rigid else was.replicas)
    roles = tuple(less if k == role else other for k, other in enumerate(gang.roles))
    parts = tuple(replace(p, minimum=min(p.minimum, pods // p.size)) if role in p.roles else p for p in gang.subgroups)
    minimum = max(sum(r.minimum for r in roles), gang.minimum - (now - pods))
    return _with(
        t,
        replace(gang, roles=roles, subgroups=parts, minimum=minimum),
        Repair("GR105", role=role, amount=pods, now=now),
    )


def fewer_in_all(t: Trial) -> Sequence[Step]:
    """GR105 without a role: a smaller minimum of a gang that leaves open which roles meet it."""
    gang = t.setting.gang
    need, least = required(gang, (0,) * len(gang.roles))
    return (
        []
        if gang.running
        else Steps(range(min(least, gang.minimum) - 1, max(sum(need), 1) - 1, -1), partial(partial, _fewer_in_all))
    )


def _fewer_in_all(pods: int, t: Trial) -> Trial:
    gang = t.setting.gang
    return _with(t, replace(gang, minimum=pods), Repair("GR105", amount=pods, now=gang.minimum))


def openings(bench: Bench, role: int, t: Trial) -> list[list[Step]]:
    """GR112: a role may use one more kind of node as well; one list for each kind, since none includes another. None
    where kinds say more than what its owner can change."""
    if bench.case.world.guarded:
        return []
    here = t.setting.gang.roles[role].kinds
    first: dict[int, int] = {}
    for n, node in enumerate(bench.case.world.problem.nodes):
        if node.kind not in here:
            first.setdefault(node.kind, n)
    return [[partial(_open, role, kind, n)] for kind, n in list(first.items())[:KINDS]]


def _open(role: int, kind: int, node: int, t: Trial) -> Trial:
    gang = t.setting.gang
    roles = tuple(replace(r, kinds=r.kinds | {kind}) if k == role else r for k, r in enumerate(gang.roles))
    return _with(t, replace(gang, roles=roles), Repair("GR112", role=role, nodes=(node,)))


def smaller(bench: Bench, role: int, t: Trial) -> list[Step]:
    """GR115: pods of a role that ask for no more of anything than the largest node that is open to it has, or its
    largest cell, nothing running.

    Not where two resources are too much, nor where the share of one cell is not what the pod asks for by that name, or
    the cells have none of it.
    """
    world, spec = bench.case.world, t.setting.gang.roles[role]
    largest = world.capacity.at(np.isin(world.tree.kinds, sorted(spec.kinds)))
    sizes = largest.amounts.max(axis=0, initial=0).tolist()
    for portion in spec.portions:
        cells = largest.cells[:, portion.division].max(axis=(0, 1), initial=0).tolist()
        sizes = [
            min(most, cell) if share == asked else most
            for most, cell, share, asked in zip(sizes, cells, portion.share, spec.request, strict=True)
        ]
    over = [r for r, a in enumerate(spec.request) if a > sizes[r]]
    if len(over) != 1 or not len(largest.amounts) or (spec.portions and not sizes[over[0]]):
        return []
    return [partial(_smaller, role, over[0], sizes[over[0]])]


def _smaller(role: int, r: int, amount: int, t: Trial) -> Trial:
    gang = t.setting.gang
    was = gang.roles[role]
    portions = tuple(
        replace(p, share=_with_amount(p.share, r, amount)) if p.share[r] == was.request[r] else p for p in was.portions
    )
    less = replace(was, request=_with_amount(was.request, r, amount), portions=portions)
    roles = tuple(less if k == role else other for k, other in enumerate(gang.roles))
    return _with(
        t, replace(gang, roles=roles), Repair("GR115", role=role, resource=r, amount=amount, now=was.request[r])
    )


def _with_amount(vector: Vector, r: int, amount: int) -> Vector:
    return tuple(amount if k == r else a for k, a in enumerate(vector))


def anew(t: Trial) -> list[Step]:
    """GR113: its pods that run stop, and it starts as a whole."""
    return [_anew] if t.setting.gang.running else []


def _anew(t: Trial) -> Trial:
    return _with(t, replace(t.setting.gang, running=()), Repair("GR113"))


def _with(t: Trial, gang: Gang, repair: Repair) -> Trial:
    return replace(t, setting=replace(t.setting, gang=gang), changes=(*t.changes, repair))


def every(bench: Bench, t: Trial) -> list[Sequence[Step]]:
    """All kinds of change that keep its pods, each as steps."""
    gang = t.setting.gang
    parts = range(len(gang.subgroups))
    found: list[Sequence[Step]] = [anew(t), tiers(bench, t), *(part_tiers(bench, i, t) for i in parts)]
    hard = [i for i in parts if gang.subgroups[i].topology.mode == "hard"]
    return [steps for steps in [*found, *(sizes(i, t) for i in hard)] if steps]

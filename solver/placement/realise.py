"""Counts per place -> pods on nodes, place by place through stage C."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial

import numpy as np

from solver.models.sets import Sets
from solver.options import Options
from solver.placement.bounds import min_opened_on
from solver.placement.pack import pack_bucket, pack_exactly
from solver.problem import Placement, Vector
from solver.semantics.placement_cost import PlacementCost, UnopenedCapacity, topology_cost
from solver.semantics.placements import Placements, merge_placements, new_placements
from solver.state.free_nodes import FreeNodes

BucketPods = Mapping[int, Mapping[tuple[int, int], int]]
"""Place -> (gang, role) -> pods."""


def pack_buckets(
    s: Sets, gangs: Iterable[int], wanted_pods: BucketPods, options: Options
) -> Placements | tuple[int, ...]:
    """Pack every place; the indices of those that cannot be packed if there are any."""
    room = s.free_nodes()
    found: dict[int, list[Placement]] = {j: list(s.problem.gangs[j].running) for j in gangs}
    coarse = []
    for i, here in sorted(wanted_pods.items()):
        packed = pack_bucket(s.problem, room, s.buckets[i], here, options)
        if packed is None:
            coarse.append(i)
            continue
        for j, pods in packed.items():
            found[j].extend(pods)
    coarse += [] if coarse else _straddling_buckets(s, room, wanted_pods)
    return tuple(coarse) if coarse else {j: merge_placements(pods) for j, pods in sorted(found.items())}


def _straddling_buckets(s: Sets, room: FreeNodes, wanted_pods: BucketPods) -> list[int]:
    """Where the packed pods break a relation, the places that straddle its domains, over which the model was too
    coarse: of a relation that keeps pods apart those that got pods of it, else all."""
    if room.rule_counts is None or not (broken := sorted({rho for rho, _ in room.rule_counts.violations()})):
        return []
    found: set[int] = set()
    for rho in broken:
        straddling = [
            i for i, d in enumerate(s.bucket_domains(room.rule_counts.existing_pods.partitions[rho])) if d is None
        ]
        if s.problem.pod_rules[rho].rule_kind == "anti-affinity":
            straddling = [i for i in straddling if rho in _rules_of(s, wanted_pods.get(i, ()))]
        found.update(straddling)
    if not found:
        raise RuntimeError(f"pods break the relations {broken}, which the model said they keep")
    return sorted(found)


def _rules_of(s: Sets, gang_roles: Iterable[tuple[int, int]]) -> set[int]:
    """The relations of these pods."""
    roles = [s.problem.gangs[j].roles[t] for j, t in gang_roles]
    return {rho for role in roles for rho in (*role.owned_rules, *role.selecting_rules)}


def placement_cost(s: Sets, placements: Placements, unopened: UnopenedCapacity) -> PlacementCost:
    """What these placements cost; whole nodes are worth nothing where pods are to be scattered."""
    near = [topology_cost(s.tree, s.problem.gangs[j], pods) for j, pods in placements.items()]
    supernodes, nodes = unopened.opened_counts(
        {j: new_placements(s.problem.gangs[j], pods) for j, pods in placements.items()}
    )
    return PlacementCost(
        sum(torn for torn, _ in near),
        sum(span for _, span in near),
        supernodes,
        0 if s.problem.policy.spread_pods else nodes,
    )


def repack_tighter(s: Sets, placements: Placements, unopened: UnopenedCapacity, options: Options) -> Placements:
    """The same counts per place, packed again where the pods of a place open more whole nodes than their number says
    they must."""
    wishes: dict[int, dict[tuple[int, int], int]] = {}
    for j, pods in placements.items():
        for p in new_placements(s.problem.gangs[j], pods):
            here = wishes.setdefault(int(s.bucket_of[p.node]), {})
            here[j, p.role] = here.get((j, p.role), 0) + p.pods
    opened = Counter(
        int(s.bucket_of[n])
        for n in unopened.opened_nodes({j: new_placements(s.problem.gangs[j], pods) for j, pods in placements.items()})
    )
    again: dict[int, list[Placement]] = {}
    changed: set[int] = set()
    for i, nodes in sorted(opened.items()):
        asked: dict[Vector, int] = {}
        for (j, t), number in wishes[i].items():
            request = s.problem.gangs[j].roles[t].request
            asked[request] = asked.get(request, 0) + number
        least = min_opened_on(s, unopened, np.array(s.buckets[i].nodes, dtype=np.intp), asked)[1]
        packed = (
            _pack_tighter(s, i, wishes[i], nodes, least, unopened, options)
            if nodes > least and _may_move(s, i, wishes[i])
            else None
        )
        if packed is not None:
            changed.add(i)
            for j, places in packed.items():
                again.setdefault(j, []).extend(places)
    if not changed:
        return placements
    stays = {
        j: [
            *s.problem.gangs[j].running,
            *(p for p in new_placements(s.problem.gangs[j], pods) if int(s.bucket_of[p.node]) not in changed),
        ]
        for j, pods in placements.items()
    }
    return {j: merge_placements([*pods, *again.get(j, [])]) for j, pods in stays.items()}


def _may_move(s: Sets, i: int, gang_roles: Iterable[tuple[int, int]]) -> bool:
    """Whether no relation cares on which of the place's nodes these pods are."""
    there = s.rule_counts
    return there is None or all(
        s.bucket_domains(there.existing_pods.partitions[rho])[i] is not None for rho in _rules_of(s, gang_roles)
    )


def _pack_tighter(
    s: Sets,
    i: int,
    wanted_pods: Mapping[tuple[int, int], int],
    nodes: int,
    least: int,
    unopened: UnopenedCapacity,
    options: Options,
) -> dict[int, list[Placement]] | None:
    """The pods of place i on fewer whole nodes than `nodes`: largest first, and where that is above `least` and the
    place is small, exactly."""
    best = None
    for way in (
        (pack_bucket, partial(pack_exactly, wholes=unopened))
        if len(wanted_pods) * len(s.buckets[i].nodes) <= options.budget.repack_pairs
        else (pack_bucket,)
    ):
        found = way(s.problem, FreeNodes(s.free), s.buckets[i], wanted_pods, options)
        opened = nodes if found is None else len(unopened.opened_nodes(found))
        best, nodes = (found, opened) if opened < nodes else (best, nodes)
        if nodes <= least:
            break
    return best

"""Pods per bucket -> pods on nodes: every bucket is packed, and packed again where that opens fewer nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial

import numpy as np

from solver.models.sets import Sets
from solver.options import Options
from solver.placement.bounds import min_opened_on
from solver.placement.pack import GangRole, PackedPods, pack_bucket, pack_exactly, rules_of
from solver.placement.task import PlacementTask
from solver.problem import Placement, Vector
from solver.semantics.placements import Placements, merge_placements
from solver.state.free_nodes import FreeNodes

BucketPods = Mapping[int, Mapping[GangRole, int]]
"""Bucket -> (gang, role) -> pods."""


def pack_buckets(
    s: Sets, gangs: Iterable[int], wanted_pods: BucketPods, options: Options
) -> Placements | tuple[int, ...]:
    """Return all pods of the gangs, every bucket packed; else the buckets that cannot be packed."""
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
    """Where the packed pods violate a pod rule, the buckets that straddle its domains, for which the model was too
    coarse: those with pods of the rule where it keeps apart, else all."""
    if room.rule_counts is None or not (broken := sorted({rho for rho, _ in room.rule_counts.violations()})):
        return []
    found: set[int] = set()
    for rho in broken:
        has_pods = s.problem.pod_rules[rho].only_forbids
        for i, d in enumerate(s.bucket_domains(room.rule_counts.existing_pods.partitions[rho])):
            if d is None and (not has_pods or rho in _rules_of(s, wanted_pods.get(i, ()))):
                found.add(i)
    if not found:
        raise RuntimeError(f"pods violate the rules {broken}, which the model said they keep")
    return sorted(found)


def _rules_of(s: Sets, gang_roles: Iterable[GangRole]) -> set[int]:
    """Return the pod rules that these pods own or that select them."""
    roles = [s.problem.gangs[j].roles[t] for j, t in gang_roles]
    return {rho for role in roles for rho in rules_of(role)}


def repack_tighter(task: PlacementTask, placements: Placements) -> Placements:
    """Return the same pods per bucket, packed again where they open more nodes than their number requires."""
    s, new_pods, wanted = task.s, task.new_pods(placements), dict[int, Counter[GangRole]]()
    for j, pods in new_pods.items():
        for p in pods:
            wanted.setdefault(int(s.bucket_of[p.node]), Counter())[j, p.role] += p.pods
    opened = Counter(int(s.bucket_of[n]) for n in task.unopened.opened_nodes(new_pods))
    packed: dict[int, PackedPods] = {}
    for i, nodes in sorted(opened.items()):
        if (tighter := _pack_tighter(task, i, wanted[i], nodes)) is not None:
            packed[i] = tighter
    if not packed:
        return placements
    found = {j: list(s.problem.gangs[j].running) for j in placements}
    for j, pods in new_pods.items():
        found[j] += [p for p in pods if int(s.bucket_of[p.node]) not in packed]
    for by_gang in packed.values():
        for j, packed_pods in by_gang.items():
            found[j] += packed_pods
    return {j: merge_placements(pods) for j, pods in found.items()}


def _pack_tighter(task: PlacementTask, i: int, wanted_pods: Mapping[GangRole, int], nodes: int) -> PackedPods | None:
    """Return the pods of bucket i on fewer opened nodes than `nodes`: largest first, and where that is above the bound
    and the bucket is small, by a model. None where there is no better solution."""
    s, bucket, gangs = task.s, task.s.buckets[i], task.s.problem.gangs
    requests = Counter[Vector]()
    for (j, t), number in wanted_pods.items():
        requests[gangs[j].roles[t].request] += number
    least = min_opened_on(s, task.unopened, np.array(bucket.nodes, dtype=np.intp), requests)[1]
    if nodes <= least or not _may_move(s, i, wanted_pods):
        return None
    ways: list[Callable[..., PackedPods | None]] = [pack_bucket]
    if len(wanted_pods) * len(bucket.nodes) <= task.options.budget.repack_pairs:
        ways.append(partial(pack_exactly, unopened=task.unopened))
    best = None
    for way in ways:
        found = way(s.problem, FreeNodes(s.free), bucket, wanted_pods, task.options)
        if found is not None and (opened := len(task.unopened.opened_nodes(found))) < nodes:
            best, nodes = found, opened
        if nodes <= least:
            break
    return best


def _may_move(s: Sets, i: int, gang_roles: Iterable[GangRole]) -> bool:
    """Return whether the pod rules of these pods treat all nodes of the bucket alike."""
    if s.rule_counts is None:
        return True
    partitions = s.rule_counts.existing_pods.partitions
    return all(s.bucket_domains(partitions[rho])[i] is not None for rho in _rules_of(s, gang_roles))

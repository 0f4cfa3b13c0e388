"""Pods of one bucket onto its nodes. Largest first is exact where pod sizes divide one another; else a small model
decides.

Every bucket is packed, and packed again where that opens fewer nodes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial

import numpy as np
import pulp

from solver.mip.engine import solve_model
from solver.mip.rows import Terms, add_rows, at_least, at_most
from solver.models.device_slots import by_slot_group, slot_capacity_rows, slot_variables
from solver.models.sets import Bucket, Sets
from solver.options import Options
from solver.placement.bounds import min_opened_on
from solver.placement.task import PlacementTask
from solver.problem import Placement, PodRequest, Problem, Role, SlotRequest, Vector
from solver.semantics.device_slots import UNLIMITED
from solver.semantics.placement_cost import UnopenedCapacity
from solver.semantics.placements import Placements, merge_placements
from solver.state.free_nodes import FreeNodes

GangRole = tuple[int, int]
"""(gang, role)."""

PackedPods = dict[int, list[Placement]]
"""Gang -> its pods on nodes."""


def pack_bucket(
    problem: Problem, free: FreeNodes, bucket: Bucket, wanted_pods: Mapping[GangRole, int], options: Options
) -> PackedPods | None:
    """Return the pods on the bucket's nodes, taken from the free nodes. None, and nothing taken, when they provably do
    not fit, when the deciding model is too large, or when pods under rules that straddle the bucket found no nodes one
    by one: the bucket is too coarse."""
    mark, found, nodes = free.mark(), dict[int, list[Placement]](), np.array(bucket.nodes, dtype=np.intp)
    roles = {of: problem.gangs[of[0]].roles[of[1]] for of in wanted_pods}
    straddling = straddling_rules(free, nodes)
    under_rules = [of for of in sorted(wanted_pods) if straddling.intersection(rules_of(roles[of]))]
    for of in under_rules:
        placed = _place_one_by_one(free, nodes, roles[of], wanted_pods[of], straddling)
        if not placed:
            free.undo(mark)
            return None
        found.setdefault(of[0], []).extend(Placement(of[1], node, 1) for node in placed)
    others = wanted_pods.keys() - set(under_rules)
    for of in sorted(others, key=lambda of: (pod_size(free, nodes, roles[of].pod_request), of), reverse=True):
        left = wanted_pods[of]
        fits = free.fit_counts(roles[of].pod_request)[nodes]
        for at in np.argsort(fits, kind="stable"):
            pods = min(int(fits[at]), left)
            if pods:
                free.add_pods(int(nodes[at]), roles[of], pods)
                found.setdefault(of[0], []).append(Placement(of[1], int(nodes[at]), pods))
                left -= pods
            if not left:
                break
        if left:
            free.undo(mark)
            requests = {role.pod_request for role in roles.values()}
            pairs = len(requests) * len(nodes) * max(1, free.vectors.slots.shape[2])
            is_too_large = bool(under_rules) or pairs > options.budget.pack_pairs
            return None if is_too_large else pack_exactly(problem, free, bucket, wanted_pods, options)
    return found


def rules_of(role: Role) -> tuple[int, ...]:
    """Return the pod rules that pods of the role own or that select them."""
    return *role.owned_rules, *role.selecting_rules


def straddling_rules(free: FreeNodes, nodes: np.ndarray) -> frozenset[int]:
    """Return the pod rules of which these nodes are in several domains: a model that counts the nodes together knows
    too little of them."""
    if (counts := free.rule_counts) is None:
        return frozenset()
    partitions = counts.existing_pods.partitions
    return frozenset(rho for rho in counts.enforced_rules if len(np.unique(partitions[rho][nodes])) > 1)


def _place_one_by_one(
    free: FreeNodes, nodes: np.ndarray, role: Role, pods: int, straddling: frozenset[int]
) -> list[int]:
    """Return the node of each pod, the fullest that these rules allow; empty where a pod finds none. Placed pods
    stay."""
    found: list[int] = []
    for _ in range(pods):
        allowed = free.rule_counts is None or free.rule_counts.allowed_nodes(role, straddling)
        fits = np.where(allowed, free.fit_counts(role.pod_request), 0)[nodes]
        if not fits.any():
            return []
        node = int(nodes[int(np.argmin(np.where(fits > 0, fits, UNLIMITED + 1)))])
        free.add_pods(node, role, 1)
        found.append(node)
    return found


def pod_size(free: FreeNodes, nodes: np.ndarray, request: PodRequest) -> float:
    """Return the largest part that one pod takes of what these nodes have free of a resource."""
    total = free.vectors.amounts[nodes].sum(axis=0)
    return max((a / int(f) for a, f in zip(request.amounts, total, strict=True) if f), default=0.0)


def pack_exactly(
    problem: Problem,
    free: FreeNodes,
    bucket: Bucket,
    wanted_pods: Mapping[GangRole, int],
    options: Options,
    unopened: UnopenedCapacity | None = None,
) -> PackedPods | None:
    """As `pack_bucket`, by a model in which pods of equal requests are one variable per node. With `unopened` as few
    nodes are opened as can be.

    min sum_v w[v]    sum_v n[a,v] >= wanted_a          sum_a a_r * n[a,v] <= free[v,r], or free[v,r] * w[v] where v is
                      unopened and counts by r          and `slot_capacity_rows` for the device slots of v
    """
    requests = {of: problem.gangs[of[0]].roles[of[1]].pod_request for of in wanted_pods}
    wanted = Counter[PodRequest]()
    for of, pods in wanted_pods.items():
        wanted[requests[of]] += pods
    model = pulp.LpProblem("pack", pulp.LpMinimize)
    n: dict[tuple[PodRequest, int], pulp.LpVariable] = {}
    for a, request in enumerate(sorted(wanted)):
        for v in bucket.nodes:
            most = min(wanted[request], int(free.fit_counts(request)[v]))
            n[request, v] = model.add_variable(f"n_{a}_{v}", 0, most, cat=pulp.LpInteger)
        model.addConstraint(at_least([(n[request, v], 1) for v in bucket.nodes], wanted[request]), f"wanted_{a}")
    opened = [] if unopened is None else [v for v in bucket.nodes if unopened.unopened_nodes[v]]
    w = {v: model.add_variable(f"w_{v}", 0, 1, cat=pulp.LpInteger) for v in opened}
    for v in bucket.nodes:
        users = [(request, n[request, v]) for request in sorted(wanted)]
        for r, amount in enumerate(free.vectors.amounts[v].tolist()):
            taken: Terms = [(x, request.amounts[r]) for request, x in users if request.amounts[r]]
            unit = math.gcd(*(int(a) for _, a in taken))
            if taken and v in w and unopened is not None and unopened.counted_resources[v, r]:
                taken, amount = [*taken, (w[v], -(amount // unit) * unit)], 0
            if taken:
                model.addConstraint(at_most([(x, a // unit) for x, a in taken], amount // unit), f"free_{v}_{r}")
        _add_slot_rows(model, free, v, users)
    model.setObjective(pulp.lpSum(w.values()))
    answer = solve_model(model, options)
    if not answer.values:
        return None
    left = {key: round(answer.values[variable.name]) for key, variable in n.items()}
    mark, found = free.mark(), _deal_pods(wanted_pods, requests, bucket.nodes, left)
    try:
        for j, placed in found.items():
            free.add_gang_pods(problem.gangs[j], placed)
    except ValueError:
        if not any(request.slot_requests for request in wanted):
            raise
        free.undo(mark)  # the search for device slots gave up
        return None
    return found


def _deal_pods(
    wanted_pods: Mapping[GangRole, int],
    requests: Mapping[GangRole, PodRequest],
    nodes: Iterable[int],
    left: dict[tuple[PodRequest, int], int],
) -> PackedPods:
    """Return the placed pods of each request and node, assigned to the gangs in order."""
    found: PackedPods = {}
    for (j, t), pods in sorted(wanted_pods.items()):
        for v in nodes:
            if some := min(pods, left[requests[j, t], v]):
                left[requests[j, t], v] -= some
                pods -= some
                found.setdefault(j, []).append(Placement(t, v, some))
    return found


def _add_slot_rows(
    model: pulp.LpProblem, free: FreeNodes, v: int, users: Iterable[tuple[PodRequest, pulp.LpVariable]]
) -> None:
    pods: dict[SlotRequest, Terms] = {}
    for ask, n in users:
        for request in ask.slot_requests:
            pods.setdefault(request, []).append((n, 1.0))
    for group, own in by_slot_group(pods):
        slots = free.vectors.slots[v, group]
        m = slot_variables(model, f"m_{v}", slots, [(a, sum(n.upBound for n, _ in terms)) for a, terms in own.items()])
        add_rows(model, slot_capacity_rows(slots, {a: (terms, 0) for a, terms in own.items()}, m, (v, group)))


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

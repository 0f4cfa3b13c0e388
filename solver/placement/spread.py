"""Stage B: domains and nodes of the admitted gangs, at the least placement cost (`solver.semantics.placement_cost`).

Where pods are to be spread, a last step moves new pods to the least loaded nodes of each bucket.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from solver.admission.admit import Admission
from solver.mip.lexicographic import verdict_of
from solver.models.sets import Sets, coarsest_buckets
from solver.options import Options
from solver.placement.improve import improve_placements
from solver.placement.keep import count_moves, kept_placements, place_beside_kept
from solver.placement.pack import GangRole, pack_buckets, pod_size
from solver.placement.task import PlacementTask
from solver.plan import Objective
from solver.problem import Placement, Problem
from solver.semantics.gang_classes import GangClass
from solver.semantics.placement_cost import COST_NAMES, MOVES, PlacementCost
from solver.semantics.placements import Placements, merge_placements, new_placements
from solver.semantics.topology import ROOT
from solver.state.free_nodes import FreeNodes
from solver.state.state import State


@dataclass(frozen=True, slots=True)
class PlacementResult:
    """placements: gang -> all its pods, running ones included; void where there are unpackable buckets."""

    placements: Placements
    objectives: tuple[Objective, ...]
    unpackable_buckets: tuple[int, ...] = ()


def place_admitted(s: Sets, admission: Admission, floor: Placements, options: Options) -> PlacementResult:
    """Placements of the admitted gangs: the greedy's where it places all, else the floor's, else the admission's; then
    improved. Before that, gangs keep the places of a plan in force where the greedy can place the others next to them.

    floor: what the greedy started gang by gang, in another order than here.
    """
    if not admission.admitted:
        return PlacementResult({}, ())
    task = PlacementTask(s, classes_with_role_mix(s, admission, floor), options)
    if (kept := kept_placements(task)) and (found := place_beside_kept(task, kept)) is not None:
        return PlacementResult(found[0], _placement_objectives(task, *found))
    if floor.keys() == set(admission.admitted) and options.clock.is_over():
        return PlacementResult(floor, _placement_objectives(task, floor, PlacementCost()))
    placements: Placements | None = task.place_greedily(s.state_after({}), task.gang_classes)
    # under pod rules the floor's other gangs may have made its placements valid
    alone = s.rule_counts is None or len(floor) == len(admission.admitted)
    if placements is None and alone and floor.keys() >= set(admission.admitted):
        placements = {j: floor[j] for j in admission.admitted}
    if placements is None:
        packed = pack_buckets(s, admission.admitted, gang_pods_by_bucket(s, admission), options)
        if isinstance(packed, tuple):
            return PlacementResult({}, (), packed)
        placements = packed
    placements, least = improve_placements(task, placements)
    return PlacementResult(placements, _placement_objectives(task, placements, least))


def _placement_objectives(task: PlacementTask, placements: Placements, least: PlacementCost) -> tuple[Objective, ...]:
    """Return the objectives that can differ between placements: moves where a plan is in force, subgroups where there
    are any, separations where a gang wishes some, openings where something is unopened, node groups where a queue
    prefers some."""
    value, gap, gangs = task.cost(placements), task.options.gap, task.s.problem.gangs
    found = list[Objective]()
    if any(gangs[j].former for j in task.gang_classes):
        found.append(verdict_of(MOVES, *count_moves(task, placements), gap, maximise=False))
    tiers, unopened = task.s.tree.tiers, task.unopened
    topologies = [s.topology for gang_class in task.gang_classes.values() for s in gang_class.subgroups]
    may_differ = (
        bool(tiers) and any(topology.mode == "soft" or topology.tier > tiers[0] for topology in topologies),
        True,
        bool(task.min_separation_costs),
        bool(unopened.unopened_supernodes),
        bool(unopened.unopened_nodes.any()) and not task.s.problem.policy.spread_pods,
        bool(task.min_node_group_costs),
    )
    entries = zip(COST_NAMES, value.values, least.values, may_differ, strict=True)
    found += [verdict_of(name, cost, bound, gap, maximise=False) for name, cost, bound, differs in entries if differs]
    return tuple(found)


def classes_with_role_mix(s: Sets, admission: Admission, floor: Placements) -> dict[int, GangClass]:
    """Return gang -> its class, with the mix of roles that the admission chose and charged to the queue."""
    found, class_of = {}, {j: k for (_, _, k), js in s.waiting_gangs.items() for j in js}
    for j in admission.admitted:
        gang_class, k = s.gang_classes[class_of[j]], class_of[j]
        if not gang_class.is_rigid:
            roles = range(len(gang_class.roles))
            pods = [sum(admission.pods.get((k, t, i), 0) for i in range(len(s.buckets))) for t in roles]
            if not any(pods) and j in floor:
                new = new_placements(s.problem.gangs[j], floor[j])
                pods = [sum(p.pods for p in new if p.role == t) for t in roles]
            gang_class = gang_class.with_fixed_mix(pods)
        found[j] = gang_class
    return found


def gang_pods_by_bucket(s: Sets, admission: Admission) -> dict[int, Counter[tuple[int, int]]]:
    """Return bucket -> (gang, role) -> pods: the counts of the admission dealt out to the gangs that they count.

    Dealing in order keeps subgroups whole: every domain's count is a multiple of their size, and so is every gang's.
    """
    wanted: dict[int, Counter[tuple[int, int]]] = {}
    admitted, by_class = set(admission.admitted), dict[int, list[int]]()
    for (_, _, k), js in sorted(s.waiting_gangs.items()):
        by_class.setdefault(k, []).extend(j for j in js if j in admitted)
    for k, gang_class in enumerate(s.gang_classes):
        gangs = by_class.get(k, [])
        for h, buckets in s.buckets_in[k].items() if gangs else ():
            roles = range(len(gang_class.roles))
            counts = [{i: admission.pods.get((k, t, i), 0) for i in buckets} for t in roles]
            here = gangs
            if h != ROOT:
                pods = sum(sum(count.values()) for count in counts)
                number = pods // gang_class.min_pods if gang_class.min_pods else 0
                here, gangs = gangs[:number], gangs[number:]
            for t, role in enumerate(gang_class.roles):
                each = role.min_pods if gang_class.is_rigid else sum(counts[t].values())
                takers = itertools.chain.from_iterable(itertools.repeat((j, t), each) for j in here)
                for i, pods in counts[t].items():
                    for of in itertools.islice(takers, pods):
                        wanted.setdefault(i, Counter())[of] += 1
    return wanted


def spread_pods_evenly(state: State, placements: Placements) -> dict[int, tuple[Placement, ...]]:
    """Spread the same new pods evenly over each bucket's nodes. A bucket where a pod finds no node stays as it is, and
    so do pods under pod rules. state: next to these placements; its free amounts change with them."""
    problem, free = state.problem, state.free_nodes
    found = {j: list(problem.gangs[j].running) for j in placements}
    buckets = coarsest_buckets(state.tree)
    bucket_of = {n: i for i, bucket in enumerate(buckets) for n in bucket.nodes}
    here: dict[int, list[tuple[int, Placement]]] = {}
    for j, pods in placements.items():
        for p in new_placements(problem.gangs[j], pods):
            role = problem.gangs[j].roles[p.role]
            if role.owned_rules or role.selecting_rules:  # a pod rule concerns its node
                found[j].append(p)
            else:
                here.setdefault(bucket_of[p.node], []).append((j, p))
    for i, packed in sorted(here.items()):
        mark = free.mark()
        wanted = Counter[GangRole]()
        for j, p in packed:
            free.take_pods(p.node, problem.gangs[j].roles[p.role].pod_request, -p.pods)
            wanted[j, p.role] += p.pods
        even = _deal_evenly(problem, free, np.array(buckets[i].nodes, dtype=np.intp), wanted)
        if even is None:
            free.undo(mark)
        for j, p in packed if even is None else even:
            found[j].append(p)
    return {j: merge_placements(pods) for j, pods in found.items()}


def _deal_evenly(
    problem: Problem, free: FreeNodes, nodes: np.ndarray, wanted_pods: Mapping[GangRole, int]
) -> list[tuple[int, Placement]] | None:
    """One pod after another, the largest first, each to the node that has most free for its like; None when one finds
    no node."""
    found = []
    asks = {(j, t): problem.gangs[j].roles[t].pod_request for j, t in wanted_pods}
    for j, t in sorted(wanted_pods, key=lambda w: (-pod_size(free, nodes, asks[w]), w)):
        for _ in range(wanted_pods[j, t]):
            slots = free.fit_counts(asks[j, t])[nodes]
            at = int(slots.argmax())
            if not slots[at]:
                return None
            free.take_pods(int(nodes[at]), asks[j, t], 1)
            found.append((j, Placement(t, int(nodes[at]), 1)))
    return found

"""The last step where pods are to be spread: inside each bucket new pods go to the least loaded nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from solver.models.sets import coarsest_buckets
from solver.placement.pack import GangRole, pod_size
from solver.problem import Placement, Problem
from solver.semantics.placements import Placements, merge_placements, new_placements
from solver.state.free_nodes import FreeNodes
from solver.state.state import State


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

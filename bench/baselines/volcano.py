"""Volcano's order (v1.15: actions/allocate, plugins network-topology-aware and binpack): queue by share, in it job by
job, each into one hypernode.

* Queues: higher priority, then lower share. Jobs of a queue: higher priority, then older. A job that does not fit
  whole is put back and not tried again.
* A job with a topology: tiers from below; of the hypernodes of the tier whose idle resources cover the job, each is
  tried, and among those that hold it the fullest wins (mean over resources of (used + asked) / allocatable, 0 beyond
  1). The first tier with one ends the search. Soft means hard at the highest tier, the whole cluster.
* Pods inside: one after another onto the node with the best binpack score; of a job without topology the fullness of
  the node's hypernodes counts as well, the tier above a tier weighing 0.8 of it.

Left out: ties are broken by index, not at random, which favours Volcano (neighbours in the list are neighbours in the
tree); pods beyond the minimum."""

from __future__ import annotations

import numpy as np

from bench.baselines.site import BaselineCluster, Placements
from solver.problem import Gang, Placement, Problem
from solver.semantics.device_slots import IntArray
from solver.semantics.placements import merge_placements
from solver.semantics.topology import ROOT

TIER_DECAY = 0.8


def place_gangs(problem: Problem) -> Placements:
    site = BaselineCluster(problem)
    for j in site.gangs_in_order(site.queue_order_key):
        if site.allows_gang(j) and (pods := _place_gang(site, j)) is not None:
            site.start_gang(j, pods)
    return site.placements


def _place_gang(site: BaselineCluster, j: int) -> tuple[Placement, ...] | None:
    gang, asked = site.problem.gangs[j], np.array(site.minimum_demand(j))
    if gang.topology is None:
        return place_gang_on_nodes(site, gang, site.nodes_below[ROOT], score_tiers=True)
    limit = gang.topology.tier if gang.topology.mode == "hard" else site.tree.highest_tier + 1
    for tier in range(1, limit + 1):
        found = []
        for h in hypernodes_of_tier(site, tier):
            nodes = site.nodes_below[h]
            mark = site.free_nodes.mark()
            if (site.free_nodes.vectors.amounts[nodes].sum(axis=0) >= asked).all() and (
                pods := place_gang_on_nodes(site, gang, nodes)
            ) is not None:
                site.free_nodes.undo(mark)
                found.append((mean_utilization(site, nodes, asked), -h, pods))
        if found:
            pods = max(found)[2]
            site.free_nodes.add_gang_pods(gang, pods)
            return pods
    return None


def hypernodes_of_tier(site: BaselineCluster, tier: int) -> list[int]:
    """Return the hypernodes of one tier; one tier above the highest is the whole cluster."""
    if tier > site.tree.highest_tier:
        return [ROOT] if tier == site.tree.highest_tier + 1 else []
    return [h for h, x in enumerate(site.problem.hypernodes) if x.tier == tier]


def mean_utilization(site: BaselineCluster, nodes: IntArray, asked: IntArray) -> float:
    """Return how full these nodes are in sum with the request, 0 to 1 over the resources that are asked for; 0 when one
    overflows."""
    whole, free = site.capacity[nodes].sum(axis=0), site.free_nodes.vectors.amounts[nodes].sum(axis=0)
    wanted = [r for r, a in enumerate(asked) if a]
    used = [(whole[r] - free[r] + asked[r]) / whole[r] if whole[r] else 2.0 for r in wanted]
    return sum(used) / len(used) if used and max(used) <= 1 else 0.0


def place_gang_on_nodes(
    site: BaselineCluster, gang: Gang, nodes: IntArray, score_tiers: bool = False
) -> tuple[Placement, ...] | None:
    """Return the gang's pods onto these nodes, taken from the room; None, and nothing taken, when they do not all
    fit."""
    mark, found = site.free_nodes.mark(), []
    for t, role in enumerate(gang.roles):
        slots, request = site.fit_counts(role)[nodes].copy(), np.array(role.request)
        if int(slots.sum()) < role.minimum:
            site.free_nodes.undo(mark)
            return None
        scores = _binpack_scores(site, nodes, request)
        for _ in range(role.minimum):
            total = scores + _tier_scores(site, nodes, request) if score_tiers and site.tree.tiers else scores
            at = int(np.argmax(np.where(slots > 0, total, -1.0)))
            site.free_nodes.take_pods(int(nodes[at]), role.pod_request, 1)
            slots[at] -= 1
            scores[at] = _binpack_scores(site, nodes[at : at + 1], request)[0]
            found.append(Placement(t, int(nodes[at]), 1))
    return merge_placements(found)


def _binpack_scores(site: BaselineCluster, nodes: IntArray, request: IntArray) -> np.ndarray:
    """Sum over the resources asked for of (used + request) / allocatable, divided by their number."""
    wanted = np.flatnonzero(request)
    whole, free = site.capacity[nodes][:, wanted], site.free_nodes.vectors.amounts[nodes][:, wanted]
    scores: np.ndarray = (
        ((whole - free + request[wanted]) / np.maximum(whole, 1)).mean(axis=1) if len(wanted) else np.zeros(len(nodes))
    )
    return scores


def _tier_scores(site: BaselineCluster, nodes: IntArray, request: IntArray) -> np.ndarray:
    """Return the same of the hypernodes around each node, from its leaf upwards, fading."""
    score, weights = np.zeros(len(nodes)), 0.0
    for level, domains in enumerate(site.domains_by_tier):
        whole, free = (np.zeros((len(domains), len(request))) for _ in range(2))
        np.add.at(whole, domains, site.capacity)
        np.add.at(free, domains, site.free_nodes.vectors.amounts)
        wanted = np.flatnonzero(request)
        part = ((whole - free + request)[:, wanted] / np.maximum(whole[:, wanted], 1)).mean(axis=1)
        score += TIER_DECAY**level * part[domains[nodes]]
        weights += TIER_DECAY**level
    return score / weights

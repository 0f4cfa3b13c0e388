"""Volcano's gangpreempt (v1.15: actions/gangpreempt, actions/utils/bundle; design: docs/design/gang-aware-eviction-
design.md): room for one gang.

* Domains: hypernodes from the highest tier that the gang allows downwards, the whole cluster without a hard limit;
  those whose allocatable covers the gang.
* Bundles in a domain, from the gangs that may be evicted: *safe*, a gang's surplus there over its own minimum and its
  roles', before *whole*, all its pods if they all lie in the domain. Of one type the lowest priority first, then the
  youngest, then the most of its resources inside the domain.
* Bundles are taken as long as the gang's request exceeds what is idle and freed there in sum; then the pods are tried
  on the nodes, with one more bundle each time they do not fit. The first domain where they do is the answer. A bundle
  is evicted as a whole.

Left out: the limit on the number of domains (all are tried: this favours Volcano) and what releasing pods will free."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bench.baselines.site import BaselineCluster, Placements
from bench.baselines.volcano import hypernodes_of_tier, place_gang_on_nodes
from solver.problem import Gang, Placement, Problem
from solver.semantics.device_slots import IntArray
from solver.semantics.placements import merge_placements, placed_demand


@dataclass(frozen=True, slots=True)
class Bundle:
    """Pods of one gang that go together. safe: the gang keeps its minimum."""

    gang: int
    pods: tuple[Placement, ...]
    keeps_minimum: bool


@dataclass(frozen=True, slots=True)
class Preemption:
    """placed: the gang's pods. evicted: gang -> the pods that go."""

    placements: tuple[Placement, ...]
    evicted_pods: Placements


def preempt_for_gang(problem: Problem, j: int) -> Preemption | None:
    """Room for gang j by evicting gangs of its queue with lower priority; None where the port finds no way."""
    gang, site = problem.gangs[j], BaselineCluster(problem)
    whole = site.tree.highest_tier + 1
    hard = gang.topology is not None and gang.topology.mode == "hard"
    highest = min(gang.topology.tier, whole) if gang.topology is not None and hard else whole
    for tier in range(highest, 0 if hard else highest - 1, -1):
        for h in hypernodes_of_tier(site, tier):
            mark, nodes = site.free_nodes.mark(), site.nodes_below[h]
            if (site.capacity[nodes].sum(axis=0) >= np.array(site.minimum_demand(j))).all() and (
                found := _preempt_in_domain(site, j, nodes)
            ):
                return found
            site.free_nodes.undo(mark)
    return None


def _preempt_in_domain(site: BaselineCluster, j: int, nodes: IntArray) -> Preemption | None:
    gang, need = site.problem.gangs[j], np.array(site.minimum_demand(j))
    evicted: dict[int, tuple[Placement, ...]] = {}
    bundles = bundles_in_order(site.problem, j, frozenset(nodes.tolist()))
    while True:
        if (need <= site.free_nodes.vectors.amounts[nodes].sum(axis=0)).all():
            mark = site.free_nodes.mark()
            if (placed := place_gang_on_nodes(site, gang, nodes)) is not None:
                return Preemption(placed, evicted)
            site.free_nodes.undo(mark)
        bundle = next(bundles, None)
        if bundle is None:
            return None
        pods = _remaining_bundle_pods(bundle, evicted.get(bundle.gang, ()))
        site.free_nodes.release_running_pods(site.problem.gangs[bundle.gang], pods)
        evicted[bundle.gang] = merge_placements([*evicted.get(bundle.gang, ()), *pods])


def _remaining_bundle_pods(bundle: Bundle, evicted_pods: tuple[Placement, ...]) -> tuple[Placement, ...]:
    """Return the pods that remain for a whole bundle after the safe one of the same gang."""
    return merge_placements([*bundle.pods, *(Placement(p.role, p.node, -p.pods) for p in evicted_pods)])


def bundles_in_order(problem: Problem, j: int, domain: frozenset[int]) -> Iterator[Bundle]:
    """Yield all bundles of the domain in Volcano's order."""
    winner = problem.gangs[j]
    evictable = [v for v, g in enumerate(problem.gangs) if g.running and g.eviction.evictable]
    in_queue = [v for v in evictable if problem.gangs[v].queue == winner.queue]
    victims = [v for v in in_queue if problem.gangs[v].priority < winner.priority]
    found = []
    for v in victims if problem.preempt_enabled and winner.eviction.may_evict else []:
        gang = problem.gangs[v]
        inside = tuple(p for p in gang.running if p.node in domain)
        if surplus := _surplus_pods(gang, inside):
            found.append(Bundle(v, surplus, True))
        if inside and len(inside) == len(gang.running):
            found.append(Bundle(v, gang.running, False))
    yield from sorted(
        found,
        key=lambda b: (
            not b.keeps_minimum,
            problem.gangs[b.gang].priority,
            -problem.gangs[b.gang].age,
            -_share_in_domain(problem, b),
            b.gang,
        ),
    )


def _share_in_domain(problem: Problem, bundle: Bundle) -> float:
    """Return the part of its gang's usage that the bundle frees."""
    gang, width = problem.gangs[bundle.gang], len(problem.resources)
    holds = placed_demand(gang, gang.running, width)
    return max((a / b for a, b in zip(placed_demand(gang, bundle.pods, width), holds, strict=True) if b), default=0.0)


def _surplus_pods(gang: Gang, inside: tuple[Placement, ...]) -> tuple[Placement, ...]:
    """Return the gang's pods in the domain that it can spare, its own minimum and its roles' kept; the last roles and
    nodes first."""
    have = [sum(p.pods for p in gang.running if p.role == t) for t in range(len(gang.roles))]
    spare, found = sum(have) - gang.minimum, []
    for p in reversed(inside):
        pods = min(p.pods, spare, have[p.role] - gang.roles[p.role].minimum)
        if pods > 0:
            found.append(Placement(p.role, p.node, pods))
            spare, have[p.role] = spare - pods, have[p.role] - pods
    return merge_placements(found)

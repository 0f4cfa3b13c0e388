"""Kueue's topology-aware scheduling, algorithm BestFit (v0.13 and later: pkg/cache/scheduler, tas_flavor_snapshot).

* Order: of the queues' first workloads the highest priority, then the queue with the lowest share, then the oldest.
* Pods are counted, not placed: each node has a number of fits, each domain the sum below it.
* Required at a level (hard): the domain of that level that holds all pods with the least to spare, or none. Preferred
  (soft): the same from the lowest level upwards; if not even one domain of the highest level holds them, several do.
  Without a wish: as at the highest level.
* Several domains: the largest first, and for the last pods the smallest domain that holds them. Level by level
  downwards this repeats over all children of the domains chosen so far, down to the nodes.
* Roles one after another into the same domain, which must hold each of them by number; where they do not fit together
  after all, the next best domain (Kueue counts a leader and its workers together, which comes to the same)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bench.baselines.site import BaselineCluster, Placements
from solver.problem import Gang, Placement, Problem
from solver.semantics.topology import ROOT

DomainOrNode = tuple[bool, int]
"""(whether it is a node, index)."""


def place_gangs(problem: Problem) -> Placements:
    site = BaselineCluster(problem)
    gangs = problem.gangs
    for j in site.gangs_in_order(lambda q, j: (-gangs[j].priority, site.books.share_order_key(q), gangs[j].age)):
        if site.allows_gang(j) and (pods := _place_gang(site, gangs[j])) is not None:
            site.start_gang(j, pods)
    return site.placements


def _place_gang(site: BaselineCluster, gang: Gang) -> tuple[Placement, ...] | None:
    for home in _candidate_domains(site, gang):
        mark = site.free_nodes.mark()
        if (pods := _place_in_domains(site, gang, home)) is not None:
            return pods
        site.free_nodes.undo(mark)
    return None


def _place_in_domains(site: BaselineCluster, gang: Gang, domains: list[int]) -> tuple[Placement, ...] | None:
    """Role after role into the domains of a home, taken from the room; None when one does not fit next to those before
    it."""
    found = []
    for t, role in enumerate(gang.roles):
        per_node = site.fit_counts(role)
        counts = site.tree.sum_per_domain(per_node)
        if sum(counts[h] for h in domains) < role.minimum:
            return None
        for node, pods in _pods_per_node(site, domains, counts, per_node, role.minimum):
            site.free_nodes.take_pods(node, role.pod_request, pods)
            found.append(Placement(t, node, pods))
    return tuple(found)


def _candidate_domains(site: BaselineCluster, gang: Gang) -> Iterator[list[int]]:
    """Yield the domains to begin with, best first: one that holds every role by number, the tightest fit; several where
    that is allowed."""
    counts = [site.tree.sum_per_domain(site.fit_counts(role)) for role in gang.roles]
    levels: list[list[int]] = []
    if gang.topology is not None and gang.topology.mode == "hard":
        levels = [list(site.tree.domains_at_tier(gang.topology.tier))]
    elif gang.topology is not None:
        levels = [[h for h, x in enumerate(site.problem.hypernodes) if x.tier == tier] for tier in site.tree.tiers]
    for level in levels:
        fits = [
            h for h in level if all(count[h] >= role.minimum for count, role in zip(counts, gang.roles, strict=True))
        ]
        yield from ([h] for h in sorted(fits, key=lambda h: (sum(count[h] for count in counts), h)))
    if gang.topology is None or gang.topology.mode == "soft":
        yield [ROOT]


def _pods_per_node(
    site: BaselineCluster, domains: list[int], counts: dict[int, int], per_node: np.ndarray, pods: int
) -> list[tuple[int, int]]:
    """(node, pods), from the domains of the home down."""
    chosen: list[tuple[DomainOrNode, int]] = [((False, h), counts[h]) for h in domains]
    while any(not is_node for (is_node, _), _ in chosen):
        below: list[tuple[DomainOrNode, int]] = []
        for (is_node, index), amount in chosen:
            if is_node:
                below.append(((True, index), amount))
                continue
            below += [((False, c), counts[c]) for c in site.tree.children[index]]
            below += [((True, int(n)), int(per_node[n])) for n in site.tree.direct_nodes[index]]
        chosen = _fewest_domains([(item, amount) for item, amount in below if amount], pods)
    found, left = [], pods
    for (_, node), amount in chosen:
        found.append((node, min(left, amount)))
        left -= found[-1][1]
    return [(node, amount) for node, amount in found if amount]


def _fewest_domains(items: list[tuple[DomainOrNode, int]], pods: int) -> list[tuple[DomainOrNode, int]]:
    """Return the largest domains first; once one of the rest holds all remaining pods, the smallest that does."""
    rest, found, left = sorted(items, key=lambda item: (-item[1], item[0])), [], pods
    while left > 0 and rest:
        enough = [item for item in rest if item[1] >= left]
        chosen = min(enough, key=lambda item: (item[1], item[0])) if enough else rest[0]
        rest.remove(chosen)
        found.append(chosen)
        left -= chosen[1]
    return found

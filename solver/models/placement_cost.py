"""The goals of stage B over the variables of the admission model. Letters as in docs/develop/model.md.

Each maximises minus a cost. Each adds variables and rows of its own to the model, and their values to `start`, a known
solution.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

import numpy as np
import pulp

from solver.mip.lexicographic import Goal
from solver.mip.rows import (
    MAX_FLOOR_SIZES,
    Row,
    Terms,
    add_rows,
    at_least,
    at_most,
    normalized_at_most,
    scale_terms,
    value_of,
)
from solver.models.constraints import floor_sizes, pods_of_size
from solver.models.sets import Sets
from solver.models.variables import Variables, pods_by_bucket, subgroup_pods
from solver.problem import Vector
from solver.semantics.placement_cost import SEPARATIONS, HeldDomains, UnopenedCapacity
from solver.semantics.topology import ROOT

StartValues = dict[str, float]
"""Variable name -> value in a known solution."""


def split_subgroups_goal(s: Sets, x: Variables, start: StartValues) -> Goal:
    """Parts of subgroups (of rigid gang classes) split over several domains of a tier, where it does not forbid that.

    min  sum_{k,S,tier} weight_tier * ( parts_{k,S} - sum_d f[k,S,tier,d] )
    size_S * f[k,S,tier,d]  <=  sum_{t in S} sum_{i in d} n[k,t,i] + running
    """
    terms: Terms = []
    offset = 0.0
    for k, gang_class in enumerate(s.gang_classes):
        have = gang_class.running_per_role()
        for index, subgroup in enumerate(gang_class.subgroups):
            parts = sum(gang_class.roles[t].min_pods + have[t] for t in subgroup.roles) // subgroup.size
            hard = subgroup.topology.is_hard and not gang_class.running_pods
            for level, weight in enumerate(s.tree.tier_weights):
                if hard and s.tree.tiers[level] >= subgroup.topology.tier:
                    break
                offset -= weight * parts
                domain_of = functools.partial(_domain_at_tier, s, level)
                for d, (inside, running) in subgroup_pods(s, x, k, subgroup, domain_of).items():
                    f = x.model.add_variable(f"f_{k}_{index}_{level}_{d + 2}", 0, parts, cat=pulp.LpInteger)
                    start[f.name] = float((round(value_of(inside, start)) + running) // subgroup.size)
                    row = at_least([*inside, (f, -subgroup.size)], -running)
                    add_rows(x.model, [Row("subgroup.part", (k, index, level, d), row)])
                    terms.append((f, weight))
    return Goal("subgroups", terms, 0.0, 1, offset)


def _domain_at_tier(s: Sets, level: int, leaf: int | None) -> int:
    return s.tree.domains_by_tier(leaf)[level]


def spread_goal(s: Sets, x: Variables, start: StartValues, min_domains: Sequence[Sequence[int]]) -> Goal:
    """Return domains touched beyond the first.

    min  sum_{k,tier} weight_tier * ( sum_d e[k,tier,d] - 1 )
    n[k,t,i]  <=  limit[k,t,i] * e[k, lowest tier, domain of i]        e[k,tier,d]  <=  e[k, tier above, domain of d]
    sum_d e[k,tier,d]  >=  min_domains[k][tier]

    min_domains: the domains that a gang of the class needs if it has the free nodes for itself.
    """
    (e, touched), weights = _add_touch_variables(s, x, start), s.tree.tier_weights
    offset, top = float(len(s.gang_classes) * sum(weights)), 0.0
    for k in range(len(s.gang_classes)):
        for level, weight in enumerate(weights):
            domains = [(v, 1.0) for (of, at, _), v in e.items() if (of, at) == (k, level)]
            add_rows(x.model, [Row("touch.least", (k, level), at_least(domains, min_domains[k][level]))])
            top -= weight * (min_domains[k][level] - 1)
    start |= touched
    return Goal("spread", [(v, -float(weights[level])) for (_, level, _), v in e.items()], top, 1, offset)


TouchVariables = dict[tuple[int, int, int], pulp.LpVariable]


def _add_touch_variables(s: Sets, x: Variables, start: StartValues) -> tuple[TouchVariables, StartValues]:
    """Return the variables e[k, level, d] with their rows, and their values in the known solution."""
    e: TouchVariables = {}
    touched: StartValues = {}
    for k, gang_class in enumerate(s.gang_classes):
        running = {s.problem.nodes[p.node].leaf for p in gang_class.running_pods}
        leaves = {s.buckets[i].leaf for t in range(len(gang_class.roles)) for i in x.n[k, t]}
        for leaf in sorted(leaves | running, key=lambda h: ROOT if h is None else h):
            domains = s.tree.domains_by_tier(leaf)
            for level, d in enumerate(domains):
                if (k, level, d) not in e:
                    v = e[k, level, d] = x.model.add_variable(f"e_{k}_{level}_{d + 2}", 0, 1, cat=pulp.LpInteger)
                    touched[v.name] = 0.0
                if leaf in running:
                    e[k, level, d].lowBound = 1
                    touched[e[k, level, d].name] = 1.0
            for level, (d, above) in enumerate(itertools.pairwise(domains)):
                row = at_least([(e[k, level + 1, above], 1), (e[k, level, d], -1)], 0)
                add_rows(x.model, [Row("touch.above", (k, level, ROOT if leaf is None else leaf), row)])
        for t in range(len(gang_class.roles)):
            for i, terms in x.n[k, t].items():
                domains = s.tree.domains_by_tier(s.buckets[i].leaf)
                if domains and terms:
                    row = at_most([*terms, (e[k, 0, domains[0]], -s.pod_limits[k, t][i])], 0)
                    add_rows(x.model, [Row("touch", (k, t, i), row)])
                    if round(value_of(terms, start)):
                        touched |= {e[k, level, d].name: 1.0 for level, d in enumerate(domains)}
    return e, touched


@dataclass(frozen=True, slots=True)
class UnopenedNodes:
    """Unopened nodes of one bucket with the same capacity and the same counted resources; w of them are opened."""

    capacity: Vector
    counted_resources: tuple[bool, ...]
    nodes: tuple[int, ...]
    w: pulp.LpVariable


def opening_goals(s: Sets, x: Variables, start: StartValues, opened_nodes: Set[int]) -> tuple[Goal, Goal]:
    """Unopened supernodes that are opened, and unopened nodes. opened_nodes: those that the known solution opens.

    min  sum_h o[h]        min  sum_{i,c} w[i,c]        w[i,c]  <=  number of nodes * o[leaf of i]
    sum_{k,t} floor(a_{k,t} / z) * n[k,t,i]
        <=  sum_{other nodes of i} floor(free / z)  +  sum_c floor(capacity_c / z) * w[i,c]

    c: groups of equal unopened nodes; z: sizes of pods of a resource that they count. These are the capacity rows, in
    which an unopened node holds nothing until it is opened. Exact where the sizes divide one another and one resource
    decides; else a relaxation, which stage C corrects.
    """
    unopened = UnopenedCapacity(s.problem, s.tree, s.free.amounts)
    o: dict[int, pulp.LpVariable] = {}
    w: list[pulp.LpVariable] = []
    for i, pods in pods_by_bucket(s, x).items():
        groups, leaf = _add_opening_variables(s, x, unopened, i), s.buckets[i].leaf
        for c, group in enumerate(groups):
            w.append(group.w)
            start[group.w.name] = float(len(opened_nodes & set(group.nodes)))
            if leaf is not None and leaf in unopened.unopened_supernodes:
                if leaf not in o:
                    o[leaf] = x.model.add_variable(f"super_{leaf}", 0, 1, cat=pulp.LpInteger)
                    start[o[leaf].name] = 0.0
                start[o[leaf].name] = max(start[o[leaf].name], float(start[group.w.name] > 0))
                row = at_least([(o[leaf], len(group.nodes)), (group.w, -1)], 0)
                add_rows(x.model, [Row("supernode", (i, c), row)])
        add_rows(x.model, _opening_rows(s, unopened, i, pods, groups))
    supernodes = Goal("supernodes", [(v, -1.0) for v in o.values()], 0.0, 1)
    return supernodes, Goal("nodes", [(v, -1.0) for v in w], 0.0, 1)


def separation_goal(s: Sets, x: Variables, start: StartValues, held: HeldDomains) -> Goal:
    """Domains that a gang would rather not share, and does; every gang is a class of its own.

    min  sum_{k,w,d} weight_w * c[k,w,d]        n[k,t,i]  <=  limit[k,t,i] * z[k,d]        d: of the wish's tier
    c[k,w,d]  >=  z[k,d]                  where others hold d already
    c[k,w,d]  >=  z[k,d] + z[k',d] - 1    for each gang k' that the wish w selects
    """
    gangs = {gang_class.only_gang: k for k, gang_class in enumerate(s.gang_classes)}
    wishes = {k: s.problem.gangs[j].separation_wishes for j, k in gangs.items() if j is not None}
    numbered = [(k, w, wish) for k, of_gang in wishes.items() for w, wish in enumerate(of_gang)]
    z = {tier: _add_held_variables(s, x, start, tier) for tier in {wish.tier: 0 for _, _, wish in numbered}}
    terms: Terms = []
    for k, w, wish in numbered:
        others = [gangs[j] for j in sorted(wish.gangs & gangs.keys())]
        for (_, d), own in [each for each in z[wish.tier].items() if each[0][0] == k]:
            is_held, found = held.is_held(wish, d), (z[wish.tier].get((other, d)) for other in others)
            pairs = [] if is_held else [v for v in found if v is not None]
            if not pairs and not is_held:
                continue
            c = x.model.add_variable(f"c_{k}_{w}_{d}", 0, 1, cat=pulp.LpInteger)
            both = [start[v.name] for v in pairs] or [1.0]
            start[c.name] = start[own.name] * max(both)
            rows = [at_least([(c, 1), (own, -1), (v, -1)], -1) for v in pairs]
            rows = rows or [at_least([(c, 1), (own, -1)], 0)]
            add_rows(x.model, [Row("apart", (k, w, d, n), row) for n, row in enumerate(rows)])
            terms.append((c, -float(wish.weight)))
    return Goal(SEPARATIONS, terms, 0.0, 1)


def _add_held_variables(s: Sets, x: Variables, start: StartValues, tier: int) -> dict[tuple[int, int], pulp.LpVariable]:
    """Return the variables z[k, d] of the hypernodes of this tier with their rows, and their values in the known
    solution."""
    z: dict[tuple[int, int], pulp.LpVariable] = {}
    domains = s.tree.hypernodes_of_tier(tier)
    for (k, t), pods in x.n.items():
        for i, terms in pods.items():
            d = int(domains[s.buckets[i].nodes[0]])
            if d == ROOT or not terms:
                continue
            if (k, d) not in z:
                z[k, d] = x.model.add_variable(f"z_{k}_{d}", 0, 1, cat=pulp.LpInteger)
                start[z[k, d].name] = 0.0
            row = at_most([*terms, (z[k, d], -s.pod_limits[k, t][i])], 0)
            add_rows(x.model, [Row("holds", (k, t, i, d), row)])
            if round(value_of(terms, start)):
                start[z[k, d].name] = 1.0
    return z


def node_group_goal(s: Sets, x: Variables) -> Goal:
    """Return new pods outside the node groups that their queue wants most; every gang is a class of its own.

    min  sum_{k,t,i} rank_{q(k)}(group of i) * n[k,t,i]
    """
    queue_of = {k: q for q, _, k in s.waiting_gangs}
    terms: Terms = []
    for (k, _), pods in x.n.items():
        ranks = s.tree.node_group_ranks(queue_of[k])
        for i, counts in pods.items() if len(ranks) else ():
            terms += scale_terms(counts, -int(ranks[s.buckets[i].nodes[0]]))
    return Goal("node groups", [(v, c) for v, c in terms if c], 0.0, 1)


def _add_opening_variables(s: Sets, x: Variables, unopened: UnopenedCapacity, i: int) -> list[UnopenedNodes]:
    groups: dict[tuple[Vector, tuple[bool, ...]], list[int]] = {}
    for n in s.buckets[i].nodes:
        if unopened.unopened_nodes[n]:
            counted = tuple(map(bool, unopened.counted_resources[n]))
            groups.setdefault((s.problem.nodes[n].capacity, counted), []).append(n)
    found = []
    for c, ((capacity, counted), nodes) in enumerate(groups.items()):
        w = x.model.add_variable(f"whole_{i}_{c}", 0, len(nodes), cat=pulp.LpInteger)
        found.append(UnopenedNodes(capacity, counted, tuple(nodes), w))
    return found


def _opening_rows(
    s: Sets, unopened: UnopenedCapacity, i: int, pods: list[tuple[Vector, Terms]], groups: list[UnopenedNodes]
) -> Iterator[Row]:
    nodes = np.array(s.buckets[i].nodes, dtype=np.intp)
    requests = [request for request, _ in pods]
    for r in range(s.resource_count):
        counting = [group for group in groups if group.counted_resources[r]]
        sizes = {request[r] for request in requests if request[r]}
        if not counting or not sizes:
            continue
        others = nodes[~(unopened.unopened_nodes[nodes] & unopened.counted_resources[nodes, r])]
        for z in floor_sizes(requests, r, sizes if len(sizes) <= MAX_FLOOR_SIZES else {1}):
            opened: Terms = [(group.w, -(group.capacity[r] // z)) for group in counting]
            free = int((s.free.amounts[others, r] // z).sum())
            yield Row("open", (i, r, z), normalized_at_most([*pods_of_size(pods, r, z), *opened], free))

"""The goals of stage B over the variables of the admission model: how near pods are, and what they open. Letters as in
docs/model.md.

Each is a cost, so its goal is to maximise minus the cost. Each adds variables and rows of its own, and to `start`, the
values of a known solution, theirs.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np
import pulp

from solver.mip.lexicographic import Goal
from solver.mip.rows import MAX_FLOOR_SIZES, Terms, at_least, at_most, scale_terms
from solver.models.sets import Sets
from solver.models.variables import Variables
from solver.problem import Subgroup, Vector
from solver.semantics.placement_cost import UnopenedCapacity
from solver.semantics.topology import ROOT

StartValues = dict[str, float]
"""Variable name -> value in a known solution."""


def split_subgroups_goal(s: Sets, x: Variables, start: StartValues) -> Goal:
    """Parts that are not whole in one domain, at each tier below the one that the subgroup must keep to. Shapes are
    rigid here.

    min  sum_{k,S,tier} weight_tier * ( parts_{k,S} - sum_d f[k,S,tier,d] )
    size_S * f[k,S,tier,d]  <=  sum_{t in S} sum_{i in d} n[k,t,i] + running
    """
    terms: list[tuple[pulp.LpVariable, float]] = []
    offset = 0.0
    for k, shape in enumerate(s.gang_classes):
        have = shape.running_per_role()
        for index, part in enumerate(shape.subgroups):
            parts = sum(shape.roles[t].min_pods + have[t] for t in part.roles) // part.size
            for level, weight in enumerate(s.tree.tier_weights):
                if (
                    part.topology.mode == "hard"
                    and s.tree.tiers[level] >= part.topology.tier
                    and not shape.running_pods
                ):
                    break
                offset -= weight * parts
                for d, (inside, running) in sorted(_subgroup_pods_by_domain(s, x, k, part, level).items()):
                    f = x.model.add_variable(f"f_{k}_{index}_{level}_{d + 2}", 0, parts, cat=pulp.LpInteger)
                    start[f.name] = float((_start_value(start, inside) + running) // part.size)
                    x.model.addConstraint(at_least([*inside, (f, -part.size)], -running), f"whole_{f.name}")
                    terms.append((f, weight))
    return Goal("subgroups", terms, 0.0, 1, offset)


def _subgroup_pods_by_domain(s: Sets, x: Variables, k: int, part: Subgroup, level: int) -> dict[int, tuple[Terms, int]]:
    """Domain of the tier -> the new pods of the subgroup there, and how many run there."""
    pods: dict[int, Terms] = {}
    for t in part.roles:
        for i, terms in x.n[k, t].items():
            pods.setdefault(s.tree.domains_by_tier(s.buckets[i].leaf)[level], []).extend(terms)
    running: dict[int, int] = {}
    for p in s.gang_classes[k].running_pods:
        if p.role in part.roles:
            d = s.tree.domains_by_tier(s.problem.nodes[p.node].leaf)[level]
            running[d] = running.get(d, 0) + p.pods
    return {d: (pods.get(d, []), running.get(d, 0)) for d in pods.keys() | running.keys()}


def _start_value(start: Mapping[str, float], terms: Terms) -> int:
    return round(sum(start[v.name] * c for v, c in terms))


def spread_goal(s: Sets, x: Variables, start: StartValues, min_domains: Sequence[Sequence[int]]) -> Goal:
    """Domains touched beyond the first. fewest: k -> for each tier how many domains hold a gang of the shape alone in
    the free room.

    min  sum_{k,tier} weight_tier * ( sum_d e[k,tier,d] - 1 ) n[k,t,i] <= limit[k,t,i] * e[k, lowest tier, domain of i]
    e[k,tier,d] <= e[k, tier above, domain of d]     sum_d e[k,tier,d] >= fewest
    """
    e, touched = _add_touch_variables(s, x, start)
    offset, top = 0.0, 0.0
    for k, _ in enumerate(s.gang_classes):
        for level, weight in enumerate(s.tree.tier_weights):
            every = [(v, 1) for (of, at, _), v in e.items() if of == k and at == level]
            x.model.addConstraint(at_least(every, min_domains[k][level]), f"fewest_{k}_{level}")
            offset += weight
            top -= weight * (min_domains[k][level] - 1)
    for name, value in touched.items():
        start[name] = value
    return Goal("spread", [(v, -float(s.tree.tier_weights[level])) for (_, level, _), v in e.items()], top, 1, offset)


def _add_touch_variables(
    s: Sets, x: Variables, start: Mapping[str, float]
) -> tuple[dict[tuple[int, int, int], pulp.LpVariable], StartValues]:
    """Variables e[k, level, domain] with their rows, and what they are in the known solution."""
    e: dict[tuple[int, int, int], pulp.LpVariable] = {}
    touched: StartValues = {}
    rows = itertools.count()
    for k, shape in enumerate(s.gang_classes):
        running = {s.problem.nodes[p.node].leaf for p in shape.running_pods}
        leaves = {s.buckets[i].leaf for t in range(len(shape.roles)) for i in x.n[k, t]}
        for leaf in sorted(leaves | running, key=lambda h: ROOT if h is None else h):
            line = s.tree.domains_by_tier(leaf)
            for level, d in enumerate(line):
                if (k, level, d) not in e:
                    v = e[k, level, d] = x.model.add_variable(f"e_{k}_{level}_{d + 2}", 0, 1, cat=pulp.LpInteger)
                    touched[v.name] = 0.0
                if leaf in running:
                    e[k, level, d].lowBound = 1
                    touched[e[k, level, d].name] = 1.0
            for level, (d, above) in enumerate(itertools.pairwise(line)):
                x.model.addConstraint(
                    at_least([(e[k, level + 1, above], 1), (e[k, level, d], -1)], 0), f"touch_up_{next(rows):06d}"
                )
        for t in range(len(shape.roles)):
            for i, terms in x.n[k, t].items():
                line = s.tree.domains_by_tier(s.buckets[i].leaf)
                if not line or not terms:
                    continue
                x.model.addConstraint(
                    at_most([*terms, (e[k, 0, line[0]], -s.pod_limits[k, t][i])], 0), f"touch_{next(rows):06d}"
                )
                if _start_value(start, terms):
                    touched |= {e[k, level, d].name: 1.0 for level, d in enumerate(line)}
    return e, touched


@dataclass(frozen=True, slots=True)
class UnopenedNodes:
    """Whole nodes of one place that have the same capacity and count by the same resources; w of them are opened."""

    capacity: Vector
    counted_resources: tuple[bool, ...]
    nodes: tuple[int, ...]
    w: pulp.LpVariable


def opening_goals(s: Sets, x: Variables, start: StartValues, opened_nodes: Set[int]) -> tuple[Goal, Goal]:
    """Whole supernodes opened, and whole nodes opened. used: the nodes that the known solution opens.

    min  sum_h o[h]              min  sum_{i,c} w[i,c]              w[i,c] <= number of nodes * o[leaf of i]       where
    that is whole sum_{k,t} floor(a_{k,t} / z) * n[k,t,i]  <=  sum_{other nodes of i} floor(free / z)  +  sum_c
    floor(capacity_c / z) * w[i,c]

    for each size z of a resource by which the nodes c count: row 3 of the model, in which a whole node gives nothing
    until it is opened. Exact where the sizes divide one another and one resource decides; else a relaxation, and stage
    C has the last word.
    """
    wholes = UnopenedCapacity(s.problem, s.tree, s.free.amounts)
    users: dict[int, list[tuple[Vector, Terms]]] = {}
    for (k, t), pods in x.n.items():
        for i, terms in pods.items():
            if terms:
                users.setdefault(i, []).append((s.gang_classes[k].roles[t].request, terms))
    o: dict[int, pulp.LpVariable] = {}
    every: list[pulp.LpVariable] = []
    rows = itertools.count()
    for i, here in sorted(users.items()):
        stocks = _unopened_nodes(s, x, wholes, i)
        for stock in stocks:
            every.append(stock.w)
            start[stock.w.name] = float(len(opened_nodes & set(stock.nodes)))
            leaf = s.buckets[i].leaf
            if leaf is not None and leaf in wholes.unopened_supernodes:
                if leaf not in o:
                    o[leaf] = x.model.add_variable(f"super_{leaf}", 0, 1, cat=pulp.LpInteger)
                    start[o[leaf].name] = 0.0
                start[o[leaf].name] = max(start[o[leaf].name], float(start[stock.w.name] > 0))
                x.model.addConstraint(
                    at_least([(o[leaf], len(stock.nodes)), (stock.w, -1)], 0), f"supernode_{next(rows):06d}"
                )
        for row in _opening_rows(s, wholes, i, here, stocks):
            x.model.addConstraint(row, f"open_{next(rows):06d}")
    return Goal("supernodes", [(v, -1.0) for v in o.values()], 0.0, 1), Goal(
        "nodes", [(v, -1.0) for v in every], 0.0, 1
    )


def _unopened_nodes(s: Sets, x: Variables, unopened: UnopenedCapacity, i: int) -> list[UnopenedNodes]:
    found: dict[tuple[Vector, tuple[bool, ...]], list[int]] = {}
    for n in s.buckets[i].nodes:
        if unopened.unopened_nodes[n]:
            found.setdefault((s.problem.nodes[n].capacity, tuple(map(bool, unopened.counted_resources[n]))), []).append(
                n
            )
    return [
        UnopenedNodes(
            capacity, counts, tuple(nodes), x.model.add_variable(f"whole_{i}_{c}", 0, len(nodes), cat=pulp.LpInteger)
        )
        for c, ((capacity, counts), nodes) in enumerate(found.items())
    ]


def _opening_rows(
    s: Sets, unopened: UnopenedCapacity, i: int, here: list[tuple[Vector, Terms]], unopened_nodes: list[UnopenedNodes]
) -> Iterator[pulp.LpConstraint]:
    nodes = np.array(s.buckets[i].nodes, dtype=np.intp)
    for r in range(s.resource_count):
        stock = [c for c in unopened_nodes if c.counted_resources[r]]
        sizes = sorted({request[r] for request, _ in here if request[r]})
        if not stock or not sizes:
            continue
        chain = all(b % a == 0 for a, b in itertools.pairwise(sizes))
        other = nodes[~(unopened.unopened_nodes[nodes] & unopened.counted_resources[nodes, r])]
        for z in [z for z in sizes if len(sizes) <= MAX_FLOOR_SIZES] + (
            [] if chain and len(sizes) <= MAX_FLOOR_SIZES else [1]
        ):
            unit = int(
                np.gcd.reduce(
                    [request[r] // z for request, _ in here if request[r] >= z] + [c.capacity[r] // z for c in stock]
                )
            )
            taken = [pair for request, n in here if request[r] >= z for pair in scale_terms(n, request[r] // z // unit)]
            free = int((s.free.amounts[other, r] // z).sum())
            yield at_most([*taken, *((c.w, -(c.capacity[r] // z // unit)) for c in stock)], free // unit)

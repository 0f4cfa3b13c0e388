"""Lower bounds on placement costs without a model: each gang alone in the free nodes, and all counted together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from solver.models.sets import Sets
from solver.problem import Gang, Vector
from solver.semantics.gang_classes import GangClass
from solver.semantics.placement_cost import HeldDomains, UnopenedCapacity
from solver.semantics.topology import ROOT


def min_domains_per_tier(s: Sets, gang_class: GangClass) -> tuple[int, ...]:
    """For each tier the fewest domains that hold a gang of this class alone in the free nodes.

    max min m :  the m largest domains of the tier hold need_t pods of each role t,
                 and the m with most free hold demand[r] of each resource r
    """
    if gang_class.running_pods:
        return (1,) * len(s.tree.tiers)
    asked = [(role.min_pods, s.domain_capacities_under_rules(role)) for role in gang_class.roles]
    node_classes = frozenset(c for role in gang_class.roles for c in role.node_classes)
    if gang_class.is_rigid:
        demand = enumerate(gang_class.min_demand(s.resource_count))
        asked += [(amount, s.free_per_domain(r, node_classes)) for r, amount in demand if amount]
    levels = range(len(s.tree.tiers))
    return tuple(max([1, *(domains_needed(amount, tiers[level]) for amount, tiers in asked)]) for level in levels)


def min_tier_span(s: Sets, gang_class: GangClass) -> int:
    """Return the least span of a gang of this class: sum over tiers of weight * (fewest - 1)."""
    fewest = min_domains_per_tier(s, gang_class)
    return sum(weight * (m - 1) for weight, m in zip(s.tree.tier_weights, fewest, strict=True))


def min_split_subgroups(s: Sets, gang_class: GangClass) -> int:
    """The least cost of split subgroups: no domain holds more of them than fit it alone.

    sum_S sum_tier weight_tier * max(0, subgroups_S - sum_d floor(pods of S that d holds / size_S))    S of one role
    """
    if gang_class.running_pods:
        return 0
    cost = 0
    for part in gang_class.subgroups:
        if len(part.roles) != 1:
            continue
        role = gang_class.roles[part.roles[0]]
        capacities = s.domain_capacities(role.pod_request, role.node_classes)
        for weight, domains in zip(s.tree.tier_weights, capacities, strict=True):
            cost += weight * max(0, role.min_pods // part.size - sum(holds // part.size for holds in domains))
    return cost


def min_node_group_cost(s: Sets, gang_class: GangClass, q: int) -> int:
    """The least cost of node groups of a gang of this class in queue q: each role's pods where q wants them most, as
    many as fit there."""
    ranks, cost = s.tree.node_group_ranks(q), 0
    for role in gang_class.roles:
        fits, missing = s.state.fit_counts(role), role.min_pods
        for rank in np.unique(ranks).tolist():
            pods = min(missing, int(fits[ranks == rank].sum()))
            cost, missing = cost + rank * pods, missing - pods
    return cost


def min_separation_cost(s: Sets, gang_class: GangClass, gang: Gang, held: HeldDomains) -> int:
    """The least cost of the gang's separation wishes, each by itself: its weight where no domain holds the gang with
    the nodes alone that nobody holds whom the wish selects."""
    cost, roles = 0, [(role.min_pods, s.state.fit_counts(role)) for role in gang_class.roles]
    tier = gang_class.hard_tier
    domains = [h - ROOT for h in s.tree.domains_at_tier(s.tree.highest_tier + 1 if tier is None else tier)]
    for wish in gang.separation_wishes:
        is_open = held.node_costs(replace(gang, separation_wishes=(wish,))) == 0
        room = [s.tree.domain_sum_array(np.where(is_open, fits, 0))[domains] >= pods for pods, fits in roles]
        cost += 0 if np.logical_and.reduce(room).any() else wish.weight
    return cost


def min_opened(s: Sets, gang_classes: Iterable[GangClass], unopened: UnopenedCapacity) -> tuple[int, int]:
    """(supernodes, nodes) that are opened at least: for each set of node classes by the pods that may use no other, and
    summed over `_resource_groups` by the pods that fit into no other group."""
    pods: dict[frozenset[int], Counter[Vector]] = {}
    for gang_class in gang_classes:
        for role in gang_class.roles:
            pods.setdefault(role.node_classes, Counter())[role.request] += role.min_pods
    found = [(0, 0)]
    for node_classes in dict.fromkeys([frozenset[int]().union(*pods), *pods]):
        asked = Counter[Vector]()
        for inside, requests in pods.items():
            asked.update(requests if inside <= node_classes else {})
        found.append(min_opened_on(s, unopened, np.flatnonzero(s.tree.class_mask(node_classes)), asked))
    groups = _resource_groups(s, unopened)
    if len(groups) > 1:
        exclusive = zip(groups, _exclusive_pods(s, groups, pods), strict=True)
        apart = [min_opened_on(s, unopened, nodes, asked) for nodes, asked in exclusive]
        found.append((sum(supernodes for supernodes, _ in apart), sum(nodes for _, nodes in apart)))
    return max(supernodes for supernodes, _ in found), max(nodes for _, nodes in found)


def _resource_groups(s: Sets, unopened: UnopenedCapacity) -> list[npt.NDArray[np.intp]]:
    """Return the nodes in groups that count by the same resources; groups that share a leaf are one."""
    marks = unopened.counted_resources @ (1 << np.arange(s.resource_count, dtype=np.int64))
    group = {int(mark): int(mark) for mark in np.unique(marks)}
    if len(group) > 1:
        for h, nodes in s.tree.direct_nodes.items():
            here = sorted({group[mark] for mark in np.unique(marks[nodes]).tolist()})
            if h != ROOT and len(here) > 1:
                group = {mark: here[0] if of in here else of for mark, of in group.items()}
    grouped = np.array([group[mark] for mark in marks.tolist()], dtype=np.int64)
    return [np.flatnonzero(grouped == one) for one in sorted(set(group.values()))]


def _exclusive_pods(
    s: Sets, groups: Sequence[npt.NDArray[np.intp]], pods: Mapping[frozenset[int], Mapping[Vector, int]]
) -> list[Counter[Vector]]:
    """Return group -> request -> pods that no node of another group holds."""
    found = [Counter[Vector]() for _ in groups]
    for node_classes, requests in pods.items():
        for request, number in requests.items():
            holds = s.tree.class_mask(node_classes) & (s.free.amounts >= np.array(request, dtype=np.int64)).all(axis=1)
            able = [g for g, nodes in enumerate(groups) if holds[nodes].any()]
            if len(able) == 1:
                found[able[0]][request] += number
    return found


def min_opened_on(
    s: Sets, unopened: UnopenedCapacity, nodes: npt.NDArray[np.intp], asked: Mapping[Vector, int]
) -> tuple[int, int]:
    """(supernodes, nodes) that these pods open at least on these nodes: what does not fit next to the unopened ones,
    counted in slots of each pod size.

        min m :  sum_{pods} floor(a / z)  <=  slots of size z outside unopened ones + in the m largest unopened ones

    for each resource and size.
    """
    inside, supernodes, opened = unopened.in_unopened_supernode[nodes], 0, 0
    sizes = {pair for request in asked for pair in enumerate(request)}
    for r, z in sorted((r, amount) for r, amount in sizes if amount):
        closed = unopened.unopened_nodes[nodes] & unopened.counted_resources[nodes, r]
        if not closed.any():
            continue  # nothing is opened for the sake of a resource by which none counts
        slots = s.free.amounts[nodes, r] // z
        missing = sum(number * (request[r] // z) for request, number in asked.items()) - int(slots[~closed].sum())
        sums = np.bincount(s.tree.leaf_of[nodes][closed & inside], weights=slots[closed & inside])
        apart = int(slots[closed & ~inside].sum())
        supernodes = max(supernodes, domains_needed(missing - apart, _sorted_descending(sums)))
        opened = max(opened, domains_needed(missing, _sorted_descending(slots[closed])))
    return supernodes, opened


def _sorted_descending(figures: npt.NDArray[Any]) -> list[int]:
    return sorted((int(x) for x in figures if x), reverse=True)


def domains_needed(amount: int, domains: Iterable[int]) -> int:
    """Return how many of the domains, largest first, it takes to hold the amount; as many as there are where all of
    them are too few."""
    number = 0
    for holds in domains:
        if amount <= 0:
            break
        amount -= holds
        number += 1
    return number

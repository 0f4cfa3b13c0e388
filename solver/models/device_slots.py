"""The capacity of the nodes' device slots: a relaxation where nodes are counted together, exact at a single node.

Letters as in docs/develop/model.md:

    m[i,a,c]    pods with slot request a at the single node i that take a share from its slot c        integer
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

import pulp

from solver.mip.rows import MAX_FLOOR_SIZES, Row, Terms, at_most, equal, normalized_at_most, scale_terms
from solver.models.sets import Sets
from solver.models.variables import Variables
from solver.problem import SlotRequest
from solver.semantics.device_slots import IntArray, times_fitting

SlotVariables = Mapping[tuple[SlotRequest, int], pulp.LpVariable]
"""(slot request, slot) -> m of one node and slot group."""

PodTerms = Mapping[SlotRequest, tuple[Terms, int]]
"""Slot request -> its pods n at a node, as (terms, constant)."""


def device_slots(s: Sets, x: Variables) -> Iterator[Row]:
    """Slots hold what pods request of them: `slot_capacity_rows` at a single node, `_floor_rows` elsewhere."""
    for i, requests in sorted(slot_request_terms(s, x).items()):
        for group, pods in by_slot_group(requests):
            free = s.free.slots[list(s.buckets[i].nodes), group]
            if len(free) > 1:
                yield from _floor_rows(free, pods, (i, group))
            else:
                m = add_slot_variables(x, i, free[0], pods)
                yield from slot_capacity_rows(free[0], {a: (terms, 0) for a, terms in pods.items()}, m, (i, group))


def slot_request_terms(s: Sets, x: Variables) -> dict[int, dict[SlotRequest, Terms]]:
    """Return bucket -> slot request -> the pods with it, over all gang classes and roles."""
    found: dict[int, dict[SlotRequest, Terms]] = {}
    for key, pods in x.n.items():
        for request in s.roles[key].pod_request.slot_requests:
            for i, terms in pods.items():
                if terms:
                    found.setdefault(i, {}).setdefault(request, []).extend(terms)
    return found


def by_slot_group(requests: Mapping[SlotRequest, Terms]) -> Iterator[tuple[int, dict[SlotRequest, Terms]]]:
    """Yield the requests of each slot group, in order."""
    for group, own in itertools.groupby(sorted(requests), key=lambda request: request.slot_group):
        yield group, {request: requests[request] for request in own}


def _floor_rows(free: IntArray, pods: Mapping[SlotRequest, Terms], key: tuple[int, int]) -> Iterator[Row]:
    """Nested floors over all slots of the bucket, per resource.

    sum_a number_a floor(share_a[r] / z) n_a  <=  sum_c floor(free_c[r] / z)         z among `floor_sizes`

    Exact where sizes divide one another and each pod takes from one slot.
    """
    for r in range(free.shape[-1]):
        shares = sorted({request.share[r] for request in pods if request.share[r]})
        amounts = free[..., r].ravel()
        for z in floor_sizes(shares, int(amounts.max(initial=0))):
            taken: Terms = []
            for a, terms in pods.items():
                taken += scale_terms(terms, a.number * (a.share[r] // z)) if a.share[r] >= z else []
            yield Row("slots.floor", (*key, r, z), normalized_at_most(taken, int((amounts // z).sum())))


def floor_sizes(shares: list[int], largest: int) -> list[int]:
    """Sizes z whose floors are worth a row, ascending: all of a few shares; of many the least of which 1, 2, 3, 4 fit
    into the largest slot. And 1, the plain sum, unless the shares divide one another."""
    if not shares:
        return []
    chain = all(b % a == 0 for a, b in itertools.pairwise(shares))
    if len(shares) <= MAX_FLOOR_SIZES:
        return shares if chain else [1, *(z for z in shares if z > 1)]
    return sorted({1, *(next((z for z in shares if z > largest // (fit + 1)), 1) for fit in range(1, 5))})


def add_slot_variables(x: Variables, i: int, slots: IntArray, pods: Mapping[SlotRequest, Terms]) -> SlotVariables:
    """m of the single node i for the requests of one slot group, also noted in `x.m`."""
    most = [(request, int(sum(v.upBound * c for v, c in terms))) for request, terms in pods.items()]
    m = slot_variables(x.model, f"m_{i}", slots, most)
    x.m.update({(i, request, c): v for (request, c), v in m.items()})
    return m


def slot_variables(
    model: pulp.LpProblem, name: str, slots: IntArray, max_pods: Sequence[tuple[SlotRequest, int]]
) -> SlotVariables:
    """m[a,c] of one node and slot group, only where slot c holds a share of request a."""
    found = {}
    for number, (a, most) in enumerate(max_pods):
        for c, held in enumerate(times_fitting(slots, a.share).tolist()):
            if up := min(held, most):
                m = model.add_variable(f"{name}_{a.slot_group}_{number}_{c}", 0, up, cat=pulp.LpInteger)
                found[a, c] = m
    return found


def slot_capacity_rows(slots: IntArray, pods: PodTerms, m: SlotVariables, key: tuple[int, ...]) -> Iterator[Row]:
    """Yield the capacity rows of one group's slots at one node: `slot_count_rows`, and sum_a share_a[r] m[a,c] <=
    free_c[r]"""
    yield from slot_count_rows(pods, m, len(slots), key)
    for c, free in enumerate(slots.tolist()):
        for r, amount in enumerate(free):
            taken = slot_usage_terms(pods, m, c, r)
            if sum(share * v.upBound for v, share in taken) > amount:
                yield Row("slots.capacity", (*key, c, r), normalized_at_most(taken, amount))


def slot_usage_terms(requests: Iterable[SlotRequest], m: SlotVariables, c: int, r: int) -> Terms:
    """sum_a share_a[r] m[a,c]"""
    asking = (a for a in sorted(requests) if a.share[r])
    return [(m[a, c], a.share[r]) for a in asking if (a, c) in m]


def slot_count_rows(pods: PodTerms, m: SlotVariables, slot_count: int, key: tuple[int, ...]) -> Iterator[Row]:
    """Every pod has its slots, all different:  sum_c m[a,c] = number_a n_a        m[a,c] <= n_a"""
    for a, (request, (terms, constant)) in enumerate(sorted(pods.items())):
        own = {c: m[request, c] for c in range(slot_count) if (request, c) in m}
        counts = [*((v, 1.0) for v in own.values()), *scale_terms(terms, -request.number)]
        yield Row("slots.pods", (*key, a), equal(counts, request.number * constant))
        for c, v in own.items() if request.number > 1 and terms else ():
            yield Row("slots.different", (*key, a, c), at_most([(v, 1.0), *scale_terms(terms, -1)], constant))


def slot_values(
    s: Sets, x: Variables, pods_per_slot: Mapping[int, Mapping[SlotRequest, tuple[int, ...]]]
) -> dict[str, float]:
    """Return the values of m that go with these counts. pods_per_slot: node -> slot request -> slot -> pods."""
    values = {}
    for (i, request, c), v in x.m.items():
        (node,) = s.buckets[i].nodes
        counts = pods_per_slot.get(node, {}).get(request)
        values[v.name] = float(counts[c]) if counts else 0.0
    return values

"""The constraints of the admission model, a function for each family of named rows. Letters as in
docs/develop/model.md."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from fractions import Fraction

import pulp

from solver.mip.rows import (
    MAX_FLOOR_SIZES,
    Row,
    Terms,
    add_rows,
    at_least,
    at_most,
    equal,
    normalized_at_most,
    scale_terms,
)
from solver.models.device_slots import device_slots
from solver.models.pod_rule_rows import pod_rules
from solver.models.sets import Sets
from solver.models.variables import Variables, pods_by_bucket, subgroup_pods
from solver.problem import MAX_AMOUNT, Vector
from solver.semantics.device_slots import IntArray
from solver.semantics.order import strict_queue_order
from solver.semantics.topology import ROOT


def domain_assignment(s: Sets, x: Variables) -> Iterator[Row]:
    """A gang with a hard tier that starts lies in one of its domains:  sum_{h in D_k} g[k,h]  =  sum_{q,p} y[q,p,k]"""
    for k, domains in enumerate(s.domains):
        if domains != (ROOT,):
            inside = [(x.g[k, h], 1) for h in domains if (k, h) in x.g]
            yield Row("link", (k,), equal(inside + scale_terms(x.started(k), -1), 0))


def gang_size(s: Sets, x: Variables) -> Iterator[Row]:
    """All or nothing, per domain and role; the bounds differ only for a class of one gang whose mix of roles is open.

    min_t * g[k,h]  <=  sum_{i in h} n[k,t,i]        <=  max_t * g[k,h]
    min_k * g[k,h]  <=  sum_t sum_{i in h} n[k,t,i]  <=  max_k * g[k,h]
    """
    for k, gang_class in enumerate(s.gang_classes):
        for h, buckets in s.buckets_in[k].items():
            gangs = x.gangs_in_domain(k, h)
            if not gangs:
                continue
            pods = [[v for i in buckets for v in x.n[k, t].get(i, [])] for t in range(len(gang_class.roles))]
            for t, role in enumerate(gang_class.roles):
                if gang_class.is_rigid:
                    yield Row("gang.role", (k, h, t), equal(pods[t] + scale_terms(gangs, -role.min_pods), 0))
                else:
                    yield Row("gang.role.min", (k, h, t), at_least(pods[t] + scale_terms(gangs, -role.min_pods), 0))
                    yield Row("gang.role.max", (k, h, t), at_most(pods[t] + scale_terms(gangs, -role.max_pods), 0))
            if not gang_class.is_rigid:
                total = [v for terms in pods for v in terms]
                yield Row("gang.min", (k, h), at_least(total + scale_terms(gangs, -gang_class.min_pods), 0))
                yield Row("gang.max", (k, h), at_most(total + scale_terms(gangs, -gang_class.max_pods), 0))


def capacity(s: Sets, x: Variables) -> Iterator[Row]:
    """Yield the capacity of a bucket, per resource, in units of each pod size z that occurs there (nested floors).

    sum_{k,t} floor(a_{k,t} / z) * n[k,t,i]  <=  sum_{nodes of i} floor(free / z)

    Exact without node indices where the sizes divide one another; else the plain sum, z = 1, is added. A resource
    is left out at a bucket where another one always runs out first.
    """
    floors: list[dict[int, list[int]]] = []
    for r in range(s.resource_count):
        sizes = {role.request[r] for role in s.roles.values() if role.request[r]}
        allowed = {*(sizes if len(sizes) <= MAX_FLOOR_SIZES else ()), 1}
        floors.append({z: s.sum_per_bucket(s.free.amounts[:, r] // z) for z in allowed})
    known: dict[tuple[bytes, frozenset[Vector]], list[int]] = {}
    for i, pods in pods_by_bucket(s, x).items():
        free, requests = s.free.amounts[list(s.buckets[i].nodes)], frozenset(request for request, _ in pods)
        key = b"".join(sorted(node.tobytes() for node in free)), requests
        if key not in known:
            known[key] = _binding_resources(free, requests)
        for r in known[key]:
            for z in floor_sizes(requests, r, floors[r]):
                yield Row("capacity", (i, r, z), normalized_at_most(pods_of_size(pods, r, z), floors[r][z][i]))


def floor_sizes(requests: Iterable[Vector], r: int, allowed: Container[int]) -> list[int]:
    """Return the sizes z of resource r whose floors are rows: the allowed ones, and 1 unless they divide one
    another."""
    requested = sorted({request[r] for request in requests if request[r]})
    sizes = [z for z in requested if z in allowed]
    exact = len(sizes) == len(requested) and all(b % a == 0 for a, b in itertools.pairwise(requested))
    return sizes if exact or 1 in sizes else [*sizes, 1]


def pods_of_size(pods: Iterable[tuple[Vector, Terms]], r: int, z: int) -> Terms:
    """sum floor(a / z) n  over the pods that ask for a >= z of resource r"""
    large = [(request, n) for request, n in pods if request[r] >= z]
    return [pair for request, n in large for pair in scale_terms(n, request[r] // z)]


def _binding_resources(free: IntArray, requests: frozenset[Vector]) -> list[int]:
    """Return the resources that can run out on these nodes (node x resource): those that no other one implies.

    b implies r  where  max(a_r / a_b) * free_b <= free_r  on each node, over the requests a
    """
    requested = [r for r in range(free.shape[1]) if any(a[r] for a in requests)]
    binding: list[int] = []
    # Try to explain every resource by the scarcest one, the one with the fewest slots for its largest pod.
    for r in sorted(requested, key=lambda r: (int((free[:, r] // max(a[r] for a in requests)).sum()), r)):
        if not any(_implies(b, r, free, requests) for b in binding):
            binding.append(r)
    return sorted(binding)


def _implies(b: int, r: int, free: IntArray, requests: frozenset[Vector]) -> bool:
    users = [a for a in requests if a[r]]
    if not all(a[b] for a in users):
        return False
    ratio = max(Fraction(a[r], a[b]) for a in users)
    m, n = ratio.numerator, ratio.denominator
    if max(m * int(free[:, b].max()), n * int(free[:, r].max())) <= MAX_AMOUNT:
        return bool((m * free[:, b] <= n * free[:, r]).all())
    return all(m * x <= n * y for x, y in zip(free[:, b].tolist(), free[:, r].tolist(), strict=True))


def subgroups(s: Sets, x: Variables) -> Iterator[Row]:
    """The pods of a subgroup's roles come in complete parts; running ones count, where their gang starts.

    sum_{t in S} sum_{i in h} n[k,t,i] + running_h * y  =  size * u[k,S,h]

    h: each domain of a hard subgroup's tier; the whole cluster for a soft one.
    """
    for k, gang_class in enumerate(s.gang_classes):
        for index, subgroup in enumerate(gang_class.subgroups):
            domain_of = functools.partial(s.subgroup_domain, subgroup)
            for h, (pods, running) in subgroup_pods(s, x, k, subgroup, domain_of).items():
                u = x.u[k, index, h] = x.model.add_variable(f"u_{k}_{index}_{h + 1}", 0, cat=pulp.LpInteger)
                held = scale_terms(x.started(k), running) if running else []
                yield Row("subgroup", (k, index, h), equal([*pods, *held, (u, -subgroup.size)], 0))


def queue_ceilings(s: Sets, x: Variables) -> Iterator[Row]:
    """Yield the ceilings of each queue; its usage counts already, also where it is too much.

    held_q[r] + sum_{classes counted in q} demand_k[r] * y[q',p,k]  <=  max(limit_q[r], held_q[r])
    """
    for q, ceilings in enumerate(s.queue_books.queue_rules.ceilings_by_queue):
        for number, ceiling in enumerate(ceilings):
            counted = {of for of in s.batch_queues if s.is_counted(ceiling, of)}
            held = s.queue_books.amount_counted(ceiling)
            for r, limit in enumerate(ceiling.limits):
                if limit is not None and (terms := usage_terms(s, x, r, counted)):
                    yield Row("queue.ceiling", (q, number, r), normalized_at_most(terms, max(0, limit - held[r])))


def usage_terms(s: Sets, x: Variables, r: int, queues: Container[int]) -> Terms:
    """Return the batch's usage of resource r by gangs of these queues: demand_k[r] * y, or a * n where the mix is
    open."""
    terms: Terms = []
    for (q, _, k), y in x.y.items():
        if q not in queues:
            continue
        if s.gang_classes[k].is_rigid:
            terms += [(y, s.min_demands[k][r])] if s.min_demands[k][r] else []
            continue
        for t, role in enumerate(s.gang_classes[k].roles):
            for n in x.n[k, t].values() if role.request[r] else ():
                terms += scale_terms(n, role.request[r])
    return terms


def guarantees(s: Sets, x: Variables) -> Iterator[Row]:
    """Yield rows that keep guaranteed amounts of others free, along the whole tree.

    w[q,r]  >=  guarantee_q[r]
    w[q,r]  >=  direct_q[r] + what the batch takes in q itself + sum_{c child of q} w[c,r]
    w[q,r]  <=  capability_q[r]                   or what was needed before, where that is more
    sum_{root queues} w[q,r]  <=  total[r]        likewise
    """
    queues, books = s.problem.queues, s.queue_books
    for r in range(s.resource_count):
        if not any(queue.guarantee[r] for queue in queues):
            continue
        unit = s.guarantee_unit(r)
        before = books.needed_amounts(r)
        for q, queue in enumerate(queues):
            x.w[q, r] = x.model.add_variable(f"w_{q}_{r}", (queue.guarantee[r] or 0) / unit)
        for q, queue in enumerate(queues):
            below: Terms = [(x.w[c, r], -1.0) for c in books.children[q]]
            own = scale_terms(usage_terms(s, x, r, {q}), -1 / unit)
            yield Row("guarantee.need", (q, r), at_least([(x.w[q, r], 1), *below, *own], books.direct[q][r] / unit))
            if (limit := queue.capability[r]) is not None:
                yield Row("guarantee.queue", (q, r), at_most([(x.w[q, r], 1)], max(limit, before[q]) / unit))
        total = max(books.cluster_total[r], sum(before[q] for q in books.roots))
        yield Row("guarantee.cluster", (r,), at_most([(x.w[q, r], 1) for q in books.roots], total / unit))


def entitlements(s: Sets, x: Variables) -> Iterator[Row]:
    """Yield the queues' claims on their entitlements, in an order that puts queues first.

    sum_{classes below a} demand_k[r] * e        <=  room_a[r]           a: q and the queues above it that are compared
    sum_{p' >= p, k} units_k * e[q,p',k]         <=  sum_{p' >= p, k} units_k * y[q,p',k]

    room: `Sets.entitled_room`. A claim needs no start of its own class: gangs of at least its precedence that start in
    its queue cover it, so that no queue claims more for serving its lower gangs first.
    """
    for (q, p, k), y in x.y.items():
        x.e[q, p, k] = x.model.add_variable(f"e_{q}_{p + 2**33}_{k}", 0, y.upBound, cat=pulp.LpInteger)
    for a, below in s.entitled_subtrees.items():
        for r, room in enumerate(s.entitled_room[a]):
            terms: Terms = [(e, s.min_demands[k][r]) for (q, _, k), e in x.e.items() if q in below]
            if room is not None and any(amount for _, amount in terms):
                yield Row("entitled.queue", (a, r), normalized_at_most([t for t in terms if t[1]], room))
    for q, p in sorted({key[:2] for key in x.e}):
        of_queue = [key for key in x.e if key[0] == q]
        above = [key for key in of_queue if key[1] >= p]
        started: Terms = [(x.y[key], s.dominant_units[key[2]]) for key in above]
        claimed: Terms = [(x.e[key], -s.dominant_units[key[2]]) for key in above]
        yield Row("entitled.starts", (q, p), at_least([*started, *claimed], 0))


def strict_order(s: Sets, x: Variables) -> Iterator[Row]:
    """In a queue with strict order the gangs that start are the first ones in its order.

    sum_{j in class} o[j]  =  y[class]          o[j]  >=  o[j']          j' right behind j in the queue
    """
    strict = [(key, js) for key, js in s.waiting_gangs.items() if s.problem.queues[key[0]].strict_order]
    classes = {j: key for key, js in strict for j in js}
    for q in sorted({key[0] for key in classes.values()}):
        order = strict_queue_order(s.problem, (j for j, key in classes.items() if key[0] == q))
        for j in order:
            x.o[j] = x.model.add_variable(f"o_{j}", cat=pulp.LpBinary)
        for first, second in itertools.pairwise(order):
            yield Row("strict.order", (first, second), at_least([(x.o[first], 1), (x.o[second], -1)], 0))
    for key in sorted(set(classes.values())):
        yield Row("strict.class", key, equal([*((x.o[j], 1.0) for j in s.waiting_gangs[key]), (x.y[key], -1.0)], 0))


Family = Callable[[Sets, Variables], Iterator[Row]]

PLACEMENT_CONSTRAINTS: Sequence[Family] = (domain_assignment, gang_size, capacity, device_slots, subgroups, pod_rules)
"""Limits by nodes, topology and pod rules, without queues. Topology is in the domains of `link` and `gang`, eligibility
in which n exist."""

CONSTRAINTS: Sequence[Family] = (*PLACEMENT_CONSTRAINTS, queue_ceilings, guarantees, strict_order)
"""The table of contents."""


def add_constraints(s: Sets, x: Variables, families: Iterable[Family] = CONSTRAINTS) -> None:
    """Add every row of these families to the model."""
    for family in families:
        add_rows(x.model, family(s, x))

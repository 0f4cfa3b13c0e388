"""The constraints of the admission model, one function per family, each yielding named rows. Letters as in
docs/model.md."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction

import pulp

from solver.mip.rows import MAX_FLOOR_SIZES, Row, Terms, at_least, at_most, equal, normalized_at_most, scale_terms
from solver.models.device_slots import device_slots
from solver.models.pod_rules import pod_rules
from solver.models.sets import Sets
from solver.models.variables import Variables
from solver.problem import Vector
from solver.semantics import priorities
from solver.semantics.device_slots import IntArray
from solver.semantics.topology import ROOT
from solver.validation.values import MAX_AMOUNT


def gangs_in_domain(s: Sets, x: Variables, k: int, h: int) -> Terms:
    """Gangs of shape k in domain h, as terms: g, or the sum of y where the whole cluster is the domain."""
    if h == ROOT:
        return [(y, 1) for (_, _, of), y in x.y.items() if of == k]
    return [(x.g[k, h], 1)] if (k, h) in x.g else []


def domain_assignment(s: Sets, x: Variables) -> Iterator[Row]:
    """A gang that is admitted lies in one of its domains.

    sum_{h in D_k} g[k,h]  =  sum_{q,p} y[q,p,k]                 k with a hard tier
    """
    for k in range(len(s.gang_classes)):
        if s.domains[k] != (ROOT,):
            inside = [(x.g[k, h], 1) for h in s.domains[k] if (k, h) in x.g]
            yield Row("link", (k,), equal(inside + [(y, -1) for (_, _, of), y in x.y.items() if of == k], 0))


def gang_size(s: Sets, x: Variables) -> Iterator[Row]:
    """All or nothing, per domain, role and gang; `most` differs from `least` only where a gang may grow.

    need_t * g[k,h]  <=  sum_{i in h} n[k,t,i]  <=  room_t * g[k,h]
    least_k * g[k,h] <=  sum_t sum_{i in h} n[k,t,i]  <=  most_k * g[k,h]
    """
    for k, shape in enumerate(s.gang_classes):
        for h, places in s.buckets_in[k].items():
            g = gangs_in_domain(s, x, k, h)
            if not g:
                continue
            placed = [[v for i in places for v in x.n[k, t].get(i, [])] for t in range(len(shape.roles))]
            for t, role in enumerate(shape.roles):
                if shape.is_rigid:
                    yield Row("gang.role", (k, h, t), equal(placed[t] + scale_terms(g, -role.min_pods), 0))
                else:
                    yield Row("gang.role.min", (k, h, t), at_least(placed[t] + scale_terms(g, -role.min_pods), 0))
                    yield Row("gang.role.max", (k, h, t), at_most(placed[t] + scale_terms(g, -role.max_pods), 0))
            if not shape.is_rigid:
                every = [v for terms in placed for v in terms]
                yield Row("gang.min", (k, h), at_least(every + scale_terms(g, -shape.min_pods), 0))
                yield Row("gang.max", (k, h), at_most(every + scale_terms(g, -shape.max_pods), 0))


def capacity(s: Sets, x: Variables) -> Iterator[Row]:
    """What a place holds, per resource, in slots of each pod size that occurs there; exact without node indices where
    the sizes divide one another.

        sum_{k,t} floor(a_{k,t} / z) * n[k,t,i]  <=  sum_{nodes of i} floor(free / z)      for each size z of the resource   (nested floors)
        sum_{k,t} a_{k,t} * n[k,t,i]             <=  sum_{nodes of i} free                 where z is not among the sizes' divisors

    A resource is left out at a place where another one always runs out first.
    """
    sizes = [
        sorted({role.request[r] for shape in s.gang_classes for role in shape.roles if role.request[r]})
        for r in range(s.resource_count)
    ]
    floors = [
        {
            z: s.sum_per_bucket(s.free.amounts[:, r] // z)
            for z in ({*sizes[r], 1} if len(sizes[r]) <= MAX_FLOOR_SIZES else {1})
        }
        for r in range(s.resource_count)
    ]
    users: dict[int, list[tuple[Vector, Terms]]] = {}
    for (k, t), pods in x.n.items():
        for i, terms in pods.items():
            if terms:
                users.setdefault(i, []).append((s.gang_classes[k].roles[t].request, terms))
    known: dict[tuple[bytes, frozenset[Vector]], list[int]] = {}
    for i, here in sorted(users.items()):
        free, requests = s.free.amounts[list(s.buckets[i].nodes)], frozenset(request for request, _ in here)
        key = b"".join(sorted(node.tobytes() for node in free)), requests
        if key not in known:
            known[key] = _binding_resources(free, requests)
        for r in known[key]:
            asked = sorted({request[r] for request, _ in here if request[r]})
            chain = all(b % a == 0 for a, b in itertools.pairwise(asked))
            for z in [z for z in asked if z in floors[r]] + ([] if chain and len(floors[r]) > 1 else [1]):
                taken_up: list[tuple[pulp.LpVariable, float]] = [
                    pair for request, n in here if request[r] >= z for pair in scale_terms(n, request[r] // z)
                ]
                yield Row("capacity", (i, r, z), normalized_at_most(taken_up, floors[r][z][i]))


def _binding_resources(free: IntArray, requests: frozenset[Vector]) -> list[int]:
    """The resources of a place that can run out: r is implied by b when max(a_r / a_b) * free_b <= free_r on each node
    of the place.

    free: node x resource, of the place's nodes.
    """
    asked = [r for r in range(free.shape[1]) if any(a[r] for a in requests)]
    kept: list[int] = []
    # Try to explain every resource by the scarcest one, the one with the fewest slots for its largest pod.
    priorities = sorted(asked, key=lambda r: (int((free[:, r] // max(a[r] for a in requests)).sum()), r))
    for r in priorities:
        implied = False
        for b in kept:
            if all(a[b] for a in requests if a[r]):
                worst = max(Fraction(a[r], a[b]) for a in requests if a[r])
                implied = implied or _never_exceeds(worst.numerator, free[:, b], worst.denominator, free[:, r])
        if not implied:
            kept.append(r)
    return sorted(kept)


def _never_exceeds(m: int, a: IntArray, n: int, b: IntArray) -> bool:
    """Whether m a <= n b for each pair, also where the products do not fit 64 bits."""
    if max(m * int(a.max()), n * int(b.max())) <= MAX_AMOUNT:
        return bool((m * a <= n * b).all())
    return all(m * x <= n * y for x, y in zip(a.tolist(), b.tolist(), strict=True))


def subgroups(s: Sets, x: Variables) -> Iterator[Row]:
    """The pods of a subgroup's roles come in whole parts; running ones count, where their gang starts.

    sum_{t in S} sum_{i in h} n[k,t,i] + running_h * y  =  size * u[k,S,h]      h: each domain of a hard subgroup's
    tier; else the whole cluster
    """
    for k, shape in enumerate(s.gang_classes):
        for index, part in enumerate(shape.subgroups):
            hard = part.topology.mode == "hard" and part.topology.tier <= s.tree.highest_tier
            pods: dict[int, Terms] = {}
            for t in part.roles:
                for i, terms in x.n[k, t].items():
                    at = s.domains_by_tier[part.topology.tier][i] if hard else ROOT
                    pods.setdefault(ROOT if at is None else at, []).extend(terms)
            running: dict[int, int] = {}
            for p in shape.running_pods:
                if p.role in part.roles:
                    at = s.tree.enclosing_domain(s.problem.nodes[p.node].leaf, part.topology.tier) if hard else ROOT
                    running[ROOT if at is None else at] = running.get(ROOT if at is None else at, 0) + p.pods
            starts = [(y, 1) for (_, _, of), y in x.y.items() if of == k]
            for h in sorted(pods.keys() | running.keys()):
                u = x.u[k, index, h] = x.model.add_variable(f"u_{k}_{index}_{h + 1}", 0, cat=pulp.LpInteger)
                held = scale_terms(starts, running[h]) if h in running else []
                yield Row("subgroup", (k, index, h), equal([*pods.get(h, []), *held, (u, -part.size)], 0))


def queue_ceilings(s: Sets, x: Variables) -> Iterator[Row]:
    """A queue stays under each of its ceilings; what it holds already counts, also where it is too much.

    held_q[r] + sum_{classes under q} demand_k[r] * y[q',p,k]  <=  max(most_q[r], held_q[r])

    most: capability; with capacity or proportion what guarantees leave of it; with proportion the share by weight, of q
    without those below it.
    """
    for q, ceilings in enumerate(s.queue_books.queue_rules.ceilings_by_queue):
        for ceiling in ceilings:
            under = {
                of
                for of in range(len(s.problem.queues))
                if of == q or (ceiling.includes_descendants and q in s.queue_books.path(of))
            }
            for r, limit in enumerate(ceiling.limits):
                if limit is None:
                    continue
                terms = usage_terms(s, x, r, under.__contains__)
                if terms:
                    yield Row(
                        "queue.ceiling",
                        (q, r),
                        normalized_at_most(terms, max(0, limit - s.queue_books.amount_counted(ceiling)[r])),
                    )


def usage_terms(s: Sets, x: Variables, r: int, counts: Callable[[int], bool]) -> list[tuple[pulp.LpVariable, float]]:
    """What the batch's gangs of those queues take of resource r. A shape whose mix of roles is open has one gang, so
    its n tells the amount."""
    terms: list[tuple[pulp.LpVariable, float]] = []
    for (q, _, k), y in x.y.items():
        if not counts(q):
            continue
        if s.gang_classes[k].is_rigid:
            terms += [(y, s.min_demands[k][r])] if s.min_demands[k][r] else []
        else:
            terms += [
                v
                for t, role in enumerate(s.gang_classes[k].roles)
                if role.request[r]
                for n in x.n[k, t].values()
                for v in scale_terms(n, role.request[r])
            ]
    return terms


def guarantees(s: Sets, x: Variables) -> Iterator[Row]:
    """What others are guaranteed stays free for them, along the whole tree.

    w[q,r]  >=  guarantee_q[r]                  w[q,r]  >=  direct_q[r] + sum of the batch in q itself + sum_{c child of
    q} w[c,r] sum_{root queues} w[q,r]  <=  total[r]      w[q,r]  <=  capability_q[r]              (or what was needed
    before, where that is more)
    """
    everything = s.problem.queues
    for r in range(s.resource_count):
        if not any(q.guarantee[r] for q in everything):
            continue
        # A unit keeps bytes of memory in the range that a MIP solver's tolerances are made for.
        unit = max(1, s.queue_books.cluster_total[r] // 1_000_000)
        before = s.queue_books.needed_amounts(r)
        for q, queue in enumerate(everything):
            x.w[q, r] = x.model.add_variable(f"w_{q}_{r}", (queue.guarantee[r] or 0) / unit)
        for q, queue in enumerate(everything):
            below = [(x.w[c, r], 1.0) for c in s.queue_books.children[q]]
            own = scale_terms(usage_terms(s, x, r, lambda of, q=q: of == q), 1 / unit)  # type: ignore[misc]
            yield Row(
                "guarantee.need",
                (q, r),
                at_least(
                    [(x.w[q, r], 1), *scale_terms(below, -1), *scale_terms(own, -1)], s.queue_books.direct[q][r] / unit
                ),
            )
            limit = queue.capability[r]
            if limit is not None:
                yield Row("guarantee.queue", (q, r), at_most([(x.w[q, r], 1)], max(limit, before[q]) / unit))
        roots = [q for q, queue in enumerate(everything) if queue.parent is None]
        yield Row(
            "guarantee.cluster",
            (r,),
            at_most(
                [(x.w[q, r], 1) for q in roots],
                max(s.queue_books.cluster_total[r], sum(before[q] for q in roots)) / unit,
            ),
        )


def strict_order(s: Sets, x: Variables) -> Iterator[Row]:
    """In a queue with strict order those who start are the first of its gangs in `order.line`.

    sum_{j in class} o[j]  =  y[class]          o[j]  >=  o[j']          j' right behind j in the queue
    """
    at = {j: key for key, js in s.waiting_gangs.items() if s.problem.queues[key[0]].strict_order for j in js}
    for q in sorted({key[0] for key in at.values()}):
        line = priorities.strict_queue_order(s.problem, (j for j, key in at.items() if key[0] == q))
        for j in line:
            x.o[j] = x.model.add_variable(f"o_{j}", cat=pulp.LpBinary)
        for first, second in itertools.pairwise(line):
            yield Row("strict.order", (first, second), at_least([(x.o[first], 1), (x.o[second], -1)], 0))
    for key in sorted(set(at.values())):
        yield Row("strict.class", key, equal([*((x.o[j], 1.0) for j in s.waiting_gangs[key]), (x.y[key], -1.0)], 0))


CONSTRAINTS = (
    domain_assignment,
    gang_size,
    capacity,
    device_slots,
    subgroups,
    pod_rules,
    queue_ceilings,
    guarantees,
    strict_order,
)
"""The table of contents: topology is in the domains of `link` and `gang`, eligibility in which n exist."""

PLACEMENT_CONSTRAINTS = (domain_assignment, gang_size, capacity, device_slots, subgroups, pod_rules)
"""What nodes, topology and relations allow, queues aside."""


def add_constraints(
    s: Sets, x: Variables, families: Iterable[Callable[[Sets, Variables], Iterator[Row]]] = CONSTRAINTS
) -> None:
    """Add every row of these families to the model."""
    for family in families:
        for number, row in enumerate(family(s, x)):
            x.model.addConstraint(row.constraint, f"{row.family.replace('.', '_')}_{number:06d}")

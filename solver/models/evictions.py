"""Room for one gang, or for several, and who gives it: their admission model, all forced to start, with pods of running
gangs as free variables.

Letters as in docs/model.md: v a victim, z[v] it goes whole, d[v] it loses a pod, e[v,t,m] pods of role t that it loses
on node m. The variables n, g, u of the gangs and their families link, gang and subgroup are those of `solver.models`;
capacity and queues are said again here, with what the victims give back on the right-hand side. Every victim may go for
every one of the gangs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pulp

from solver.mip.rows import Row, Terms, at_least, at_most, equal, normalized_at_most, scale_terms
from solver.models import constraints, variables
from solver.models.device_slots import (
    add_slot_variables,
    by_slot_group,
    slot_count_rows,
    slot_request_terms,
    slot_usage_terms,
)
from solver.models.pod_rules import pod_rules
from solver.models.sets import Sets
from solver.models.variables import Variables
from solver.problem import Gang, Placement, Vector
from solver.semantics.device_slots import FreeVectors
from solver.semantics.eviction_rights import Victim, loss_per_pod
from solver.semantics.placements import placed_demand
from solver.semantics.slot_holdings import HeldShare
from solver.semantics.topology import ROOT


@dataclass(frozen=True, slots=True)
class ReclaimLimits:
    """What gangs of other queues may take from one queue. most: resource -> how much of it, of which one has to hold.
    kept: resource -> what may go at most without touching a guarantee."""

    above_deserved: Mapping[int, int]
    above_guarantee: Mapping[int, int]


@dataclass(slots=True)
class EvictionModel:
    """
    s: the sets of the gangs that start, the free amounts counting every victim as gone; free: what is free now,
    below 0 where what runs exceeds the node victims: who may be evicted; exposures: queue -> its exposure, for the
    queues that the gangs reclaim from allowed: how many more pods each budget lets go away: whether pods count that are
    on no node of the model (when a queue is what is short)
    """

    s: Sets
    free: FreeVectors
    victims: Sequence[Victim]
    reclaim_limits: Mapping[int, ReclaimLimits]
    budget_left: Sequence[int]
    count_everywhere: bool
    x: Variables = field(init=False)
    z: dict[int, pulp.LpVariable] = field(default_factory=dict)
    d: dict[int, pulp.LpVariable] = field(default_factory=dict)
    e: dict[tuple[int, Placement], tuple[pulp.LpVariable, int]] = field(default_factory=dict)
    """(victim's gang, its pods at one spot) -> (variable, pods per unit of it): e, or z times all of them."""
    b: dict[tuple[int, int], pulp.LpVariable] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.x = variables.build_variables(self.s, fixed_admission=True)
        constraints.add_constraints(
            self.s, self.x, (constraints.domain_assignment, constraints.gang_size, constraints.subgroups, pod_rules)
        )
        inside = {n for pods in self.x.n.values() for i in pods for n in self.s.buckets[i].nodes}
        for v in self.victims:
            self._add_victim(v, inside)
        for number, row in enumerate(row for family in CONSTRAINTS for row in family(self)):
            self.x.model.addConstraint(row.constraint, f"{row.family.replace('.', '_')}_{number:06d}")

    def _add_victim(self, v: Victim, inside: set[int]) -> None:
        model, everywhere = self.x.model, self.count_everywhere or bool(self.gang_of(v).subgroups)
        self.z[v.gang] = model.add_variable(f"z_{v.gang}", cat=pulp.LpBinary)
        self.z[v.gang].upBound = int(v.may_go_whole)
        self.d[v.gang] = model.add_variable(f"d_{v.gang}", cat=pulp.LpBinary) if v.max_surplus else self.z[v.gang]
        for p in v.running:
            if v.surplus_per_role[p.role] and v.max_surplus and (everywhere or p.node in inside):
                self.e[v.gang, p] = (
                    model.add_variable(f"e_{v.gang}_{p.role}_{p.node}", 0, p.pods, cat=pulp.LpInteger),
                    1,
                )
            else:
                self.e[v.gang, p] = self.z[v.gang], p.pods

    def gang_of(self, v: Victim) -> Gang:
        return self.s.problem.gangs[v.gang]

    def evicted_terms(self, v: Victim, counts: Callable[[Placement], float] = lambda p: 1.0) -> Terms:
        """sum over the victim's spots of counts(spot) * e, each variable once."""
        total: dict[pulp.LpVariable, float] = {}
        for p in v.running:
            variable, unit = self.e[v.gang, p]
            if factor := counts(p) * unit:
                total[variable] = total.get(variable, 0.0) + factor
        return list(total.items())

    def freed_terms(self, r: int, counts: Callable[[Victim], bool]) -> Terms:
        """What those victims give back of resource r."""
        return [
            term
            for v in self.victims
            if counts(v)
            for term in self.evicted_terms(v, lambda p, v=v: self.gang_of(v).roles[p.role].request[r])  # type: ignore[misc]
        ]

    def loss_terms(self) -> Terms:
        """sum_v loss_v * sum e[v]"""
        return [
            term for v in self.victims for term in scale_terms(self.evicted_terms(v), loss_per_pod(self.gang_of(v)))
        ]

    def whole_gang_terms(self) -> Terms:
        """sum_v z[v]"""
        return [(z, 1.0) for z in self.z.values()]

    def victim_terms(self) -> Terms:
        """sum_v d[v]"""
        return [(d, 1.0) for d in self.d.values()]

    @property
    def has_surplus(self) -> bool:
        """Whether some victim can lose pods and stay; otherwise d = z."""
        return any(v.max_surplus for v in self.victims)

    def with_minimal_d(self, values: Mapping[str, float]) -> dict[str, float]:
        """The same solution with d as small as it may be."""
        gone = self.evicted_pods(values)
        return {**values, **{d.name: float(v in gone) for v, d in self.d.items()}}

    def evicted_pods(self, values: Mapping[str, float]) -> dict[int, tuple[Placement, ...]]:
        """Victim -> the pods that a solution takes from it."""
        found = {}
        for v in self.victims:
            pods = ((p, *self.e[v.gang, p]) for p in v.running)
            gone = tuple(
                Placement(p.role, p.node, number) for p, var, unit in pods if (number := round(values[var.name]) * unit)
            )
            if gone:
                found[v.gang] = gone
        return found


def victim_surplus(m: EvictionModel) -> Iterator[Row]:
    """A gang keeps its minima or goes whole.

    e[v,t,m] >= pods[v,t,m] z[v]        sum_m e[v,t,m] <= surplus[v,t] + (pods[v,t] - surplus[v,t]) z[v]        the same
    over all roles sum_t sum_m e[v,t,m] <= pods[v] d[v]
    (a spot without an e: pods z)
    """
    for v in m.victims:
        if not v.max_surplus:
            continue
        z, d = m.z[v.gang], m.d[v.gang]
        own = [p for p in v.running if m.e[v.gang, p][0] is not z]
        for p in own:
            yield Row("victim.whole", (v.gang, p.role, p.node), at_least([(m.e[v.gang, p][0], 1), (z, -p.pods)], 0))
        for t, most in enumerate(v.surplus_per_role):
            here = [p for p in own if p.role == t]
            yield from _surplus_rows(m, v, here, most, (v.gang, t))
        yield from _surplus_rows(m, v, own, v.max_surplus, (v.gang,))
        yield Row(
            "victim.touched",
            (v.gang,),
            at_most([*((m.e[v.gang, p][0], 1.0) for p in own), (d, -sum(p.pods for p in own))], 0),
        )
        yield Row("victim.gone", (v.gang,), at_most([(z, 1), (d, -1)], 0))


def _surplus_rows(
    m: EvictionModel, v: Victim, placements: Sequence[Placement], most: int, key: tuple[int, ...]
) -> Iterator[Row]:
    pods = sum(p.pods for p in placements)
    if pods > most:
        yield Row(
            "victim.surplus",
            key,
            at_most([*((m.e[v.gang, p][0], 1.0) for p in placements), (m.z[v.gang], most - pods)], most),
        )


def whole_subgroups(m: EvictionModel) -> Iterator[Row]:
    """Only whole parts of a victim's subgroups go: sum over the subgroup's roles and the nodes of one of its domains of
    e = size * integer."""
    for v in m.victims:
        for index, part in enumerate(m.gang_of(v).subgroups if v.max_surplus else ()):
            hard = part.topology.mode == "hard" and part.topology.tier <= m.s.tree.highest_tier
            spots: dict[int, list[Placement]] = {}
            for p in v.running:
                if p.role in part.roles:
                    h = m.s.tree.enclosing_domain(m.s.problem.nodes[p.node].leaf, part.topology.tier) if hard else ROOT
                    spots.setdefault(ROOT if h is None else h, []).append(p)
            for h, here in sorted(spots.items()):
                u = m.x.model.add_variable(f"u_{v.gang}_{index}_{h + 1}_gone", 0, cat=pulp.LpInteger)
                gone = m.evicted_terms(v, lambda p, here=here: float(p in here))  # type: ignore[misc]
                yield Row("victim.subgroup", (v.gang, index, h), equal([*gone, (u, -part.size)], 0))


def capacity(m: EvictionModel) -> Iterator[Row]:
    """On every node that may take pods: sum_t a_t n[t,m] <= free[m] + what the victims' pods there give back, per
    resource.

    Where what runs exceeds the node, free[m] is below 0 and binds only what takes pods: free[m] * s[m,r], with sum_t
    a_t n[t,m] <= M s[m,r].
    """
    s = m.s
    spots: dict[int, list[tuple[Victim, Placement]]] = {}
    for v in m.victims:
        for p in v.running:
            spots.setdefault(p.node, []).append((v, p))
    nodes: dict[int, list[tuple[Vector, Terms]]] = {}
    for (k, t), pods in m.x.n.items():
        for i, terms in pods.items():
            (node,) = s.buckets[i].nodes
            nodes.setdefault(node, []).append((s.gang_classes[k].roles[t].request, terms))
    for node, here in sorted(nodes.items()):
        for r in range(s.resource_count):
            wanted = [term for request, terms in here for term in scale_terms(terms, request[r])]
            given = [
                (m.e[v.gang, p][0], -m.e[v.gang, p][1] * m.gang_of(v).roles[p.role].request[r])
                for v, p in spots.get(node, ())
            ]
            wanted, given = [x for x in wanted if x[1]], [x for x in given if x[1]]
            free = int(m.free.amounts[node, r])
            if wanted and free < 0:
                takes = m.x.model.add_variable(f"s_{node}_{r}", cat=pulp.LpBinary)
                yield Row(
                    "capacity.takes",
                    (node, r),
                    normalized_at_most([*wanted, (takes, -sum(int(v.upBound * c) for v, c in wanted))], 0),
                )
                yield Row("capacity", (node, r), normalized_at_most([*wanted, *given, (takes, -free)], 0))
            elif wanted:
                yield Row("capacity", (node, r), normalized_at_most([*wanted, *given], free))


def device_slots(m: EvictionModel) -> Iterator[Row]:
    """What the slots of the nodes hold with what victims give back of them: `slot_count_rows`, and

    sum_a share_a[r] m[a,c] <= free_c[r] + sum of share[r] * given        over what victims' pods hold of c
    (`_freed_slots`)
    """
    s = m.s
    for i, requests in sorted(slot_request_terms(s, m.x).items()):
        (node,) = s.buckets[i].nodes
        freed: dict[tuple[int, int], list[tuple[HeldShare, Terms]]] = {}
        for h, terms, rows in _freed_slots(m, node):
            freed.setdefault((h.slot_group, h.position), []).append((h, terms))
            yield from rows
        for group, pods in by_slot_group(requests):
            count = add_slot_variables(m.x, i, s.free.slots[node, group], pods)
            slot_count = s.free.slots.shape[2]
            yield from slot_count_rows({a: (terms, 0) for a, terms in pods.items()}, count, slot_count, (i, group))
            for c in range(slot_count):
                for r in range(s.resource_count):
                    taken = slot_usage_terms(pods, count, c, r)
                    returned = [
                        term for h, terms in freed.get((group, c), ()) for term in scale_terms(terms, -h.share[r])
                    ]
                    if taken:
                        row = normalized_at_most(
                            [*taken, *(x for x in returned if x[1])], int(m.free.slots[node, group, c, r])
                        )
                        yield Row("slots.capacity", (node, group, c, r), row)


def _freed_slots(m: EvictionModel, node: int) -> Iterator[tuple[HeldShare, Terms, list[Row]]]:
    """given = u - min(u, N - e) of a victim's spot with N pods, u of which hold the cell: e where all do, u z where the
    spot goes whole, else

    given <= u w        given <= e - (N - u) w        w = 0, 1
    """
    for v in m.victims:
        pods = {(p.role, p.node): p for p in v.running}
        for h in v.held_shares:
            if h.node != node:
                continue
            p = pods[h.role, node]
            gone, unit = m.e[v.gang, p]
            if h.pods == p.pods or gone is m.z[v.gang]:
                yield h, [(gone, float(min(unit, h.pods)))], []
                continue
            name = f"{v.gang}_{h.role}_{node}_{h.slot_group}_{h.position}"
            w = m.x.model.add_variable(f"w_{name}", cat=pulp.LpBinary)
            given = m.x.model.add_variable(f"given_{name}", 0, h.pods, cat=pulp.LpInteger)
            rows = [
                at_most([(given, 1.0), (w, -h.pods)], 0),
                at_most([(given, 1.0), (gone, -1.0), (w, p.pods - h.pods)], 0),
            ]
            yield h, [(given, 1.0)], [Row("victim.gives", (v.gang, h.role, node, h.position), row) for row in rows]


def queue_ceilings(m: EvictionModel) -> Iterator[Row]:
    """Every ceiling on the winners' paths: held_q[r] + what they take - what victims under q give back <= most_q[r],
    where they take any."""
    s = m.s
    homes = {q for q, _, _ in s.waiting_gangs}
    for q in dict.fromkeys(above for home in sorted(homes) for above in s.queue_books.path(home)):
        for ceiling in s.queue_books.queue_rules.ceilings_by_queue[q]:
            under = {
                home for home in homes if home == q or (ceiling.includes_descendants and q in s.queue_books.path(home))
            }
            for r, limit in enumerate(ceiling.limits):
                wanted = constraints.usage_terms(s, m.x, r, under.__contains__)
                if limit is not None and wanted:
                    given = m.freed_terms(
                        r,
                        lambda v: (
                            q in s.queue_books.path(m.gang_of(v).queue)  # noqa: B023
                            if ceiling.includes_descendants  # noqa: B023
                            else m.gang_of(v).queue == q  # noqa: B023
                        ),
                    )
                    yield Row(
                        "queue.ceiling",
                        (q, r),
                        normalized_at_most(
                            [*wanted, *scale_terms(given, -1)], limit - s.queue_books.amount_counted(ceiling)[r]
                        ),
                    )


def guarantees(m: EvictionModel) -> Iterator[Row]:
    """As `constraints.guarantees`, with direct_q[r] less what the queue's own victims give back."""
    s = m.s
    for row in constraints.guarantees(s, m.x):
        if row.family == "guarantee.need":
            q, r = row.key
            unit = max(1, s.queue_books.cluster_total[r] // 1_000_000)
            given = scale_terms(m.freed_terms(r, lambda v, q=q: m.gang_of(v).queue == q), 1 / unit)  # type: ignore[misc]
            row = Row(row.family, row.key, at_least([*row.constraint.items(), *given], -row.constraint.constant))
        yield row


def reclaim_bounds(m: EvictionModel) -> Iterator[Row]:
    """A queue that gangs of others take from stays at what it deserves of one resource r that they ask for, and above
    its guarantees.

    sum_r b[q,r] = 1        taken_q[r] <= most_q[r] + M (1 - b[q,r])        taken_q[r] <= kept_q[r]
    d[v] + b[q,r] - 1 <= pods that v loses and that hold some of r
    """
    s = m.s
    for q, exposure in sorted(m.reclaim_limits.items()):
        own = [v for v in m.victims if q in v.checked_queues]
        below = [v for v in m.victims if v.checked_queues and q in s.queue_books.path(m.gang_of(v).queue)]
        everything = [
            sum(p.pods * m.gang_of(v).roles[p.role].request[r] for v in below for p in v.running)
            for r in range(s.resource_count)
        ]
        for r in sorted(exposure.above_deserved):
            m.b[q, r] = m.x.model.add_variable(f"b_{q}_{r}", cat=pulp.LpBinary)
        yield Row("reclaim.one", (q,), equal([(m.b[q, r], 1) for r in sorted(exposure.above_deserved)], 1))
        for r, most in sorted(exposure.above_deserved.items()):
            excess = everything[r] - most
            if excess > 0:
                yield Row(
                    "reclaim.deserved",
                    (q, r),
                    normalized_at_most([*m.freed_terms(r, lambda v: v in below), (m.b[q, r], excess)], most + excess),  # noqa: B023
                )
        for r, most in sorted(exposure.above_guarantee.items()):
            if everything[r] > most:
                yield Row("reclaim.guarantee", (q, r), normalized_at_most(m.freed_terms(r, lambda v: v in below), most))  # noqa: B023
        for v, r in ((v, r) for v in own for r in sorted(exposure.above_deserved)):
            helpful = m.evicted_terms(v, lambda p, v=v, r=r: float(m.gang_of(v).roles[p.role].request[r] > 0))  # type: ignore[misc]
            yield Row(
                "reclaim.helps",
                (v.gang, r),
                at_most([(m.d[v.gang], 1.0), (m.b[q, r], 1.0), *scale_terms(helpful, -1)], 1),
            )


def drf_shares(m: EvictionModel) -> Iterator[Row]:
    """Where drf votes, a victim keeps as much of one resource as its winners get of theirs.

    d[v] <= sum_r k[v,r]        gone_v[r] + keeps_v[r] k[v,r] <= held_v[r]
    """
    for v in m.victims:
        if not v.retained_amounts:
            continue
        held = placed_demand(m.gang_of(v), v.running, m.s.resource_count)
        some: Terms = []
        for r, least in enumerate(v.retained_amounts):
            if 0 < least <= held[r]:
                kept = m.x.model.add_variable(f"k_{v.gang}_{r}", cat=pulp.LpBinary)
                gone = m.evicted_terms(v, lambda p, v=v, r=r: float(m.gang_of(v).roles[p.role].request[r]))  # type: ignore[misc]
                yield Row("victim.keeps", (v.gang, r), normalized_at_most([*gone, (kept, least)], held[r]))
                some.append((kept, -1.0))
        yield Row("victim.share", (v.gang,), at_most([(m.d[v.gang], 1.0), *some], 0))


def disruption_budgets(m: EvictionModel) -> Iterator[Row]:
    """sum over the spots of a budget's roles of e[v,t,m] <= allowed"""
    for b, (budget, most) in enumerate(zip(m.s.problem.disruption_budgets, m.budget_left, strict=True)):
        roles = set(budget.roles)
        gone = [term for v in m.victims for term in m.evicted_terms(v, lambda p, v=v: float((v.gang, p.role) in roles))]  # type: ignore[misc] # noqa: B023
        if gone:
            yield Row("victim.budget", (b,), at_most(gone, most))


CONSTRAINTS: Iterable[Callable[[EvictionModel], Iterator[Row]]] = (
    victim_surplus,
    whole_subgroups,
    capacity,
    device_slots,
    queue_ceilings,
    guarantees,
    reclaim_bounds,
    drf_shares,
    disruption_budgets,
)

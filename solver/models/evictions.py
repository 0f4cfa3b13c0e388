"""Which pods of running gangs to evict so that given gangs start: their admission model, all forced to start, with the
evicted pods as further variables. Every victim may be evicted for every one of the gangs.

Letters as in model.md: v a victim; z[v] all of it is evicted, d[v] it loses a pod, e[v,t,m] pods of role t that it
loses on node m. n, g, u and the families link, gang, subgroup and pod rules are those of the admission model; capacity
and queues are written again, with the amounts that victims return on the right-hand side.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pulp

from solver.mip.rows import Row, Terms, add_rows, at_least, at_most, equal, normalized_at_most, scale_terms
from solver.models import constraints
from solver.models.device_slots import (
    add_slot_variables,
    by_slot_group,
    slot_count_rows,
    slot_request_terms,
    slot_usage_terms,
)
from solver.models.pod_rule_rows import pod_rules, rule_terms
from solver.models.sets import Sets
from solver.models.variables import Variables, build_variables, pods_by_bucket
from solver.problem import Gang, Placement, Vector
from solver.semantics.device_slots import FreeVectors, HeldShare
from solver.semantics.eviction_rights import ReclaimLimits, Victim, evictable_placements, loss_per_pod, whole_unit
from solver.semantics.placements import placed_demand


@dataclass(slots=True)
class EvictionModel:
    """The model over the sets s of the gangs that start, whose free amounts count every victim as gone.

    free: now, below 0 where running pods exceed the node. reclaim_limits: of the queues that the gangs reclaim from.
    budget_left: evictions that each disruption budget allows. count_everywhere: victims' pods count also on nodes
    outside the model (where a queue is short). roomy_nodes: of each gang class the nodes where victims' pods count as
    staying for anti-affinity; None: everywhere, else the pod rules of s count all victims' pods as gone.
    e: (victim, its pods at one placement) -> (variable, pods per unit of it): e[v,t,m], or z[v] times all of them.
    """

    s: Sets
    free: FreeVectors
    victims: Sequence[Victim]
    reclaim_limits: Mapping[int, ReclaimLimits]
    budget_left: Sequence[int]
    count_everywhere: bool
    roomy_nodes: Sequence[frozenset[int]] | None
    x: Variables = field(init=False)
    z: dict[int, pulp.LpVariable] = field(default_factory=dict)
    d: dict[int, pulp.LpVariable] = field(default_factory=dict)
    e: dict[tuple[int, Placement], tuple[pulp.LpVariable, int]] = field(default_factory=dict)
    b: dict[tuple[int, int], pulp.LpVariable] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.x = build_variables(self.s, fixed_admission=True)
        families = (constraints.domain_assignment, constraints.gang_size, constraints.subgroups, pod_rules)
        constraints.add_constraints(self.s, self.x, families)
        buckets = {i for pods in self.x.n.values() for i in pods}
        inside = {n for i in buckets for n in self.s.buckets[i].nodes}
        for v in self.victims:
            self._add_victim(v, inside)
        for family in CONSTRAINTS:
            add_rows(self.x.model, family(self))

    def _add_victim(self, v: Victim, inside: set[int]) -> None:
        model, everywhere = self.x.model, self.count_everywhere or bool(self.gang_of(v).subgroups)
        self.z[v.gang] = model.add_variable(f"z_{v.gang}", cat=pulp.LpBinary)
        self.z[v.gang].upBound = int(v.may_go_whole)
        self.d[v.gang] = model.add_variable(f"d_{v.gang}", cat=pulp.LpBinary) if v.max_surplus else self.z[v.gang]
        open_to = {(p.role, p.node): p.pods for p in evictable_placements(self.gang_of(v), v.running)}
        for p in v.running:
            if v.surplus_per_role[p.role] and v.max_surplus and (everywhere or p.node in inside):
                most = open_to.get((p.role, p.node), 0)
                e = model.add_variable(f"e_{v.gang}_{p.role}_{p.node}", 0, most, cat=pulp.LpInteger)
                self.e[v.gang, p] = e, 1
            else:
                self.e[v.gang, p] = self.z[v.gang], p.pods

    def gang_of(self, v: Victim) -> Gang:
        return self.s.problem.gangs[v.gang]

    def held(self, v: Victim) -> Vector:
        """Return the amounts of the victim's pods."""
        return placed_demand(self.gang_of(v), v.running, self.s.resource_count)

    def request(self, v: Victim, p: Placement, r: int) -> int:
        """Return the amount of resource r of one of the victim's pods there."""
        return self.gang_of(v).roles[p.role].request[r]

    def evicted_terms(self, v: Victim, weights: Iterable[tuple[Placement, float]]) -> Terms:
        """sum over these placements of weight * evicted pods, each variable once"""
        total: dict[pulp.LpVariable, float] = {}
        for p, weight in weights:
            variable, unit = self.e[v.gang, p]
            if weight:
                total[variable] = total.get(variable, 0.0) + weight * unit
        return list(total.items())

    def freed_terms(self, r: int, victims: Iterable[Victim]) -> Terms:
        """Return the amounts of resource r that these victims return."""
        found: Terms = []
        for v in victims:
            found += self.evicted_terms(v, ((p, self.request(v, p, r)) for p in v.running))
        return found

    def loss_terms(self) -> Terms:
        """sum_v loss_v * sum e[v]"""
        found: Terms = []
        for v in self.victims:
            found += scale_terms(self.evicted_terms(v, ((p, 1.0) for p in v.running)), loss_per_pod(self.gang_of(v)))
        return found

    def tie_terms(self) -> Terms:
        """Return sum_v weight_v * sum e[v]: prefers the choice with the fewest pods that report a checkpoint, then with
        the lowest priorities (in sum their ranks among the victims of equal loss)."""
        priorities: dict[int, set[int]] = {}
        for v in self.victims:
            priorities.setdefault(loss_per_pod(self.gang_of(v)), set()).add(self.gang_of(v).priority)
        pods = sum(p.pods for v in self.victims for p in v.running)
        found: Terms = []
        for v in self.victims:
            gang = self.gang_of(v)
            rank = sum(lower < gang.priority for lower in priorities[loss_per_pod(gang)])
            weight = rank + gang.eviction.reports_checkpoint * pods * len(self.victims)
            found += self.evicted_terms(v, ((p, weight) for p in v.running))
        return found

    def whole_gang_terms(self) -> Terms:
        """sum_v z[v]"""
        return [(z, 1.0) for z in self.z.values()]

    def victim_terms(self) -> Terms:
        """sum_v d[v]"""
        return [(d, 1.0) for d in self.d.values()]

    @property
    def has_surplus(self) -> bool:
        """Return whether some victim can lose pods and stay; else d = z."""
        return any(v.max_surplus for v in self.victims)

    def with_minimal_d(self, values: Mapping[str, float]) -> dict[str, float]:
        """Return the same solution with d as small as it may be."""
        gone = self.evicted_pods(values)
        return {**values, **{d.name: float(v in gone) for v, d in self.d.items()}}

    def evicted_pods(self, values: Mapping[str, float]) -> dict[int, tuple[Placement, ...]]:
        """Victim -> the pods that a solution evicts."""
        found = {}
        for v in self.victims:
            counts = {p: round(values[e.name]) * unit for p in v.running for e, unit in [self.e[v.gang, p]]}
            if gone := tuple(Placement(p.role, p.node, pods) for p, pods in counts.items() if pods):
                found[v.gang] = gone
        return found


def victim_surplus(m: EvictionModel) -> Iterator[Row]:
    """Yield rows by which a victim keeps its minima or is evicted whole.

    e[v,t,m] >= pods[v,t,m] z[v]
    sum_m e[v,t,m] <= surplus[v,t] + (pods[v,t] - surplus[v,t]) z[v]        and the same over all roles
    sum_t sum_m e[v,t,m] <= pods[v] d[v]        z[v] <= d[v]
    """
    for v in m.victims:
        if not v.max_surplus:
            continue
        z, d = m.z[v.gang], m.d[v.gang]
        e = {p: m.e[v.gang, p][0] for p in v.running if m.e[v.gang, p][0] is not z}
        for p, variable in e.items():
            yield Row("victim.whole", (v.gang, p.role, p.node), at_least([(variable, 1), (z, -p.pods)], 0))
        for t, surplus in enumerate(v.surplus_per_role):
            yield from _surplus_rows({p: variable for p, variable in e.items() if p.role == t}, z, surplus, (v.gang, t))
        yield from _surplus_rows(e, z, v.max_surplus, (v.gang,))
        total: Terms = [(variable, 1.0) for variable in e.values()]
        yield Row("victim.touched", (v.gang,), at_most([*total, (d, -sum(p.pods for p in e))], 0))
        yield Row("victim.gone", (v.gang,), at_most([(z, 1), (d, -1)], 0))


def _surplus_rows(
    e: Mapping[Placement, pulp.LpVariable], z: pulp.LpVariable, surplus: int, key: tuple[int, ...]
) -> Iterator[Row]:
    pods = sum(p.pods for p in e)
    if pods > surplus:
        total: Terms = [(variable, 1.0) for variable in e.values()]
        yield Row("victim.surplus", key, at_most([*total, (z, surplus - pods)], surplus))


def complete_subgroups(m: EvictionModel) -> Iterator[Row]:
    """Only complete parts of a victim's subgroups go:  sum_{t in S} sum_{m in h} e[v,t,m]  =  size * u  per domain h"""
    for v in m.victims:
        for index, subgroup in enumerate(m.gang_of(v).subgroups if v.max_surplus else ()):
            placements: dict[int, list[tuple[Placement, float]]] = {}
            for p in v.running:
                if p.role in subgroup.roles:
                    h = m.s.subgroup_domain(subgroup, m.s.problem.nodes[p.node].leaf)
                    placements.setdefault(h, []).append((p, 1.0))
            for h, here in sorted(placements.items()):
                u = m.x.model.add_variable(f"u_{v.gang}_{index}_{h + 1}_gone", 0, cat=pulp.LpInteger)
                row = equal([*m.evicted_terms(v, here), (u, -subgroup.size)], 0)
                yield Row("victim.subgroup", (v.gang, index, h), row)


def capacity(m: EvictionModel) -> Iterator[Row]:
    """On every node that may take pods, per resource:

    sum_t a_t n[t,m]  <=  free[m] + what the victims' pods there return

    Where running pods exceed the node, free[m] is below 0 and binds only where pods are added: free[m] * s[m,r] with a
    binary s[m,r] and  sum_t a_t n[t,m] <= M s[m,r].
    """
    s = m.s
    running: dict[int, list[tuple[Victim, Placement]]] = {}
    for v in m.victims:
        for p in v.running:
            running.setdefault(p.node, []).append((v, p))
    pods_by_node = {s.buckets[i].nodes[0]: pods for i, pods in pods_by_bucket(s, m.x).items()}
    for node, pods in sorted(pods_by_node.items()):
        for r in range(s.resource_count):
            asking = [(request[r], n) for request, n in pods if request[r]]
            taken: Terms = [term for amount, n in asking for term in scale_terms(n, amount)]
            if not taken:
                continue
            returned: Terms = []
            for v, p in running.get(node, ()):
                e, unit = m.e[v.gang, p]
                returned += [(e, -unit * m.request(v, p, r))] if m.request(v, p, r) else []
            free = int(m.free.amounts[node, r])
            if free < 0:
                takes = m.x.model.add_variable(f"s_{node}_{r}", cat=pulp.LpBinary)
                most = sum(int(v.upBound * c) for v, c in taken)
                yield Row("capacity.takes", (node, r), normalized_at_most([*taken, (takes, -most)], 0))
                returned.append((takes, -free))
            yield Row("capacity", (node, r), normalized_at_most([*taken, *returned], max(free, 0)))


def device_slots(m: EvictionModel) -> Iterator[Row]:
    """Yield the capacity of a node's slots: `slot_count_rows`, and, with the shares that victims return of slot c
    (`_freed_slots`),

    sum_a share_a[r] m[a,c]  <=  free_c[r] + sum of share[r] * given
    """
    s, slot_count = m.s, m.s.free.slots.shape[2]
    for i, requests in sorted(slot_request_terms(s, m.x).items()):
        (node,) = s.buckets[i].nodes
        freed: dict[tuple[int, int], list[tuple[HeldShare, Terms]]] = {}
        for held, given, rows in _freed_slots(m, node):
            freed.setdefault((held.slot_group, held.position), []).append((held, given))
            yield from rows
        for group, pods in by_slot_group(requests):
            count = add_slot_variables(m.x, i, s.free.slots[node, group], pods)
            yield from slot_count_rows({a: (terms, 0) for a, terms in pods.items()}, count, slot_count, (i, group))
            for c, r in itertools.product(range(slot_count), range(s.resource_count)):
                terms = slot_usage_terms(pods, count, c, r)
                if terms:
                    for held, given in freed.get((group, c), ()):
                        terms += scale_terms(given, -held.share[r]) if held.share[r] else []
                    free = int(m.free.slots[node, group, c, r])
                    yield Row("slots.capacity", (i, group, c, r), normalized_at_most(terms, free))


def _freed_slots(m: EvictionModel, node: int) -> Iterator[tuple[HeldShare, Terms, list[Row]]]:
    """For each share that victims hold of the node's slots, how many of its u pods give theirs back, with its rows.

    given = u - min(u, N - e) of a placement with N pods: e where all of them hold the slot, u z where the placement is
    evicted as one, else by a binary w:        given <= u w        given <= e - (N - u) w
    """
    for v in m.victims:
        pods = {(p.role, p.node): p for p in v.running}
        for h in v.held_shares:
            if h.node != node:
                continue
            p = pods[h.role, node]
            e, unit = m.e[v.gang, p]
            if h.pods == p.pods or e is m.z[v.gang]:
                yield h, [(e, float(min(unit, h.pods)))], []
                continue
            key = (v.gang, h.role, node, h.slot_group, h.position)
            name = "_".join(map(str, key))
            w = m.x.model.add_variable(f"w_{name}", cat=pulp.LpBinary)
            given = m.x.model.add_variable(f"given_{name}", 0, h.pods, cat=pulp.LpInteger)
            some = Row("victim.gives.any", key, at_most([(given, 1.0), (w, -h.pods)], 0))
            most = Row("victim.gives.most", key, at_most([(given, 1.0), (e, -1.0), (w, p.pods - h.pods)], 0))
            yield h, [(given, 1.0)], [some, most]


def queue_ceilings(m: EvictionModel) -> Iterator[Row]:
    """Yield every ceiling above the starting gangs, of resources that they take.

    held_q[r] + what they take - what victims counted in q return  <=  limit_q[r]
    """
    s = m.s
    for q in dict.fromkeys(above for home in s.batch_queues for above in s.queue_books.path(home)):
        for number, ceiling in enumerate(s.queue_books.queue_rules.ceilings_by_queue[q]):
            counted = {home for home in s.batch_queues if s.is_counted(ceiling, home)}
            victims = [v for v in m.victims if s.is_counted(ceiling, m.gang_of(v).queue)]
            held = s.queue_books.amount_counted(ceiling)
            for r, limit in enumerate(ceiling.limits):
                if limit is not None and (taken := constraints.usage_terms(s, m.x, r, counted)):
                    returned = scale_terms(m.freed_terms(r, victims), -1)
                    row = normalized_at_most([*taken, *returned], limit - held[r])
                    yield Row("queue.ceiling", (q, number, r), row)


def guarantees(m: EvictionModel) -> Iterator[Row]:
    """As `constraints.guarantees`, with direct_q[r] less what the queue's own victims return."""
    for row in constraints.guarantees(m.s, m.x):
        if row.family != "guarantee.need":
            yield row
            continue
        q, r = row.key
        own = (v for v in m.victims if m.gang_of(v).queue == q)
        returned = scale_terms(m.freed_terms(r, own), 1 / m.s.guarantee_unit(r))
        yield Row(row.family, row.key, at_least([*row.constraint.items(), *returned], -row.constraint.constant))


def reclaim_bounds(m: EvictionModel) -> Iterator[Row]:
    """Yield rows by which a queue keeps the deserved amount of each resource by which it is measured, except for the
    last unit (a pod, or a whole gang), and the amounts above its guarantees.

    taken_q[r] <= above_deserved_q[r] + what the last unit adds + M (1 - b[q,r])
    taken_q[r] <= above_guarantee_q[r]
    """
    reclaimed = [v for v in m.victims if v.checked_queues]
    for q, limits in sorted(m.reclaim_limits.items()):
        below = [v for v in reclaimed if q in m.s.queue_books.path(m.gang_of(v).queue)]
        for r, most in sorted(limits.above_deserved.items()):
            m.b[q, r] = m.x.model.add_variable(f"b_{q}_{r}", int(r in limits.measured), 1, cat=pulp.LpInteger)
            yield from _deserved_rows(m, below, q, r, most)
        for r, most in sorted(limits.above_guarantee.items()):
            if sum(p.pods * m.request(v, p, r) for v in below for p in v.running) > most:
                yield Row("reclaim.guarantee", (q, r), normalized_at_most(m.freed_terms(r, below), most))
        for v in (v for v in reclaimed if q in v.checked_queues):
            yield from _measure_rows(m, v, q, limits)


def _deserved_rows(m: EvictionModel, below: Sequence[Victim], q: int, r: int, most: int) -> Iterator[Row]:
    """Yield the limit on the losses of `below` in r: the queue holds more than it deserves before the last unit, of
    size a, is evicted.

    taken[r] - a < most  if some last_a, else  taken[r] <= most        where b[q,r]
    sum_a last_a <= 1        last_a <= units of size a that go
    """
    total = sum(p.pods * m.request(v, p, r) for v in below for p in v.running)
    if total <= most:
        return
    taken, units = m.freed_terms(r, below), _units_by_size(m, below, r) if most else {}
    size = math.gcd(*(int(c) for _, c in taken))
    most, step = most // size * size, size if most % size == 0 else 0  # both sides in whole sizes
    excess = total - most
    last = {a: m.x.model.add_variable(f"last_{q}_{r}_{a}", cat=pulp.LpBinary) for a in sorted(units) if a > step}
    for a, variable in last.items():
        yield Row("reclaim.last", (q, r, a), at_most([(variable, 1.0), *scale_terms(units[a], -1)], 0))
    if last:
        yield Row("reclaim.one", (q, r), at_most([(variable, 1.0) for variable in last.values()], 1))
    more = [(variable, step - a) for a, variable in last.items()]
    yield Row("reclaim.deserved", (q, r), normalized_at_most([*taken, *more, (m.b[q, r], excess)], most + excess))


def _units_by_size(m: EvictionModel, victims: Iterable[Victim], r: int) -> dict[int, Terms]:
    """Return how much of r a unit holds -> how many such units go."""
    found: dict[int, Terms] = {}
    for v in victims:
        found.setdefault(whole_unit(m.gang_of(v), v).last[r], []).append((m.z[v.gang], 1.0))
        for p in v.running:
            if m.e[v.gang, p][0] is not m.z[v.gang]:
                found.setdefault(m.request(v, p, r), []).append((m.e[v.gang, p][0], 1.0))
    return found


def _measure_rows(m: EvictionModel, v: Victim, q: int, limits: ReclaimLimits) -> Iterator[Row]:
    """Yield the conditions c under which v, or a pod of it, is evicted:

    z[v] <= sum_{r in c} b[q,r]        e[v,t,m] <= pods[v,t,m] (z[v] + sum_{r in c} b[q,r])
    """
    z, gang = m.z[v.gang], m.gang_of(v)
    units: list[tuple[tuple[int, ...], Vector, Terms, int]] = [((), m.held(v), [(z, 1.0)], 1)]
    for p in v.running:
        if m.e[v.gang, p][0] is not z:
            terms = [(m.e[v.gang, p][0], 1.0), (z, -p.pods)]
            units.append(((p.role, p.node), gang.roles[p.role].request, terms, p.pods))
    for key, amount, terms, pods in units:
        for number, condition in enumerate(limits.conditions(amount, v.right)):
            enough = [(m.b[q, r], -pods) for r in sorted(condition) if r in limits.above_deserved]
            yield Row("reclaim.measure", (v.gang, q, number, *key), at_most([*terms, *enough], 0))


def drf_shares(m: EvictionModel) -> Iterator[Row]:
    """Where drf votes, a victim retains as much of one resource as its preemptors get of theirs.

    d[v] <= sum_r k[v,r]        gone_v[r] + retained_v[r] k[v,r] <= held_v[r]
    """
    for v in m.victims:
        if not v.retained_amounts:
            continue
        held = m.held(v)
        some: Terms = []
        for r, least in enumerate(v.retained_amounts):
            if 0 < least <= held[r]:
                retains = m.x.model.add_variable(f"k_{v.gang}_{r}", cat=pulp.LpBinary)
                row = normalized_at_most([*m.freed_terms(r, [v]), (retains, least)], held[r])
                yield Row("victim.keeps", (v.gang, r), row)
                some.append((retains, -1.0))
        yield Row("victim.share", (v.gang,), at_most([(m.d[v.gang], 1.0), *some], 0))


def opened_domains(m: EvictionModel) -> Iterator[Row]:
    """Yield rows on domains opened by eviction, for each anti-affinity rho. Where victims' pods block new ones in
    domain d, all of them are evicted before any new one is placed there, and no new one is placed on the roomy nodes of
    its gang. gone_d, victims_d: their evicted pods, their pods, that the rule selects (that own it).

    B_d + S_d <= most opened[d]  (M_d + S_d)        gone_d >= victims_d opened[d]        n[k,t,m] = 0  for roomy m in d
    """
    if m.s.rule_counts is None or m.roomy_nodes is None:
        return
    for rho, rule in rule_terms(m.s, m.x, m.s.rule_counts):
        if m.s.problem.pod_rules[rho].rule_kind != "anti-affinity":
            continue
        for d, new in rule.inside.items():
            sides = (True, new.owners, new.max_owners), (False, new.selected, new.max_selected)
            for are_owners, pods, most in sides:
                what = "owners" if are_owners else "selected"
                gone, standing = _rule_pods(m, rho, d, owners=not are_owners)
                if pods and standing:
                    opened = m.x.model.add_variable(f"opened_{rho}_{d}_{what}", cat=pulp.LpBinary)
                    yield Row(f"opened.{what}", (rho, d), at_most([*pods, (opened, -most)], 0))
                    yield Row(f"opened.{what}.gone", (rho, d), at_least([*gone, (opened, -standing)], 0))
                    if roomy := _pods_on_roomy_nodes(m, rho, d, are_owners):
                        yield Row(f"opened.{what}.never", (rho, d), at_most(roomy, 0))


def _pods_on_roomy_nodes(m: EvictionModel, rho: int, d: int, owners: bool) -> Terms:
    """Return the new pods in domain d, on roomy nodes of their gangs, that own rule rho or are selected."""
    found, domains = list[tuple[pulp.LpVariable, float]](), m.s.problem.pod_rules[rho].domains
    for (k, t), pods in m.x.n.items():
        role, roomy = m.s.roles[k, t], m.roomy_nodes[k] if m.roomy_nodes else frozenset[int]()
        if roomy and rho in (role.owned_rules if owners else role.selecting_rules):
            for i, terms in pods.items():
                node = m.s.buckets[i].nodes[0]
                found += terms if node in roomy and domains[node] == d else []
    return found


def _rule_pods(m: EvictionModel, rho: int, d: int, owners: bool) -> tuple[Terms, int]:
    """(the evicted pods, the number of pods that may go) of victims in domain d that own rule rho or are selected."""
    gone, standing, domains = list[tuple[pulp.LpVariable, float]](), 0, m.s.problem.pod_rules[rho].domains
    for v in m.victims:
        roles = m.gang_of(v).roles
        rules = [role.owned_rules if owners else role.selecting_rules for role in roles]
        inside = [p for p in v.running if domains[p.node] == d]
        here = [p for p in inside if rho in rules[p.role]]
        gone += m.evicted_terms(v, ((p, 1.0) for p in here))
        standing += sum(p.pods for p in evictable_placements(m.gang_of(v), here))
    return gone, standing


def disruption_budgets(m: EvictionModel) -> Iterator[Row]:
    """sum of e[v,t,m] over the roles of a budget <= allowed"""
    for b, (budget, allowed) in enumerate(zip(m.s.problem.disruption_budgets, m.budget_left, strict=True)):
        roles, gone = set(budget.roles), list[tuple[pulp.LpVariable, float]]()
        for v in m.victims:
            gone += m.evicted_terms(v, ((p, float((v.gang, p.role) in roles)) for p in v.running))
        if gone:
            yield Row("victim.budget", (b,), at_most(gone, allowed))


CONSTRAINTS: Sequence[Callable[[EvictionModel], Iterator[Row]]] = (
    victim_surplus,
    complete_subgroups,
    capacity,
    device_slots,
    queue_ceilings,
    guarantees,
    reclaim_bounds,
    drf_shares,
    opened_domains,
    disruption_budgets,
)
"""The table of contents."""

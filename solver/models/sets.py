"""The index sets and parameters of one batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from solver.problem import PodRequest, Problem, Vector
from solver.semantics.device_slots import FreeVectors, IntArray
from solver.semantics.gang_classes import ClassRole, GangClass, breaks_topology
from solver.semantics.placements import Placements, new_placements
from solver.semantics.queue_limits import SiblingQueues, cluster_totals, gang_dominant_share, queue_priority
from solver.semantics.topology import ROOT, TopologyTree
from solver.state.free_nodes import FreeNodes
from solver.state.pod_rules import NO_DOMAIN, PodRuleCounts
from solver.state.queue_books import QueueBooks

AdmissionClass = tuple[int, int, int]
"""(queue, urgency of gangs, shape index)."""

PrecedenceLevel = tuple[int, int]
"""(urgency of gangs, priority of their queues): what is decided together. The second is 0 where no plugin looks at it."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """Nodes of one leaf and one kind, counted together; a single node once packing has shown that counting them
    together was too coarse."""

    leaf: int | None
    node_class: int
    nodes: tuple[int, ...]


def coarsest_buckets(problem: Problem) -> tuple[Bucket, ...]:
    """The coarsest places: one for each (leaf, kind), and for each domain of the relations whose domains are more than
    single nodes."""
    wide = [at for at in dict.fromkeys(relation.domains for relation in problem.pod_rules) if len(set(at)) < len(at)]
    keys = [
        [ROOT if node.leaf is None else node.leaf for node in problem.nodes],
        [node.node_class for node in problem.nodes],
    ]
    keys += [[NO_DOMAIN if d is None else d for d in at] for at in wide]
    column = np.array(keys, dtype=np.int64)
    order = np.lexsort(column[::-1])
    begins = np.flatnonzero((column[:, order[1:]] != column[:, order[:-1]]).any(axis=0)) + 1
    members = (nodes.tolist() for nodes in np.split(order, begins) if len(nodes))
    return tuple(
        Bucket(None if keys[0][of[0]] == ROOT else keys[0][of[0]], keys[1][of[0]], tuple(of)) for of in members
    )


def split_buckets(buckets: Iterable[Bucket], to_split: Iterable[int]) -> tuple[Bucket, ...]:
    """The same places, those with an index in `coarse` split into single nodes."""
    split = set(to_split)
    return tuple(
        part
        for i, place in enumerate(buckets)
        for part in ([Bucket(place.leaf, place.node_class, (n,)) for n in place.nodes] if i in split else [place])
    )


@dataclass(frozen=True)
class Sets:
    """K: `shapes`; I: `places`; classes (q, p, k) with `waiting` gangs each (N in the formulas).

    free: what may be given. ledger: what the queues hold before the batch. neighbours: who is where before it, for
    relations.
    """

    problem: Problem
    tree: TopologyTree
    buckets: tuple[Bucket, ...]
    free: FreeVectors
    queue_books: QueueBooks
    gang_classes: tuple[GangClass, ...]
    waiting_gangs: Mapping[AdmissionClass, tuple[int, ...]]
    rule_counts: PodRuleCounts | None = None

    def free_nodes(self) -> FreeNodes:
        """What may be given, to be taken."""
        return FreeNodes(self.free, self.rule_counts)

    def free_nodes_after(self, placements: Placements) -> FreeNodes:
        """What may be given once these gangs have started."""
        room = self.free_nodes()
        for j, pods in placements.items():
            room.add_gang_pods(self.problem.gangs[j], new_placements(self.problem.gangs[j], pods))
        return room

    @cached_property
    def resource_count(self) -> int:
        return len(self.problem.resources)

    @cached_property
    def gang_counts(self) -> tuple[int, ...]:
        """Gangs that wait, per shape."""
        number = [0] * len(self.gang_classes)
        for (_, _, k), gangs in self.waiting_gangs.items():
            number[k] += len(gangs)
        return tuple(number)

    @cached_property
    def bucket_of(self) -> IntArray:
        at = np.empty(len(self.problem.nodes), dtype=np.int64)
        for i, place in enumerate(self.buckets):
            at[list(place.nodes)] = i
        return at

    def sum_per_bucket(self, figure: IntArray) -> list[int]:
        """Sum of a figure per node over each place's nodes."""
        total = np.zeros(len(self.buckets), dtype=np.int64)
        np.add.at(total, self.bucket_of, figure)
        return [int(x) for x in total]

    @cached_property
    def domains(self) -> tuple[tuple[int, ...], ...]:
        """k -> the domains of which one must hold a whole gang of the shape; (ROOT,) without a hard limit."""
        return tuple(self._domains_of(shape) for shape in self.gang_classes)

    def _domains_of(self, shape: GangClass) -> tuple[int, ...]:
        if (
            shape.only_gang is not None
            and shape.running_pods
            and breaks_topology(self.tree, self.problem.gangs[shape.only_gang], shape.running_pods)
        ):
            return ()
        if shape.hard_tier is None:
            return (ROOT,)
        every = self.tree.domains_at_tier(shape.hard_tier)
        if not shape.running_pods:
            return every
        home = self.tree.enclosing_domain(self.problem.nodes[shape.running_pods[0].node].leaf, shape.hard_tier)
        return tuple(h for h in every if h == home)

    @cached_property
    def _hard_tiers(self) -> tuple[int, ...]:
        wanted = {s.hard_tier for s in self.gang_classes if s.hard_tier is not None}
        wanted |= {g.topology.tier for s in self.gang_classes for g in s.subgroups if g.topology.mode == "hard"}
        return tuple(sorted(wanted))

    @cached_property
    def domains_by_tier(self) -> dict[int, tuple[int | None, ...]]:
        """Tier -> place -> the maximal domain of that tier around it."""
        return {
            tier: tuple(self.tree.enclosing_domain(place.leaf, tier) for place in self.buckets)
            for tier in self._hard_tiers
        }

    @cached_property
    def buckets_in(self) -> tuple[dict[int, tuple[int, ...]], ...]:
        """k -> domain of the shape -> the places inside it."""
        known: dict[tuple[int | None, tuple[int, ...]], dict[int, tuple[int, ...]]] = {}
        for shape, domains in zip(self.gang_classes, self.domains, strict=True):
            if (shape.hard_tier, domains) in known:
                continue
            inside: dict[int, list[int]] = {h: [] for h in domains}
            for i in range(len(self.buckets)):
                h = ROOT if shape.hard_tier is None else self.domains_by_tier[shape.hard_tier][i]
                if h is not None and h in inside:
                    inside[h].append(i)
            known[shape.hard_tier, domains] = {h: tuple(places) for h, places in inside.items()}
        return tuple(
            known[shape.hard_tier, domains] for shape, domains in zip(self.gang_classes, self.domains, strict=True)
        )

    @cached_property
    def pod_limits(self) -> dict[tuple[int, int], dict[int, int]]:
        """(k, t) -> place -> the most pods of role t of all gangs of shape k there; places that can take none are left
        out.

        min( sum over nodes of slots(ask), room_t * N_k )   where the node's kind is open to the role and the topology
        allows it
        """
        found: dict[tuple[int, int], dict[int, int]] = {}
        for k, shape in enumerate(self.gang_classes):
            for t, role in enumerate(shape.roles):
                places, fits = self._buckets_for(k, t)
                most = min(role.max_pods, shape.max_pods) * self.gang_counts[k]
                found[k, t] = dict(zip(places.tolist(), np.minimum(fits, most).tolist(), strict=True)) if most else {}
        return found

    @property
    def variable_count(self) -> int:
        """Variables of pods that a model over these places has."""
        roles = (
            (k, t, min(role.max_pods, shape.max_pods))
            for k, shape in enumerate(self.gang_classes)
            for t, role in enumerate(shape.roles)
        )
        return sum(len(self._buckets_for(k, t)[0]) for k, t, most in roles if most and self.gang_counts[k])

    def _buckets_for(self, k: int, t: int) -> tuple[IntArray, IntArray]:
        """The places that take pods of role t of shape k, in order, and how many fit each."""
        shape, role = self.gang_classes[k], self.gang_classes[k].roles[t]
        parted = tuple(sorted({g.topology.tier for g in shape.subgroups if g.topology.mode == "hard" and t in g.roles}))
        key = role.pod_request, role.node_classes, shape.hard_tier, self.domains[k], parted, self.rule_key(role)
        if key not in self._eligible_buckets:
            fits = np.array(self.sum_per_bucket(self._fit_counts_under_rules(role)), dtype=np.int64)
            inside = np.zeros(len(self.buckets), dtype=np.bool_)
            inside[[i for places in self.buckets_in[k].values() for i in places]] = True
            inside &= (fits > 0) & np.isin(self._leaves_and_classes[1], sorted(role.node_classes))
            for tier in parted:
                inside &= np.array([h is not None for h in self.domains_by_tier[tier]], dtype=np.bool_)
            self._eligible_buckets[key] = np.flatnonzero(inside), fits[inside]
        return self._eligible_buckets[key]

    @cached_property
    def _eligible_buckets(self) -> dict[object, tuple[IntArray, IntArray]]:
        return {}

    @property
    def finest_variable_count(self) -> int:
        """Variables of pods that a model over single nodes would have, were no gang bound to a domain."""
        found = 0
        for shape in self.gang_classes:
            for role in shape.roles:
                found += int(
                    np.count_nonzero(
                        (self.free.fit_counts(role.pod_request) > 0)
                        & np.isin(self.tree.node_class_of, sorted(role.node_classes))
                    )
                )
        return found

    def rule_key(self, role: ClassRole) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """What tells roles apart that relations bind; None for one that none binds."""
        return (
            None
            if self.rule_counts is None or not self.rule_counts.rules_of(role)
            else (role.owned_rules, role.selecting_rules)
        )

    def _fit_counts_under_rules(self, role: ClassRole) -> IntArray:
        """Node -> pods of the role that fit, as far as relations leave them."""
        slots = self.free.fit_counts(role.pod_request)
        return (
            slots
            if self.rule_counts is None or self.rule_key(role) is None
            else self.rule_counts.cap_fit_counts(role, slots)
        )

    @cached_property
    def _bucket_domains(self) -> dict[int, tuple[int | None, ...]]:
        return {}

    def bucket_domains(self, partition: IntArray) -> tuple[int | None, ...]:
        """Place -> the domain that all its nodes are in; None where it straddles several. at: a partition of
        `neighbours.Standing`."""
        known = self._bucket_domains.get(id(partition))
        if known is None:
            inside = (set(partition[list(place.nodes)].tolist()) for place in self.buckets)
            known = self._bucket_domains[id(partition)] = tuple(
                domains.pop() if len(domains) == 1 else None for domains in inside
            )
        return known

    def domain_capacities(self, ask: PodRequest, node_classes: frozenset[int]) -> tuple[tuple[int, ...], ...]:
        """For each tier the pods of `ask` that its domains (Tree.line) hold, largest first; only nodes of `kinds`."""
        known = self._domain_capacities.get((ask, node_classes))
        if known is None:
            known = self._domain_capacities[ask, node_classes] = self._sorted_by_tier(
                self.free.fit_counts(ask), node_classes
            )
        return known

    def domain_capacities_under_rules(self, role: ClassRole) -> tuple[tuple[int, ...], ...]:
        """As `reach` for a role, less what relations keep from it whatever else is placed."""
        return (
            self.domain_capacities(role.pod_request, role.node_classes)
            if self.rule_key(role) is None
            else self._sorted_by_tier(self._fit_counts_under_rules(role), role.node_classes)
        )

    def free_per_domain(self, r: int, node_classes: frozenset[int]) -> tuple[tuple[int, ...], ...]:
        """As `reach`, of what is free of resource r."""
        known = self._domain_capacities.get((r, node_classes))
        if known is None:
            known = self._domain_capacities[r, node_classes] = self._sorted_by_tier(
                self.free.amounts[:, r], node_classes
            )
        return known

    def _sorted_by_tier(self, figure: IntArray, node_classes: frozenset[int]) -> tuple[tuple[int, ...], ...]:
        amounts, (leaves, kind) = np.array(self.sum_per_bucket(figure), dtype=np.int64), self._leaves_and_classes
        here = np.isin(kind, sorted(node_classes))
        found = []
        for domains in self.tree.leaf_domains_by_tier:
            below = domains[leaves[here] - ROOT] - ROOT
            number = np.bincount(below)
            sums = np.zeros(len(number), dtype=np.int64)
            np.add.at(sums, below, amounts[here])
            found.append(tuple(np.sort(sums[number > 0])[::-1].tolist()))
        return tuple(found)

    @cached_property
    def _leaves_and_classes(self) -> tuple[IntArray, IntArray]:
        """Place -> its leaf, ROOT for none; and its kind."""
        leaves = np.array([ROOT if place.leaf is None else place.leaf for place in self.buckets], dtype=np.int64)
        return leaves, np.array([place.node_class for place in self.buckets], dtype=np.int64)

    @cached_property
    def _domain_capacities(self) -> dict[tuple[PodRequest | int, frozenset[int]], tuple[tuple[int, ...], ...]]:
        return {}

    @cached_property
    def cluster_totals(self) -> Vector:
        """Allocatable amount of the whole cluster, the denominator of dominant shares."""
        return cluster_totals(self.problem)

    @cached_property
    def min_demands(self) -> tuple[Vector, ...]:
        """k -> what one gang of the shape asks for (at least, for a shape that is not rigid)."""
        return tuple(shape.min_demand(self.resource_count) for shape in self.gang_classes)

    def precedence_level(self, q: int, p: int) -> PrecedenceLevel:
        return p, queue_priority(self.problem, q)

    @cached_property
    def precedence_levels(self) -> tuple[PrecedenceLevel, ...]:
        """The highest first."""
        return tuple(sorted({self.precedence_level(q, p) for q, p, _ in self.waiting_gangs}, reverse=True))

    def competing_queues(self, level: PrecedenceLevel, group: SiblingQueues) -> list[int]:
        """The queues of a group that have gangs of this level, inside them or below."""
        asking = {q for q, p, _ in self.waiting_gangs if self.precedence_level(q, p) == level}
        return [q for q, inside in sorted(group.members.items()) if asking & inside]

    def age_order_key(self, j: int) -> tuple[float, int, int]:
        """By which the gangs of a queue take turns, the smallest first: what drf says of what they hold, then age."""
        gang = self.problem.gangs[j]
        return gang_dominant_share(self.problem, gang, gang.running, self.cluster_totals), gang.age, j

    def level_label(self, level: PrecedenceLevel) -> str:
        """The level in an objective's name: the priority, whether it is the overdue's, and that of the queues where it
        makes a difference."""
        priority, overdue = divmod(level[0], 2)
        name = f"{priority}, overdue" if overdue else f"{priority}"
        return name if self.is_only_level(level) else f"{name}, queues {level[1]}"

    def is_only_level(self, level: PrecedenceLevel) -> bool:
        """Whether no other level has gangs of the same urgency."""
        return sum(1 for p, _ in self.precedence_levels if p == level[0]) == 1

    @cached_property
    def dominant_units(self) -> tuple[int, ...]:
        """k -> a whole number proportional to the dominant share of one gang's demand, at least 1.

        Exact when one resource dominates every demand (GPUs usually do); else in steps of 1/10,000 of the cluster.
        """
        if self.dominant_resource is not None:
            r, unit = self.dominant_resource
            return tuple(max(1, d[r] // unit) for d in self.min_demands)
        return tuple(max(1, round(10_000 * max(s, default=0.0))) for s in self._resource_shares)

    @cached_property
    def dominant_resource(self) -> tuple[int, int] | None:
        """(resource, unit) in which worth is counted exactly: the resource that dominates every demand, and the
        demands' common divisor."""
        for r in range(self.resource_count):
            if all(s[r] >= max(s, default=0.0) for s in self._resource_shares):
                return r, int(np.gcd.reduce([d[r] for d in self.min_demands if d[r]] or [1]))
        return None

    @cached_property
    def _resource_shares(self) -> list[list[float]]:
        """k -> what part of the cluster one gang of the shape asks for, per resource."""
        return [[(x / t if t else 0.0) for x, t in zip(d, self.cluster_totals, strict=True)] for d in self.min_demands]

    @cached_property
    def max_dominant_units(self) -> float:
        """No more worth than this finds room, whoever starts: what is free of the currency, node by node in whole pods;
        inf where it is not exact.

        sum_v floor(free_v / g) * g / unit          g: the common divisor of what single pods ask for
        """
        if self.dominant_resource is None or not all(d[self.dominant_resource[0]] for d in self.min_demands):
            return float("inf")
        r, unit = self.dominant_resource
        pod = int(
            np.gcd.reduce([role.request[r] for shape in self.gang_classes for role in shape.roles if role.request[r]])
        )
        return int((self.free.amounts[:, r] // pod).sum()) * pod // unit

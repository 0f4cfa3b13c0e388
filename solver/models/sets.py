"""The index sets and parameters of one batch. Letters as in docs/develop/model.md."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np

from solver.problem import Limits, PodRequest, Problem, Subgroup, Vector
from solver.semantics.device_slots import FreeVectors, IntArray
from solver.semantics.entitlements import QueueCeiling
from solver.semantics.gang_classes import ClassRole, GangClass, breaks_topology
from solver.semantics.gang_sizes import hard_subgroup_tiers
from solver.semantics.order import (
    SiblingQueues,
    gang_dominant_share,
    is_promised_level,
    puts_queues_first,
    queue_priority,
    serving_rounds,
)
from solver.semantics.placements import Placements
from solver.semantics.topology import ROOT, TopologyTree
from solver.state.free_nodes import FreeNodes
from solver.state.queue_books import QueueBooks
from solver.state.selected_pods import PodRuleCounts
from solver.state.state import State

AdmissionClass = tuple[int, int, int]
"""(queue q, precedence p, gang class k)."""

PrecedenceLevel = tuple[int, int]
"""(precedence of gangs, priority of their queues, 0 where no plugin compares it): decided together."""


def split_promised(
    levels: Iterable[PrecedenceLevel],
) -> tuple[tuple[PrecedenceLevel, ...], tuple[PrecedenceLevel, ...]]:
    """Return (the levels of gangs with an announced start, the others)."""
    levels = tuple(levels)
    promised = tuple(level for level in levels if is_promised_level(level[0]))
    return promised, tuple(level for level in levels if level not in promised)


_SHARE_STEPS = 10_000
"""Steps of the whole cluster, where a share has to be rounded."""

_MAX_EXACT_SCALE = 100_000
"""Common denominators up to this one keep the sums of a model exact within a solver's tolerances."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """Nodes of one leaf and one node class, counted as one; a single node where packing found that too coarse."""

    leaf: int | None
    node_class: int
    nodes: tuple[int, ...]


def coarsest_buckets(tree: TopologyTree) -> tuple[Bucket, ...]:
    """Return one bucket for each leaf and node class, and each domain of the pod rules whose domains hold several
    nodes."""
    nodes = tree.problem.nodes
    return tuple(Bucket(nodes[of[0]].leaf, nodes[of[0]].node_class, of) for of in tree.alike_nodes)


def split_buckets(buckets: Iterable[Bucket], to_split: Iterable[int]) -> tuple[Bucket, ...]:
    """Return the same buckets, those with an index in `to_split` split into single nodes."""
    split, found = set(to_split), list[Bucket]()
    for i, bucket in enumerate(buckets):
        found += [Bucket(bucket.leaf, bucket.node_class, (n,)) for n in bucket.nodes] if i in split else [bucket]
    return tuple(found)


@dataclass(frozen=True)
class Sets:
    """k: `gang_classes`; i: `buckets`; admission classes (q, p, k) with their `waiting_gangs` (N of them).
    state: before the batch; it must not change as long as the sets are used. later: gangs with former places that are
    decided later."""

    state: State
    buckets: tuple[Bucket, ...]
    gang_classes: tuple[GangClass, ...]
    waiting_gangs: Mapping[AdmissionClass, tuple[int, ...]]
    later: tuple[int, ...] = ()
    _eligible_buckets: dict[object, tuple[IntArray, IntArray]] = field(default_factory=dict, init=False, compare=False)
    _bucket_domains: dict[int, tuple[int | None, ...]] = field(default_factory=dict, init=False, compare=False)
    _by_tier: dict[object, tuple[tuple[int, ...], ...]] = field(default_factory=dict, init=False, compare=False)

    @property
    def problem(self) -> Problem:
        return self.state.problem

    @property
    def tree(self) -> TopologyTree:
        return self.state.tree

    @property
    def free(self) -> FreeVectors:
        return self.state.free

    @property
    def queue_books(self) -> QueueBooks:
        return self.state.queue_books

    @property
    def rule_counts(self) -> PodRuleCounts | None:
        return self.state.rule_counts

    def state_after(self, placements: Placements) -> State:
        """Return a copy of the state in which these gangs have started; pods added before keep their device slots."""
        state = self.state.copy().with_free(self.free, self.rule_counts)
        for j, pods in placements.items():
            state.start_gang(j, pods)
        return state

    def free_nodes(self) -> FreeNodes:
        """Return the free nodes before the batch, to be changed."""
        return FreeNodes(self.free, self.rule_counts)

    @cached_property
    def resource_count(self) -> int:
        return len(self.problem.resources)

    @cached_property
    def gang_counts(self) -> tuple[int, ...]:
        """k -> gangs that wait."""
        number = [0] * len(self.gang_classes)
        for (_, _, k), gangs in self.waiting_gangs.items():
            number[k] += len(gangs)
        return tuple(number)

    @cached_property
    def bucket_of(self) -> IntArray:
        """Return node -> its bucket."""
        found, sizes = np.empty(len(self.problem.nodes), dtype=np.int64), [len(bucket.nodes) for bucket in self.buckets]
        nodes = itertools.chain.from_iterable(bucket.nodes for bucket in self.buckets)
        found[np.fromiter(nodes, np.intp, sum(sizes))] = np.repeat(np.arange(len(sizes)), sizes)
        return found

    def sum_per_bucket(self, per_node: IntArray) -> list[int]:
        """Return bucket -> the sum of a figure over its nodes."""
        total = np.zeros(len(self.buckets), dtype=np.int64)
        np.add.at(total, self.bucket_of, per_node)
        sums: list[int] = total.tolist()
        return sums

    def classes_of_level(self, level: PrecedenceLevel) -> list[AdmissionClass]:
        return [key for key, own in self.level_of.items() if own == level]

    @cached_property
    def batch_queues(self) -> tuple[int, ...]:
        """Return the queues in which gangs wait, ascending."""
        return tuple(sorted({q for q, _, _ in self.waiting_gangs}))

    def is_counted(self, ceiling: QueueCeiling, queue: int) -> bool:
        """Return whether the ceiling counts what the gangs of this queue hold."""
        return ceiling.queue in (self.queue_books.path(queue) if ceiling.includes_descendants else (queue,))

    def guarantee_unit(self, r: int) -> int:
        """Return the unit of w[q,r]: keeps bytes of memory in the range that a MIP solver's tolerances are made for."""
        return max(1, self.queue_books.cluster_total[r] // 1_000_000)

    @cached_property
    def domains(self) -> tuple[tuple[int, ...], ...]:
        """k -> the domains of which one must hold a gang of the class; (ROOT,) without a hard tier."""
        return tuple(self._domains_of(gang_class) for gang_class in self.gang_classes)

    def _domains_of(self, gang_class: GangClass) -> tuple[int, ...]:
        running, only = gang_class.running_pods, gang_class.only_gang
        if running and only is not None and breaks_topology(self.tree, self.problem.gangs[only], running):
            return ()
        if gang_class.hard_tier is None:
            return (ROOT,)
        domains = self.tree.domains_at_tier(gang_class.hard_tier)
        if not running:
            return domains
        home = self.tree.enclosing_domain(self.problem.nodes[running[0].node].leaf, gang_class.hard_tier)
        return tuple(h for h in domains if h == home)

    def subgroup_domain(self, subgroup: Subgroup, leaf: int | None) -> int:
        """Return the domain of a hard subgroup's tier around a leaf; ROOT for a soft one, or without a domain."""
        if not subgroup.topology.is_hard:
            return ROOT
        h = self.tree.enclosing_domain(leaf, subgroup.topology.tier)
        return ROOT if h is None else h

    @cached_property
    def domains_by_tier(self) -> dict[int, tuple[int | None, ...]]:
        """Hard tier -> bucket -> the maximal domain of that tier around it."""
        tiers = {k.hard_tier for k in self.gang_classes if k.hard_tier is not None}
        for gang_class in self.gang_classes:
            tiers |= {g.topology.tier for g in gang_class.subgroups if g.topology.is_hard}
        around = self.tree.enclosing_domain
        return {tier: tuple(around(bucket.leaf, tier) for bucket in self.buckets) for tier in sorted(tiers)}

    @cached_property
    def buckets_in(self) -> tuple[dict[int, tuple[int, ...]], ...]:
        """k -> domain of the class -> the buckets inside it."""
        keys = [(k.hard_tier, domains) for k, domains in zip(self.gang_classes, self.domains, strict=True)]
        known = {key: self._buckets_by_domain(*key) for key in dict.fromkeys(keys)}
        return tuple(known[key] for key in keys)

    def _buckets_by_domain(self, tier: int | None, domains: tuple[int, ...]) -> dict[int, tuple[int, ...]]:
        inside: dict[int, list[int]] = {h: [] for h in domains}
        for i in range(len(self.buckets)):
            h = ROOT if tier is None else self.domains_by_tier[tier][i]
            if h is not None and h in inside:
                inside[h].append(i)
        return {h: tuple(buckets) for h, buckets in inside.items()}

    @cached_property
    def pod_limits(self) -> dict[tuple[int, int], dict[int, int]]:
        """(k, t) -> bucket -> the most pods of role t of all gangs of class k there, where it takes any.

        min( sum over nodes of the pods that fit, max_t * N_k )   where node class and topology allow the role
        """
        found: dict[tuple[int, int], dict[int, int]] = {}
        for k, t in self.roles:
            (buckets, fits), most = self._buckets_for(k, t), self._max_pods(k, t)
            found[k, t] = dict(zip(buckets.tolist(), np.minimum(fits, most).tolist(), strict=True)) if most else {}
        return found

    @cached_property
    def roles(self) -> dict[tuple[int, int], ClassRole]:
        """(k, t) -> role t of class k."""
        return {(k, t): role for k, c in enumerate(self.gang_classes) for t, role in enumerate(c.roles)}

    def _max_pods(self, k: int, t: int) -> int:
        return min(self.roles[k, t].max_pods, self.gang_classes[k].max_pods) * self.gang_counts[k]

    @property
    def variable_count(self) -> int:
        """Variables n of a model over these buckets."""
        return sum(len(self._buckets_for(k, t)[0]) for k, t in self.roles if self._max_pods(k, t))

    def _buckets_for(self, k: int, t: int) -> tuple[IntArray, IntArray]:
        """Return the buckets that take pods of role t of class k, in order, and how many fit each."""
        gang_class, role = self.gang_classes[k], self.roles[k, t]
        tiers = tuple(sorted(hard_subgroup_tiers(gang_class.subgroups, t)))
        key = role.pod_request, role.node_classes, gang_class.hard_tier, self.domains[k], tiers, self.rule_key(role)
        if key not in self._eligible_buckets:
            fits = np.array(self.sum_per_bucket(self._fit_counts_under_rules(role)), dtype=np.int64)
            eligible = np.zeros(len(self.buckets), dtype=np.bool_)
            eligible[[i for buckets in self.buckets_in[k].values() for i in buckets]] = True
            eligible &= (fits > 0) & np.isin(self._leaves_and_classes[1], sorted(role.node_classes))
            for tier in tiers:
                eligible &= np.array([h is not None for h in self.domains_by_tier[tier]], dtype=np.bool_)
            self._eligible_buckets[key] = np.flatnonzero(eligible), fits[eligible]
        return self._eligible_buckets[key]

    @property
    def finest_variable_count(self) -> int:
        """Variables n of a model over single nodes, were no gang bound to a domain."""
        count = 0
        for role in self.roles.values():
            fits = self.free.fit_counts(role.pod_request) > 0
            count += int(np.count_nonzero(fits & self.tree.class_mask(role.node_classes)))
        return count

    def rule_key(self, role: ClassRole) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """Return the rules that distinguish roles; None for a role without any."""
        if self.rule_counts is None or not self.rule_counts.rules_of(role):
            return None
        return role.owned_rules, role.selecting_rules

    def _fit_counts_under_rules(self, role: ClassRole) -> IntArray:
        """Return node -> pods of the role that fit and that pod rules allow there, whatever else is placed."""
        fits = self.free.fit_counts(role.pod_request)
        if self.rule_counts is None or self.rule_key(role) is None:
            return fits
        return self.rule_counts.cap_fit_counts(role, fits)

    def bucket_domains(self, partition: IntArray) -> tuple[int | None, ...]:
        """Return bucket -> the domain of a pod rule's partition that holds all its nodes; None where it straddles
        several."""
        if id(partition) not in self._bucket_domains:
            inside = [set(partition[list(bucket.nodes)].tolist()) for bucket in self.buckets]
            domains = tuple(found.pop() if len(found) == 1 else None for found in inside)
            self._bucket_domains[id(partition)] = domains
        return self._bucket_domains[id(partition)]

    def domain_capacities(self, request: PodRequest, node_classes: frozenset[int]) -> tuple[tuple[int, ...], ...]:
        """Return tier -> the pods that its domains hold on these node classes, largest first."""
        if (request, node_classes) not in self._by_tier:
            fits = self.free.fit_counts(request)
            self._by_tier[request, node_classes] = self._sorted_by_tier(fits, node_classes)
        return self._by_tier[request, node_classes]

    def domain_capacities_under_rules(self, role: ClassRole) -> tuple[tuple[int, ...], ...]:
        """Return `domain_capacities` for a role, less the pods that rules forbid whatever else is placed."""
        if self.rule_key(role) is None:
            return self.domain_capacities(role.pod_request, role.node_classes)
        return self._sorted_by_tier(self._fit_counts_under_rules(role), role.node_classes)

    def free_per_domain(self, r: int, node_classes: frozenset[int]) -> tuple[tuple[int, ...], ...]:
        """Return tier -> free amounts of resource r in its domains on these node classes, largest first."""
        if (r, node_classes) not in self._by_tier:
            self._by_tier[r, node_classes] = self._sorted_by_tier(self.free.amounts[:, r], node_classes)
        return self._by_tier[r, node_classes]

    def _sorted_by_tier(self, per_node: IntArray, node_classes: frozenset[int]) -> tuple[tuple[int, ...], ...]:
        amounts, (leaves, classes) = np.array(self.sum_per_bucket(per_node), dtype=np.int64), self._leaves_and_classes
        here = np.isin(classes, sorted(node_classes))
        found = []
        for domains in self.tree.leaf_domains_by_tier:
            domain = domains[leaves[here] - ROOT] - ROOT
            number = np.bincount(domain)
            sums = np.zeros(len(number), dtype=np.int64)
            np.add.at(sums, domain, amounts[here])
            found.append(tuple(np.sort(sums[number > 0])[::-1].tolist()))
        return tuple(found)

    @cached_property
    def _leaves_and_classes(self) -> tuple[IntArray, IntArray]:
        """Return bucket -> its leaf, ROOT for none; and its node class."""
        leaves = np.array([ROOT if bucket.leaf is None else bucket.leaf for bucket in self.buckets], dtype=np.int64)
        return leaves, np.array([bucket.node_class for bucket in self.buckets], dtype=np.int64)

    @cached_property
    def min_demands(self) -> tuple[Vector, ...]:
        """k -> what one gang asks for; at least, where its mix of roles is open."""
        return tuple(gang_class.min_demand(self.resource_count) for gang_class in self.gang_classes)

    @cached_property
    def level_of(self) -> dict[AdmissionClass, PrecedenceLevel]:
        return {(q, p, k): (p, queue_priority(self.problem, q)) for q, p, k in self.waiting_gangs}

    @cached_property
    def precedence_levels(self) -> tuple[PrecedenceLevel, ...]:
        """Return the highest first."""
        return tuple(sorted(set(self.level_of.values()), reverse=True))

    @cached_property
    def queue_rounds(self) -> tuple[tuple[PrecedenceLevel, ...], ...]:
        """Return the levels that are decided together where queues come first."""
        rounds = serving_rounds(self.problem, (priority for _, priority in self.precedence_levels))
        return tuple(tuple(level for level in self.precedence_levels if level[1] in served) for served in rounds)

    @cached_property
    def puts_queues_first(self) -> bool:
        """Return whether entitlements come before priorities in this batch."""
        return puts_queues_first(self.problem, self.batch_queues)

    def lending_steps(
        self, levels: Iterable[PrecedenceLevel]
    ) -> Iterator[tuple[int, list[AdmissionClass], list[AdmissionClass]]]:
        """Yield (priority of queues, the counted classes, the competing ones among them), the highest priority first.
        The rest is shared among the queues of one priority, in addition to the amounts of those above."""
        for priority in sorted({level[1] for level in levels}, reverse=True):
            counted = [key for key, own in self.level_of.items() if own[1] >= priority]
            yield priority, counted, [key for key in counted if self.level_of[key][1] == priority]

    def competing_queues(self, classes: Iterable[AdmissionClass], group: SiblingQueues) -> list[int]:
        """Return the queues of a group that have gangs of these classes, inside them or below."""
        asking = {q for q, _, _ in classes}
        return [q for q, inside in sorted(group.members.items()) if asking & inside]

    @cached_property
    def entitled_subtrees(self) -> dict[int, frozenset[int]]:
        """Return queue with waiting gangs, in it or below -> the queues whose gangs count against its entitlement."""
        rules = self.queue_books.queue_rules
        paths = {q: rules.comparison_paths[q] for q in self.batch_queues}
        above = sorted({a for path in paths.values() for a in path})
        return {a: frozenset(q for q, path in paths.items() if a in path) for a in above}

    @cached_property
    def entitled_room(self) -> dict[int, Limits]:
        """Return queue with waiting gangs, in it or below -> the amounts that it may still take before it borrows; None
        for no limit."""
        books, found = self.queue_books, {}
        for q in self.entitled_subtrees:
            limits, held = books.queue_rules.entitled[q], books.compared_amount(q)
            found[q] = tuple(None if m is None else max(0, m - h) for m, h in zip(limits, held, strict=True))
        return found

    def entitled_counts(self, number: Mapping[AdmissionClass, int]) -> dict[AdmissionClass, int]:
        """Return the gangs of each class that can claim entitlements when so many start, as the rows `entitlements` do:
        the highest level first, in it the largest gangs."""
        room = {q: list(limits) for q, limits in self.entitled_room.items()}
        above = {q: [room[a] for a, below in self.entitled_subtrees.items() if q in below] for q in self.batch_queues}
        unclaimed, found = Counter[int](), dict[AdmissionClass, int]()  # unclaimed: queue -> dominant units
        for _, of_level in itertools.groupby(sorted(number, key=self._claiming_order), key=self.level_of.__getitem__):
            keys = list(of_level)
            for key in keys:
                unclaimed[key[0]] += self.dominant_units[key[2]] * number[key]
            for key in keys:
                found[key] = self._claimable(key, unclaimed[key[0]], above[key[0]])
                unclaimed[key[0]] -= self.dominant_units[key[2]] * found[key]
                for left in above[key[0]]:
                    left[:] = [
                        m if m is None else m - found[key] * asked
                        for m, asked in zip(left, self.min_demands[key[2]], strict=True)
                    ]
        return found

    def _claiming_order(self, key: AdmissionClass) -> tuple[int, ...]:
        return *(-level for level in self.level_of[key]), -self.dominant_units[key[2]], *key

    def _claimable(self, key: AdmissionClass, units: int, room: Iterable[Sequence[int | None]]) -> int:
        """Return how many gangs of a class fit in so many dominant units and in the rest of the entitlements."""
        demand = self.min_demands[key[2]]
        limits = []
        for left in room:
            asked = ((m, a) for m, a in zip(left, demand, strict=True) if a)
            limits += [m // a for m, a in asked if m is not None]
        return max(0, min([len(self.waiting_gangs[key]), units // self.dominant_units[key[2]], *limits]))

    def age_order_key(self, j: int) -> tuple[float, int, int]:
        """Orders the gangs of a queue, the next one first: by the dominant share held with drf, then by age."""
        gang = self.problem.gangs[j]
        return gang_dominant_share(self.problem, gang, gang.running, self.problem.totals), gang.age, j

    def level_label(self, level: PrecedenceLevel) -> str:
        """Return the level in an objective's name: the priority, "overdue", and the queues' priority where several
        occur."""
        priority, late = divmod(level[0], 3)
        name = f"{priority}{('', ', overdue', ', promised')[late]}"
        is_only_one = sum(p == level[0] for p, _ in self.precedence_levels) == 1
        return name if is_only_one else f"{name}, queues {level[1]}"

    @cached_property
    def dominant_units(self) -> tuple[int, ...]:
        """Return k -> a whole number proportional to the dominant share of one gang's demand, at least 1. It is exact
        where one resource dominates every demand (GPUs usually do) or the shares have a small common denominator, else
        in steps of 1/_SHARE_STEPS of the cluster. Rounding would prefer two halves of 1,786 to a whole of 3,571."""
        if self.dominant_resource is not None:
            r, unit = self.dominant_resource
            return tuple(max(1, d[r] // unit) for d in self.min_demands)
        shares = [max(each, default=Fraction(0)) for each in self._resource_shares]
        scale = math.lcm(*{share.denominator for share in shares})
        if scale > _MAX_EXACT_SCALE:
            scale = _SHARE_STEPS
        return tuple(max(1, round(scale * share)) for share in shares)

    @cached_property
    def dominant_resource(self) -> tuple[int, int] | None:
        """Return (the resource that dominates every demand, the demands' common divisor); None where no resource
        does."""
        for r in range(self.resource_count):
            if all(shares[r] >= max(shares) for shares in self._resource_shares):
                return r, math.gcd(*(d[r] for d in self.min_demands)) or 1
        return None

    @cached_property
    def _resource_shares(self) -> list[list[Fraction]]:
        """k -> the share of the cluster that one gang asks for, per resource."""
        totals = self.problem.totals
        return [
            [Fraction(x, t) if t else Fraction(0) for x, t in zip(d, totals, strict=True)] for d in self.min_demands
        ]

    @cached_property
    def max_dominant_units(self) -> float:
        """Return an upper bound on the dominant units of gangs that fit at once; inf without a dominant resource.

        sum_v floor(free_v / g) * g / unit          g: the common divisor of what single pods ask for
        """
        if self.dominant_resource is None or not all(d[self.dominant_resource[0]] for d in self.min_demands):
            return float("inf")
        r, unit = self.dominant_resource
        pod = math.gcd(*(role.request[r] for role in self.roles.values())) or 1
        return int((self.free.amounts[:, r] // pod).sum()) * pod // unit

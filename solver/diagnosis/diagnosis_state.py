"""The cluster before and after the plan, and what nodes and queues hold in a `World`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from typing import Any, TypeVar

import numpy as np

from solver.admission.batches import EntitlementTurn, entitled_in_turn, entitlement_turn
from solver.diagnosis.question import FitQuestion
from solver.diagnosis.world import AddedNodes, NodeKind, World
from solver.options import Options
from solver.plan import Reservation
from solver.problem import UNKNOWN, Gang, Node, Problem, Vector
from solver.semantics.device_slots import (
    FreeVectors,
    IntArray,
    PodRows,
    SlotUses,
    add_rows,
    capacity_vectors,
    pod_rows,
    slot_positions,
    vectors_without_foreign,
)
from solver.semantics.exclusions import exclude_for_gang
from solver.semantics.gang_classes import meets_minima
from solver.semantics.order import expected_end, precedence, precedence_level
from solver.semantics.placements import Placements, add_vectors, merge_placements, placed_demand
from solver.semantics.topology import TopologyTree
from solver.state.free_nodes import free_and_overcommitted
from solver.state.queue_books import QueueBooks, QueueRules
from solver.state.selected_pods import BoolArray, ExistingPods, PodRuleCounts
from solver.state.state import Pods, State

T = TypeVar("T")


@dataclass
class DiagnosisState:
    """The cluster before and after the plan. Only its cache changes, so that it can be sent to another process.

    before: with running pods only; after: free amounts, queue usage and pod rule counts with the plan.
    started_placements, kept_placements: of gangs that the plan starts and keeps; slot_uses: their device slots.
    reservation: of nodes for a gang that waits. exclusions_in_classes: node classes represent exclusions too, in
    addition to selectors. exclusions: gang -> excluded nodes that are not in the classes, on which no repair may count.
    closed_classes: gang -> for each role the node classes in node groups that its queue may not use. reclaimed: gangs
    that lose pods to gangs of other queues. asked_evictions: gangs whose missing evictions are to be explained.
    """

    before: State
    after: State
    started_placements: Placements
    kept_placements: Placements
    options: Options
    slot_uses: SlotUses = field(default_factory=dict)
    reservation: Reservation | None = None
    exclusions_in_classes: bool = False
    exclusions: Mapping[int, frozenset[int]] = field(default_factory=dict)
    closed_classes: Mapping[int, tuple[frozenset[int], ...]] = field(default_factory=dict)
    reclaimed: frozenset[int] = frozenset()
    asked_evictions: frozenset[int] = frozenset()
    _cache: dict[Hashable, Any] = field(default_factory=dict, init=False)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the cache: another process asks other questions."""
        return vars(self) | {"_cache": {}}

    def memoize(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the answer of `make`, computed once for each key."""
        found: T = self._cache.get(key, UNKNOWN)
        if found is UNKNOWN:
            found = self._cache[key] = make()
        return found

    @cached_property
    def problem(self) -> Problem:
        return self.before.problem

    @cached_property
    def reserved_nodes(self) -> frozenset[int]:
        return frozenset(p.node for p in self.reservation.placements) if self.reservation else frozenset()

    @property
    def reserved_gang(self) -> int | None:
        """Return the gang for which nodes are reserved."""
        return None if self.reservation is None else self.reservation.gang

    @property
    def tree(self) -> TopologyTree:
        return self.before.tree

    @cached_property
    def has_maintenance(self) -> bool:
        return any(node.maintenance_in is not None for node in self.problem.nodes)

    @cached_property
    def group_of_class(self) -> Mapping[int, int]:
        """Return node class -> its node group, where any is closed to a gang."""
        returning = [node for node in self.problem.nodes if node.returning is not None]
        found = {node.node_class: node.node_group for node in self.problem.nodes}
        return found | {node.returning.node_class: node.node_group for node in returning if node.returning}

    # ---- nodes that are away

    @cached_property
    def away_nodes(self) -> tuple[int, ...]:
        return tuple(n for n, node in enumerate(self.problem.nodes) if node.returning is not None)

    def problem_with_nodes(
        self, returned_nodes: tuple[int, ...], split_kinds: tuple[NodeKind, ...] = ()
    ) -> tuple[Problem, TopologyTree]:
        """Return the problem and its tree with some nodes back, and the nodes of each of some kinds as a class of their
        own."""
        if not returned_nodes and not split_kinds:
            return self.problem, self.tree

        def make() -> tuple[Problem, TopologyTree]:
            nodes, classes = list(self.problem.nodes), dict(zip(split_kinds, count(self.split_class), strict=False))
            for n in returned_nodes:
                nodes[n] = _node_once_back(nodes[n])
            for n, node in enumerate(nodes if classes else ()):
                nodes[n] = replace(node, node_class=classes.get((node.node_class, node.kind), node.node_class))
            problem = replace(self.problem, nodes=tuple(nodes))
            return problem, TopologyTree(problem)

        return self.memoize(("nodes", returned_nodes, split_kinds), make)

    def books_under(self, w: World, with_plan: bool) -> QueueBooks:
        """Return the queues' usage with or without the plan, under the limits of a world, computed once
        for the same changes."""
        books = (self.after if with_plan else self.before).queue_books
        if not w.changes_limits:
            return books
        key = "books", with_plan, w.limits_nodes, w.queue_changes
        return self.memoize(key, lambda: books.with_rules(self.queue_rules(w)))

    def queue_rules(self, w: World) -> QueueRules:
        """Return the limits of the queues in a world, computed once for the same changes."""

        def make() -> QueueRules:
            problem = self._enlarged_problem(w.limits_nodes)
            queues = list(problem.queues)
            for q, name, value in w.queue_changes:
                queues[q] = replace(queues[q], **{name: value})  # type: ignore[arg-type]
            return QueueRules(problem.with_queues(tuple(queues)))

        if not w.changes_limits:
            return self.before.queue_books.queue_rules
        return self.memoize(("rules", w.limits_nodes, w.queue_changes), make)

    def _enlarged_problem(self, added_nodes: AddedNodes | None) -> Problem:
        """Return the problem with these nodes, made once, so that its answers about gangs are computed once."""
        if added_nodes is None:
            return self.problem
        return self.memoize(("enlarged", added_nodes), lambda: self.problem.with_nodes_like(*added_nodes))

    @cached_property
    def split_class(self) -> int:
        """Return a node class that no node has and no role may use, as all above it."""
        there = {node.node_class for node in self.problem.nodes}
        back = {node.returning.node_class for node in self.problem.nodes if node.returning is not None}
        open_to = {role.node_classes for gang in self.problem.gangs for role in gang.roles}
        return 1 + max(there.union(back, *open_to))

    @cached_property
    def idle_ledger(self) -> QueueBooks:
        """Return the queues with nothing held, and the empty cluster with all its nodes."""
        return self.ledger_with_returned(self.away_nodes, running=False)

    def ledger_with_returned(self, returned_nodes: tuple[int, ...], running: bool = True) -> QueueBooks:
        """Return the queues with running pods, or without any usage, in a cluster with some nodes back."""
        if running and not returned_nodes:
            return self.before.queue_books
        problem, _ = self.problem_with_nodes(returned_nodes)
        make = QueueBooks if running else QueueBooks.idle
        return self.memoize(("ledger", returned_nodes, running), lambda: make(problem))

    def _away_amounts(self, returned_nodes: tuple[int, ...], running: bool) -> FreeVectors:
        """Return the amounts that nodes lack while they are away: of the assignable ones, or of their whole
        capacity."""
        vectors = vectors_without_foreign if running else capacity_vectors
        then, _ = self.problem_with_nodes(returned_nodes)
        return self.memoize(("away", returned_nodes, running), lambda: vectors(self.problem).minus(vectors(then)))

    # ---- what the plan gives

    @cached_property
    def started_by_priority(self) -> tuple[int, ...]:
        """Return the gangs that the plan starts, the least important and youngest first."""
        gangs = self.problem.gangs
        return tuple(sorted(self.started_placements, key=lambda i: (gangs[i].priority, -gangs[i].age, -i)))

    @cached_property
    def growing_gangs(self) -> tuple[int, ...]:
        """Return the gangs that run and get more pods by the plan."""
        return tuple(i for i, pods in sorted(self.kept_placements.items()) if pods != self.problem.gangs[i].running)

    @cached_property
    def gang_priorities(self) -> frozenset[int]:
        """Return the priorities that gangs have."""
        return frozenset(gang.priority for gang in self.problem.gangs)

    @cached_property
    def expected_ends(self) -> dict[int, int]:
        """Return gang that runs or starts -> its expected end, where known."""
        ends = {i: expected_end(self.problem, i) for i in (*self.kept_placements, *self.started_placements)}
        return {i: end for i, end in ends.items() if end is not None}

    @cached_property
    def started_levels(self) -> tuple[tuple[int, int], ...]:
        """Return the levels of `started_by_priority`; changed limits of queues leave them."""
        return tuple(precedence_level(self.problem, i) for i in self.started_by_priority)

    def started_below(self, level: tuple[int, int]) -> BoolArray:
        """Return which entries of `started_by_priority` are at a lower level."""
        return self.memoize(
            ("below", level), lambda: np.array([own < level for own in self.started_levels], dtype=np.bool_)
        )

    @cached_property
    def capacity(self) -> FreeVectors:
        return capacity_vectors(self.problem)

    @cached_property
    def plan_frees_capacity(self) -> bool:
        """Return whether the plan, by evictions, leaves some node more than it has next to running pods."""
        return bool((self.after.free.amounts > self.before.free.amounts).any())

    def pods_of(self, i: int, with_plan: bool) -> Pods:
        """Return the pods of a gang that runs, with its growth by the plan, or that the plan starts."""
        placed = self.kept_placements[i] if i in self.kept_placements else self.started_placements[i]
        return placed if with_plan else self.problem.gangs[i].running

    def _held_rows(self, i: int, with_plan: bool) -> PodRows:
        """Return the amounts that a gang's `pods_of` hold."""
        return self.memoize(("rows", i, with_plan), lambda: pod_rows(self.problem.gangs[i], self.pods_of(i, with_plan)))

    def held_by_gangs(self, gangs: Iterable[int], with_plan: bool) -> Vector:
        """Return the amounts that these gangs' `pods_of` request."""
        amounts = self._held_amounts[with_plan]
        return tuple(map(sum, zip(*(amounts[i] for i in gangs), strict=True)))

    @cached_property
    def _held_amounts(self) -> tuple[dict[int, Vector], dict[int, Vector]]:
        """Without and with the plan: gang that runs or starts -> what its `pods_of` request."""
        placed = (*self.kept_placements, *self.started_placements)
        without, with_plan = (
            {i: tuple(self._held_rows(i, plan)[1].sum(axis=0).tolist()) for i in placed} for plan in (False, True)
        )
        return without, with_plan

    @cached_property
    def queue_of(self) -> IntArray:
        """Return gang -> its queue."""
        return np.array([gang.queue for gang in self.problem.gangs], dtype=np.int64)

    @cached_property
    def _overcommitment(self) -> PodRows:
        """(nodes that running pods exceed, by how much)."""
        amounts = free_and_overcommitted(self.problem)[1]
        nodes = np.flatnonzero(amounts.any(axis=1))
        return nodes, amounts[nodes]

    @cached_property
    def entitled_started(self) -> frozenset[int]:
        """Return the gangs that the plan starts within the entitlements of their queues."""
        return frozenset(entitled_in_turn(self.before.queue_books, self.entitlement_turns))

    @cached_property
    def entitlement_turns(self) -> tuple[EntitlementTurn, ...]:
        """Return the turns of the gangs that the plan starts, in order."""
        return tuple(sorted(entitlement_turn(i, self.problem.gangs[i]) for i in self.started_placements))

    @cached_property
    def claimants(self) -> Mapping[tuple[int, int, Vector], Sequence[tuple[int, int]]]:
        """(queue, precedence, least demand) -> (age, gang) of the gangs without their minima that ask for it, the
        oldest first."""
        found: dict[tuple[int, int, Vector], list[tuple[int, int]]] = {}
        for j, gang in enumerate(self.problem.gangs):
            if not meets_minima(gang):
                key = gang.queue, precedence(gang), self.before.queue_books.min_demand(j)
                found.setdefault(key, []).append((gang.age, j))
        return {key: sorted(gangs) for key, gangs in found.items()}

    # ---- pod rules

    @cached_property
    def _running_rule_counts(self) -> PodRuleCounts:
        """Return the pods that pod rules count next to running pods."""
        return PodRuleCounts(self.problem, self.after.counted_pods.existing_pods)

    def _permanent_rule_counts(self, gang: Gang) -> PodRuleCounts:
        """Return the empty cluster but for the gang's own running pods. Rules that keep apart, rules among its own pods
        and those by a label that no node has never change; other pods may come and meet the rest."""

        def make() -> PodRuleCounts:
            rules = list(enumerate(self.problem.pod_rules))
            apart = {rho for rho, rule in rules if rule.only_forbids}
            own = {rho for rho, rule in rules if rule.own_gang_only}
            nowhere = {rho for rho, rule in rules if all(domain is None for domain in rule.domains)}
            return PodRuleCounts(self.problem, ExistingPods(self.problem, only=gang), frozenset(apart | own | nowhere))

        rules = tuple((role.owned_rules, role.selecting_rules) for role in gang.roles) if gang.running else ()
        return self.memoize(("permanent", gang.running, rules), make)

    def _rule_counts_after_ends(self, gang: Gang, existing: ExistingPods) -> PodRuleCounts:
        """The permanent counts for a gang that waits for running pods to end. That brings no pods: affinity and spread
        hold as well where they count none yet."""
        counts, selected = self._permanent_rule_counts(gang), existing.selected
        roles = (role for i in self.started_placements for role in self.problem.gangs[i].roles)
        started = {rho for role in roles for rho in role.selecting_rules}
        unmet = {rho for rho, pods in enumerate(selected) if not pods}
        return PodRuleCounts(self.problem, counts.existing_pods, counts.enforced_rules | (unmet - started))

    # ---- worlds

    def question(self, w: World, excluded: frozenset[int]) -> FitQuestion:
        """Return whether the gang of a world fits on its nodes but for these. Nodes are never added where there are pod
        rules or device slots."""
        problem, tree = self.problem_with_nodes(w.returned_nodes, w.split_kinds)
        problem, free = replace(problem, gangs=(w.gang,)), self._free_vectors(w)
        if excluded:
            free.amounts[sorted(excluded)] = 0
            problem, tree = exclude_for_gang(problem, tree, 0, excluded)
        if w.added_nodes is not None:
            like, _, number = w.added_nodes
            added, problem = problem.nodes[like], problem.with_nodes_like(*w.added_nodes)
            amounts = np.vstack([free.amounts, np.array([added.capacity] * number, dtype=np.int64)])
            slots = np.concatenate([free.slots, np.zeros((number, *free.slots.shape[1:]), dtype=np.int64)])
            tree, free = TopologyTree(problem), FreeVectors(amounts, slots)
        there = State.from_free(problem, tree, free, self.before.queue_books, self._rule_counts(w))
        return FitQuestion(there, self.options)

    def books(self, w: World, j: int, for_queue: int | None) -> QueueBooks:
        """Return the queues' usage in a world of gang j, under its limits. for_queue: compute only the amounts that
        limit this queue."""
        books = self.books_under(w, w.with_started).copy()
        gone = dict[int, list[int]]()
        for i in w.held_back or w.ended_gangs:
            gone.setdefault(self.problem.gangs[i].queue, []).append(i)
        for q in gone.keys() if for_queue is None or not gone else gone.keys() & books.related_queues(for_queue):
            placed, ran = (self.held_by_gangs(gone[q], with_plan) for with_plan in (w.with_started, False))
            if w.held_back:
                books.charge_queue(q, add_vectors(ran, placed, -1))
            else:
                books.release_amount(q, placed, ran)
        if w.own_running and not w.gang.running:
            pods = placed_demand(self.problem.gangs[j], w.own_running, len(self.problem.resources))
            books.release_amount(self.problem.gangs[j].queue, pods, pods)
        if w.served_first is not None:
            first = self.problem.gangs[w.served_first[0]]
            books.charge_queue(first.queue, placed_demand(first, w.served_first[1], len(self.problem.resources)))
        return books

    def _free_vectors(self, w: World) -> FreeVectors:
        """Return the free amounts for the gang. Device slots of running pods are unknown and stay as they are. Growth
        takes only leftovers: it is not in a gang's way once another one gives up its place."""
        if w.held_back:
            starts = w.held_back[0] in self.started_placements
            free = (self._before_growth if starts else self.after.free).copy()
            self._give_back(free, w.held_back)
        elif w.with_running:
            free = (self.after if w.with_started else self.before).free
        else:
            free = self._capacity_beside_plan if w.with_started else self.capacity
        if w.own_running and w.with_running != bool(w.gang.running):
            free = free.copy()
            add_rows(free.amounts, [pod_rows(w.gang, w.own_running)], 1 if w.with_running else -1)
        if w.returned_nodes:
            free = free.minus(self._away_amounts(w.returned_nodes, w.with_running))
        free = free.nonnegative()
        if w.ended_gangs:  # where running pods exceed a node, the excess is paid first
            nodes, unpaid = self._overcommitment
            before = free.amounts[nodes]
            add_rows(free.amounts, (self._held_rows(i, w.with_started) for i in w.ended_gangs))
            after = free.amounts[nodes]
            free.amounts[nodes] = np.where(after > before, np.maximum(after - unpaid, 0), after)
        if w.served_first is not None:
            first, pods = w.served_first
            add_rows(free.amounts, [pod_rows(self.problem.gangs[first], pods)], -1)
            free = free.nonnegative()
        return free

    @cached_property
    def _before_growth(self) -> FreeVectors:
        """Return the amounts free next to running pods and the plan's starts: below 0 where it evicts."""
        return self.before.free.minus(self._given(self.started_placements))

    @cached_property
    def _capacity_beside_plan(self) -> FreeVectors:
        return self.capacity.minus(self._given(self.started_placements))

    def _given(self, gangs: Iterable[int]) -> FreeVectors:
        """Return the amounts that the plan gives to these gangs beyond their running pods."""
        total = FreeVectors(np.zeros_like(self.capacity.amounts), np.zeros_like(self.capacity.slots))
        self._give_back(total, gangs)
        return total

    def _give_back(self, free: FreeVectors, gangs: Iterable[int]) -> None:
        """Add the amounts that the plan gives to these gangs beyond their running pods."""
        gangs = list(gangs)
        add_rows(free.amounts, (self._held_rows(i, with_plan=True) for i in gangs))
        add_rows(free.amounts, (self._held_rows(i, with_plan=False) for i in gangs), -1)
        for i in gangs if self.slot_uses else ():
            for use in self.slot_uses.get(i, ()):
                group, position = self._slot_positions[use.node][use.slot]
                requests = self.problem.gangs[i].roles[use.role].slot_requests
                (request,) = (r for r in requests if r.slot_group == group)
                free.slots[use.node, group, position] += np.array(request.share, dtype=np.int64) * use.pods

    @cached_property
    def _slot_positions(self) -> list[list[tuple[int, int]]]:
        return slot_positions(self.problem)

    def _rule_counts(self, w: World) -> PodRuleCounts | None:
        counts = self.after.rule_counts
        if not w.with_pod_rules or counts is None:
            return None
        if not w.with_running:
            lasting = self._rule_counts_after_ends(w.gang, counts.existing_pods)
            counts = lasting if w.is_tried else self._permanent_rule_counts(w.gang)
        elif not w.with_started:
            counts = self._running_rule_counts
        if w.quota_limits:
            counts = counts.with_limits(dict(w.quota_limits))
        running, placed = [], []
        for i in (*w.ended_gangs, *w.held_back):
            gang = self.problem.gangs[i]
            ran = {(p.role, p.node): p.pods for p in merge_placements(gang.running)}
            for p in self.pods_of(i, w.with_started):
                stood = min(p.pods, ran.get((p.role, p.node), 0))
                running.append((gang.roles[p.role], p.node, stood * (i in w.ended_gangs)))
                placed.append((gang.roles[p.role], p.node, p.pods - stood))
        if w.is_tried and not w.gang.running:
            running += [(w.gang.roles[p.role], p.node, p.pods) for p in w.own_running]
        if running:
            counts = counts.without_pods(pods for pods in running if pods[2])
        for role, node, pods in placed:
            if pods:
                counts.add_pods(role, node, -pods, 0)
        return counts


def _node_once_back(node: Node) -> Node:
    then = node.returning
    if then is None:
        return node
    given = {"node_class": then.node_class, "capacity": then.capacity, "free": then.free, "slots": then.slots}
    return replace(node, **given, returning=None)  # type: ignore[arg-type]

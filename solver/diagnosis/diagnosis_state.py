"""The world in which a gang waits, and scenarios: the world with something out of the way."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from solver.admission.batches import EntitlementTurn, entitled_in_turn, entitlement_turn
from solver.diagnosis.question import FitQuestion
from solver.options import Options
from solver.problem import UNKNOWN, Gang, Node, Placement, Problem, Vector
from solver.semantics.device_slots import (
    FreeVectors,
    IntArray,
    SlotUses,
    capacity_vectors,
    slot_positions,
    vectors_without_foreign,
)
from solver.semantics.gang_classes import meets_minima
from solver.semantics.placements import Placements, new_placements
from solver.semantics.priorities import expected_end, precedence, precedence_level
from solver.semantics.topology import TopologyTree
from solver.state.free_nodes import free_and_overcommitted
from solver.state.queue_books import QueueBooks, QueueRules
from solver.state.selected_pods import BoolArray, ExistingPods, PodRuleCounts
from solver.state.state import State

T = TypeVar("T")
PodRows = tuple[IntArray, IntArray]
"""(nodes, what pods hold on each of them)."""
NodeKind = tuple[int, int]
"""(node class, number among the kinds of its nodes)."""
AddedNodes = tuple[int, int | None, int]
"""(a node, a leaf, how many like that node are added there)."""


@dataclass(frozen=True)
class Scenario:
    """A gang, as written or relaxed, and what is in its way: gangs that the plan starts, all running pods, pod rules.

    own_running: its pods that run in truth; where `gang.running` is empty they have given their room back.
    returned_nodes: nodes that are away now and are back in the scenario. split_kinds: (class, kind) of nodes that form
    a class of their own, numbered from `DiagnosisState.split_class` on. quota_limits: (pod rule, another limit of it).
    """

    gang: Gang
    own_running: tuple[Placement, ...] = ()
    with_started: bool = True
    with_running: bool = True
    returned_nodes: tuple[int, ...] = ()
    with_pod_rules: bool = True
    split_kinds: tuple[NodeKind, ...] = ()
    quota_limits: tuple[tuple[int, int], ...] = ()

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Worked out once: many answers are remembered by scenario."""
        away = self.own_running, self.with_started, self.with_running, self.returned_nodes
        return hash((self.gang, *away, self.with_pod_rules, self.split_kinds, self.quota_limits))


def with_limits(counts: PodRuleCounts | None, s: Scenario) -> PodRuleCounts | None:
    """The counts under the limits of the scenario."""
    return counts.with_limits(dict(s.quota_limits)) if counts is not None and s.quota_limits else counts


@dataclass
class DiagnosisState:
    """The cluster before and after the plan. Only its cache changes, so that it can be sent to another process.

    before: with what runs only; after: what is free, held by queues and counted by pod rules with the plan.
    started_placements, kept_placements: of gangs that the plan starts and keeps; slot_uses: their device slots.
    reserved_nodes: held for a gang that waits. exclusions_in_classes: node classes also stand for exclusions, not only
    for selectors. exclusions: gang -> excluded nodes that are not in the classes, on which no repair may count.
    closed_classes: gang -> for each role the node classes in node groups that its queue may not use.
    reclaimed: gangs that lose pods to gangs of other queues. asked_evictions: gangs of which it is asked why nobody is
    evicted for them.
    """

    before: State
    after: State
    started_placements: Placements
    kept_placements: Placements
    options: Options
    slot_uses: SlotUses = field(default_factory=dict)
    reserved_nodes: tuple[int, ...] = ()
    exclusions_in_classes: bool = False
    exclusions: Mapping[int, frozenset[int]] = field(default_factory=dict)
    closed_classes: Mapping[int, tuple[frozenset[int], ...]] = field(default_factory=dict)
    reclaimed: frozenset[int] = frozenset()
    asked_evictions: frozenset[int] = frozenset()
    _cache: dict[Hashable, Any] = field(default_factory=dict, init=False)

    def __getstate__(self) -> dict[str, Any]:
        """Without the cache, whose keys may be addresses in this process."""
        return vars(self) | {"_cache": {}}

    def memoize(self, key: Hashable, make: Callable[[], T]) -> T:
        """The answer of `make`, computed once for each key."""
        found: T = self._cache.get(key, UNKNOWN)
        if found is UNKNOWN:
            found = self._cache[key] = make()
        return found

    @cached_property
    def problem(self) -> Problem:
        return self.before.problem

    @property
    def tree(self) -> TopologyTree:
        return self.before.tree

    @cached_property
    def has_maintenance(self) -> bool:
        return any(node.maintenance_in is not None for node in self.problem.nodes)

    @cached_property
    def group_of_class(self) -> Mapping[int, int]:
        """Node class -> its node group, where any is closed to a gang."""
        returning = [node for node in self.problem.nodes if node.returning is not None]
        found = {node.node_class: node.node_group for node in self.problem.nodes}
        return found | {node.returning.node_class: node.node_group for node in returning if node.returning}

    # ---- nodes that are away

    @cached_property
    def away_nodes(self) -> tuple[int, ...]:
        return tuple(n for n, node in enumerate(self.problem.nodes) if node.returning is not None)

    def problem_with_returned(self, returned_nodes: tuple[int, ...]) -> tuple[Problem, TopologyTree]:
        """The problem and its tree with some nodes back."""
        if not returned_nodes:
            return self.problem, self.tree

        def make() -> tuple[Problem, TopologyTree]:
            nodes = list(self.problem.nodes)
            for n in returned_nodes:
                nodes[n] = _node_once_back(nodes[n])
            problem = replace(self.problem, nodes=tuple(nodes))
            return problem, TopologyTree(problem)

        return self.memoize(("returned", returned_nodes), make)

    def enlarged_problem(self, added_nodes: AddedNodes) -> Problem:
        """The problem with these nodes, made once, so that what its queues may hold is worked out once."""
        return self.memoize(("enlarged", added_nodes), lambda: self.problem.with_nodes_like(*added_nodes))

    def with_queue(self, problem: Problem, q: int, **changes: Any) -> Problem:
        """The problem with queue q changed, the same one for the same queues, so that what these may hold is worked out
        once. problem: of this state, or of this method or `enlarged_problem`, which keep it."""

        def make() -> Problem:
            queues = tuple(replace(queue, **changes) if i == q else queue for i, queue in enumerate(problem.queues))
            return self.memoize(("queues", id(problem.nodes), queues), lambda: problem.with_queues(queues))

        return self.memoize(("queue", id(problem), q, *changes.items()), make)

    def books_under(self, problem: Problem, with_plan: bool) -> QueueBooks:
        """What the queues hold with or without the plan, under the limits of a problem of `with_queue` or
        `enlarged_problem`, which are worked out once."""
        books = (self.after if with_plan else self.before).queue_books
        if problem is self.problem:
            return books
        return self.memoize(("books", id(problem), with_plan), lambda: books.with_rules(self.queue_rules(problem)))

    def queue_rules(self, problem: Problem) -> QueueRules:
        """The limits of the queues of such a problem."""
        return self.memoize(("rules", id(problem)), lambda: QueueRules(problem))

    @cached_property
    def split_class(self) -> int:
        """A node class that no node has and no role may use, as all above it."""
        there = {node.node_class for node in self.problem.nodes}
        back = {node.returning.node_class for node in self.problem.nodes if node.returning is not None}
        open_to = {role.node_classes for gang in self.problem.gangs for role in gang.roles}
        return 1 + max(there.union(back, *open_to))

    def _problem_with_kinds(
        self, returned_nodes: tuple[int, ...], kinds: tuple[NodeKind, ...]
    ) -> tuple[Problem, TopologyTree]:
        """As `problem_with_returned`, the nodes of each of some kinds as a class of their own."""
        problem, tree = self.problem_with_returned(returned_nodes)
        if not kinds:
            return problem, tree

        def make() -> tuple[Problem, TopologyTree]:
            classes = {kind: self.split_class + at for at, kind in enumerate(kinds)}
            split = ((node, classes.get((node.node_class, node.kind), node.node_class)) for node in problem.nodes)
            then = replace(problem, nodes=tuple(replace(node, node_class=number) for node, number in split))
            return then, TopologyTree(then)

        return self.memoize(("kinds", returned_nodes, kinds), make)

    @cached_property
    def idle_ledger(self) -> QueueBooks:
        """The queues with nothing held, and the empty cluster with all its nodes."""
        return self.ledger_with_returned(self.away_nodes, running=False)

    def ledger_with_returned(self, returned_nodes: tuple[int, ...], running: bool = True) -> QueueBooks:
        """The queues with what runs, or with nothing held, in a cluster with some nodes back."""
        if running and not returned_nodes:
            return self.before.queue_books
        problem, _ = self.problem_with_returned(returned_nodes)
        make = QueueBooks if running else QueueBooks.idle
        return self.memoize(("ledger", returned_nodes, running), lambda: make(problem))

    def _away_amounts(self, returned_nodes: tuple[int, ...], running: bool) -> FreeVectors:
        """What nodes have less while they are away: of what may be given, or of all that they hold."""
        vectors = vectors_without_foreign if running else capacity_vectors
        then, _ = self.problem_with_returned(returned_nodes)
        return self.memoize(("away", returned_nodes, running), lambda: vectors(self.problem).minus(vectors(then)))

    # ---- what the plan gives

    @cached_property
    def started_by_priority(self) -> tuple[int, ...]:
        """The gangs that the plan starts, the least important and youngest first."""
        gangs = self.problem.gangs
        return tuple(sorted(self.started_placements, key=lambda i: (gangs[i].priority, -gangs[i].age, -i)))

    @cached_property
    def growing_gangs(self) -> tuple[int, ...]:
        """The gangs that run and get more pods by the plan."""
        return tuple(i for i, pods in sorted(self.kept_placements.items()) if pods != self.problem.gangs[i].running)

    @cached_property
    def gang_priorities(self) -> frozenset[int]:
        """The priorities that gangs have."""
        return frozenset(gang.priority for gang in self.problem.gangs)

    @cached_property
    def expected_ends(self) -> dict[int, int]:
        """Gang that runs or starts -> its expected end, where known."""
        ends = {i: expected_end(self.problem, i) for i in (*self.kept_placements, *self.started_placements)}
        return {i: end for i, end in ends.items() if end is not None}

    @cached_property
    def started_levels(self) -> tuple[tuple[int, int], ...]:
        """The levels of `started_by_priority`; changed limits of queues leave them."""
        return tuple(precedence_level(self.problem, i) for i in self.started_by_priority)

    def started_below(self, level: tuple[int, int]) -> BoolArray:
        """Of `started_by_priority` which are at a lower level."""
        return self.memoize(
            ("below", level), lambda: np.array([own < level for own in self.started_levels], dtype=np.bool_)
        )

    @cached_property
    def capacity(self) -> FreeVectors:
        return capacity_vectors(self.problem)

    @cached_property
    def plan_frees_capacity(self) -> bool:
        """Whether the plan, by evictions, leaves some node more than it has beside what runs."""
        return bool((self.after.free.amounts > self.before.free.amounts).any())

    @cached_property
    def planned_amounts(self) -> FreeVectors:
        """What the plan gives to the gangs that it starts, beyond what they run."""
        total = FreeVectors(np.zeros_like(self.capacity.amounts), np.zeros_like(self.capacity.slots))
        self.add_planned_amounts(total, self.started_placements)
        return total

    def add_planned_amounts(self, free: FreeVectors, gangs: Iterable[int]) -> None:
        """Add what the plan gives to these gangs beyond what they run."""
        gangs = list(gangs)
        _add_rows(free.amounts, map(self._planned_rows, gangs))
        for i in gangs if self.slot_uses else ():
            for use in self.slot_uses.get(i, ()):
                group, position = self._slot_positions[use.node][use.slot]
                requests = self.problem.gangs[i].roles[use.role].slot_requests
                (request,) = (r for r in requests if r.slot_group == group)
                free.slots[use.node, group, position] += np.array(request.share, dtype=np.int64) * use.pods

    def _planned_rows(self, i: int) -> PodRows:
        """What the plan gives to gang i beyond what it runs."""

        def make() -> PodRows:
            nodes, amounts = zip(self.held_rows(i, with_plan=True), self.held_rows(i, with_plan=False), strict=True)
            return np.concatenate(nodes), np.concatenate([amounts[0], -amounts[1]])

        return self.memoize(("planned", i), make)

    def pods_of(self, i: int, with_plan: bool) -> tuple[Placement, ...]:
        """The pods of a gang that runs, with its growth by the plan, or that the plan starts."""
        placed = self.kept_placements[i] if i in self.kept_placements else self.started_placements[i]
        return placed if with_plan else self.problem.gangs[i].running

    def held_rows(self, i: int, with_plan: bool) -> PodRows:
        """What those pods hold."""
        return self._rows[with_plan][i]

    @cached_property
    def _rows(self) -> tuple[dict[int, PodRows], dict[int, PodRows]]:
        """Without and with the plan: gang that runs or starts -> what its pods hold."""
        gangs, placed = self.problem.gangs, (*self.kept_placements, *self.started_placements)
        of_running, of_all = ({i: pod_rows(gangs[i], self.pods_of(i, plan)) for i in placed} for plan in (False, True))
        return of_running, of_all

    @cached_property
    def queue_of(self) -> IntArray:
        """Gang -> its queue."""
        return np.array([gang.queue for gang in self.problem.gangs], dtype=np.int64)

    @cached_property
    def placed_gangs(self) -> tuple[Sequence[int], ...]:
        """Queue -> its gangs that run or start."""
        found: list[list[int]] = [[] for _ in self.problem.queues]
        for i in (*self.kept_placements, *self.started_placements):
            found[self.problem.gangs[i].queue].append(i)
        return tuple(found)

    def held_by_gangs(self, gangs: Iterable[int], with_plan: bool) -> Vector:
        """What the `pods_of` these gangs request."""
        amounts = self._held_amounts[with_plan]
        return tuple(map(sum, zip(*(amounts[i] for i in gangs), strict=True)))

    @cached_property
    def _held_amounts(self) -> tuple[dict[int, Vector], dict[int, Vector]]:
        """Without and with the plan: gang that runs or starts -> what its `pods_of` request."""
        without, with_plan = (
            {i: tuple(amounts.sum(axis=0).tolist()) for i, (_, amounts) in rows.items()} for rows in self._rows
        )
        return without, with_plan

    @cached_property
    def _slot_positions(self) -> list[list[tuple[int, int]]]:
        return slot_positions(self.problem)

    def release_pods(self, free: FreeVectors, leaving: Iterable[PodRows]) -> None:
        """Add what these pods hold; where what runs exceeds a node, that is paid first."""
        nodes, unpaid = self._overcommitment
        before = free.amounts[nodes]
        _add_rows(free.amounts, leaving)
        after = free.amounts[nodes]
        free.amounts[nodes] = np.where(after > before, np.maximum(after - unpaid, 0), after)

    @cached_property
    def _overcommitment(self) -> PodRows:
        """(nodes that what runs exceeds, by how much)."""
        amounts = free_and_overcommitted(self.problem)[1]
        nodes = np.flatnonzero(amounts.any(axis=1))
        return nodes, amounts[nodes]

    @cached_property
    def entitled_started(self) -> frozenset[int]:
        """The gangs that the plan starts within the entitlements of their queues."""
        return frozenset(entitled_in_turn(self.before.queue_books, self.entitlement_turns))

    @cached_property
    def entitlement_turns(self) -> tuple[EntitlementTurn, ...]:
        """Of the gangs that the plan starts, in order."""
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
    def running_rule_counts(self) -> PodRuleCounts | None:
        """The pods that pod rules count beside what runs."""
        planned = self.after.rule_counts
        return None if planned is None else PodRuleCounts(self.problem, planned.existing_pods)

    def rule_counts_without(self, gangs: Iterable[int]) -> PodRuleCounts | None:
        """The pod-rule counts with the plan, without what it gives to these gangs."""
        if self.after.rule_counts is None:
            return None
        left = self.after.rule_counts.copy()
        for i in gangs:
            gang = self.problem.gangs[i]
            for p in new_placements(gang, self.pods_of(i, with_plan=True)):
                left.add_pods(gang.roles[p.role], p.node, -p.pods, 0)
        return left

    def _permanent_rule_counts(self, gang: Gang) -> PodRuleCounts:
        """The empty cluster but for the gang's own running pods. Rules that keep apart, rules among its own pods and
        those by a label that no node has never change; other pods may come and meet the rest."""

        def make() -> PodRuleCounts:
            rules = list(enumerate(self.problem.pod_rules))
            apart = {rho for rho, rule in rules if rule.only_forbids}
            own = {rho for rho, rule in rules if rule.own_gang_only}
            nowhere = {rho for rho, rule in rules if all(domain is None for domain in rule.domains)}
            return PodRuleCounts(self.problem, ExistingPods(self.problem, only=gang), frozenset(apart | own | nowhere))

        rules = tuple((role.owned_rules, role.selecting_rules) for role in gang.roles) if gang.running else ()
        return self.memoize(("permanent", gang.running, rules), make)

    def rule_counts_after_ends(self, gang: Gang) -> PodRuleCounts | None:
        """The permanent counts for a gang that waits for running pods to end. That brings no pods: affinity and spread
        hold as well where they count none yet."""
        if self.after.rule_counts is None:
            return None
        counts, selected = self._permanent_rule_counts(gang), self.after.rule_counts.existing_pods.selected
        roles = (role for i in self.started_placements for role in self.problem.gangs[i].roles)
        started = {rho for role in roles for rho in role.selecting_rules}
        unmet = {rho for rho, pods in enumerate(selected) if not pods}
        return PodRuleCounts(self.problem, counts.existing_pods, counts.enforced_rules | (unmet - started))

    # ---- scenarios

    def question(self, s: Scenario) -> FitQuestion:
        problem, tree, free, counts = self.scenario_inputs(s)
        return FitQuestion(State.from_free(problem, tree, free, self.before.queue_books, counts), self.options)

    def scenario_inputs(self, s: Scenario) -> tuple[Problem, TopologyTree, FreeVectors, PodRuleCounts | None]:
        """(the problem with the gang alone, its tree, the free vectors, which the caller may change, and the pod-rule
        counts)."""
        problem, tree = self._problem_with_kinds(s.returned_nodes, s.split_kinds)
        return replace(problem, gangs=(s.gang,)), tree, self._free_vectors(s), self._rule_counts(s)

    def _rule_counts(self, s: Scenario) -> PodRuleCounts | None:
        if not s.with_pod_rules or self.after.rule_counts is None:
            return None
        if not s.with_running:
            return with_limits(self._permanent_rule_counts(s.gang), s)
        return with_limits(self.after.rule_counts if s.with_started else self.running_rule_counts, s)

    def _free_vectors(self, s: Scenario) -> FreeVectors:
        """What is free for the gang. The slots of its own running pods are not known and stay as they are."""
        if s.with_running:
            free = (self.after if s.with_started else self.before).free
        else:
            free = self.capacity.minus(self.planned_amounts) if s.with_started else self.capacity
        if s.own_running and s.with_running != bool(s.gang.running):
            free, sign = free.copy(), 1 if s.with_running else -1
            for p in s.own_running:
                free.amounts[p.node] += np.array(s.gang.roles[p.role].request, dtype=np.int64) * (sign * p.pods)
        if s.returned_nodes:
            free = free.minus(self._away_amounts(s.returned_nodes, s.with_running))
        return free.nonnegative()


def pod_rows(gang: Gang, pods: Sequence[Placement]) -> PodRows:
    """What these pods of the gang hold."""
    rows = [[p.pods * amount for amount in gang.roles[p.role].request] for p in pods]
    width = len(gang.roles[0].request) if gang.roles else 0
    return np.array([p.node for p in pods], dtype=np.int64), np.array(rows, dtype=np.int64).reshape(-1, width)


def _add_rows(total: IntArray, rows: Iterable[PodRows]) -> None:
    """Add the rows to those of `total`, column by column: many times faster than all at once."""
    for_rows = list(rows)
    if for_rows:
        nodes, amounts = (np.concatenate(parts) for parts in zip(*for_rows, strict=True))
        for r in range(total.shape[1]):
            np.add.at(total[:, r], nodes, amounts[:, r])


def _node_once_back(node: Node) -> Node:
    then = node.returning
    if then is None:
        return node
    given = {"node_class": then.node_class, "capacity": then.capacity, "free": then.free, "slots": then.slots}
    return replace(node, **given, returning=None)  # type: ignore[arg-type]

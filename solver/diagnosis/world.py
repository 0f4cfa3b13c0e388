"""What a gang is asked about: the world as it is, or as it would be with something out of the way; and whether the gang
fits there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from solver.options import Options
from solver.placement.fit import fits_exactly, greedy_placement, shortage
from solver.problem import Gang, Node, Placement, Problem, Vector
from solver.semantics.device_slots import (
    FreeVectors,
    IntArray,
    SlotUses,
    capacity_vectors,
    slot_positions,
    vectors_without_foreign,
)
from solver.semantics.gang_classes import GangClass, waiting_class
from solver.semantics.placements import new_placements
from solver.semantics.topology import TopologyTree
from solver.state.free_nodes import overcommitted_vectors
from solver.state.pod_rules import ExistingPods, PodRuleCounts
from solver.state.queue_books import QueueBooks
from solver.state.state import State


@dataclass(frozen=True, slots=True)
class Scenario:
    """A gang, as written or with something about it relaxed, and who is in its way: gangs that the plan starts, all
    that runs, and what pods say of one another.

    own: the pods of it that run in truth; where `gang.running` is empty they have given their room back. back: nodes
    that are away for now and would be there again.
    """

    gang: Gang
    own_running: tuple[Placement, ...] = ()
    with_started: bool = True
    with_running: bool = True
    returned_nodes: tuple[int, ...] = ()
    with_pod_rules: bool = True


@dataclass
class DiagnosisState:
    """before: free vectors and holdings with only what runs. after, neighbours: with the plan. started, kept: what the
    plan starts and what it keeps, gang -> placements; uses: on which cells. reserved: nodes that it holds for a gang
    that waits. guarded: a kind of node may also be one that is closed to a gang (`closing.closed`), whatever its
    selectors say. shut: where it is not said by kinds, gang -> nodes that are closed to it, on which no repair may
    count.

    Nothing in it changes but what it remembers, so that it may be sent to another process.
    """

    problem: Problem
    tree: TopologyTree
    free_before: FreeVectors
    ledger_before: QueueBooks
    free_after: FreeVectors
    ledger_after: QueueBooks
    started_placements: dict[int, tuple[Placement, ...]]
    kept_placements: dict[int, tuple[Placement, ...]]
    options: Options
    rule_counts: PodRuleCounts | None = None
    slot_uses: SlotUses = field(default_factory=dict)
    reserved_nodes: tuple[int, ...] = ()
    exclusions_in_classes: bool = False
    exclusions: Mapping[int, frozenset[int]] = field(default_factory=dict)
    blockers: dict[tuple[int, Scenario], tuple[int, tuple[int, ...]]] = field(default_factory=dict)
    """Priority and setting -> (pods that fit, gangs of the plan in the way): the dearest question, and the same for all
    queues."""

    @cached_property
    def has_maintenance(self) -> bool:
        """Whether a node closes for a while, now or later."""
        return any(node.maintenance_in is not None for node in self.problem.nodes)

    @cached_property
    def away_nodes(self) -> tuple[int, ...]:
        """Nodes that are away for now."""
        return tuple(n for n, node in enumerate(self.problem.nodes) if node.returning is not None)

    def nodes_with_returned(self, returned_nodes: tuple[int, ...]) -> tuple[tuple[Node, ...], TopologyTree]:
        """The nodes and their tree, with some that are back."""
        if not returned_nodes:
            return self.problem.nodes, self.tree
        if returned_nodes not in self._nodes_cache:
            nodes = list(self.problem.nodes)
            for n in returned_nodes:
                if (then := nodes[n].returning) is not None:
                    nodes[n] = replace(
                        nodes[n],
                        node_class=then.node_class,
                        capacity=then.capacity,
                        free=then.free,
                        slots=then.slots,
                        returning=None,
                    )
            self._nodes_cache[returned_nodes] = tuple(nodes), TopologyTree(replace(self.problem, nodes=tuple(nodes)))
        return self._nodes_cache[returned_nodes]

    @cached_property
    def _nodes_cache(self) -> dict[tuple[int, ...], tuple[tuple[Node, ...], TopologyTree]]:
        return {}

    @cached_property
    def idle_ledger(self) -> QueueBooks:
        """The queues with nothing held, and the empty cluster with all its nodes."""
        return self.ledger_with_returned(self.away_nodes, running=False)

    def ledger_with_returned(self, returned_nodes: tuple[int, ...], running: bool = True) -> QueueBooks:
        """What runs, as `before`, or the queues with nothing held, in a cluster with some nodes back."""
        if running and not returned_nodes:
            return self.ledger_before
        if (returned_nodes, running) not in self._ledger_cache:
            there = replace(self.problem, nodes=self.nodes_with_returned(returned_nodes)[0])
            self._ledger_cache[returned_nodes, running] = QueueBooks(there if running else _idle_problem(there))
        return self._ledger_cache[returned_nodes, running]

    @cached_property
    def _ledger_cache(self) -> dict[tuple[tuple[int, ...], bool], QueueBooks]:
        return {}

    @cached_property
    def capacity(self) -> FreeVectors:
        """What is allocatable."""
        return capacity_vectors(self.problem)

    @cached_property
    def planned_amounts(self) -> FreeVectors:
        """What the plan gives the gangs that it starts, beyond what they run."""
        total = FreeVectors(np.zeros_like(self.capacity.amounts), np.zeros_like(self.capacity.slots))
        for i in self.started_placements:
            self.add_planned_amounts(total, i)
        return total

    def add_planned_amounts(self, free: FreeVectors, i: int) -> None:
        """Add what the plan gives gang i beyond what it runs."""
        nodes, amounts = self._planned_amounts_of(i)
        np.add.at(free.amounts, nodes, amounts)
        for use in self.slot_uses.get(i, ()):
            division, position = self._slot_positions[use.node][use.slot]
            (portion,) = (p for p in self.problem.gangs[i].roles[use.role].slot_requests if p.slot_group == division)
            free.slots[use.node, division, position] += np.array(portion.share, dtype=np.int64) * use.pods

    def release_pods(self, free: FreeVectors, leaving: Iterable[tuple[Gang, Iterable[Placement]]]) -> None:
        """Add what these pods hold; where what runs exceeds a node, what goes pays that first."""
        more = np.zeros_like(free.amounts)
        for gang, pods in leaving:
            for p in pods:
                more[p.node] += np.array(gang.roles[p.role].request, dtype=np.int64) * p.pods
        free.amounts[:] = np.where(more > 0, np.maximum(free.amounts + more - self._overcommitted, 0), free.amounts)

    @cached_property
    def _overcommitted(self) -> IntArray:
        return overcommitted_vectors(self.problem)

    @cached_property
    def _slot_positions(self) -> list[list[tuple[int, int]]]:
        return slot_positions(self.problem)

    def _planned_amounts_of(self, i: int) -> tuple[IntArray, IntArray]:
        """(nodes, amounts) that the plan gives gang i beyond what it runs."""
        if i not in self._planned_cache:
            roles = self.problem.gangs[i].roles
            rows = [(p.node, [p.pods * a for a in roles[p.role].request]) for p in self.started_placements[i]]
            rows += [(p.node, [-p.pods * a for a in roles[p.role].request]) for p in self.problem.gangs[i].running]
            self._planned_cache[i] = np.array([n for n, _ in rows], dtype=np.int64), self._vectors([a for _, a in rows])
        return self._planned_cache[i]

    @cached_property
    def _planned_cache(self) -> dict[int, tuple[IntArray, IntArray]]:
        return {}

    def _permanent_rule_counts(self, gang: Gang) -> PodRuleCounts:
        """The empty cluster but for the gang's own pods that run: only what keeps these and its new ones apart, or
        among themselves, is sure never to change; company may come, and make things even."""
        key = (
            gang.running,
            tuple((role.owned_rules, role.selecting_rules) for role in gang.roles) if gang.running else (),
        )
        if key not in self._permanent_cache:
            sure = frozenset(
                rho
                for rho, relation in enumerate(self.problem.pod_rules)
                if relation.rule_kind == "anti-affinity" or relation.own_gang_only
            )
            self._permanent_cache[key] = PodRuleCounts(self.problem, ExistingPods(self.problem, only=gang), sure)
        return self._permanent_cache[key]

    @cached_property
    def _permanent_cache(self) -> dict[object, PodRuleCounts]:
        return {}

    @cached_property
    def _running_rule_counts(self) -> PodRuleCounts | None:
        return None if self.rule_counts is None else PodRuleCounts(self.problem, self.rule_counts.existing_pods)

    def rule_counts_in(self, s: Scenario) -> PodRuleCounts | None:
        """Who is where, for the relations that the setting minds; None for none."""
        if not s.with_pod_rules or self.rule_counts is None:
            return None
        if not s.with_running:
            return self._permanent_rule_counts(s.gang)
        return self.rule_counts if s.with_started else self._running_rule_counts

    def rule_counts_without(self, gangs: Iterable[int]) -> PodRuleCounts | None:
        """As it is with the plan, some of the gangs that it starts left out."""
        if self.rule_counts is None:
            return None
        left = self.rule_counts.copy()
        for i in gangs:
            for p in new_placements(self.problem.gangs[i], self.started_placements[i]):
                left.add_pods(self.problem.gangs[i].roles[p.role], p.node, -p.pods, 0)
        return left

    def free_vectors(self, s: Scenario) -> FreeVectors:
        """What is left for the gang. Of its own running pods the cells are not known: they stay as they are."""
        beside = self.free_after if s.with_started else self.free_before
        free = (
            beside if s.with_running else self.capacity.minus(self.planned_amounts) if s.with_started else self.capacity
        )
        if s.own_running and s.with_running != bool(s.gang.running):
            free = free.copy()
            for p in s.own_running:
                free.amounts[p.node] += np.array(s.gang.roles[p.role].request, dtype=np.int64) * (
                    p.pods if s.with_running else -p.pods
                )
        if s.returned_nodes:
            free = free.minus(self._away_amounts(s.returned_nodes, s.with_running))
        return free.nonnegative()

    def _away_amounts(self, returned_nodes: tuple[int, ...], running: bool) -> FreeVectors:
        """What nodes have less while they are away: of what may be given, or of all that they hold."""
        if (returned_nodes, running) not in self._away_cache:
            then = replace(self.problem, nodes=self.nodes_with_returned(returned_nodes)[0])
            self._away_cache[returned_nodes, running] = (
                vectors_without_foreign(self.problem).minus(vectors_without_foreign(then))
                if running
                else capacity_vectors(self.problem).minus(capacity_vectors(then))
            )
        return self._away_cache[returned_nodes, running]

    @cached_property
    def _away_cache(self) -> dict[tuple[tuple[int, ...], bool], FreeVectors]:
        return {}

    def _vectors(self, rows: Iterable[Iterable[int]]) -> IntArray:
        return np.array(list(rows), dtype=np.int64).reshape(-1, len(self.problem.resources))


@dataclass(frozen=True)
class FitQuestion:
    """One gang alone in one setting."""

    state: State
    gang_class: GangClass

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
    def rule_counts(self) -> PodRuleCounts | None:
        return self.state.rule_counts


@dataclass
class GangDiagnosis:
    """One gang that waits, and what was found out about it.

    models: how many exact models may still be asked; beyond them an answer that neither counting nor the greedy gives
    stays open. shut: nodes that no repair may count on.
    """

    state: DiagnosisState
    gang: Gang
    model_budget: int
    excluded_nodes: frozenset[int] = frozenset()
    _answers: dict[Scenario, bool | None] = field(default_factory=dict)

    @cached_property
    def current_scenario(self) -> Scenario:
        """The gang as written, the world as it is."""
        return Scenario(anonymous_gang(self.gang), self.gang.running)

    @cached_property
    def empty_scenario(self) -> Scenario:
        """The gang as written, with nothing of it running, on the empty cluster with all its nodes."""
        return Scenario(
            replace(anonymous_gang(self.gang), running=()),
            (),
            with_started=False,
            with_running=False,
            returned_nodes=self.state.away_nodes,
        )

    @cached_property
    def own_pods_scenario(self) -> Scenario:
        """The gang as written beside its pods that run, on a cluster that is empty but for them, with all its nodes."""
        return replace(
            self.current_scenario, with_started=False, with_running=False, returned_nodes=self.state.away_nodes
        )

    @cached_property
    def remaining_demand(self) -> Vector:
        """What it asks for at least, beside its pods that run."""
        return self.question(self.current_scenario).gang_class.min_demand(len(self.state.problem.resources))

    @cached_property
    def total_demand(self) -> Vector:
        """What it asks for at least, with nothing of it running."""
        return self.question(self.empty_scenario).gang_class.min_demand(len(self.state.problem.resources))

    def question(self, s: Scenario) -> FitQuestion:
        world = self.state
        nodes, tree = world.nodes_with_returned(s.returned_nodes)
        problem = replace(world.problem, nodes=nodes, gangs=(s.gang,))
        free, rule_counts = world.free_vectors(s), world.rule_counts_in(s)
        state = State.from_free(problem, tree, free, world.ledger_before, rule_counts)
        return FitQuestion(state, waiting_class(0, s.gang))

    def fits(self, s: Scenario) -> bool | None:
        """Whether the gang finds room, queues aside: by counting a no, by the greedy a yes, else by an exact model.
        None: not known."""
        if s not in self._answers:
            self._answers[s] = self._answer(self.question(s))
        return self._answers[s]

    def _answer(self, q: FitQuestion) -> bool | None:
        if shortage(q.state, q.gang_class) is not None:
            return False
        if greedy_placement(q.state, 0, q.gang_class) is not None:
            return True
        if not self.model_budget:
            return None
        self.model_budget -= 1
        return fits_exactly(q.state, 0, q.gang_class, self.state.options)


def _idle_problem(problem: Problem) -> Problem:
    """Nothing runs, of no gang and of nobody else."""
    nothing = (0,) * len(problem.resources)
    nodes = tuple(replace(node, free=node.capacity) for node in problem.nodes)
    return replace(problem, nodes=nodes, queues=tuple(replace(q, used=nothing) for q in problem.queues), gangs=())


def anonymous_gang(gang: Gang) -> Gang:
    """The gang without what does not matter to its reasons, so that gangs of one kind are equal."""
    return replace(
        gang, name="", queue=0, priority=0, age=0, duration=None, ends_in=None, overdue=False, role_affinities=()
    )

"""The state of a cluster under decision: problem, topology, free nodes, queues' books and pod-rule counts in one value.

    state = State.initial(problem)                  running pods are taken, nothing is started
    state.start_gang(j, pods); state.stop_gang(j, pods)         new pods come or go: nodes, slots, pod rules and queue
    state.evict_pods(v, pods); state.restore_pods(v, pods)      running pods go, or stay after all
    mark = state.mark(); ...; state.undo(mark)      take back everything since
    state.copy(), .without({j: pods}), .excluding({j: nodes}), .with_free(vectors)          independent copies
    FitQuestion(state, options, j).fits()           solver.diagnosis.question: by greedy, by counting, by an exact model

It never starts a model: what a node's device slots hold is found by a small exact search (`semantics.device_slots`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from solver.problem import Placement, Problem, Vector
from solver.semantics.device_slots import FreeVectors, IntArray, SlotHoldings
from solver.semantics.exclusions import NodeSet, exclude_nodes
from solver.semantics.gang_classes import ClassRole
from solver.semantics.placement_cost import HeldDomains
from solver.semantics.placements import (
    merge_placements,
    negative_of,
    new_placements,
    placed_demand,
    subtract_placements,
)
from solver.semantics.topology import TopologyTree
from solver.state.free_nodes import FreeNodes, free_and_overcommitted
from solver.state.queue_books import QueueBooks
from solver.state.selected_pods import PodRuleCounts, initial_rule_counts

Pods = tuple[Placement, ...]
StateMark = tuple[int, int, int, int]


@dataclass
class State:
    """problem, tree: with the exclusions in force. free_nodes: also counts pods for pod rules. running: gang -> its
    pods that run and are not evicted. slot_holdings: device slots that running pods hold. started: (gang, its new pods)
    one after another, with fewer than none where they go again; only where gangs have separation wishes."""

    problem: Problem
    tree: TopologyTree
    free_nodes: FreeNodes
    queue_books: QueueBooks
    running: dict[int, Pods]
    slot_holdings: SlotHoldings
    started: list[tuple[int, Pods]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._running_log: list[tuple[int, Pods]] = []

    @classmethod
    def initial(cls, problem: Problem, tree: TopologyTree | None = None) -> State:
        """Return the state with the running pods, before any start."""
        free, overcommitted = free_and_overcommitted(problem)
        nodes = FreeNodes(free, initial_rule_counts(problem), overcommitted)
        running = {j: merge_placements(gang.running) for j, gang in enumerate(problem.gangs) if gang.running}
        return cls(problem, tree or TopologyTree(problem), nodes, QueueBooks(problem), running, SlotHoldings(problem))

    def hold_gangs(self, held: frozenset[int]) -> None:
        """Set the limits of the queues to those while these gangs, and no others, are kept out of the cluster."""
        self.queue_books = self.queue_books.with_problem(self.problem, held)

    @property
    def free(self) -> FreeVectors:
        """Return the free amounts of the nodes. Do not write to them."""
        return self.free_nodes.vectors

    @property
    def rule_counts(self) -> PodRuleCounts | None:
        """Return the pods that pod rules count; None without pod rules."""
        return self.free_nodes.rule_counts

    @property
    def counted_pods(self) -> PodRuleCounts:
        """`rule_counts` of a problem that has pod rules."""
        if self.rule_counts is None:
            raise ValueError("the problem has no pod rules")
        return self.rule_counts

    def fit_counts(self, role: ClassRole) -> IntArray:
        """Return node -> pods of the role that fit, by node class, free amounts, and what pod rules forbid for good."""
        counts = np.where(self.tree.class_mask(role.node_classes), self.free_nodes.fit_counts(role.pod_request), 0)
        return counts if self.rule_counts is None else self.rule_counts.cap_fit_counts(role, counts)

    def fit_counts_on(self, nodes: npt.NDArray[np.intp], role: ClassRole) -> IntArray:
        """Return `fit_counts` of these nodes only, in their order."""
        if self.rule_counts is not None:
            return np.asarray(self.fit_counts(role)[nodes])
        eligible, counts = self.tree.class_mask(role.node_classes), self.free_nodes.fit_counts(role.pod_request)
        return np.where(eligible[nodes], counts[nodes], 0)

    # ---- other states

    @classmethod
    def from_free(
        cls,
        problem: Problem,
        tree: TopologyTree,
        free: FreeVectors,
        queue_books: QueueBooks,
        rule_counts: PodRuleCounts | None = None,
    ) -> State:
        """Return the state with these free amounts, whatever runs; queues and counts as given."""
        return cls(problem, tree, FreeNodes(free, rule_counts), queue_books, {}, SlotHoldings(problem))

    def copy(self) -> State:
        """Return an independent copy, which cannot undo what happened before."""
        return replace(
            self,
            free_nodes=self.free_nodes.copy(),
            queue_books=self.queue_books.copy(),
            running=dict(self.running),
            started=list(self.started),
        )

    def without(self, pods: Mapping[int, Iterable[Placement]]) -> State:
        """Return a copy without these pods, which were started in this state: gang -> its pods."""
        other = self.copy()
        for j, placements in pods.items():
            other.stop_gang(j, placements)
        return other

    def excluding(self, exclusions: Mapping[int, NodeSet]) -> State:
        """Return a copy in which gang j gets no new pods on the nodes exclusions[j]."""
        return self.for_problem(exclude_nodes(self.problem, exclusions))

    def for_problem(self, problem: Problem, tree: TopologyTree | None = None) -> State:
        """Return a copy for a problem that differs in exclusions and gangs' wishes only: nodes and queues hold the
        same."""
        unchanged = self.tree if problem is self.problem else None
        return replace(self.copy(), problem=problem, tree=tree or unchanged or TopologyTree(problem))

    def with_gangs(self, problem: Problem) -> State:
        """Return a copy for a problem whose gangs have other minima, which neither nodes nor queues know of."""
        other = self.for_problem(problem, self.tree)
        return replace(other, queue_books=other.queue_books.with_problem(problem))

    def with_free(self, free: FreeVectors, rule_counts: PodRuleCounts | None = None) -> State:
        """Return the same queues with other free nodes, and other pods counted by pod rules; the rest is shared."""
        return replace(self, free_nodes=FreeNodes(free, rule_counts))

    # ---- pods come and go

    def start_gang(self, j: int, pods: Iterable[Placement]) -> None:
        """Take room and charge the queue for the new pods among these. Raises ValueError where they do not fit."""
        self._add_new_pods(j, new_placements(self.problem.gangs[j], pods))

    def stop_gang(self, j: int, pods: Iterable[Placement]) -> None:
        """Give back what `start_gang` took for the same pods."""
        new_pods = new_placements(self.problem.gangs[j], pods)
        self._add_new_pods(j, tuple(replace(p, pods=-p.pods) for p in new_pods))

    def _add_new_pods(self, j: int, new_pods: Pods) -> None:
        self.free_nodes.add_gang_pods(self.problem.gangs[j], new_pods)
        self.queue_books.charge_queue(self.problem.gangs[j].queue, self._demand(j, new_pods))
        if self.problem.has_separation_wishes:
            self.started.append((j, new_pods))

    @property
    def held_domains(self) -> HeldDomains:
        """Return the domains that gangs hold which run or were started."""
        return HeldDomains(self.tree, tuple(self.started))

    def _demand(self, j: int, pods: Pods) -> Vector:
        return placed_demand(self.problem.gangs[j], pods, len(self.problem.resources))

    def evict_pods(self, v: int, pods: Pods) -> None:
        """Evict these running pods of gang v; overcommitted amounts are paid first."""
        self.free_nodes.release_running_pods(self.problem.gangs[v], pods)
        self._set_running(v, subtract_placements(self.running[v], pods))
        self.queue_books.charge_queue(self.problem.gangs[v].queue, negative_of(self._demand(v, pods)))

    def restore_pods(self, v: int, pods: Pods) -> None:
        """Evicted pods stay after all. Raises ValueError where their room is taken; then nothing has changed."""
        mark = self.free_nodes.mark()
        try:
            self.free_nodes.restore_running_pods(self.problem.gangs[v], pods)
            self._set_running(v, merge_placements([*self.running[v], *pods]))
        except ValueError:
            self.free_nodes.undo(mark)
            raise
        self.queue_books.charge_queue(self.problem.gangs[v].queue, self._demand(v, pods))

    def _set_running(self, v: int, pods: Pods) -> None:
        """The pods of gang v that run from now on, with their device slots."""
        for node, amounts in self.slot_holdings.returned_amounts(v, self.running[v], pods).items():
            self.free_nodes.adjust_slots(node, amounts)
        self._running_log.append((v, self.running[v]))
        self.running[v] = pods

    # ---- undo

    def mark(self) -> StateMark:
        """Return a point to which `undo` returns."""
        return self.free_nodes.mark(), self.queue_books.mark(), len(self._running_log), len(self.started)

    def undo(self, mark: StateMark) -> None:
        """Take back everything since `mark`."""
        nodes, queues, running, started = mark
        self.free_nodes.undo(nodes)
        self.queue_books.undo(queues)
        for v, pods in reversed(self._running_log[running:]):
            self.running[v] = pods
        del self._running_log[running:], self.started[started:]

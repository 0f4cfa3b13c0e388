"""Changes tried: would the gang start beside the plan?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from solver.diagnosis.case import GangDiagnosis
from solver.diagnosis.diagnosis_state import AddedNodes, Scenario, with_limits
from solver.diagnosis.minimal import first_sufficient
from solver.diagnosis.question import FitQuestion, ModelBudget
from solver.problem import Gang, Placement, Problem, Vector
from solver.repairs import Repair
from solver.semantics.device_slots import FreeVectors
from solver.semantics.exclusions import exclude_for_gang, maintenance_conflicts
from solver.semantics.placements import merge_placements, placed_demand
from solver.semantics.topology import TopologyTree
from solver.state.queue_books import QueueBooks
from solver.state.selected_pods import PodRuleCounts
from solver.state.state import State


@dataclass(frozen=True)
class Trial:
    """The world after some changes. limits_problem: with the queues' limits then. ended_gangs: gangs that ended.

    start_delay: seconds until the gang starts, by which nodes may have closed.
    """

    scenario: Scenario
    limits_problem: Problem
    ended_gangs: tuple[int, ...] = ()
    added_nodes: AddedNodes | None = None
    changes: tuple[Repair, ...] = ()
    start_delay: int = 0

    def with_change(self, repair: Repair, **changes: Any) -> Trial:
        return replace(self, changes=(*self.changes, repair), **changes)

    def with_scenario(self, repair: Repair, **changes: Any) -> Trial:
        return self.with_change(repair, scenario=replace(self.scenario, **changes))


Step = Callable[[Trial], Trial]


@dataclass(frozen=True)
class StepSequence(Sequence[Step]):
    """One step for each number, made when it is asked for: there may be as many as a role has replicas."""

    numbers: range
    make: Callable[[int], Step]

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, at: Any) -> Any:
        return self.make(self.numbers[at])


@dataclass
class TrialRunner:
    """Tries changes for one case. question_budget: questions about nodes that may still be asked; models: how many of
    them by an exact model."""

    case: GangDiagnosis
    question_budget: int
    models: ModelBudget
    _answers: dict[object, bool] = field(default_factory=dict)

    @cached_property
    def initial_trial(self) -> Trial:
        return Trial(self.case.current_scenario, self.case.state.problem)

    # ---- queues

    def fits_queues(self, t: Trial) -> bool:
        """Whether the queues let the gang start."""
        queue = self.case.gang.queue
        return self.ledger(t, for_queue=queue).allows_amount(queue, self.min_demand(t))

    def min_demand(self, t: Trial) -> Vector:
        return self.case.demand(t.scenario)

    def ledger(self, t: Trial, for_queue: int | None = None) -> QueueBooks:
        """What the queues hold then, under the limits of then. for_queue: where only that matters on which it depends
        what this queue may take."""
        state, gang, s = self.case.state, self.case.gang, t.scenario
        ledger, ended = state.books_under(t.limits_problem, s.with_started).copy(), set(t.ended_gangs)
        for q in ledger.related_queues(for_queue) if for_queue is not None else range(len(state.problem.queues)):
            gangs = [i for i in state.placed_gangs[q] if i in ended] if ended else []
            if gangs:
                now, before = (state.held_by_gangs(gangs, with_plan) for with_plan in (s.with_started, False))
                ledger.release_amount(q, now, before)
        if s.own_running and not s.gang.running:
            pods = placed_demand(gang, s.own_running, len(state.problem.resources))
            ledger.release_amount(gang.queue, pods, pods)
        return ledger

    # ---- nodes

    def fits_nodes(self, t: Trial) -> bool:
        """Whether the gang finds room; false too where no answer is known."""
        key = (t.scenario, t.ended_gangs, t.added_nodes, t.start_delay)
        if key not in self._answers:
            if not self.question_budget:
                return False
            self.question_budget -= 1
            state = self.case.state
            nodes = len(state.problem.nodes) + (t.added_nodes[2] if t.added_nodes else 0)
            # Without a model the answer is the same for all gangs that are alike.
            shared = "trial", key, self.case.current_scenario, tuple(self._excluded_nodes(t))
            fits = state.memoize(shared, lambda: self.question(t).fits_without_model())
            if fits is None and nodes * len(t.scenario.gang.roles) <= state.options.budget.repair_variables:
                fits = self.question(t).fits_by_model(self.models)
            self._answers[key] = fits is True
        return self._answers[key]

    def question(self, t: Trial) -> FitQuestion:
        """Whether the gang fits on the nodes then. Nodes are never added where there are pod rules or device slots."""
        state, s, books = self.case.state, t.scenario, self.case.state.before.queue_books
        problem, tree, free, counts = state.scenario_inputs(s)
        if counts is not None and not s.with_running:
            counts = with_limits(state.rule_counts_after_ends(s.gang), s)
        state.release_pods(free, [state.held_rows(i, s.with_started) for i in t.ended_gangs])
        if counts is not None:
            leaving = [(state.problem.gangs[i], state.pods_of(i, s.with_started)) for i in t.ended_gangs]
            own = [(self.case.gang, s.own_running)] if s.own_running and not s.gang.running else []
            counts = _rule_counts_without(counts, [*leaving, *own])
        excluded = self._excluded_nodes(t)
        free.amounts[excluded] = 0
        problem, tree = exclude_for_gang(problem, tree, 0, excluded)
        if t.added_nodes is None:
            return FitQuestion(State.from_free(problem, tree, free, books, counts), state.options)
        like, _, count = t.added_nodes
        node, problem = problem.nodes[like], problem.with_nodes_like(*t.added_nodes)
        amounts = np.vstack([free.amounts, np.array([node.capacity] * count, dtype=np.int64)])
        slots = np.concatenate([free.slots, np.zeros((count, *free.slots.shape[1:]), dtype=np.int64)])
        tree, free = TopologyTree(problem), FreeVectors(amounts, slots)
        return FitQuestion(State.from_free(problem, tree, free, books), state.options)

    def _excluded_nodes(self, t: Trial) -> list[int]:
        """Nodes that are reserved for another gang, close before this one ends, or are excluded anyway."""
        state = self.case.state
        reserved = state.reserved_nodes if t.scenario.with_started else ()
        closing = maintenance_conflicts(state.problem, self.case.gang, t.start_delay) if t.start_delay else ()
        return sorted({*reserved, *closing, *self.case.excluded_nodes})

    # ---- trials that work

    def lets_start(self, t: Trial) -> bool:
        """Whether the gang is allowed and finds room; false too where no answer is known."""
        return self.fits_queues(t) and self.fits_nodes(t)

    def sufficient_trial(self, t: Trial | None) -> Iterator[Trial]:
        """The trial, where it changes something and lets the gang start."""
        if t is not None and t.changes and self.lets_start(t):
            yield t

    def least_trial(
        self, t: Trial, steps: Sequence[Step], accepts: Callable[[Trial], bool] | None = None
    ) -> Trial | None:
        """The trial with the first step that lets the gang start, or is accepted; later steps must help no less."""
        accepted = accepts or self.lets_start
        step = first_sufficient(steps, lambda step: accepted(step(t)))
        return None if step is None else step(t)

    def least_trials(self, t: Trial, kinds: Iterable[Sequence[Step]]) -> Iterator[Trial]:
        """The least trial of each kind of change that has one."""
        for steps in kinds:
            if (trial := self.least_trial(t, steps)) is not None:
                yield trial


def _rule_counts_without(
    rule_counts: PodRuleCounts, leaving: Iterable[tuple[Gang, tuple[Placement, ...]]]
) -> PodRuleCounts:
    """The counts once these pods are gone: of those that ran, and of those that the plan placed."""
    running, placed = [], []
    for gang, pods in leaving:
        ran = {(p.role, p.node): p.pods for p in merge_placements(gang.running)}
        for p in pods:
            stood = min(p.pods, ran.get((p.role, p.node), 0))
            running.append((gang.roles[p.role], p.node, stood))
            placed.append((gang.roles[p.role], p.node, p.pods - stood))
    left = rule_counts.without_pods((role, node, number) for role, node, number in running if number)
    for role, node, number in placed:
        if number:
            left.add_pods(role, node, -number, 0)
    return left

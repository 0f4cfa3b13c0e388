"""A change, or several, tried out: would the gang start beside the plan?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from solver.diagnosis.minimal import first_sufficient
from solver.diagnosis.world import FitQuestion, GangDiagnosis, Scenario
from solver.placement.fit import fits_exactly, greedy_placement, shortage
from solver.problem import Gang, Node, Placement, Problem, Role, Vector
from solver.repairs import Repair
from solver.semantics.device_slots import FreeVectors
from solver.semantics.exclusions import exclude_for_gang, maintenance_conflicts
from solver.semantics.gang_classes import waiting_class
from solver.semantics.placements import add_vectors, merge_placements, placed_demand
from solver.semantics.topology import TopologyTree
from solver.state.pod_rules import PodRuleCounts
from solver.state.queue_books import QueueBooks
from solver.state.state import State


@dataclass(frozen=True)
class Trial:
    """What would be: the gang's setting, the queues' limits, gangs that ended, nodes that were added (`count` like one,
    at a leaf).

    later: seconds until then, by which nodes may have closed. changes: what was done for it.
    """

    scenario: Scenario
    limits_problem: Problem
    ended_gangs: tuple[int, ...] = ()
    added_nodes: tuple[int, int | None, int] | None = None
    changes: tuple[Repair, ...] = ()
    start_delay: int = 0


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
    """Where trials are made for one case. tries: how many more questions about nodes may be asked; models: how many of
    them by an exact model."""

    case: GangDiagnosis
    question_budget: int
    model_budget: int
    _answers: dict[object, bool] = field(default_factory=dict)
    _demand_cache: dict[tuple[int, bool], tuple[Vector, Vector]] = field(default_factory=dict)

    @property
    def initial_trial(self) -> Trial:
        """Nothing changed yet."""
        return Trial(self.case.current_scenario, self.case.state.problem)

    def lets_start(self, t: Trial) -> bool:
        """Whether the gang is allowed and finds room; false too where no answer is known."""
        return self.fits_queues(t) and self.fits_nodes(t)

    def fits_queues(self, t: Trial) -> bool:
        """Whether the queues let it start."""
        return self.ledger(t).allows_amount(self.case.gang.queue, self.minimum_demand(t))

    def minimum_demand(self, t: Trial) -> Vector:
        """What the gang asks for at least."""
        return waiting_class(0, t.scenario.gang).min_demand(len(self.case.state.problem.resources))

    def ledger(self, t: Trial) -> QueueBooks:
        """What the queues hold then, under the limits of then."""
        world = self.case.state
        held = world.ledger_after if t.scenario.with_started else world.ledger_before
        ledger = held.copy() if t.limits_problem is world.problem else held.with_problem(t.limits_problem)
        width = len(world.problem.resources)
        gone: dict[int, tuple[Vector, Vector]] = {}
        for i in t.ended_gangs:
            q, none = world.problem.gangs[i].queue, ((0,) * width, (0,) * width)
            now, before = gone.get(q, none)
            more, running = self._demands(t, i)
            gone[q] = add_vectors(now, more), add_vectors(before, running)
        for q, (now, before) in gone.items():
            ledger.release_amount(q, now, before)
        if t.scenario.own_running and not t.scenario.gang.running:
            pods = placed_demand(self.case.gang, t.scenario.own_running, width)
            ledger.release_amount(self.case.gang.queue, pods, pods)
        return ledger

    def _demands(self, t: Trial, i: int) -> tuple[Vector, Vector]:
        """What a gang holds, and what of it ran before."""
        if (i, t.scenario.with_started) not in self._demand_cache:
            gang, width = self.case.state.problem.gangs[i], len(self.case.state.problem.resources)
            self._demand_cache[i, t.scenario.with_started] = (
                placed_demand(gang, self.pods_of(t, i), width),
                placed_demand(gang, gang.running, width),
            )
        return self._demand_cache[i, t.scenario.with_started]

    def pods_of(self, t: Trial, i: int) -> tuple[Placement, ...]:
        """The pods of a gang that runs, its growth by the plan included, or that the plan starts."""
        world = self.case.state
        placed = world.kept_placements[i] if i in world.kept_placements else world.started_placements[i]
        return placed if t.scenario.with_started else world.problem.gangs[i].running

    def fits_nodes(self, t: Trial) -> bool:
        """Whether it finds room."""
        key = (t.scenario, t.ended_gangs, t.added_nodes, t.start_delay)
        if key not in self._answers:
            if not self.question_budget:
                return False
            self.question_budget -= 1
            self._answers[key] = self._answer(self.question(t))
        return self._answers[key]

    def _answer(self, q: FitQuestion) -> bool:
        if shortage(q.state, q.gang_class) is not None:
            return False
        if greedy_placement(q.state, 0, q.gang_class) is not None:
            return True
        if (
            not self.model_budget
            or len(q.problem.nodes) * len(q.gang_class.roles) > self.case.state.options.budget.repair_variables
        ):
            return False
        self.model_budget -= 1
        return fits_exactly(q.state, 0, q.gang_class, self.case.state.options) is True

    def question(self, t: Trial) -> FitQuestion:
        """The same asked of the nodes alone. More nodes are never tried together with relations between pods or cells
        of nodes."""
        q = self.case.question(t.scenario)
        free, left = q.free.copy(), None if q.rule_counts is None else q.rule_counts.copy()
        leaving = [(self.case.state.problem.gangs[i], self.pods_of(t, i)) for i in t.ended_gangs]
        self.case.state.release_pods(free, leaving)
        if t.scenario.own_running and not t.scenario.gang.running:
            leaving.append((self.case.gang, t.scenario.own_running))
        if left is not None:
            left = _rule_counts_without(left, leaving)
        closed = self._excluded_nodes(t)
        free.amounts[closed] = 0
        problem, tree = exclude_for_gang(q.problem, q.tree, 0, closed)
        if t.added_nodes is None:
            state = State.from_free(problem, tree, free, q.state.queue_books, left)
            return FitQuestion(state, waiting_class(0, problem.gangs[0]))
        like, leaf, count = t.added_nodes
        node = problem.nodes[like]
        more = tuple(
            Node(f"{node.name} again {n}", node.node_class, leaf, node.capacity, node.capacity) for n in range(count)
        )
        problem = replace(problem, nodes=(*problem.nodes, *more))
        amounts = np.vstack([free.amounts, np.array([node.capacity] * count, dtype=np.int64)])
        cells = np.concatenate([free.slots, np.zeros((count, *free.slots.shape[1:]), dtype=np.int64)])
        free = FreeVectors(amounts, cells)
        state = State.from_free(problem, TopologyTree(problem), free, q.state.queue_books)
        return FitQuestion(state, waiting_class(0, problem.gangs[0]))

    def _excluded_nodes(self, t: Trial) -> list[int]:
        """The nodes that the gang may not use then: reserved for another, closing before it ends, or closed to it
        anyway."""
        world = self.case.state
        reserved = world.reserved_nodes if t.scenario.with_started else ()
        later = maintenance_conflicts(world.problem, self.case.gang, t.start_delay) if t.start_delay else ()
        return sorted({*reserved, *later, *self.case.excluded_nodes})

    def placement_of(self, t: Trial) -> tuple[Placement, ...]:
        """Where the greedy puts it then; nowhere where it finds no place."""
        q = self.question(t)
        return greedy_placement(q.state, 0, q.gang_class) or ()

    def least_trial(
        self, t: Trial, steps: Sequence[Step], accepts: Callable[[Trial], bool] | None = None
    ) -> Trial | None:
        """The trial with the first of the steps that works (or is good `by` another test); none must help less than
        those before it."""
        good = accepts or self.lets_start
        step = first_sufficient(steps, lambda step: good(step(t)))
        return None if step is None else step(t)


def _rule_counts_without(
    rule_counts: PodRuleCounts, leaving: Iterable[tuple[Gang, tuple[Placement, ...]]]
) -> PodRuleCounts:
    """Who is where once these pods of gangs are gone: those that run already stood there, the others the plan has
    placed."""
    running: list[tuple[Role, int, int]] = []
    placed: list[tuple[Role, int, int]] = []
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

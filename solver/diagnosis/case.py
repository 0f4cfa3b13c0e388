"""One waiting gang under diagnosis: would it start in a world?"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import cached_property

from solver.diagnosis.diagnosis_state import DiagnosisState
from solver.diagnosis.question import FitQuestion, ModelBudget
from solver.diagnosis.world import World, anonymous_gang, gang_kinds, with_role
from solver.problem import Gang, Vector
from solver.semantics.exclusions import maintenance_conflicts
from solver.semantics.gang_classes import waiting_class
from solver.semantics.topology import ROOT
from solver.state.queue_books import QueueBooks


@dataclass
class GangDiagnosis:
    """The diagnosis of one gang. index: in the problem. models: limit for answers that neither counting nor the greedy
    gives; beyond it they stay open. repair_models: the same for tried worlds, about at most `questions` questions."""

    state: DiagnosisState
    index: int
    models: ModelBudget
    repair_models: ModelBudget
    questions: int
    _answers: dict[World, bool | None] = field(default_factory=dict, init=False)
    _demands: dict[World, Vector] = field(default_factory=dict, init=False)
    _allowed: dict[object, bool] = field(default_factory=dict, init=False)

    @classmethod
    def of(cls, state: DiagnosisState, j: int) -> GangDiagnosis:
        """With the limits of the budget."""
        budget = state.options.budget
        models, repair_models = ModelBudget(budget.fact_models), ModelBudget(budget.repair_models)
        return cls(state, j, models, repair_models, budget.repair_questions)

    @cached_property
    def gang(self) -> Gang:
        return self.state.problem.gangs[self.index]

    @property
    def excluded_nodes(self) -> frozenset[int]:
        """Return the nodes on which no repair may count."""
        return self.state.exclusions.get(self.index, frozenset())

    @property
    def closed_classes(self) -> tuple[frozenset[int], ...]:
        """For each role the node classes in node groups that its queue may not use."""
        return self.state.closed_classes.get(self.index, ())

    # ---- worlds

    @cached_property
    def current_world(self) -> World:
        """Return the gang as written, the world as it is."""
        return World(anonymous_gang(self.gang), self.gang.queue, self.gang.running)

    @cached_property
    def tried_world(self) -> World:
        """Return the same, as one in which the gang is to start."""
        return replace(self.current_world, excluded=self.excluded_nodes, is_tried=True)

    @cached_property
    def empty_world(self) -> World:
        """Return the gang as written, nothing of it running, on the empty cluster with all its nodes."""
        gang = replace(self.current_world.gang, running=())
        return replace(self.own_pods_world, gang=gang, own_running=())

    @cached_property
    def own_pods_world(self) -> World:
        """Return the gang as written next to its running pods, on a cluster that is empty but for them, with all its
        nodes."""
        away = self.state.away_nodes
        return replace(self.current_world, with_started=False, with_running=False, returned_nodes=away)

    # ---- its demand

    @cached_property
    def remaining_demand(self) -> Vector:
        """Return the least amounts that it requests in addition to its running pods."""
        return self.demand(self.current_world)

    @cached_property
    def total_demand(self) -> Vector:
        """Return the least amounts that it requests with nothing of it running."""
        return self.demand(self.empty_world)

    def demand(self, w: World) -> Vector:
        """Return the least amounts that it requests, choosing among its roles only by the empty cluster's room."""
        if w not in self._demands:
            gang_class = waiting_class(0, w.gang)
            if not gang_class.is_rigid:
                gang_class = gang_class.within([counts[ROOT] for counts in self._counts_on_empty(w)])
            self._demands[w] = gang_class.min_demand(len(self.state.problem.resources))
        return self._demands[w]

    def _counts_on_empty(self, w: World) -> list[dict[int, int]]:
        """Return role -> domain -> pods of the role that the empty cluster holds by number."""
        empty = replace(
            self.own_pods_world,
            gang=w.gang,
            own_running=w.own_running,
            with_pod_rules=w.with_pod_rules,
            split_kinds=w.split_kinds,
            quota_limits=w.quota_limits,
        )
        return self.state.memoize(("counts", empty), lambda: self.question(empty).fit_counts())

    # ---- node groups

    @cached_property
    def closed_groups(self) -> tuple[int, ...]:
        """Return the node groups of its closed classes, last the nodes in no group."""
        found = {self.state.group_of_class[c] for classes in self.closed_classes for c in classes}
        return tuple(sorted(found, key=lambda group: (not group, group)))

    def with_open_groups(self, gang: Gang, groups: Collection[int]) -> Gang:
        """Return the gang, of the shape of this one, with some of its closed node groups open to it."""
        of = self.state.group_of_class
        for t, closed in enumerate(self.closed_classes):
            opened = frozenset(c for c in closed if of[c] in groups)
            gang = with_role(gang, t, node_classes=gang.roles[t].node_classes | opened)
        return gang

    def has_open_groups(self, gang: Gang) -> bool:
        """Return whether the gang is one `with_open_groups`."""
        roles = zip(gang.roles, self.closed_classes, strict=True) if self.closed_classes else ()
        return any(not closed.isdisjoint(role.node_classes) for role, closed in roles)

    # ---- does it fit?

    def _excluded(self, w: World) -> frozenset[int]:
        """Return nodes that are reserved for another gang, close before this one ends, or are excluded anyway."""
        keeps_off = w.is_tried and w.with_started and self.index != self.state.reserved_gang
        reserved = self.state.reserved_nodes if keeps_off else ()
        closing = maintenance_conflicts(self.state.problem, self.gang, w.start_delay) if w.start_delay else ()
        return w.excluded.union(reserved, closing)

    def question(self, w: World) -> FitQuestion:
        return self.state.question(w, self._excluded(w))

    def fits(self, w: World) -> bool | None:
        """Return whether the gang fits, queues aside. None: not known."""
        if w not in self._answers:
            if w.is_tried and not self.questions:
                return None
            self.questions -= w.is_tried
            state, models = self.state, self.repair_models if w.is_tried else self.models
            # Without a model the answer is the same for all gangs that are alike.
            key = "fits", w, self._excluded(w)
            fits = state.memoize(key, lambda: self.question(w).fits_without_model())
            if fits is None and not (w.is_tried and self._is_large(w)):
                fits = self.question(w).fits_by_model(models)
            self._answers[w] = fits
        return self._answers[w]

    def _is_large(self, w: World) -> bool:
        """Return whether a model, each node a bucket of its own, would be too large to try changes."""
        nodes = len(self.state.problem.nodes) + (w.added_nodes[2] if w.added_nodes else 0)
        return nodes * len(w.gang.roles) > self.state.options.budget.repair_variables

    def fits_nodes(self, w: World) -> bool:
        """Return whether the gang finds room; false too where no answer is known."""
        return self.fits(w) is True

    def fits_queues(self, w: World) -> bool:
        """Return whether the queues let the gang start."""
        demand, gone = self.demand(w), (w.held_back, w.ended_gangs, w.served_first, bool(w.gang.running))
        key = demand, w.queue, w.with_started, gone, w.queue_changes, w.limits_nodes
        if key not in self._allowed:
            self._allowed[key] = self.ledger(w, for_queue=w.queue).allows_amount(w.queue, demand)
        return self._allowed[key]

    def ledger(self, w: World, for_queue: int | None = None) -> QueueBooks:
        """Return the queues' usage in a world, under its limits. for_queue: compute only the amounts that limit this
        queue."""
        return self.state.books(w, self.index, for_queue)

    def lets_start(self, w: World) -> bool:
        """Return whether the gang is allowed and finds room; false too where no answer is known."""
        return self.fits_queues(w) and self.fits_nodes(w)


def diagnosis_class(state: DiagnosisState, j: int) -> tuple[object, ...]:
    """Return the inputs of gang j's facts and repairs."""
    gang = state.problem.gangs[j]
    duration = gang.times.duration if state.has_maintenance else None
    return gang_kinds(state.problem)[j], gang.queue, gang.priority, duration, state.closed_classes.get(j)

"""One waiting gang under diagnosis."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import cached_property

from solver.diagnosis.diagnosis_state import DiagnosisState, Scenario
from solver.diagnosis.gangs import anonymous_gang, gang_kinds, with_role
from solver.diagnosis.question import FitQuestion, ModelBudget
from solver.problem import Gang, Vector
from solver.semantics.gang_classes import waiting_class
from solver.semantics.topology import ROOT


@dataclass
class GangDiagnosis:
    """What is found out about one gang. index: in the problem. models: beyond them an answer that neither counting nor
    the greedy gives stays open. excluded_nodes: on which no repair may count. closed_classes: of
    `DiagnosisState.closed_classes`."""

    state: DiagnosisState
    index: int
    models: ModelBudget
    excluded_nodes: frozenset[int] = frozenset()
    closed_classes: tuple[frozenset[int], ...] = ()
    _answers: dict[Scenario, bool | None] = field(default_factory=dict)
    _demands: dict[Scenario, Vector] = field(default_factory=dict)

    @cached_property
    def gang(self) -> Gang:
        return self.state.problem.gangs[self.index]

    @cached_property
    def current_scenario(self) -> Scenario:
        """The gang as written, the world as it is."""
        return Scenario(anonymous_gang(self.gang), self.gang.running)

    @cached_property
    def empty_scenario(self) -> Scenario:
        """The gang as written, nothing of it running, on the empty cluster with all its nodes."""
        gang, away = replace(anonymous_gang(self.gang), running=()), self.state.away_nodes
        return Scenario(gang, (), with_started=False, with_running=False, returned_nodes=away)

    @cached_property
    def own_pods_scenario(self) -> Scenario:
        """The gang as written beside its running pods, on a cluster that is empty but for them, with all its nodes."""
        away = self.state.away_nodes
        return replace(self.current_scenario, with_started=False, with_running=False, returned_nodes=away)

    @cached_property
    def remaining_demand(self) -> Vector:
        """What it asks for at least, beside its running pods."""
        return self.demand(self.current_scenario)

    @cached_property
    def total_demand(self) -> Vector:
        """What it asks for at least, with nothing of it running."""
        return self.demand(self.empty_scenario)

    def demand(self, s: Scenario) -> Vector:
        """What it asks for at least, where it may choose among its roles only of what the empty cluster holds."""
        if s not in self._demands:
            gang_class, width = waiting_class(0, s.gang), len(self.state.problem.resources)
            if not gang_class.is_rigid:
                empty = replace(s, with_started=False, with_running=False, returned_nodes=self.state.away_nodes)
                gang_class = gang_class.within([counts[ROOT] for counts in self.question(empty).fit_counts()])
            self._demands[s] = gang_class.min_demand(width)
        return self._demands[s]

    @cached_property
    def closed_groups(self) -> tuple[int, ...]:
        """The node groups of its closed classes, last the nodes in no group."""
        found = {self.state.group_of_class[c] for classes in self.closed_classes for c in classes}
        return tuple(sorted(found, key=lambda group: (not group, group)))

    def with_open_groups(self, gang: Gang, groups: Collection[int]) -> Gang:
        """The gang, of the shape of this one, with some of its closed node groups open to it."""
        of = self.state.group_of_class
        for t, closed in enumerate(self.closed_classes):
            opened = frozenset(c for c in closed if of[c] in groups)
            gang = with_role(gang, t, node_classes=gang.roles[t].node_classes | opened)
        return gang

    def has_open_groups(self, gang: Gang) -> bool:
        """Whether the gang is one `with_open_groups`."""
        roles = zip(gang.roles, self.closed_classes, strict=True) if self.closed_classes else ()
        return any(not closed.isdisjoint(role.node_classes) for role, closed in roles)

    def question(self, s: Scenario) -> FitQuestion:
        return self.state.question(s)

    def fits(self, s: Scenario) -> bool | None:
        """Whether the gang fits, queues aside. None: not known."""
        if s not in self._answers:
            state = self.state
            fits = state.memoize(("fits", s), lambda: self.question(s).fits_without_model())
            self._answers[s] = self.question(s).fits_by_model(self.models) if fits is None else fits
        return self._answers[s]


def diagnosis_class(state: DiagnosisState, j: int) -> tuple[object, ...]:
    """What the facts and repairs of gang j depend on."""
    gang = state.problem.gangs[j]
    duration = gang.times.duration if state.has_maintenance else None
    return gang_kinds(state.problem)[j], gang.queue, gang.priority, duration, state.closed_classes.get(j)

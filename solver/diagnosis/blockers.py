"""Blockers: the gangs that keep a waiting gang out, since the plan starts them or lets them grow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from solver.diagnosis.case import GangDiagnosis
from solver.diagnosis.minimal import minimal_subset, shortest_length
from solver.diagnosis.state import Scenario


@dataclass(frozen=True, slots=True)
class Blockers:
    """pods: of the gang, that fit beside the plan. gangs: a minimal set of those that the plan starts without which all
    pods would fit; grow: of those that run, since without their growth all pods fit beside what starts."""

    pods: int
    gangs: tuple[int, ...]
    grow: bool = False


def blockers(case: GangDiagnosis, s: Scenario) -> Blockers:
    """What keeps the gang out, whatever the queues.

    Those of the gang's priority and above are examined first, the lowest and youngest first. Growth beyond what a queue
    is entitled to only takes what is left over, and is in no gang's way. The answer is costly and the same for all
    queues.
    """
    state, priority = case.state, case.gang.priority

    def make() -> Blockers:
        q, gangs = case.question(s), state.problem.gangs
        order = [i for i in state.started_by_priority if gangs[i].priority >= priority]
        most = q.max_pods(q.state.rule_counts)
        if found := _blocking_prefix(case, s, order or state.started_by_priority):
            return Blockers(most, tuple(sorted(found)))
        return Blockers(most, tuple(sorted(_blocking_growth(case, s))), grow=True)

    return state.memoize(("blockers", priority, s), make)


def _blocking_growth(case: GangDiagnosis, s: Scenario) -> tuple[int, ...]:
    """A minimal set of gangs that run without whose growth the gang fits."""
    state, q = case.state, case.question(s)

    def fits(without: Sequence[int]) -> bool:
        free = q.state.free.copy()
        state.add_planned_amounts(free, without)
        counts = state.rule_counts_without(without) if s.with_pod_rules else None
        return q.with_free(free.nonnegative(), counts).placement() is not None

    growing = state.growing_gangs
    return minimal_subset(growing, fits) if len(growing) <= state.options.budget.minimized_blockers else growing


def _blocking_prefix(case: GangDiagnosis, s: Scenario, order: Sequence[int]) -> tuple[int, ...]:
    """The shortest prefix of `order` without which the gang fits, less the members that it does not need."""
    state, q = case.state, case.question(replace(s, with_started=False))
    without_plan = q.state.free.minus(state.planned_amounts)

    def fits(without: Sequence[int]) -> bool:
        free = without_plan.copy()
        state.add_planned_amounts(free, without)
        counts = state.rule_counts_without(without) if s.with_pod_rules else None
        return q.with_free(free.nonnegative(), counts).placement() is not None

    chosen = tuple(reversed(order[: shortest_length(order, fits)]))
    return minimal_subset(chosen, fits) if len(chosen) <= state.options.budget.minimized_blockers else chosen

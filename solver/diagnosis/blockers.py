"""Blockers: the gangs started by the plan that keep a waiting gang out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from solver.diagnosis.case import GangDiagnosis
from solver.diagnosis.minimal import minimal_subset, shortest_length
from solver.diagnosis.state import Scenario


def blockers(case: GangDiagnosis, s: Scenario) -> tuple[int, tuple[int, ...]]:
    """(pods of the gang that fit beside the plan, a minimal set of the plan's started gangs without which all pods
    would fit), whatever their queues.

    Those of the gang's priority and above are examined first, the lowest and youngest first. The answer is costly and
    the same for all queues.
    """
    state, priority = case.state, case.gang.priority

    def make() -> tuple[int, tuple[int, ...]]:
        q, gangs = case.question(s), state.problem.gangs
        order = [i for i in state.started_by_priority if gangs[i].priority >= priority]
        return q.max_pods(q.state.rule_counts), tuple(
            sorted(_blocking_prefix(case, s, order or state.started_by_priority))
        )

    return state.memoize(("blockers", priority, s), make)


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

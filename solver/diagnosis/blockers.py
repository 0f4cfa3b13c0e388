"""Blockers: the gangs that keep a waiting gang out, since the plan starts them or lets them grow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from solver.diagnosis.case import GangDiagnosis
from solver.diagnosis.diagnosis_state import Scenario
from solver.diagnosis.minimal import minimal_subset, shortest_length
from solver.diagnosis.question import FitQuestion
from solver.semantics.device_slots import FreeVectors

FitsWithout = Callable[[Sequence[int]], bool]


def blockers(case: GangDiagnosis, s: Scenario) -> tuple[int, tuple[int, ...]]:
    """(pods of the gang that fit beside the plan, a minimal set of the plan's gangs without which all pods would fit),
    whatever their queues: of gangs that start, or else of gangs that run, without their growth.

    Those of the gang's priority and above are examined first, the lowest and youngest first. Growth beyond what a queue
    is entitled to only takes what is left over, and is in no gang's way. The answer is costly and the same for all
    queues.
    """
    state, priority = case.state, case.gang.priority

    def make() -> tuple[int, tuple[int, ...]]:
        q, gangs = case.question(s), state.problem.gangs
        order = [i for i in state.started_by_priority if gangs[i].priority >= priority]
        found = _blocking_prefix(case, s, order or state.started_by_priority) or _blocking_growth(case, s)
        return q.max_pods(q.state.rule_counts), tuple(sorted(found))

    return state.memoize(("blockers", priority, s), make)


def _blocking_prefix(case: GangDiagnosis, s: Scenario, order: Sequence[int]) -> tuple[int, ...]:
    """The shortest prefix of `order` without which the gang fits, less the members that it does not need."""
    q = case.question(replace(s, with_started=False))
    fits = _fit_without(case, s, q, q.state.free.minus(case.state.planned_amounts))
    chosen = tuple(reversed(order[: shortest_length(order, fits)]))
    return _minimal(case, chosen, fits)


def _blocking_growth(case: GangDiagnosis, s: Scenario) -> tuple[int, ...]:
    """A minimal set of gangs that run without whose growth the gang fits."""
    q = case.question(s)
    return _minimal(case, case.state.growing_gangs, _fit_without(case, s, q, q.state.free))


def _fit_without(case: GangDiagnosis, s: Scenario, q: FitQuestion, free: FreeVectors) -> FitsWithout:
    """Whether the gang fits into what is free and what the plan gives to some gangs."""

    def fits(without: Sequence[int]) -> bool:
        left = free.copy()
        case.state.add_planned_amounts(left, without)
        counts = case.state.rule_counts_without(without) if s.with_pod_rules else None
        return q.with_free(left.nonnegative(), counts).placement() is not None

    return fits


def _minimal(case: GangDiagnosis, gangs: tuple[int, ...], fits: FitsWithout) -> tuple[int, ...]:
    return minimal_subset(gangs, fits) if len(gangs) <= case.state.options.budget.minimized_blockers else gangs

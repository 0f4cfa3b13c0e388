"""Blockers: the gangs that keep a waiting gang out, since the plan starts them or lets them grow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from solver.diagnosis.case import GangDiagnosis
from solver.diagnosis.minimal import minimal_subset, shortest_length
from solver.diagnosis.world import World


def blockers(case: GangDiagnosis, w: World) -> tuple[int, tuple[int, ...]]:
    """(pods of the gang that fit beside the plan, a minimal set of the plan's gangs without which all pods would fit),
    whatever their queues: of gangs that start, or else of gangs that run, without their growth.

    Those of the gang's priority and above are examined first, the lowest and youngest first. Growth beyond what a queue
    is entitled to only takes what is left over, and is in no gang's way. The answer is costly and the same for all
    queues.
    """
    state, priority = case.state, case.gang.priority

    def make() -> tuple[int, tuple[int, ...]]:
        q, gangs = case.question(w), state.problem.gangs
        order = [i for i in state.started_by_priority if gangs[i].priority >= priority]
        found = _blocking_prefix(case, w, order or state.started_by_priority) or _minimal(case, w, state.growing_gangs)
        return q.max_pods(q.state.rule_counts), tuple(sorted(found))

    return state.memoize(("blockers", priority, w), make)


def _blocking_prefix(case: GangDiagnosis, w: World, order: Sequence[int]) -> tuple[int, ...]:
    """The shortest prefix of `order` without which the gang fits, less the members that it does not need."""
    chosen = tuple(reversed(order[: shortest_length(order, partial(_fits_without, case, w))]))
    return _minimal(case, w, chosen)


def _minimal(case: GangDiagnosis, w: World, gangs: tuple[int, ...]) -> tuple[int, ...]:
    """A minimal set of these gangs without what the plan gives to whom the gang fits."""
    few = len(gangs) <= case.state.options.budget.minimized_blockers
    return minimal_subset(gangs, partial(_fits_without, case, w)) if few else gangs


def _fits_without(case: GangDiagnosis, w: World, gangs: Sequence[int]) -> bool:
    return case.question(replace(w, held_back=tuple(gangs))).placement() is not None

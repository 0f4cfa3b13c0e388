"""Batch after batch: which gangs start in free room, and, where gangs may be evicted, in room that victims free."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from itertools import groupby

from solver.admission.batches import split_into_batches
from solver.admission.greedy_floor import GreedyFloor
from solver.placement.batch import decide_batch, floor_result, joint_floor
from solver.preemption.evict import evict_for_waiting, without_needless_victims
from solver.preemption.plan_state import PlanState
from solver.semantics.eviction_rights import allows_eviction
from solver.semantics.priorities import precedence


def decide_gangs(plan: PlanState, waiting: list[int]) -> PlanState:
    """Decide these gangs. Where gangs may be evicted, each precedence gets its room before the next one is decided."""
    problem, options = plan.problem, plan.options
    groups, floor = split_into_batches(problem, waiting, options, partial(floor_of, plan, waiting))
    if not allows_eviction(problem):
        return decide_batches(plan, groups, floor)
    without_eviction: PlanState | None = None
    if any(len({precedence(problem.gangs[j]) for j in group}) > 1 for group in groups):
        without_eviction = decide_batches(plan.copy(), groups, floor)
        still_waiting = [j for j in waiting if j not in without_eviction.placements]
        if not any(plan.evictions.eviction_may_help(j) for j in still_waiting):
            return without_eviction
        options = options.with_budget(joint_variables=0)
        groups, _ = split_into_batches(problem, waiting, options, partial(floor_of, plan, waiting))
    clean = plan.copy() if without_eviction is None and len(groups) > 1 else None
    plan = _decide_with_eviction(plan, groups, waiting)
    if plan.evictions.evicted_pods:
        return without_needless_victims(plan)
    if without_eviction is not None:
        return without_eviction
    if clean is not None and floor_of(clean, waiting).is_better(plan.placements, options):
        return decide_batches(clean, groups, floor)
    return plan


def _decide_with_eviction(plan: PlanState, groups: Sequence[list[int]], waiting: Sequence[int]) -> PlanState:
    """Decide the batches of each precedence, then evict for its gangs that still wait."""
    gangs = plan.problem.gangs
    for current, batches in groupby(groups, lambda group: precedence(gangs[group[0]])):
        for batch in batches:
            _decide_batch(plan, batch)
        plan = evict_for_waiting(plan, [j for j in waiting if precedence(gangs[j]) >= current], current)
    return plan


def decide_batches(plan: PlanState, groups: list[list[int]], floor: GreedyFloor | None = None) -> PlanState:
    """Decide batch after batch. Where they are several, no precedence ends below what the greedy alone would start of
    all their gangs (`floor`)."""
    gangs, clean = plan.problem.gangs, plan.copy() if len(groups) > 1 else None
    every, decided = [j for group in groups for j in group], list[int]()
    if floor is not None and (easy := floor.fully_started_batches(groups)):
        decided += [j for group in easy for j in group]
        _decide_by_greedy(plan, floor, precedence(gangs[easy[-1][0]]), decided)
        groups = groups[len(easy) :]
    for current, batches in groupby(groups, lambda group: precedence(gangs[group[0]])):
        for batch in batches:
            _decide_batch(plan, batch)
            decided += batch
        if clean is None or all(j in plan.placements for j in decided):
            continue
        floor = floor or floor_of(clean, every)
        order = floor.compare(plan.placements, current, plan.options)
        if order > 0:
            plan = clean.copy()
            _decide_by_greedy(plan, floor, current, decided)
        elif order < 0:
            clean = None
    return plan


def floor_of(plan: PlanState, gangs: Sequence[int]) -> GreedyFloor:
    """The gangs among these that the greedy alone starts."""
    return joint_floor(plan.state, plan.eligible_gangs(sorted(gangs)), plan.options.budget)


def _decide_batch(plan: PlanState, gangs: list[int]) -> None:
    """Decide one batch. Gangs of it whose last pods were evicted before wait."""
    clock = time.perf_counter()
    placements, objectives = decide_batch(plan.state, plan.eligible_gangs(gangs), plan.options, plan.mapper)
    plan.start_batch(gangs, placements, objectives, time.perf_counter() - clock)


def _decide_by_greedy(plan: PlanState, floor: GreedyFloor, current: int, gangs: Sequence[int]) -> None:
    """Start what the greedy starts of these gangs, all of this precedence or a higher one."""
    clock = time.perf_counter()
    s, started = floor.at_or_above(current)
    placements, objectives = floor_result(s, started, plan.options, plan.mapper)
    plan.start_batch(sorted(gangs), placements, objectives, time.perf_counter() - clock)

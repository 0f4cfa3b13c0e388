"""Batch after batch: which gangs start in free room, and, where gangs may be evicted, in room that victims free."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial

from solver.admission.batches import BatchGroup, entitled_gangs, gangs_of, precedence_groups, split_into_batches
from solver.admission.greedy_floor import GreedyFloor
from solver.placement.batch import decide_batch, floor_result, joint_floor
from solver.preemption.evict import evict_for_waiting, start_in_leftovers, without_needless_victims
from solver.preemption.plan_state import DecidedBatch, PlanState
from solver.semantics.eviction_rights import allows_eviction
from solver.semantics.gang_classes import waiting_class
from solver.semantics.order import precedence, queue_priority, serving_order_key
from solver.semantics.placement_cost import COST_NAMES


def decide_gangs(plan: PlanState, waiting: list[int]) -> PlanState:
    """Decide these gangs. Where evictions help, gang after gang or precedence after precedence gets its room before the
    next is decided."""
    problem, options, compute_floor = plan.problem, plan.options, partial(floor_of, plan, waiting)
    groups, floor = split_into_batches(problem, waiting, options, compute_floor)
    if not allows_eviction(problem):
        return decide_batches(plan, groups, floor)
    without_eviction: PlanState | None = None
    mixed = any(len({precedence(problem.gangs[j]) for j in batch}) > 1 for group in groups for batch in group)
    if mixed or problem.policy.queues_first:
        without_eviction = decide_batches(plan.copy(), groups, floor)
        still_waiting = [j for j in waiting if j not in without_eviction.placements]
        if not any(plan.evictions.eviction_may_help(j) for j in still_waiting):
            return without_eviction
        if problem.policy.queues_first:
            plan = _decide_queues_first(plan, waiting)
            return without_needless_victims(plan) if plan.evictions.evicted_pods else without_eviction
        groups, _ = precedence_groups(problem, waiting, options, compute_floor)
    clean = plan.copy() if without_eviction is None and len(groups) > 1 else None
    plan = _decide_with_eviction(plan, groups)
    if plan.evictions.evicted_pods:
        return without_needless_victims(plan)
    if without_eviction is not None:
        return without_eviction
    if clean is not None and floor_of(clean, waiting).compare(plan.placements, waiting, options) > 0:
        return decide_batches(clean, groups, floor)
    return plan


def _decide_with_eviction(plan: PlanState, groups: Sequence[BatchGroup]) -> PlanState:
    """Decide the batches of each precedence, then evict for its gangs that still wait."""
    gangs, decided = plan.problem.gangs, list[int]()
    for group in groups:
        for batch in group:
            _decide_batch(plan, batch)
            decided += batch
        plan = evict_for_waiting(plan, decided, precedence(gangs[group[0][0]]))
    return plan


def _decide_queues_first(plan: PlanState, waiting: Sequence[int]) -> PlanState:
    """Decide the entitled gangs, precedence after precedence, evicting for them; then the others in turn. Of very many
    others all that fit start first."""
    entitled = entitled_gangs(plan.state.queue_books, plan.eligible_gangs(waiting))
    groups, _ = precedence_groups(plan.problem, entitled, plan.options, partial(floor_of, plan, entitled))
    plan = _decide_with_eviction(plan, groups)
    rest = sorted(set(waiting).difference(entitled))
    if len(rest) <= plan.options.budget.turns:
        plan = _decide_in_turn(plan, rest)
    else:
        others, floor = split_into_batches(plan.problem, rest, plan.options, partial(floor_of, plan, rest))
        plan = decide_batches(plan, others, floor)
        for current in sorted({precedence(plan.problem.gangs[j]) for j in rest}, reverse=True):
            plan = evict_for_waiting(plan, rest, current)
    start_in_leftovers(plan, sorted(waiting, key=partial(serving_order_key, plan.problem)))
    return plan


class _EarlierGangs:
    """Queue -> its gangs that had their turn, and the number of evicting gangs when the last of them had it. Room that
    evictions have freed since then is offered to them before later gangs of their queue."""

    def __init__(self) -> None:
        self._gangs: dict[int, list[int]] = {}
        self._preemptors: dict[int, int] = {}

    def add(self, plan: PlanState, q: int, j: int) -> None:
        self._gangs.setdefault(q, []).append(j)
        self._preemptors[q] = len(plan.preemptors)

    def start_in_leftovers(self, plan: PlanState, q: int) -> None:
        if len(plan.preemptors) > self._preemptors.get(q, len(plan.preemptors)):
            start_in_leftovers(plan, self._gangs[q])


def _decide_in_turn(plan: PlanState, gangs: Sequence[int]) -> PlanState:
    """Start gang after gang, the first one of the queue with the lowest share, in free room or by evicting; announced
    starts precede all of these."""
    problem, refused, passed_over, earlier = plan.problem, set[object](), list[int](), _EarlierGangs()
    stacks: dict[int, list[int]] = {}
    for j in sorted(gangs, key=partial(serving_order_key, problem), reverse=True):
        stacks.setdefault(problem.gangs[j].queue, []).append(j)
    while stacks:
        q = min(stacks, key=lambda q: _turn_key(plan, q, stacks[q][-1]))
        j = stacks[q].pop()
        stacks = {of: stack for of, stack in stacks.items() if stack}
        earlier.start_in_leftovers(plan, q)
        earlier.add(plan, q, j)
        gang = problem.gangs[j]
        class_key = q, gang.eviction.may_evict, precedence(gang), waiting_class(j, gang)
        if class_key in refused or not plan.eligible_gangs([j]):
            passed_over.append(j)
            continue
        has_leftovers = bool(plan.evictions.evicted_pods)
        _decide_batch(plan, [j])
        if has_leftovers and j in plan.placements:  # it may be placed again next to one that finds no room
            batch = plan.batches.pop()
            plan.record_preemptor(j, tuple(o for o in batch.objectives if o.name in COST_NAMES))
            plan.add_eviction_seconds(batch.seconds)
        number = len(plan.preemptors)
        if j not in plan.placements:
            plan = evict_for_waiting(plan, [j], precedence(problem.gangs[j]))
        if j not in plan.placements:
            refused.add(class_key)
        elif len(plan.preemptors) > number:
            refused.clear()
    if passed_over:
        last = plan.batches.pop() if plan.batches else DecidedBatch((), (), 0.0)
        plan.batches.append(replace(last, gangs=tuple(sorted((*last.gangs, *passed_over)))))
    return plan


def _turn_key(plan: PlanState, q: int, head: int) -> tuple[int, bool, int, object]:
    """The smaller, the sooner the queue with this gang at its head has its turn."""
    problem, share = plan.problem, plan.state.queue_books.share_order_key(q)
    priority = queue_priority(problem, q)
    return 0 if problem.reclaim_enabled else -priority, not problem.gangs[head].times.promised, -priority, share


def decide_batches(plan: PlanState, groups: Sequence[BatchGroup], floor: GreedyFloor | None = None) -> PlanState:
    """Decide batch after batch. Where the groups are several, none ends below what the greedy alone would start of all
    gangs up to it (`floor`); with no time left they are decided by it."""
    clean = plan.copy() if sum(map(len, groups)) > 1 else None
    every, decided = gangs_of(groups), set[int]()
    easy: Sequence[BatchGroup] = floor.fully_started(groups) if floor is not None else []
    if floor is not None and len(easy) < len(groups) and plan.options.clock.is_over():
        easy = groups
    if floor is not None and easy:
        decided.update(gangs_of(easy))
        _decide_by_greedy(plan, floor, decided)
        groups = groups[len(easy) :]
    for group in groups:
        for batch in group:
            _decide_batch(plan, batch)
            decided.update(batch)
        if clean is None or all(j in plan.placements for j in decided):
            continue
        floor = floor or floor_of(clean, every)
        order = floor.compare(plan.placements, decided, plan.options)
        if order > 0:
            plan = clean.copy()
            _decide_by_greedy(plan, floor, decided)
        elif order < 0:
            clean = None
    return plan


def floor_of(plan: PlanState, gangs: Sequence[int]) -> GreedyFloor:
    """Return the gangs among these that the greedy alone starts."""
    return joint_floor(plan.state, plan.eligible_gangs(sorted(gangs)), plan.options.budget)


def _decide_batch(plan: PlanState, gangs: list[int]) -> None:
    """Decide one batch. Gangs of it whose last pods were evicted before wait."""
    clock = time.perf_counter()
    eligible, later = plan.eligible_gangs(gangs), plan.gangs_after(set(gangs))
    placements, objectives = decide_batch(plan.state, eligible, plan.options, plan.mapper, later)
    plan.start_batch(gangs, placements, objectives, time.perf_counter() - clock)


def _decide_by_greedy(plan: PlanState, floor: GreedyFloor, gangs: Collection[int]) -> None:
    """Start the greedy's starts of these gangs."""
    clock = time.perf_counter()
    s, started = floor.restricted_to(gangs)
    placements, objectives = floor_result(s, started, plan.options, plan.mapper)
    plan.start_batch(sorted(gangs), placements, objectives, time.perf_counter() - clock)

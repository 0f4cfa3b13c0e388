"""A plan in which time counts: decided first without a reservation, then again around the one that is made."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial

from solver.admission.batches import entitled_gangs
from solver.plan import Reservation
from solver.preemption.decide import decide_gangs
from solver.preemption.evict import evict_for_gang
from solver.preemption.plan_state import PlanState, ReservedStart
from solver.problem import Problem
from solver.semantics.order import blocking_gangs, precedence_level, puts_queues_first, serving_order_key
from solver.semantics.placements import add_vectors, placed_demand
from solver.state.queue_books import QueueBooks
from solver.timeline.reservation import ReleaseTimeline, blocked_gangs, has_known_times, reserved_exclusions


def plan_with_reservation(plan: PlanState) -> PlanState:
    """Decide all waiting gangs; where one gets a reservation, decide those of its level and below again around it."""
    problem, waiting = plan.problem, plan.waiting_gangs()
    if not has_known_times(problem):
        return decide_gangs(plan, waiting)
    trial, levels = decide_gangs(plan.copy(), waiting), gang_levels(plan, waiting)
    # The trial may evict to pass these by.
    promised = {levels[j] for j in trial.waiting_gangs() if problem.gangs[j].times.promised}
    for level in sorted(set(levels.values()), reverse=True):
        if plan.options.clock.is_over():
            return trial
        if level not in promised and reservation_at_level(trial, levels, level, allow_eviction=False) is None:
            continue
        above = [j for j in waiting if levels[j] > level]
        again = decide_gangs(plan.copy(), above)
        reservation = reservation_at_level(again, levels, level, allow_eviction=True)
        if reservation is not None:
            rest = [j for j in waiting if levels[j] <= level]
            again = decide_gangs(again.with_reservation(_reserved_start(again, reservation, rest)), rest)
            pointless = reservation.gang in again.placements or _evicts_awaited_gang(again, reservation)
            pointless = pointless or _breaks_promise(trial, again, above)
            return trial if pointless or plan.options.clock.is_over() else again
    return trial


def _breaks_promise(trial: PlanState, again: PlanState, above: Iterable[int]) -> bool:
    """Return whether one of these gangs, which precede the reservation, has an announced start and waits for the
    reservation's sake."""
    promised = (j for j in above if trial.problem.gangs[j].times.promised)
    return any(j in trial.placements and j not in again.placements for j in promised)


def _evicts_awaited_gang(plan: PlanState, reservation: Reservation) -> bool:
    """Return whether a gang whose end is awaited is evicted: the next plan reserves with the gangs of its time."""
    return any(v in plan.evictions.evicted_pods and v not in plan.placements for v in reservation.awaited_gangs)


GangLevel = tuple[bool, int, int]
"""(its queue's entitlement covers the gang, or priorities come first; its precedence level)."""


def gang_levels(plan: PlanState, waiting: Iterable[int]) -> dict[int, GangLevel]:
    """Return gang -> its level; gangs of a higher level are decided before a reservation for one of a lower level."""
    problem, waiting = plan.problem, list(waiting)
    by_entitlement = puts_queues_first(problem, {problem.gangs[j].queue for j in waiting})
    first = set(entitled_gangs(plan.state.queue_books, waiting) if by_entitlement else waiting)
    return {j: (j in first, *precedence_level(problem, j)) for j in waiting}


def reservation_at_level(
    plan: PlanState, levels: Mapping[int, GangLevel], level: GangLevel, allow_eviction: bool
) -> Reservation | None:
    """Return the reservation of the first gang of this level that cannot start even alone after the levels above it.

    allow_eviction: just those levels are decided, so that eviction may be tried.
    """
    problem, left = plan.problem, plan.waiting_gangs()
    behind = blocking_gangs(problem, left, ())
    above = tuple(j for j, own in levels.items() if own > level)
    rest = levels.keys() - set(above)
    of_level = (j for j in left if levels.get(j) == level)
    heads = [j for j in of_level if j not in behind]
    if not heads:
        return None
    timeline = release_timeline(plan, rest)

    def starts(j: int) -> bool:
        if timeline.starts_after(j, ()):
            return True
        return allow_eviction and plan.evictions.eviction_may_help(j) and evict_for_gang(plan.copy(), j)

    found = timeline.first_reservation(sorted(heads, key=partial(serving_order_key, problem)), starts)
    if found is None:
        return None
    settled = (j for j in plan.settled_gangs if _comes_before(problem, j, found.gang))
    return replace(found, gangs_before=tuple(sorted({*above, *settled})))


def _comes_before(problem: Problem, j: int, reserved: int) -> bool:
    """Return whether a settled gang precedes the reservation of another: not one of a lower level in the same queue."""
    is_other = problem.gangs[j].queue != problem.gangs[reserved].queue
    return is_other or precedence_level(problem, j) >= precedence_level(problem, reserved)


def _reserved_start(plan: PlanState, reservation: Reservation, rest: Collection[int]) -> ReservedStart:
    """Return what prevents a delay of the reservation. rest: gangs decided after it."""
    problem, books = plan.problem, release_timeline(plan, rest).books_at_start(reservation)
    order = sorted(rest, key=partial(serving_order_key, problem))
    blocked = blocked_gangs(problem, reservation, books, order)
    return ReservedStart(reservation, reserved_exclusions(problem, reservation), books, blocked)


def release_timeline(plan: PlanState, rest: Collection[int]) -> ReleaseTimeline:
    """Return the amounts that gangs hold before `rest` is decided."""
    problem, running, evicted = plan.problem, plan.state.running, plan.evictions.evicted_pods
    decided = plan.placements.keys() - rest
    staying = running.keys() - decided - evicted.keys()
    held = {j: plan.placements[j] for j in sorted(decided)} | {j: running[j] for j in sorted(staying)}
    books, width = QueueBooks(problem), len(problem.resources)
    for j in sorted(held.keys() | evicted.keys()):
        gang = problem.gangs[j]
        if held.get(j) == gang.running and j not in evicted:
            continue
        ran, holds, gone = (
            placed_demand(gang, pods, width) for pods in (gang.running, held.get(j, ()), evicted.get(j, ()))
        )
        books.release_amount(gang.queue, gone, gone)  # evicted pods no longer excuse the queue's usage
        books.charge_queue(gang.queue, add_vectors(add_vectors(holds, ran, -1), gone))
    return ReleaseTimeline(plan.state, held, books, plan.options, plan.mapper)

"""The course of a plan in which time counts: what is decided first without a promise, and then again around the one
promise that it makes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from solver.models.sets import PrecedenceLevel
from solver.plan import Reservation
from solver.semantics.exclusions import exclude_nodes
from solver.semantics.gang_classes import meets_minima
from solver.semantics.placements import merge_placements, placed_demand
from solver.semantics.priorities import blocking_gangs, precedence_level, serving_order_key
from solver.semantics.topology import TopologyTree
from solver.state.queue_books import QueueBooks
from solver.timeline.reservation import ReleaseTimeline, blocked_gangs, has_known_times, reserved_exclusions

if TYPE_CHECKING:
    from solver.planner import PlanState

DecideGangs = Callable[["PlanState", list[int]], "PlanState"]
"""Decides these gangs, beside what the course has decided already."""


def plan_with_reservation(state: PlanState, decide: DecideGangs) -> PlanState:
    """Everybody is decided; where a gang gets a reservation, those of its level and below are decided again with its
    room kept."""
    problem, waiting = state.problem, state.waiting_gangs()
    if not has_known_times(problem):
        return decide(state, waiting)
    trial = decide(state.copy(), waiting)
    for level in sorted({precedence_level(problem, j) for j in waiting}, reverse=True):
        if reservation_at_level(trial, waiting, level, allow_eviction=False) is None:
            continue
        above = [j for j in waiting if precedence_level(problem, j) > level]
        again = decide(state.copy(), above)
        held = reservation_at_level(again, waiting, level, allow_eviction=True)
        if held is not None:
            rest = [j for j in waiting if precedence_level(problem, j) <= level]
            apply_reservation(again, held, above, rest)
            again = decide(again, rest)
            return trial if held.gang in again.placements or _evicts_awaited_gang(again, held) else again
    return trial


def _evicts_awaited_gang(state: PlanState, reservation: Reservation) -> bool:
    """Whether somebody whose end is waited for is evicted by another: the promise is for the next plan to make, with
    what is there then."""
    return any(v in state.evictions.evicted_pods and v not in state.placements for v in reservation.awaited_gangs)


def reservation_at_level(
    state: PlanState, waiting: Iterable[int], level: PrecedenceLevel, allow_eviction: bool
) -> Reservation | None:
    """The reservation of the first gang of this level that cannot start even alone beside those of the levels above it.

    evicting: those levels and no others are decided, so that eviction may be tried.
    """
    left = state.waiting_gangs()
    behind, above = (
        blocking_gangs(state.problem, left, ()),
        {j for j in waiting if precedence_level(state.problem, j) > level},
    )
    heads = [j for j in left if j not in behind and precedence_level(state.problem, j) == level]
    if not heads:
        return None
    view = release_timeline(state, above)

    def starts(j: int) -> bool:
        return state.placement_in(j, *view.capacity_after(())) is not None or (
            allow_eviction and state.eviction_may_help(j) and state.copy().evict_for_gang(j)
        )

    return view.first_reservation(sorted(heads, key=partial(serving_order_key, state.problem)), starts)


def apply_reservation(state: PlanState, reservation: Reservation, above: Collection[int], rest: Iterable[int]) -> None:
    """From now on nobody delays this start. above: who was decided before; rest: who is still to be decided."""
    state.reservation, state.ledger_at_start = reservation, release_timeline(state, above).ledger_at_start(reservation)
    closing = reserved_exclusions(state.problem, reservation)
    state.lasting_gangs = frozenset(closing)
    state.blocked_gangs = blocked_gangs(
        state.problem, reservation, state.ledger_at_start, sorted(rest, key=partial(serving_order_key, state.problem))
    )
    state.problem = exclude_nodes(state.problem, closing)
    state.tree = TopologyTree(state.problem)
    state.evictions = replace(state.evictions, problem=state.problem, tree=state.tree)


def release_timeline(state: PlanState, above: Collection[int]) -> ReleaseTimeline:
    """Who holds what before the gangs are decided that are not in `above`."""
    problem, evicted = state.problem, state.evictions.evicted_pods
    holding = {
        j: state.placements[j]
        for j, gang in enumerate(problem.gangs)
        if j in state.placements and (meets_minima(gang) or j in above)
    }
    holding |= {
        j: merge_placements(gang.running)
        for j, gang in enumerate(problem.gangs)
        if gang.running and j not in holding and j not in evicted
    }
    ledger, width = QueueBooks(problem), len(problem.resources)
    for j in sorted(holding.keys() | evicted.keys()):
        gang = problem.gangs[j]
        ran, holds, gone = (
            placed_demand(gang, pods, width) for pods in (gang.running, holding.get(j, ()), evicted.get(j, ()))
        )
        ledger.release_amount(gang.queue, gone, gone)  # what is evicted excuses nobody any more
        ledger.charge_queue(gang.queue, tuple(b - a + c for a, b, c in zip(ran, holds, gone, strict=True)))
    return ReleaseTimeline(problem, holding, ledger, state.placement_in)

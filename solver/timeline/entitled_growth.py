"""Entitled growth: what an elastic gang may still take within its queue's entitlement comes before what other queues
borrow (docs/model.md, Growth).

All gangs are decided by their minima first. Where borrowers then take room in which gangs of other queues could grow
within these queues' entitlements, that growth is worked out beside all gangs but those borrowers, and everything is
decided again with it: gangs that run have these pods, gangs that wait need them to start.
"""

from __future__ import annotations

import math
from collections.abc import Collection

from solver.admission.greedy_floor import SHARE_TOLERANCE
from solver.mip.clock import is_out_of_time
from solver.placement.growth import grow_gangs, growth_stages
from solver.plan import Reservation
from solver.preemption.plan_state import PlanState
from solver.problem import Problem, Vector
from solver.semantics.gang_classes import elastic_roles, pods_per_role
from solver.semantics.placements import Placements, dominant_share, new_placements, placed_demand
from solver.semantics.priorities import precedence
from solver.semantics.share_measures import queue_priority
from solver.state.state import Pods, State
from solver.timeline.two_pass import plan_with_reservation


def plan_with_entitled_growth(initial: PlanState) -> PlanState:
    """Decide all waiting gangs, with the growth that comes before borrowers. No gang waits for growth but those
    borrowers, and none is evicted: otherwise the plan is that of the minima."""
    decided, growth = plan_with_reservation(initial.copy()), dict[int, Pods]()
    entitled = (queues for queues, is_entitled in growth_stages(initial.problem) if is_entitled)
    for queues in entitled:
        if is_out_of_time() or decided.evictions.evicted_pods:
            break
        borrowers = _borrowers(initial, decided, queues)
        larger = growth | _crowded_growth(decided, queues, borrowers)
        if larger != growth:
            again = _decide_with_growth(initial, larger)
            if _keeps_starts(decided, again, borrowers) and not is_out_of_time():
                decided, growth = again, larger
    return decided


def _borrowers(initial: PlanState, decided: PlanState, queues: Collection[int]) -> frozenset[int]:
    """Gangs that start beyond the entitlement of their queue: the queues among these, or of lower priority; no start
    that was told. Of a queue those of the highest precedence, in it the largest, claim the entitlement first, as in
    the goals of admission."""
    problem, books, found = initial.problem, initial.state.queue_books.copy(), set[int]()
    last = max(queue_priority(problem, q) for q in queues)
    started = {j: pods for j, pods in decided.placements.items() if j not in initial.placements}
    demand = {j: _new_demand(problem, j, pods) for j, pods in started.items()}

    def claims_first(j: int) -> tuple[int, float, int, int]:
        gang = problem.gangs[j]
        return -precedence(gang), -dominant_share(demand[j], problem.totals), gang.age, j

    for j in sorted(started, key=claims_first):
        gang = problem.gangs[j]
        if books.is_entitled(gang.queue, demand[j]):
            books.charge_queue(gang.queue, demand[j])
        elif queue_priority(problem, gang.queue) <= last and not gang.promised:
            found.add(j)
    return frozenset(found)


def _new_demand(problem: Problem, j: int, pods: Pods) -> Vector:
    """What the gang's pods that do not run yet request."""
    gang = problem.gangs[j]
    return placed_demand(gang, new_placements(gang, pods), len(problem.resources))


def _crowded_growth(decided: PlanState, queues: frozenset[int], borrowers: Collection[int]) -> dict[int, Pods]:
    """Gang -> all its pods, of gangs of these queues that grow within their entitlements beside all but the borrowers;
    nothing where none of them grows less beside the borrowers."""
    problem = decided.problem
    lending = queues - {problem.gangs[j].queue for j in borrowers}
    growing = {j: pods for j, pods in decided.placements.items() if problem.gangs[j].queue in lending}
    if not borrowers or not any(elastic_roles(problem.gangs[j], pods) for j, pods in growing.items()):
        return {}
    beside = _entitled_growth(decided, decided.state.copy(), growing)
    alone = _entitled_growth(decided, decided.state.without({j: decided.placements[j] for j in borrowers}), growing)
    if all(_pod_count(alone[j]) <= _pod_count(beside[j]) for j in growing):
        return {}
    return {j: pods for j, pods in alone.items() if pods != growing[j]}


def _entitled_growth(decided: PlanState, state: State, growing: Placements) -> dict[int, Pods]:
    """These gangs with what they may grow in this state, a copy, without delaying the reservation."""
    reserved = decided.reserved
    return grow_gangs(
        state,
        growing,
        None if reserved is None else reserved.queue_books.copy(),
        () if reserved is None else reserved.exclusions,
        decided.options.budget,
        within_entitlements=True,
    )


def _pod_count(pods: Pods) -> int:
    return sum(p.pods for p in pods)


def _decide_with_growth(initial: PlanState, larger: Placements) -> PlanState:
    """The plan in which these gangs have these pods where they run, or as many of each role where they start."""
    problem, starting = initial.problem, [j for j in larger if j not in initial.placements]
    roles = {j: pods_per_role(len(problem.gangs[j].roles), larger[j]) for j in starting}
    plan = initial.with_minima({j: (sum(pods), tuple(pods)) for j, pods in roles.items()})
    for j in sorted(larger.keys() & initial.placements.keys()):
        plan.start_gang(j, larger[j])
    gangs = ((j, problem.gangs[j]) for j in starting)
    written = {j: (gang.minimum, tuple(role.minimum for role in gang.roles)) for j, gang in gangs}
    return plan_with_reservation(plan).with_minima(written)


def _keeps_starts(decided: PlanState, again: PlanState, borrowers: Collection[int]) -> bool:
    """Whether nothing is evicted, what started within entitlements starts again or gave way to gangs of its queue that
    come no later, what was told starts again, and the reserved start is no later."""
    gangs, before, after = decided.problem.gangs, decided.reservation, again.reservation
    told = {j for j in decided.placements if gangs[j].promised}
    if again.evictions.evicted_pods or not told <= again.placements.keys():
        return False
    if not all(_is_made_good(decided, again, borrowers, q) for q in {gangs[j].queue for j in decided.placements}):
        return False
    if before is None or before.gang in again.placements:
        return True
    return after is not None and after.gang == before.gang and _start_of(after) <= _start_of(before)


def _is_made_good(decided: PlanState, again: PlanState, borrowers: Collection[int], q: int) -> bool:
    """sum_{p' >= p} units started again >= sum_{p' >= p} units of all but the borrowers, for each precedence p of the
    queue's gangs: row `entitlements` of admission."""
    problem = decided.problem
    of_queue = [j for j, gang in enumerate(problem.gangs) if gang.queue == q]

    def units(plan: PlanState, gangs: Collection[int], lowest: int) -> float:
        counted = (j for j in gangs if precedence(problem.gangs[j]) >= lowest)
        return sum(dominant_share(_new_demand(problem, j, plan.placements[j]), problem.totals) for j in counted)

    levels = {precedence(problem.gangs[j]) for j in of_queue}
    before, after = ([j for j in of_queue if j in plan.placements] for plan in (decided, again))
    entitled = [j for j in before if j not in borrowers]
    return all(units(again, after, p) >= units(decided, entitled, p) - SHARE_TOLERANCE for p in levels)


def _start_of(reservation: Reservation) -> float:
    """Seconds until the reserved start."""
    return math.inf if reservation.starts_in is None else reservation.starts_in

"""Entitled growth: the growth of an elastic gang within its queue's entitlement precedes the borrowing of other queues
(docs/develop/model.md, Growth).

All gangs are decided by their minima first. Where borrowers then take room in which gangs of other queues could grow
within these queues' entitlements, that growth is computed next to all gangs except those borrowers, and everything is
decided again with it: running gangs have these pods, waiting gangs need them to start. Settled evictions stay, so that
nobody is evicted for growth.

Unused shares: with the plugin proportion, the part of a queue's share that its own waiting gangs cannot use is given
to other queues.

Proportion distributes by the requests of gangs with pods. All gangs are decided as if all had pods, so that each queue
gets its entitlement. A gang that then waits, larger than the rest of its queue's share, is held: kept out of the
cluster, if it is not there yet, and so without a request. The freed share is given to one held gang after another, of
the queue with the lowest share first, as far as the shares that result from the remaining requests admit it.

Idle dedicated domains are lent last of all, and only to gangs that the owner can have evicted at once. All gangs are
decided as if nothing were lent. Those that then still wait and may borrow (`eviction_rights.may_borrow_domains`) are
decided once more in the remaining room, with the dedicated domains open to them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial

from solver.admission.batches import split_into_batches
from solver.admission.greedy_floor import SHARE_TOLERANCE
from solver.placement.fit import shortage
from solver.placement.growth import grow_gangs, growth_stages
from solver.plan import Objective, Reservation
from solver.preemption.decide import decide_batches, floor_of
from solver.preemption.evict import evict_for_gang, with_spared_victims
from solver.preemption.plan_state import DecidedBatch, PlanState
from solver.problem import Problem, Vector
from solver.semantics.eviction_rights import may_borrow_domains
from solver.semantics.exclusions import dedicated_nodes, exclude_nodes, with_fixed_exclusions
from solver.semantics.gang_classes import elastic_roles, pods_per_role, waiting_class
from solver.semantics.order import precedence, queue_priority, serving_order_key
from solver.semantics.placements import Placements, dominant_share, negative_of, new_placements, placed_demand
from solver.state.queue_books import QueueBooks
from solver.state.state import Pods, State
from solver.timeline.reservation import ends_in_time, reserved_exclusions
from solver.timeline.two_pass import plan_with_reservation


def pass_shares_on(plan: PlanState) -> PlanState:
    """Return the plan with held gangs, and with those of them started that fit into what the others leave. With
    evictions none starts: the next plan sees to it."""
    problem, plan = plan.problem, plan.copy()
    held, batches = _held_gangs(plan), list(plan.borrower_batches)
    lines = [] if plan.evictions.evicted_pods else _lines_of_equals(problem, held)
    turns = sorted(lines, key=partial(_turn_key, plan))
    while turns and not plan.options.clock.is_over():
        clock, line = time.perf_counter(), turns.pop(0)
        objectives = _start_beside(plan, line[0], held)
        if objectives is None:
            continue  # nothing has changed, and so no turn
        held.remove(line[0])
        batches.append(DecidedBatch((line.pop(0),), objectives, time.perf_counter() - clock))
        turns = sorted([*turns, line] if line else turns, key=partial(_turn_key, plan))
    return replace(plan, borrower_batches=tuple(batches), held_gangs=frozenset(held))


def _refused_by_share(plan: PlanState) -> Iterator[int]:
    """Yield waiting gangs, not in the cluster yet, that exceed the rest of their queue's proportional share."""
    problem, books = plan.problem, plan.state.queue_books
    reserved_for = None if plan.reservation is None else plan.reservation.gang
    for j in plan.waiting_gangs() if problem.policy.proportion else ():
        queue = problem.gangs[j].queue
        if problem.gangs[j].entry.may_be_held and j != reserved_for:
            shares = [c for c in books.queue_rules.ceilings_by_queue[queue] if c.code == "GW112"]
            if any(books.is_beyond(share, books.min_demand(j)) for share in shares):
                yield j


def _held_gangs(plan: PlanState) -> set[int]:
    """Return the refused gangs. Where another order of summation then leaves a queue slightly less than its starts
    need, only those of the queues, one after another, with which every start keeps its share."""
    refused = set(_refused_by_share(plan))
    if _all_keep_shares(plan, refused):
        return refused
    held = set[int]()
    for q in sorted({plan.problem.gangs[j].queue for j in refused}):
        own = {j for j in refused if plan.problem.gangs[j].queue == q}
        if _all_keep_shares(plan, held | own):
            held |= own
    return held


def _all_keep_shares(plan: PlanState, held: Collection[int]) -> bool:
    """Return whether all that starts is within its queue's share while these gangs are held."""
    plan.state.hold_gangs(frozenset(held))
    try:
        return not plan.starts_beyond_ceilings()
    finally:
        plan.state.hold_gangs(frozenset())


def _lines_of_equals(problem: Problem, gangs: Collection[int]) -> list[list[int]]:
    """Return gangs of one queue, precedence and class, in serving order: where the first does not start, none does."""
    lines: dict[object, list[int]] = {}
    for j in sorted(gangs, key=lambda j: serving_order_key(problem, j)):
        gang = problem.gangs[j]
        lines.setdefault((gang.queue, precedence(gang), waiting_class(j, gang)), []).append(j)
    return list(lines.values())


def _turn_key(plan: PlanState, line: Sequence[int]) -> tuple[object, ...]:
    """The least is next: the queue with the lowest share, in it the first gang; priorities first, its level before."""
    problem, j = plan.problem, line[0]
    gang = problem.gangs[j]
    first = 0 if problem.policy.queues_first else -precedence(gang)
    rank, share = -queue_priority(problem, gang.queue), plan.state.queue_books.share_order_key(gang.queue)
    return first, rank, share, serving_order_key(problem, j)


def _start_beside(plan: PlanState, j: int, held: Collection[int]) -> tuple[Objective, ...] | None:
    """Start gang j while the others of these are held, where it fits by nodes and by every queue's share; return its
    objectives."""
    if not plan.eligible_gangs([j]) or shortage(plan.state, waiting_class(j, plan.problem.gangs[j])) is not None:
        return None
    plan.state.hold_gangs(frozenset(held) - {j})
    try:
        found = plan.feasible_placement(j)
        if found is None:
            return None
        plan.start_gang(j, found[0])
        if plan.starts_beyond_ceilings():
            plan.cancel_start(j)
            return None
        return found[1]
    finally:
        plan.state.hold_gangs(frozenset())


def lend_dedicated_domains(plan: PlanState) -> PlanState:
    """Return the plan with waiting gangs started in dedicated domains of others, where they may borrow and fit."""
    problem, reservation = plan.unrestricted_problem, plan.reservation
    reserved_for = None if reservation is None else reservation.gang
    others = (j for j in plan.waiting_gangs() if j != reserved_for)
    asking = [j for j in others if may_borrow_domains(problem, j)]
    if not asking or not dedicated_nodes(problem):
        return plan
    opened = with_fixed_exclusions(problem)
    if reservation is not None:
        opened = exclude_nodes(opened, reserved_exclusions(opened, reservation))
    other = plan.for_borrowers(opened)
    groups, floor = split_into_batches(opened, asking, plan.options, partial(floor_of, other, asking))
    return plan.with_borrowers(decide_batches(other, groups, floor))


ROUNDS = 3
"""How often growth of the same queues is computed: other borrowers may start in place of those that wait for it, and
some of these keep their place since they would evict."""


def plan_with_entitled_growth(initial: PlanState) -> PlanState:
    """Decide all waiting gangs, with the growth that precedes borrowers. No gang waits for growth except those
    borrowers, and none is evicted: else the plan is that of the minima."""
    decided, growth = plan_with_reservation(initial.copy()), dict[int, Pods]()
    entitled = (queues for queues, is_entitled in growth_stages(initial.problem) if is_entitled)
    for queues in entitled:
        for _ in range(ROUNDS):
            found = None if initial.options.clock.is_over() else _with_more_growth(initial, decided, growth, queues)
            if found is None:
                break
            decided, growth = found
    return decided


def _with_more_growth(
    initial: PlanState, decided: PlanState, growth: Placements, queues: frozenset[int]
) -> tuple[PlanState, dict[int, Pods]] | None:
    """Return (the plan with the growth of these queues that borrowers crowd out, all such growth so far); None where
    there is no more of it. Borrowers that would evict instead keep their place."""
    borrowers = _borrowers(initial, decided, queues)
    for _ in range(ROUNDS):
        found = _decide_with_growth(initial, decided, growth, _crowded_growth(decided, queues, borrowers))
        if found is None or not _keeps_starts(decided, found[0], borrowers):
            break
        evicting = _evicting_instead(decided, found[0])
        if not evicting:
            return found
        borrowers -= evicting
    return None


def _decide_with_growth(
    initial: PlanState, decided: PlanState, growth: Placements, more: Placements
) -> tuple[PlanState, dict[int, Pods]] | None:
    """Return (the plan in which these gangs have all this growth, their pods in it); None where no more of it remains.
    If a gang waits for its larger size although its minimum fits, its growth is dropped: borrowers are not refused for
    growth that never happens."""
    larger = {**growth, **more}
    while larger != growth and not initial.options.clock.is_over():
        again = _decide_with_sizes(initial, decided, larger)
        waiting = again.eligible_gangs(larger.keys() - again.placements.keys())
        fitting = {j for j in waiting if again.feasible_placement(j) is not None}
        if initial.options.clock.is_over():
            break
        if not fitting:
            return again, {j: again.placements.get(j, pods) for j, pods in larger.items()}
        larger = {j: pods for j, pods in larger.items() if j not in fitting}
    return None


def _borrowers(initial: PlanState, decided: PlanState, queues: Collection[int]) -> frozenset[int]:
    """Return gangs that start beyond the entitlement of their queue: the queues among these, or of lower priority;
    without announced starts, and starts that evictions settle. Of a queue the gangs of the highest precedence, in it
    the largest, claim the entitlement first, as in the goals of admission."""
    problem, books, found = initial.problem, _books_without_victims(initial, decided), set[int]()
    last = max(queue_priority(problem, q) for q in queues)
    started = {j: pods for j, pods in decided.placements.items() if j not in initial.placements}
    demand = {j: _new_demand(problem, j, pods) for j, pods in started.items()}
    settled = _settled_gangs(decided)

    def claims_first(j: int) -> tuple[int, float, int, int]:
        gang = problem.gangs[j]
        return -precedence(gang), -dominant_share(demand[j], problem.totals), gang.age, j

    for j in sorted(started, key=claims_first):
        gang = problem.gangs[j]
        if books.is_entitled(gang.queue, demand[j]):
            books.charge_queue(gang.queue, demand[j])
        elif queue_priority(problem, gang.queue) <= last and not gang.times.promised and j not in settled:
            found.add(j)
    return frozenset(found)


def _books_without_victims(initial: PlanState, decided: PlanState) -> QueueBooks:
    """Return the queues' usage before anything starts, without evicted pods."""
    problem, books = initial.problem, initial.state.queue_books.copy()
    for v, pods in sorted(decided.evictions.evicted_pods.items()):
        gone = placed_demand(problem.gangs[v], pods, len(problem.resources))
        books.charge_queue(problem.gangs[v].queue, negative_of(gone))
    return books


def _settled_gangs(decided: PlanState) -> frozenset[int]:
    """Return the gangs for which others are evicted, and all that come before such a one in their queue: what those
    could not have, no gang after them may get by an eviction."""
    problem, last = decided.problem, dict[int, tuple[int, ...]]()
    for j in decided.evicting_gangs:
        q, turn = problem.gangs[j].queue, serving_order_key(problem, j)
        last[q] = max(last.get(q, turn), turn)
    turns = {j: serving_order_key(problem, j) for j in decided.placements if problem.gangs[j].queue in last}
    return frozenset(j for j, turn in turns.items() if turn <= last[problem.gangs[j].queue])


def _new_demand(problem: Problem, j: int, pods: Pods) -> Vector:
    """Return the request of the gang's pods that do not run yet."""
    gang = problem.gangs[j]
    return placed_demand(gang, new_placements(gang, pods), len(problem.resources))


def _crowded_growth(decided: PlanState, queues: frozenset[int], borrowers: Collection[int]) -> dict[int, Pods]:
    """Return gang -> all its pods, for gangs of these queues that grow within their entitlements next to all but the
    borrowers; nothing where none of them grows less next to the borrowers."""
    problem = decided.problem
    lending = queues - {problem.gangs[j].queue for j in borrowers}
    whole = {j: pods for j, pods in decided.placements.items() if j not in decided.evictions.evicted_pods}
    growing = {j: pods for j, pods in whole.items() if problem.gangs[j].queue in lending}
    if not borrowers or not any(elastic_roles(problem.gangs[j], pods) for j, pods in growing.items()):
        return {}
    together = _entitled_growth(decided, decided.state.copy(), growing)
    alone = _entitled_growth(decided, decided.state.without({j: decided.placements[j] for j in borrowers}), growing)
    if all(_pod_count(alone[j]) <= _pod_count(together[j]) for j in growing):
        return {}
    return {j: pods for j, pods in alone.items() if pods != growing[j]}


def _entitled_growth(decided: PlanState, state: State, growing: Placements) -> dict[int, Pods]:
    """Return these gangs with their possible growth in this state, a copy, without delaying the reservation."""
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


def _decide_with_sizes(initial: PlanState, decided: PlanState, larger: Placements) -> PlanState:
    """Return the plan in which these gangs have these pods where they run, or as many of each role where they start.
    The evictions stay, with the gangs that they are for, unless these fit next to a victim now; nobody else is
    evicted."""
    problem, evicting = initial.problem, decided.evicting_gangs
    starting = sorted(larger.keys() - initial.placements.keys() - evicting)
    roles = {j: pods_per_role(len(problem.gangs[j].roles), larger[j]) for j in starting}
    plan = initial.with_minima({j: (sum(pods), tuple(pods)) for j, pods in roles.items()})
    plan = plan.with_settled(decided, {j: pods for j, pods in larger.items() if j not in starting})
    gangs = ((j, problem.gangs[j]) for j in starting)
    written = {j: (gang.minimum, tuple(role.minimum for role in gang.roles)) for j, gang in gangs}
    return with_spared_victims(plan_with_reservation(plan).with_minima(written))


def _keeps_starts(decided: PlanState, again: PlanState, borrowers: Collection[int]) -> bool:
    """Return whether gangs that started within entitlements start again or gave way to gangs of their queue with at
    least their order, announced starts start again, and the reserved start is no later."""
    gangs = decided.problem.gangs
    promised = {j for j in decided.placements if gangs[j].times.promised}
    if not promised <= again.placements.keys() or not _keeps_reservation(decided, again):
        return False
    queues = {gangs[j].queue for j in decided.placements}
    return all(_is_made_good(decided, again, borrowers, q) for q in queues)


def _keeps_reservation(decided: PlanState, again: PlanState) -> bool:
    """Return whether the reserved start is no later, and no reservation is on nodes that were settled for gangs after
    it in its queue."""
    before, after = decided.reservation, again.reservation
    if after is not None:
        settled = again.settled_gangs.difference(after.gangs_before)
        lasting = (j for j in settled if not ends_in_time(again.problem, j, after))
        pods = (p for j in lasting for p in new_placements(again.problem.gangs[j], again.placements.get(j, ())))
        if not {p.node for p in after.placements}.isdisjoint(p.node for p in pods):
            return False
    if before is None or before.gang in again.placements:
        return True
    return after is not None and after.gang == before.gang and _start_of(after) <= _start_of(before)


def _evicting_instead(decided: PlanState, again: PlanState) -> frozenset[int]:
    """Return gangs that started and now wait, and would start by evicting: others would go for the growth after all."""
    waiting = [j for j in decided.placements if j not in again.placements]
    unsettled = again.copy()
    unsettled.evictions.settle(False)
    may_help = (j for j in waiting if unsettled.evictions.eviction_may_help(j))
    return frozenset(j for j in may_help if evict_for_gang(unsettled.copy(), j))


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
    """Return seconds until the reserved start."""
    return math.inf if reservation.starts_in is None else reservation.starts_in

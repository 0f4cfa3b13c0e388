"""Unused shares: with the plugin proportion, the part of a queue's share that its own waiting gangs cannot use is given
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

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial

from solver.admission.batches import split_into_batches
from solver.placement.fit import shortage
from solver.plan import Objective
from solver.preemption.decide import decide_batches, floor_of
from solver.preemption.plan_state import DecidedBatch, PlanState
from solver.problem import Problem
from solver.semantics.eviction_rights import may_borrow_domains
from solver.semantics.exclusions import dedicated_nodes, exclude_nodes, with_fixed_exclusions
from solver.semantics.gang_classes import waiting_class
from solver.semantics.priorities import precedence, serving_order_key
from solver.semantics.share_measures import queue_priority
from solver.timeline.reservation import reserved_exclusions


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

"""Idle dedicated domains are lent last of all, and only to gangs that the owner can have evicted at once.

All gangs are decided as if nothing were lent, so gangs that may not borrow, and above all the owners', are decided as
without borrowers. Gangs that then still wait and may borrow (`eviction_rights.may_borrow_domains`) are decided once
more in the remaining room, with the dedicated domains open to them.
"""

from __future__ import annotations

from functools import partial

from solver.admission.batches import split_into_batches
from solver.preemption.decide import decide_batches, floor_of
from solver.preemption.plan_state import PlanState
from solver.semantics.eviction_rights import may_borrow_domains
from solver.semantics.exclusions import dedicated_nodes, exclude_nodes, with_fixed_exclusions
from solver.timeline.reservation import reserved_exclusions


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

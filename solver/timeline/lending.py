"""Domains that queues keep, lent while they lie idle: last of all, and only to gangs that the owner can have evicted at
once.

Everybody is decided as if nothing were lent, so whoever may not borrow, and above all the owners, get what they get
without borrowers. What then still waits and may borrow (`victims.borrows`) is decided once more in what is left, with
the kept domains open to it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from solver.admission.batches import split_into_batches
from solver.semantics.eviction_rights import may_borrow_domains
from solver.semantics.exclusions import dedicated_nodes, exclude_nodes, with_fixed_exclusions
from solver.semantics.topology import TopologyTree
from solver.timeline.reservation import reserved_exclusions

if TYPE_CHECKING:
    from solver.planner import PlanState


def lend_dedicated_domains(state: PlanState) -> PlanState:
    """The same course, with those who wait and may borrow started where they find room. course.whole: the problem with
    nothing closed."""
    problem = state.unrestricted_problem
    asking = [
        j
        for j in state.waiting_gangs()
        if may_borrow_domains(problem, j) and (state.reservation is None or state.reservation.gang != j)
    ]
    if not asking or not dedicated_nodes(problem):
        return state
    opened = with_fixed_exclusions(problem)
    if state.reservation is not None:
        opened = exclude_nodes(opened, reserved_exclusions(opened, state.reservation))
    other = replace(state.copy(), problem=opened, tree=TopologyTree(opened), batches=[])
    groups, whole = split_into_batches(opened, asking, state.options, partial(other.joint_floor, asking))
    other = other.decide_batches(groups, whole)
    batches = [
        (tuple(j for j in gangs if j in other.placements), objectives, seconds)
        for gangs, objectives, seconds in other.batches
    ]
    return replace(
        other, problem=state.problem, tree=state.tree, batches=state.batches, borrower_batches=tuple(batch for batch in batches if batch[0])
    )  # fmt: skip

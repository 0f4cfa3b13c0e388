"""Rivals: the waiting gangs that a repair of a queue, or more nodes, would start instead, since they come first."""

from __future__ import annotations

from collections.abc import Sequence

from solver.plan import Decision
from solver.problem import Problem
from solver.repairs import MoreCapability, MoreDeserved, MoreNodes, MoreWeight, Repair, SmallerGuarantee

_QueueRepair = MoreCapability | MoreDeserved | MoreWeight | SmallerGuarantee


def rivals(problem: Problem, decisions: Sequence[Decision], j: int, repair: Repair) -> tuple[int, ...]:
    """The waiting gangs that would start with this change too, and precede gang j, in their order."""
    if not _adds_nodes(repair) and (not isinstance(repair, _QueueRepair) or repair.also):
        return ()
    found = []
    for decision in decisions:
        precedes = decision.action == "wait" and _order(problem, decision.gang) < _order(problem, j)
        if precedes and any(_is_within(known, repair) for known in decision.repairs):
            found.append(decision.gang)
    return tuple(sorted(found, key=lambda i: _order(problem, i)))


def _order(problem: Problem, j: int) -> tuple[int, int, int]:
    gang = problem.gangs[j]
    return -gang.priority, gang.age, j


def _adds_nodes(repair: Repair) -> bool:
    return any(isinstance(change, MoreNodes) for change in (repair, *repair.also))


def _is_within(known: Repair, repair: Repair) -> bool:
    """Whether `repair` does what `known` does: it adds the same nodes, or changes the same queue and resource no
    less."""
    if not isinstance(repair, _QueueRepair) or repair.also:
        return known == repair
    if not isinstance(known, _QueueRepair) or type(known) is not type(repair) or known.also:
        return False
    is_same = (known.queue, getattr(known, "resource", None)) == (repair.queue, getattr(repair, "resource", None))
    return is_same and known.amount <= repair.amount

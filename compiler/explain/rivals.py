"""Rivals: the waiting gangs that would use what a repair changes for all, a queue, more nodes or the end of others, and
come first or may; and the one for which a gang of a strictly ordered queue waits with its repair too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from solver.facts import StrictOrder
from solver.plan import Decision
from solver.problem import Gang, Problem
from solver.repairs import (
    EndOfGangs,
    HigherPriority,
    MoreCapability,
    MoreDeserved,
    MoreNodes,
    MoreWeight,
    NoStrictOrder,
    OpenQueue,
    OtherQueue,
    Repair,
    SmallerGuarantee,
    StartOfGang,
)

Turn = Literal["first", "perhaps first"]
_QueueRepair = MoreCapability | MoreDeserved | MoreWeight | SmallerGuarantee
_SharedRepair = _QueueRepair | OpenQueue | NoStrictOrder | MoreNodes | EndOfGangs


def rivals(problem: Problem, decisions: Sequence[Decision], j: int, repair: Repair) -> dict[int, Turn]:
    """The waiting gangs that would start with this change too and precede gang j or may, in their order."""
    shared = [change for change in (repair, *repair.also) if isinstance(change, _SharedRepair)]
    found = dict[int, Turn]()
    for decision in decisions if shared else ():
        turn = _turn(problem, decision.gang, j) if decision.action == "wait" else None
        if turn is not None and any(_is_within(known, shared) for known in decision.repairs):
            found[decision.gang] = turn
    return dict(sorted(found.items(), key=lambda item: _order(problem, item[0])))


def _turn(problem: Problem, i: int, j: int) -> Turn | None:
    """Whether gang i precedes gang j, surely or perhaps: between queues shares decide, in a queue among equals also
    what fills the room best."""
    other, own = problem.gangs[i], problem.gangs[j]
    if i == j:
        return None
    if other.queue != own.queue:
        if problem.policy.order == "queues-first" or other.priority == own.priority:
            return "perhaps first"
        return "first" if other.priority > own.priority else None
    if _order(problem, i) < _order(problem, j):
        return "first"
    is_alike = (other.roles, other.minimum) == (own.roles, own.minimum)
    return "perhaps first" if other.priority == own.priority and not is_alike else None


def gang_before(problem: Problem, decision: Decision, repair: Repair) -> int | None:
    """The waiting gang that still comes before the gang in its strictly ordered queue once it has this repair."""
    order = next((fact for fact in decision.facts if isinstance(fact, StrictOrder)), None)
    if order is None or any(_changes_order(problem.gangs[order.gang], change) for change in (repair, *repair.also)):
        return None
    return order.gang


def _changes_order(earlier: Gang, change: Repair) -> bool:
    if isinstance(change, HigherPriority):
        return change.amount > earlier.priority
    return isinstance(change, NoStrictOrder | OtherQueue | StartOfGang)


def _order(problem: Problem, j: int) -> tuple[int, int, int]:
    gang = problem.gangs[j]
    return -gang.priority, gang.age, j


def _is_within(known: Repair, shared: Sequence[_SharedRepair]) -> bool:
    """Whether these changes do all that `known` does."""
    return all(any(_covers(change, part) for change in shared) for part in (known, *known.also))


def _covers(change: _SharedRepair, part: Repair) -> bool:
    """Whether the change does what the part of another repair does: it ends the same gangs, opens the same queue or
    lifts its order, adds nodes of the same kind or changes the same queue and resource, no less."""
    match change, part:
        case EndOfGangs(gangs=gangs), EndOfGangs(gangs=others):
            return set(others) <= set(gangs)
        case (OpenQueue(queue=q), OpenQueue(queue=other)) | (NoStrictOrder(queue=q), NoStrictOrder(queue=other)):
            return q == other
        case MoreNodes(), MoreNodes():
            return (change.node, change.hypernode) == (part.node, part.hypernode) and part.amount <= change.amount
        case _:
            return _covers_queue_change(change, part)


def _covers_queue_change(change: _SharedRepair, part: Repair) -> bool:
    if not isinstance(change, _QueueRepair) or not isinstance(part, _QueueRepair) or type(change) is not type(part):
        return False
    is_same = (change.queue, getattr(change, "resource", None)) == (part.queue, getattr(part, "resource", None))
    return is_same and part.amount <= change.amount

"""Lost starts: why a job does not start as an earlier plan announced.

An announced start is kept against all later jobs of the job's own queue, so that none of these is ever the cause,
though they may be among those that have the room now.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from compiler.explain.provenance import Provenance
from compiler.explain.statements import Entry, Values
from compiler.fields.times import rfc3339
from solver.facts import Fact, ShareLimit
from solver.plan import Decision, Plan
from solver.problem import Gang, Problem


@dataclass(frozen=True, slots=True)
class LostStart(Fact, code="GW125"):
    """An earlier plan announced the gang's start, and this one does not keep it. gangs: all that are named. Among them,
    ends: gangs whose end is awaited; late: others that run longer than declared; first: the one that the plan reserves
    room for; without these, gangs that took the room. queue: whose share became too small for it. told, at: the start
    of the earlier plan and that of this one, in seconds since the epoch."""

    gangs: tuple[int, ...]
    ends: tuple[int, ...] = ()
    late: tuple[int, ...] = ()
    first: tuple[int, ...] = ()
    queue: int | None = None
    told: int | None = None
    at: int | None = None


def _times(s: Provenance, j: int, fact: LostStart) -> Values:
    return {key: rfc3339(time) for key, time in (("told", fact.told), ("at", fact.at)) if time is not None}


REASONS: tuple[Entry[Any], ...] = (
    Entry(
        LostStart,
        "an announced start is missed",
        (
            "announced start {told} lost to {gangs}",
            "announced start {told} missed: its room is gone",
            "a start that an earlier plan announced is missed",
        ),
        lambda s, j, x: s.gang_sources(x.gangs),
        _times,
        special_texts=(
            "announced start {told} missed: {late} overran; now expected at {at}, after {ends}",
            "announced start {told} missed; now expected at {at}, after {ends}",
            "announced start {told} lost to {gangs}; now expected at {at}",
            "announced start {told} missed: it waits for {ends}, whose end is not known",
            "announced start {told} missed: the plan reserves room for {first}, which is ahead in the order",
            "announced start {told} missed: the share of queue {queue} is too small now",
        ),
        remedy="An announced start is kept against jobs that would go later in its queue, and against borrowers of "
        "other queues. It moves where a job runs longer than was said, where nodes are lost, and for jobs that go "
        "first whenever they come: of a higher priority, or where the job would borrow and they are within what "
        "their queue is entitled to. A plan reserves room for one job only: while one that comes first has the "
        "reservation, no start is announced to the others. Where shares follow what queues ask for (proportion, "
        "drf), a newcomer also makes them smaller.",
    ),
)


def lost_start(problem: Problem, plan: Plan, decision: Decision) -> LostStart:
    """Return who took the start from the gang of this decision, which waits; else the gangs whose end it awaits now."""
    j, held = decision.gang, plan.reservation
    facts = {other for fact in decision.facts for other in getattr(fact, "gangs", ())}
    named = _not_later(problem, j, facts)
    if held is None or held.gang != j:
        share = next((fact for fact in decision.facts if isinstance(fact, ShareLimit)), None)
        if named or share is not None:
            return LostStart(named, queue=None if named or share is None else share.queue)
        first = () if held is None else _not_later(problem, j, [held.gang])
        return LostStart(first, first=first)
    awaited = held.awaited_gangs
    if newcomers := tuple(i for i in awaited if not problem.gangs[i].running):
        return LostStart(newcomers, ends=() if held.starts_in is None else newcomers)
    started = tuple(i for i in named if not problem.gangs[i].running)
    if started:
        return LostStart(started)
    late = tuple(i for i in _late_gangs(problem, j) if i not in awaited)
    return LostStart((*late, *awaited), ends=awaited, late=late)


def _not_later(problem: Problem, j: int, gangs: Iterable[int]) -> tuple[int, ...]:
    """Return the gangs that are not behind gang j in its own queue."""

    def comes_later(i: int) -> bool:
        own, other = problem.gangs[j], problem.gangs[i]
        return own.queue == other.queue and not other.running and _turn(own, j) < _turn(other, i)

    return tuple(i for i in sorted(gangs) if not comes_later(i))


def _turn(gang: Gang, j: int) -> tuple[int, bool, bool, int, int]:
    """Return the key of a gang's turn in its queue: the smallest is first."""
    return -gang.priority, not gang.times.promised, not gang.times.overdue, gang.age, j


def _late_gangs(problem: Problem, j: int) -> Iterable[int]:
    """Yield gangs that run longer than declared on nodes that gang j may use."""
    usable = frozenset[int]().union(*(role.node_classes for role in problem.gangs[j].roles))
    for i, gang in enumerate(problem.gangs):
        is_late = gang.running and gang.times.duration is not None and gang.times.ends_in is None
        if is_late and any(problem.nodes[p.node].node_class in usable for p in gang.running):
            yield i

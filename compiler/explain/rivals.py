"""Rivals: the waiting gangs that would use what a repair changes for all, a queue, more nodes or the end of others, and
come first or may; and the one for which a gang of a strictly ordered queue waits with its repair too."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice

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

_QueueRepair = MoreCapability | MoreDeserved | MoreWeight | SmallerGuarantee
_SharedRepair = _QueueRepair | OpenQueue | NoStrictOrder | MoreNodes | EndOfGangs
MAX_NAMED_GANGS = 20
"""How many gangs a repair names that precede its own: with all of them a plan would grow with the square of the gangs
that wait."""


@dataclass(frozen=True, slots=True)
class EarlierGangs:
    """`count` waiting gangs that would start with a repair too and precede its gang, or (not `surely`) may. leading:
    the first of them, in their order."""

    surely: bool
    count: int
    leading: tuple[int, ...]


@dataclass(slots=True)
class _Users:
    """The waiting gangs that would start with the same changes, as ascending ranks. possible: what is known of those
    that may precede a gang, by its queue, priority and shape."""

    ranks: list[int]
    by_queue: dict[int, list[int]] = field(default_factory=dict)
    possible: dict[object, EarlierGangs] = field(default_factory=dict)


class Rivals:
    """The rivals in one plan. A rank is a gang's place in the order of all by priority and age.

    Gangs that are alike have equal repairs: changes are compared once for each kind of them, not for each pair of
    gangs."""

    def __init__(self, problem: Problem, decisions: Iterable[Decision]) -> None:
        self.problem = problem
        self._by_rank = sorted(range(len(problem.gangs)), key=partial(_order, problem))
        self._ranks = {j: rank for rank, j in enumerate(self._by_rank)}
        self._users: dict[tuple[Repair, ...], _Users] = {}
        self._asking: dict[tuple[Repair, ...], list[int]] = {}
        for decision in decisions:
            for changes in map(_changes, decision.repairs if decision.action == "wait" else ()):
                if len(_shared(changes)) == len(changes):
                    self._asking.setdefault(changes, []).append(self._ranks[decision.gang])

    def earlier(self, j: int, repair: Repair) -> EarlierGangs | None:
        """The waiting gangs that would start with this change too and precede gang j; where none does, those that
        may."""
        shared = _shared(_changes(repair))
        if not shared:
            return None
        if shared not in self._users:
            self._users[shared] = self._users_of(shared)
        found = self._preceding(self._users[shared], j)
        if not found.count:
            found = self._possible(self._users[shared], self.problem.gangs[j])
        return found if found.count else None

    def _users_of(self, shared: Sequence[Repair]) -> _Users:
        ranks = set[int]()
        for changes, asking in self._asking.items():
            if all(any(_covers(change, part) for change in shared) for part in changes):
                ranks.update(asking)
        users = _Users(sorted(ranks))
        for rank in users.ranks:
            users.by_queue.setdefault(self._at(rank).queue, []).append(rank)
        return users

    def _preceding(self, users: _Users, j: int) -> EarlierGangs:
        """Those before gang j in its queue; also those of a higher priority in others, unless queues come first."""
        gang, limit = self.problem.gangs[j], MAX_NAMED_GANGS
        start = 0 if self._queues_first else self._first_rank(gang.priority)
        own = users.by_queue.get(gang.queue, [])
        higher, first, end = bisect_left(users.ranks, start), bisect_left(own, start), bisect_left(own, self._ranks[j])
        leading = (*users.ranks[: min(higher, limit)], *own[first : min(end, first + limit)])
        return self._named(True, higher + end - first, leading)

    def _possible(self, users: _Users, gang: Gang) -> EarlierGangs:
        """Those that may precede a gang which none surely precedes: between queues shares decide, in a queue among
        equals also what fills the room best."""
        kind = gang.queue, gang.priority, gang.roles, gang.minimum
        if kind not in users.possible:
            start, end = self._first_rank(gang.priority), self._first_rank(gang.priority - 1)
            own, all_ranks = users.by_queue.get(gang.queue, []), users.ranks
            equal = own[bisect_left(own, start) : bisect_left(own, end)]
            if not self._queues_first:
                own, all_ranks = equal, all_ranks[bisect_left(all_ranks, start) : bisect_left(all_ranks, end)]
            unlike = {rank for rank in equal if not _is_alike(self._at(rank), gang)}
            leading = (rank for rank in all_ranks if self._at(rank).queue != gang.queue or rank in unlike)
            users.possible[kind] = self._named(False, len(all_ranks) - len(own) + len(unlike), leading)
        return users.possible[kind]

    def _named(self, surely: bool, count: int, ranks: Iterable[int]) -> EarlierGangs:
        return EarlierGangs(surely, count, tuple(self._by_rank[rank] for rank in islice(ranks, MAX_NAMED_GANGS)))

    def _first_rank(self, priority: int) -> int:
        """The first rank of the gangs that have at most this priority."""
        return bisect_left(self._by_rank, -priority, key=lambda j: -self.problem.gangs[j].priority)

    def _at(self, rank: int) -> Gang:
        return self.problem.gangs[self._by_rank[rank]]

    @property
    def _queues_first(self) -> bool:
        return self.problem.policy.queues_first


def _changes(repair: Repair) -> tuple[Repair, ...]:
    return (replace(repair, also=()), *repair.also) if repair.also else (repair,)


def _shared(changes: Iterable[Repair]) -> tuple[Repair, ...]:
    """Those that concern other gangs too."""
    return tuple(change for change in changes if isinstance(change, _SharedRepair))


def _is_alike(gang: Gang, other: Gang) -> bool:
    return (gang.roles, gang.minimum) == (other.roles, other.minimum)


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


def _covers(change: Repair, part: Repair) -> bool:
    """Whether the change does what the part of another repair does: it ends the same gangs, opens the same queue or
    lifts its order, adds nodes of the same kind or changes the same queue and resource, no less."""
    match change, part:
        case EndOfGangs(gangs=gangs), EndOfGangs(gangs=others):
            return set(gangs).issuperset(others)
        case (OpenQueue(queue=q), OpenQueue(queue=other)) | (NoStrictOrder(queue=q), NoStrictOrder(queue=other)):
            return q == other
        case MoreNodes(), MoreNodes():
            return (change.node, change.hypernode) == (part.node, part.hypernode) and part.amount <= change.amount
        case _:
            return _covers_queue_change(change, part)


def _covers_queue_change(change: Repair, part: Repair) -> bool:
    if not isinstance(change, _QueueRepair) or not isinstance(part, _QueueRepair) or type(change) is not type(part):
        return False
    is_same = (change.queue, getattr(change, "resource", None)) == (part.queue, getattr(part, "resource", None))
    return is_same and part.amount <= change.amount

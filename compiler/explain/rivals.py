"""Rivals: the waiting gangs that would use what a repair changes for all, a queue, more nodes or the end of others, and
come first or may; and the one for which a gang of a strictly ordered queue waits with its repair too."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from operator import attrgetter
from typing import Any

from compiler.explain.statements import REPAIR_KEYS, CodedMessage, Names
from compiler.fields.texts import short_list
from solver import repairs
from solver.facts import StrictOrder
from solver.plan import Decision
from solver.problem import Gang, Problem

_SHARED: Mapping[type[repairs.Repair], Callable[[Any], object]] = {
    **dict.fromkeys(
        (repairs.MoreCapability, repairs.MoreDeserved, repairs.SmallerGuarantee), attrgetter("queue", "resource")
    ),
    **dict.fromkeys(
        (repairs.FewerDedicatedDomains, repairs.MoreWeight, repairs.OpenQueue, repairs.NoStrictOrder),
        attrgetter("queue"),
    ),
    repairs.MoreNodes: attrgetter("node", "hypernode"),
    repairs.AllowEviction: attrgetter("obstacle", "queue"),
    repairs.EndOfGangs: lambda repair: (),
}
"""Repairs that affect other gangs too -> what they change. Of equal ones, a larger amount includes a smaller one."""
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


class Rivals:
    """The rivals in one plan. Gangs that are alike have equal repairs: changes are compared once for each kind of them,
    and not for each pair of gangs."""

    def __init__(self, problem: Problem, decisions: Iterable[Decision]) -> None:
        self._order = _GangOrder(problem)
        self._users: dict[tuple[repairs.Repair, ...], _Users] = {}
        self._asking: dict[tuple[repairs.Repair, ...], list[int]] = {}
        for decision in decisions:
            for changes in map(_changes, decision.repairs if decision.action == "wait" else ()):
                if len(_shared(changes)) == len(changes):
                    self._asking.setdefault(changes, []).append(self._order.ranks[decision.gang])

    def earlier(self, j: int, repair: repairs.Repair) -> EarlierGangs | None:
        """Return the waiting gangs that would start with this change too and precede gang j; if there are none, those
        that may."""
        shared = _shared(_changes(repair))
        if not shared:
            return None
        if shared not in self._users:
            self._users[shared] = _Users(self._order, self._asking_within(shared))
        users = self._users[shared]
        found = users.preceding(j)
        if not found.count:
            found = users.possible(j)
        return found if found.count else None

    def _asking_within(self, shared: Sequence[repairs.Repair]) -> set[int]:
        found = set[int]()
        for changes, ranks in self._asking.items():
            if all(any(_covers(change, part) for change in shared) for part in changes):
                found.update(ranks)
        return found


class _GangOrder:
    """The order of all gangs by priority and age. A rank is a gang's place in it."""

    def __init__(self, problem: Problem) -> None:
        self.gangs, self.queues_first = problem.gangs, problem.policy.queues_first
        self._by_rank = sorted(range(len(self.gangs)), key=partial(_order, problem))
        self.ranks = {j: rank for rank, j in enumerate(self._by_rank)}

    def gang(self, rank: int) -> Gang:
        return self.gangs[self._by_rank[rank]]

    def first_rank(self, priority: int) -> int:
        """Return the first rank of the gangs that have at most this priority."""
        return bisect_left(self._by_rank, -priority, key=lambda j: -self.gangs[j].priority)

    def named(self, surely: bool, count: int, ranks: Iterable[int]) -> EarlierGangs:
        return EarlierGangs(surely, count, tuple(self._by_rank[rank] for rank in islice(ranks, MAX_NAMED_GANGS)))


class _Users:
    """The waiting gangs that would start with the same changes, by ascending rank."""

    def __init__(self, order: _GangOrder, ranks: Iterable[int]) -> None:
        self._order, self._ranks = order, sorted(ranks)
        self._by_queue: dict[int, list[int]] = {}
        for rank in self._ranks:
            self._by_queue.setdefault(order.gang(rank).queue, []).append(rank)
        self._possible: dict[object, EarlierGangs] = {}

    def preceding(self, j: int) -> EarlierGangs:
        """Return the gangs before gang j in its queue; also those of a higher priority in others, unless queues are
        first."""
        order, gang, most = self._order, self._order.gangs[j], MAX_NAMED_GANGS
        own, start = self._by_queue.get(gang.queue, []), 0 if order.queues_first else order.first_rank(gang.priority)
        higher, first, end = bisect_left(self._ranks, start), bisect_left(own, start), bisect_left(own, order.ranks[j])
        leading = (*self._ranks[: min(higher, most)], *own[first : min(end, first + most)])
        return order.named(True, higher + end - first, leading)

    def possible(self, j: int) -> EarlierGangs:
        """Return gangs that may precede a gang which none precedes: the same for all equal gangs."""
        gang = self._order.gangs[j]
        kind = gang.queue, gang.priority, gang.roles, gang.minimum
        if kind not in self._possible:
            self._possible[kind] = self._perhaps_before(gang)
        return self._possible[kind]

    def _perhaps_before(self, gang: Gang) -> EarlierGangs:
        """Between queues shares decide, in a queue among equals also what fills the room best."""
        order, own, ranks = self._order, self._by_queue.get(gang.queue, []), self._ranks
        start, end = order.first_rank(gang.priority), order.first_rank(gang.priority - 1)
        equal = _between(own, start, end)
        if not order.queues_first:
            own, ranks = equal, _between(ranks, start, end)
        behind = set(own) - {rank for rank in equal if not _is_alike(order.gang(rank), gang)}
        return order.named(False, len(ranks) - len(behind), (rank for rank in ranks if rank not in behind))


def _between(ranks: list[int], start: int, end: int) -> list[int]:
    return ranks[bisect_left(ranks, start) : bisect_left(ranks, end)]


def _changes(repair: repairs.Repair) -> tuple[repairs.Repair, ...]:
    return (replace(repair, also=()), *repair.also) if repair.also else (repair,)


def _shared(changes: Iterable[repairs.Repair]) -> tuple[repairs.Repair, ...]:
    """Return the changes that affect other gangs too."""
    return tuple(change for change in changes if type(change) in _SHARED)


def _is_alike(gang: Gang, other: Gang) -> bool:
    return (gang.roles, gang.minimum) == (other.roles, other.minimum)


def gang_before(problem: Problem, decision: Decision, repair: repairs.Repair) -> int | None:
    """Return the waiting gang that still precedes the gang in its strictly ordered queue with this repair."""
    order = next((fact for fact in decision.facts if isinstance(fact, StrictOrder)), None)
    if order is None or any(_changes_order(problem.gangs[order.gang], change) for change in (repair, *repair.also)):
        return None
    return order.gang


def with_earlier_gangs(
    problem: Problem, message: CodedMessage, earlier: EarlierGangs | None, before: int | None
) -> CodedMessage:
    """Return the message of a repair, with the gangs that profit first or may (`earlier`), and the one that still
    precedes it in its strictly ordered queue (`before`)."""
    sentence, facts = message.message, dict[str, Any](message.facts)
    if earlier is not None:
        others = Names(problem.gangs[j].name for j in earlier.leading)
        facts.setdefault("gangs", others)
        waits, comes = ("waits", "comes") if earlier.count == 1 else ("wait", "come")
        turn = comes if earlier.surely else "may come"
        sentence += f"; {short_list(others, earlier.count)} {waits} for it too and {turn} first"
    elif before is not None:
        sentence += f"; {problem.gangs[before].name} still comes before it in its queue"
    return replace(message, message=sentence, facts={key: facts[key] for key in REPAIR_KEYS if key in facts})


def _changes_order(earlier: Gang, change: repairs.Repair) -> bool:
    if isinstance(change, repairs.HigherPriority):
        return change.amount > earlier.priority
    return isinstance(change, repairs.NoStrictOrder | repairs.OtherQueue | repairs.StartOfGang)


def _order(problem: Problem, j: int) -> tuple[int, int, int]:
    gang = problem.gangs[j]
    return -gang.priority, gang.age, j


def _covers(change: repairs.Repair, part: repairs.Repair) -> bool:
    """Return whether the change does what the part of another repair does: it ends the same gangs, or changes the same,
    by no less."""
    if type(change) is not type(part):
        return False
    if isinstance(change, repairs.EndOfGangs) and isinstance(part, repairs.EndOfGangs):
        return set(change.gangs).issuperset(part.gangs)
    changed = _SHARED[type(change)]
    return changed(change) == changed(part) and getattr(part, "amount", 0) <= getattr(change, "amount", 0)

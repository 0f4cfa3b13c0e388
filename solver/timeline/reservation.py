"""Reservation: the first gang that finds no room is promised the room where it can start soonest, and nobody may delay
it (EASY backfill).

A. W. Mu'alem and D. G. Feitelson, Utilization, Predictability, Workloads, and User Runtime Estimates in Scheduling the
IBM SP2 with Backfilling, IEEE TPDS 12 (2001): one reservation, for the head of the queue; others go before it only
where that does not move its start. Here the head is a gang, its room is on certain nodes and in certain queues, and its
start need not be known: an overdue gang is held room for even where nobody said how long the others run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from solver.plan import Reservation
from solver.problem import Placement, Problem
from solver.semantics.device_slots import Free, Ints, left, whole
from solver.semantics.exclusions import shut_to
from solver.semantics.gang_classes import shape_of
from solver.semantics.placements import fresh
from solver.semantics.priorities import end
from solver.state.pod_rules import Neighbours, whoever_minds
from solver.state.room import Ledger, Room, demand

Placed = tuple[Placement, ...]
Place = Callable[[int, Room, Ledger, Collection[int]], Placed | None]
"""(gang, room, ledger, nodes that are closed to it) -> all pods of the gang where it fits there by room and queues,
else None."""


def timed(problem: Problem) -> bool:
    """Whether anything is known of time; else there is nothing to promise."""
    return any(gang.overdue or gang.ends is not None or gang.duration is not None for gang in problem.gangs)


@dataclass(frozen=True)
class Outlook:
    """What is held by whom, and what is left when they end.

    holding: gang -> all its pods, of those that run or start. ledger: what the queues hold with them.
    """

    problem: Problem
    holding: Mapping[int, Placed]
    ledger: Ledger
    place: Place

    @cached_property
    def _left(self) -> Ints:
        """Node x resource: free less what is held; below 0 where what runs is too much."""
        left = np.array([n.free for n in self.problem.nodes], dtype=np.int64).reshape(
            len(self.problem.nodes), len(self.problem.resources)
        )
        for v in self.holding:
            self._give(left, v, -1)
        return left

    def _give(self, left: Ints, v: int, times: int) -> None:
        for p in self.holding[v]:
            left[p.node] += np.array(self.problem.gangs[v].roles[p.role].request, dtype=np.int64) * (times * p.pods)

    def without(self, gone: Collection[int], closed: Sequence[int] = ()) -> tuple[Room, Ledger]:
        """(room, ledger) once these have ended, with some nodes closed."""
        amounts, ledger = self._left.copy(), self.ledger.copy()
        for v in gone:
            self._give(amounts, v, 1)
            self._end(ledger, v)
        amounts[list(closed)] = 0
        return Room(Free(np.maximum(amounts, 0), self._cells(gone)), self._beside(gone)), ledger

    def _end(self, ledger: Ledger, v: int, times: int = 1) -> None:
        """Gang v gives its queue back what it holds, and what it runs excuses nobody any more. times -1: it does not
        after all."""
        gang, width = self.problem.gangs[v], len(self.problem.resources)
        held, ran = (tuple(times * x for x in demand(gang, pods, width)) for pods in (self.holding[v], gang.running))
        ledger.release(gang.queue, held, ran)

    def _cells(self, gone: Collection[int]) -> Ints:
        """What is left on the cells then, as far as it is known: nobody says from which cells the pods that run took
        theirs, so those come back only on a node that is empty then; and where a gang starts before, it may take
        any."""
        cells, problem = left(self.problem).cells, self.problem
        if not problem.divisions:
            return cells
        stay = [(v, p) for v, pods in self.holding.items() if v not in gone for p in pods]
        held = {p.node for _, p in stay}
        empty = [n for n, node in enumerate(problem.nodes) if n not in held and node.free == node.capacity]
        cells[empty] = whole(problem).cells[empty]
        cells[sorted({p.node for v, p in stay if p not in problem.gangs[v].running})] = 0
        return cells

    def _beside(self, gone: Collection[int]) -> Neighbours | None:
        """Who is where then, if relations ask."""
        if not self.problem.relations:
            return None
        stay = (
            replace(gang, running=() if v in gone else self.holding.get(v, ()))
            for v, gang in enumerate(self.problem.gangs)
        )
        return whoever_minds(replace(self.problem, gangs=tuple(stay)))

    def first(self, waiting: Sequence[int], starts: Callable[[int], bool]) -> Reservation | None:
        """The reservation of the first of these gangs that cannot start now and has one. starts: whether a gang can,
        alone and at once."""
        known: set[object] = set()
        for j in waiting:
            gang = self.problem.gangs[j]
            alike = gang.queue, gang.overdue, shape_of(j, gang)
            if alike not in known and self.ledger.rules.takes[gang.queue]:
                known.add(alike)
                if not starts(j) and (found := self.reserve(j)) is not None:
                    return found
        return None

    def reserve(self, j: int) -> Reservation | None:
        """Where and when gang j starts at the soonest. None where that cannot be said, or it does not fit even when
        everybody is gone.

        The gangs end one after another: those whose end is known, soonest first; for an overdue gang then the others,
        oldest first, an order in which no newcomer gets before anybody. The shortest beginning of that line after which
        j fits is what it waits for: each time one of them ends it gets shorter, and whoever starts meanwhile stays out
        of the room, so that it never gets longer.
        """
        gangs = self.problem.gangs
        others = [v for v in self.holding if v != j]
        ends = {v: e for v in others if (e := end(self.problem, v)) is not None}
        line = sorted(ends, key=lambda v: (ends[v], gangs[v].age, v))
        if gangs[j].overdue:
            line += sorted((v for v in others if v not in ends), key=lambda v: (gangs[v].age, v))

        def after(number: int) -> Placed | None:
            gone = line[:number]
            start = max(ends[v] for v in gone) if ends.keys() >= set(gone) else None
            closing = shut_to(self.problem, gangs[j], start)
            return self.place(j, *self.without(gone, closing), closing)

        placed = after(len(line)) if line else None
        low, high = 1, len(line)
        while placed is not None and low < high:
            middle = (low + high) // 2
            found = after(middle)
            placed, low, high = (found, low, middle) if found is not None else (placed, middle + 1, high)
        if placed is None:
            return None
        new = fresh(gangs[j], placed)
        until = self._needed(j, new, line[:low])
        if not until:
            return None
        start = max(ends[v] for v in until) if all(v in ends for v in until) else None
        return Reservation(j, start, new, tuple(sorted(until)))

    def _needed(self, j: int, new: Placed, line: Sequence[int]) -> list[int]:
        """Those of the line whose end these pods need, trying to do without the last ones first."""
        gang, width = self.problem.gangs[j], len(self.problem.resources)
        nodes, asked = sorted({p.node for p in new}), demand(gang, new, width)
        left, ledger = self._left.copy(), self.ledger.copy()

        def end(v: int, times: int = 1) -> None:
            self._give(left, v, times)
            self._end(ledger, v, times)

        for v in line:
            end(v)
        for p in new:
            left[p.node] -= np.array(gang.roles[p.role].request, dtype=np.int64) * p.pods
        needed = []
        for v in reversed(line):
            end(v, -1)
            if (left[nodes] < 0).any() or not ledger.allows(gang.queue, asked):
                end(v)
                needed.append(v)
        return needed

    def at_start(self, held: Reservation) -> Ledger:
        """What the queues hold when the gang starts: without those that ended by then, and with its own pods."""
        gone = {v for v in self.holding if v != held.gang and in_time(self.problem, v, held)} | set(held.until)
        _, ledger = self.without(sorted(gone))
        gang = self.problem.gangs[held.gang]
        ledger.charge(gang.queue, demand(gang, held.placements, len(self.problem.resources)))
        return ledger


def in_time(problem: Problem, j: int, held: Reservation) -> bool:
    """Whether gang j is expected to have ended when the reserved room is needed."""
    ends = end(problem, j)
    return held.starts_in is not None and ends is not None and ends <= held.starts_in


def shut(problem: Problem, held: Reservation) -> dict[int, frozenset[int]]:
    """Gang -> the reserved nodes, for all that would still be there when they are needed."""
    nodes = frozenset(p.node for p in held.placements)
    return {j: nodes for j in range(len(problem.gangs)) if j != held.gang and not in_time(problem, j, held)}


def barred(problem: Problem, held: Reservation, later: Ledger, turn: Iterable[int]) -> frozenset[int]:
    """Those that may not start because a queue would not have enough left for the reservation. turn: who would like to
    start, in order.

    later: the queues when the reserved gang starts (`Outlook.at_start`). Gangs that have ended by then take nothing
    from it. Each of the others is let in as long as all let in before it leave enough.
    """
    ledger, out = later.copy(), set()
    for j in turn:
        if j == held.gang or in_time(problem, j, held):
            continue
        gang = problem.gangs[j]
        amount = shape_of(j, gang).dearest(len(problem.resources))
        if ledger.allows(gang.queue, amount):
            ledger.charge(gang.queue, amount)
        else:
            out.add(j)
    return frozenset(out)

"""Reservation: the first gang that cannot start is promised the room where it can start soonest, and no other gang may
delay that start (EASY backfill).

A. W. Mu'alem and D. G. Feitelson, Utilization, Predictability, Workloads, and User Runtime Estimates in Scheduling the
IBM SP2 with Backfilling, IEEE TPDS 12 (2001): one reservation, for the head of the queue; others go before it only
where that does not move its start. Here the head is a gang, its room is on certain nodes and in certain queues, and its
start need not be known: an overdue gang gets a reservation even where no end of a running gang is known.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from solver.mip.executors import Mapper
from solver.options import Options
from solver.placement.batch import placement_alone, starts_alone
from solver.plan import Reservation
from solver.problem import GangTimes, Problem, Vector
from solver.semantics.device_slots import (
    FreeVectors,
    IntArray,
    PodRows,
    add_rows,
    capacity_vectors,
    pod_rows,
    vectors_without_foreign,
)
from solver.semantics.exclusions import maintenance_conflicts
from solver.semantics.gang_classes import waiting_class
from solver.semantics.order import expected_end
from solver.semantics.placements import new_placements, placed_demand, vector_sum
from solver.state.queue_books import QueueBooks
from solver.state.selected_pods import PodRuleCounts, initial_rule_counts
from solver.state.state import Pods, State


def has_known_times(problem: Problem) -> bool:
    """Return whether anything is known of time; else there is nothing to reserve."""
    return any(gang.times != GangTimes() for gang in problem.gangs)


@dataclass(frozen=True)
class ReleaseTimeline:
    """Amounts held by gangs, and free amounts once some of them have ended.

    state: problem and topology. held_pods: gang -> all its pods, of gangs that run or start. queue_books: the queues'
    usage with them.
    """

    state: State
    held_pods: Mapping[int, Pods]
    queue_books: QueueBooks
    options: Options
    mapper: Mapper

    @property
    def problem(self) -> Problem:
        return self.state.problem

    @cached_property
    def _rows(self) -> Mapping[int, PodRows]:
        """Return gang -> what its held pods request on their nodes."""
        return {v: pod_rows(self.problem.gangs[v], pods) for v, pods in self.held_pods.items()}

    @cached_property
    def _amounts(self) -> Mapping[int, tuple[Vector, Vector]]:
        """Return gang -> (what its held pods request, what its running pods do)."""
        gangs, width = self.problem.gangs, len(self.problem.resources)
        return {
            v: (placed_demand(gangs[v], pods, width), placed_demand(gangs[v], gangs[v].running, width))
            for v, pods in self.held_pods.items()
        }

    @cached_property
    def _free_amounts(self) -> IntArray:
        """Return node x resource: the amounts free next to the held pods; below 0 where a node is overcommitted."""
        free = vectors_without_foreign(self.problem).amounts
        add_rows(free, self._rows.values(), -1)
        return free

    def _release_gangs(self, free_amounts: IntArray, books: QueueBooks, gangs: Sequence[int], sign: int = 1) -> None:
        """Release the amounts of these gangs, to their queues as if they had not been there at the start. sign -1: they
        take them again."""
        add_rows(free_amounts, (self._rows[v] for v in gangs), sign)
        of_queue = dict[int, list[tuple[Vector, Vector]]]()
        for v in gangs:
            of_queue.setdefault(self.problem.gangs[v].queue, []).append(self._amounts[v])
        for q, amounts in of_queue.items():
            held, ran = (vector_sum(of, sign) for of in zip(*amounts, strict=True))
            books.release_amount(q, held, ran)

    @cached_property
    def state_after(self) -> Callable[[tuple[int, ...], tuple[int, ...]], State]:
        """Return the state once these gangs have ended, with nothing free on the excluded nodes; kept for a while,
        since gang after gang is asked about the same ends. Takes no change."""
        return lru_cache(maxsize=16)(self._state_after)

    def _state_after(self, ended_gangs: tuple[int, ...], excluded_nodes: tuple[int, ...]) -> State:
        amounts, books = self._free_amounts.copy(), self.queue_books.copy()
        self._release_gangs(amounts, books, ended_gangs)
        amounts[list(excluded_nodes)] = 0
        free = FreeVectors(np.maximum(amounts, 0), self._slots_after(ended_gangs))
        return State.from_free(self.problem, self.state.tree, free, books, self._rule_counts_after(ended_gangs))

    def _slots_after(self, ended_gangs: Collection[int]) -> IntArray:
        """Return the free device slots then, as far as they are known. Slots of running pods are not: they are returned
        only on a node that is empty then, and where a gang starts before, it may take any."""
        slots, problem = vectors_without_foreign(self.problem).slots, self.problem
        if not problem.slot_groups:
            return slots
        remaining = [v for v in self.held_pods if v not in ended_gangs]
        staying = [(v, p) for v in remaining for p in self.held_pods[v]]
        unused = {n for n, node in enumerate(problem.nodes) if node.free == node.capacity}
        empty = sorted(unused - {p.node for _, p in staying})
        slots[empty] = capacity_vectors(problem).slots[empty]
        slots[sorted({p.node for v, p in staying if p not in problem.gangs[v].running})] = 0
        return slots

    def _rule_counts_after(self, ended_gangs: Collection[int]) -> PodRuleCounts | None:
        """Return the pods that pod rules count then."""
        if not self.problem.pod_rules:
            return None
        there = [() if v in ended_gangs else self.held_pods.get(v, ()) for v in range(len(self.problem.gangs))]
        gangs = (replace(gang, running=pods) for gang, pods in zip(self.problem.gangs, there, strict=True))
        return initial_rule_counts(replace(self.problem, gangs=tuple(gangs)))

    def starts_after(self, j: int, ended_gangs: Collection[int], excluded_nodes: Sequence[int] = ()) -> bool:
        """Return whether gang j fits alone once these have ended, by nodes and queues."""
        return starts_alone(self._state_for(j, ended_gangs, excluded_nodes), j, self.options, self.mapper)

    def _placement_after(self, j: int, ended_gangs: Collection[int], excluded_nodes: Sequence[int]) -> Pods | None:
        """Return all pods of gang j then."""
        return placement_alone(self._state_for(j, ended_gangs, excluded_nodes), j, self.options, self.mapper)

    def _state_for(self, j: int, ended_gangs: Collection[int], excluded_nodes: Sequence[int]) -> State:
        """`state_after` for gang j alone."""
        state = self.state_after(tuple(ended_gangs), tuple(excluded_nodes))
        if excluded_nodes and not all(any(role.request) for role in self.problem.gangs[j].roles):
            return state.excluding({j: frozenset(excluded_nodes)})  # pods that request nothing fit on full nodes too
        return state

    def first_reservation(self, waiting: Sequence[int], starts: Callable[[int], bool]) -> Reservation | None:
        """Return the reservation of the first of these gangs that cannot start now and has one. starts: whether a gang
        can, alone and at once."""
        known: set[object] = set()
        for j in waiting:
            gang = self.problem.gangs[j]
            class_key = gang.queue, gang.times.overdue, gang.times.promised, waiting_class(j, gang)
            if class_key not in known and self.queue_books.queue_rules.accepts_gangs[gang.queue]:
                known.add(class_key)
                if not starts(j) and (found := self.reservation_for(j)) is not None:
                    return found
        return None

    def reservation_for(self, j: int) -> Reservation | None:
        """Return the reservation of gang j at its soonest start. None where that is unknown, or it does not fit even
        without all other gangs.

        The gangs end one after another: those with a known end, soonest first; for an overdue gang then the others,
        oldest first, an order that no new gang can enter before them. Gang j waits for the shortest beginning of that
        line after which it fits. Each end makes the line shorter, and no gang that starts meanwhile takes its room, so
        it never gets longer.
        """
        gangs = self.problem.gangs
        others = [v for v in self.held_pods if v != j]
        ends = {v: e for v in others if (e := expected_end(self.problem, v)) is not None}
        line = sorted(ends, key=lambda v: (ends[v], gangs[v].age, v))
        if gangs[j].times.overdue:
            line += sorted((v for v in others if v not in ends), key=lambda v: (gangs[v].age, v))

        def after(number: int) -> tuple[Sequence[int], Sequence[int]]:
            """(the gangs that have ended, the nodes that are excluded then)"""
            ended = line[:number]
            start = max(ends[v] for v in ended) if ends.keys() >= set(ended) else None
            return ended, maintenance_conflicts(self.problem, gangs[j], start)

        def starts(number: int) -> bool:
            return self.starts_after(j, *after(number))

        if not line or not starts(len(line)):
            return None
        number = bisect_left(range(len(line)), True, lo=1, key=starts)
        placed = self._placement_after(j, *after(number))
        if placed is None:
            return None
        new = new_placements(gangs[j], placed)
        awaited = self._awaited_gangs(j, new, line[:number])
        if not awaited:
            return None
        start = max(ends[v] for v in awaited) if all(v in ends for v in awaited) else None
        return Reservation(j, start, new, tuple(sorted(awaited)))

    def _awaited_gangs(self, j: int, new_pods: Pods, line: Sequence[int]) -> list[int]:
        """Return the gangs of the line whose end these pods need, trying to do without the last ones first."""
        gang, width = self.problem.gangs[j], len(self.problem.resources)
        nodes, asked = sorted({p.node for p in new_pods}), placed_demand(gang, new_pods, width)
        free, books = self._free_amounts.copy(), self.queue_books.copy()
        self._release_gangs(free, books, line)
        add_rows(free, [pod_rows(gang, new_pods)], -1)
        needed = []
        for v in reversed(line):
            self._release_gangs(free, books, [v], -1)
            if (free[nodes] < 0).any() or not books.allows_amount(gang.queue, asked):
                self._release_gangs(free, books, [v])
                needed.append(v)
        return needed

    def books_at_start(self, reservation: Reservation) -> QueueBooks:
        """Return the queues' usage when the gang starts: without gangs that have ended by then, and with its own
        pods."""
        others = self.held_pods.keys() - {reservation.gang}
        ended = {v for v in others if ends_in_time(self.problem, v, reservation)}
        books = self.state_after(tuple(sorted(ended.union(reservation.awaited_gangs))), ()).queue_books.copy()
        gang = self.problem.gangs[reservation.gang]
        books.charge_queue(gang.queue, placed_demand(gang, reservation.placements, len(self.problem.resources)))
        return books


def ends_in_time(problem: Problem, j: int, reservation: Reservation) -> bool:
    """Return whether gang j is expected to have ended when the reserved room is needed."""
    ends = expected_end(problem, j)
    return reservation.starts_in is not None and ends is not None and ends <= reservation.starts_in


def reserved_exclusions(problem: Problem, reservation: Reservation) -> dict[int, frozenset[int]]:
    """Return gang -> the reserved nodes, for every gang that would still be there when they are needed."""
    nodes = frozenset(p.node for p in reservation.placements)
    others = (j for j in range(len(problem.gangs)) if j != reservation.gang)
    return {j: nodes for j in others if not ends_in_time(problem, j, reservation)}


def blocked_gangs(
    problem: Problem, reservation: Reservation, books_at_start: QueueBooks, serving_order: Iterable[int]
) -> frozenset[int]:
    """Return gangs that may not start because a queue would not have enough left for the reservation.

    Gangs that have ended by then take nothing from it. Each of the others may start as long as all before it in order
    leave enough.
    """
    books, blocked = books_at_start.copy(), set()
    for j in serving_order:
        if j == reservation.gang or ends_in_time(problem, j, reservation):
            continue
        gang = problem.gangs[j]
        amount = waiting_class(j, gang).max_demand(len(problem.resources))
        if books.allows_amount(gang.queue, amount):
            books.charge_queue(gang.queue, amount)
        else:
            blocked.add(j)
    return frozenset(blocked)

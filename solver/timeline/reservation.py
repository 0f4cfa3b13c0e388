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
from solver.semantics.device_slots import FreeVectors, IntArray, capacity_vectors, vectors_without_foreign
from solver.semantics.exclusions import maintenance_conflicts
from solver.semantics.gang_classes import waiting_class
from solver.semantics.placements import new_placements, placed_demand
from solver.semantics.priorities import expected_end
from solver.state.free_nodes import FreeNodes
from solver.state.pod_rules import PodRuleCounts, initial_rule_counts
from solver.state.queue_books import QueueBooks

GangPlacement = tuple[Placement, ...]
FindPlacement = Callable[[int, FreeNodes, QueueBooks, Collection[int]], GangPlacement | None]
"""(gang, room, ledger, nodes that are closed to it) -> all pods of the gang where it fits there by room and queues,
else None."""


def has_known_times(problem: Problem) -> bool:
    """Whether anything is known of time; else there is nothing to promise."""
    return any(gang.overdue or gang.ends_in is not None or gang.duration is not None for gang in problem.gangs)


@dataclass(frozen=True)
class ReleaseTimeline:
    """What is held by whom, and what is left when they end.

    holding: gang -> all its pods, of those that run or start. ledger: what the queues hold with them.
    """

    problem: Problem
    held_pods: Mapping[int, GangPlacement]
    ledger: QueueBooks
    find_placement: FindPlacement

    @cached_property
    def _free_amounts(self) -> IntArray:
        """Node x resource: free less what is held; below 0 where what runs is too much."""
        left = np.array([n.free for n in self.problem.nodes], dtype=np.int64).reshape(
            len(self.problem.nodes), len(self.problem.resources)
        )
        for v in self.held_pods:
            self._release_pods(left, v, -1)
        return left

    def _release_pods(self, free_amounts: IntArray, v: int, sign: int) -> None:
        for p in self.held_pods[v]:
            free_amounts[p.node] += np.array(self.problem.gangs[v].roles[p.role].request, dtype=np.int64) * (
                sign * p.pods
            )

    def capacity_after(
        self, ended_gangs: Collection[int], excluded_nodes: Sequence[int] = ()
    ) -> tuple[FreeNodes, QueueBooks]:
        """(room, ledger) once these have ended, with some nodes closed."""
        amounts, ledger = self._free_amounts.copy(), self.ledger.copy()
        for v in ended_gangs:
            self._release_pods(amounts, v, 1)
            self._release_queue(ledger, v)
        amounts[list(excluded_nodes)] = 0
        return FreeNodes(
            FreeVectors(np.maximum(amounts, 0), self._slots_after(ended_gangs)), self._rule_counts_after(ended_gangs)
        ), ledger

    def _release_queue(self, ledger: QueueBooks, v: int, sign: int = 1) -> None:
        """Gang v gives its queue back what it holds, and what it runs excuses nobody any more. times -1: it does not
        after all."""
        gang, width = self.problem.gangs[v], len(self.problem.resources)
        held, ran = (
            tuple(sign * x for x in placed_demand(gang, pods, width)) for pods in (self.held_pods[v], gang.running)
        )
        ledger.release_amount(gang.queue, held, ran)

    def _slots_after(self, ended_gangs: Collection[int]) -> IntArray:
        """What is left on the cells then, as far as it is known: nobody says from which cells the pods that run took
        theirs, so those come back only on a node that is empty then; and where a gang starts before, it may take
        any."""
        cells, problem = vectors_without_foreign(self.problem).slots, self.problem
        if not problem.slot_groups:
            return cells
        stay = [(v, p) for v, pods in self.held_pods.items() if v not in ended_gangs for p in pods]
        held = {p.node for _, p in stay}
        empty = [n for n, node in enumerate(problem.nodes) if n not in held and node.free == node.capacity]
        cells[empty] = capacity_vectors(problem).slots[empty]
        cells[sorted({p.node for v, p in stay if p not in problem.gangs[v].running})] = 0
        return cells

    def _rule_counts_after(self, ended_gangs: Collection[int]) -> PodRuleCounts | None:
        """Who is where then, if relations ask."""
        if not self.problem.pod_rules:
            return None
        stay = (
            replace(gang, running=() if v in ended_gangs else self.held_pods.get(v, ()))
            for v, gang in enumerate(self.problem.gangs)
        )
        return initial_rule_counts(replace(self.problem, gangs=tuple(stay)))

    def first_reservation(self, waiting: Sequence[int], starts: Callable[[int], bool]) -> Reservation | None:
        """The reservation of the first of these gangs that cannot start now and has one. starts: whether a gang can,
        alone and at once."""
        known: set[object] = set()
        for j in waiting:
            gang = self.problem.gangs[j]
            alike = gang.queue, gang.overdue, waiting_class(j, gang)
            if alike not in known and self.ledger.queue_rules.accepts_gangs[gang.queue]:
                known.add(alike)
                if not starts(j) and (found := self.reservation_for(j)) is not None:
                    return found
        return None

    def reservation_for(self, j: int) -> Reservation | None:
        """Where and when gang j starts at the soonest. None where that cannot be said, or it does not fit even when
        everybody is gone.

        The gangs end one after another: those whose end is known, soonest first; for an overdue gang then the others,
        oldest first, an order in which no newcomer gets before anybody. The shortest beginning of that line after which
        j fits is what it waits for: each time one of them ends it gets shorter, and whoever starts meanwhile stays out
        of the room, so that it never gets longer.
        """
        gangs = self.problem.gangs
        others = [v for v in self.held_pods if v != j]
        ends = {v: e for v in others if (e := expected_end(self.problem, v)) is not None}
        line = sorted(ends, key=lambda v: (ends[v], gangs[v].age, v))
        if gangs[j].overdue:
            line += sorted((v for v in others if v not in ends), key=lambda v: (gangs[v].age, v))

        def after(number: int) -> GangPlacement | None:
            gone = line[:number]
            start = max(ends[v] for v in gone) if ends.keys() >= set(gone) else None
            closing = maintenance_conflicts(self.problem, gangs[j], start)
            return self.find_placement(j, *self.capacity_after(gone, closing), closing)

        placed = after(len(line)) if line else None
        low, high = 1, len(line)
        while placed is not None and low < high:
            middle = (low + high) // 2
            found = after(middle)
            placed, low, high = (found, low, middle) if found is not None else (placed, middle + 1, high)
        if placed is None:
            return None
        new = new_placements(gangs[j], placed)
        until = self._awaited_gangs(j, new, line[:low])
        if not until:
            return None
        start = max(ends[v] for v in until) if all(v in ends for v in until) else None
        return Reservation(j, start, new, tuple(sorted(until)))

    def _awaited_gangs(self, j: int, new_pods: GangPlacement, line: Sequence[int]) -> list[int]:
        """Those of the line whose end these pods need, trying to do without the last ones first."""
        gang, width = self.problem.gangs[j], len(self.problem.resources)
        nodes, asked = sorted({p.node for p in new_pods}), placed_demand(gang, new_pods, width)
        left, ledger = self._free_amounts.copy(), self.ledger.copy()

        def end(v: int, times: int = 1) -> None:
            self._release_pods(left, v, times)
            self._release_queue(ledger, v, times)

        for v in line:
            end(v)
        for p in new_pods:
            left[p.node] -= np.array(gang.roles[p.role].request, dtype=np.int64) * p.pods
        needed = []
        for v in reversed(line):
            end(v, -1)
            if (left[nodes] < 0).any() or not ledger.allows_amount(gang.queue, asked):
                end(v)
                needed.append(v)
        return needed

    def ledger_at_start(self, reservation: Reservation) -> QueueBooks:
        """What the queues hold when the gang starts: without those that ended by then, and with its own pods."""
        gone = {
            v for v in self.held_pods if v != reservation.gang and ends_in_time(self.problem, v, reservation)
        } | set(reservation.awaited_gangs)
        _, ledger = self.capacity_after(sorted(gone))
        gang = self.problem.gangs[reservation.gang]
        ledger.charge_queue(gang.queue, placed_demand(gang, reservation.placements, len(self.problem.resources)))
        return ledger


def ends_in_time(problem: Problem, j: int, reservation: Reservation) -> bool:
    """Whether gang j is expected to have ended when the reserved room is needed."""
    ends = expected_end(problem, j)
    return reservation.starts_in is not None and ends is not None and ends <= reservation.starts_in


def reserved_exclusions(problem: Problem, reservation: Reservation) -> dict[int, frozenset[int]]:
    """Gang -> the reserved nodes, for all that would still be there when they are needed."""
    nodes = frozenset(p.node for p in reservation.placements)
    return {
        j: nodes
        for j in range(len(problem.gangs))
        if j != reservation.gang and not ends_in_time(problem, j, reservation)
    }


def blocked_gangs(
    problem: Problem, reservation: Reservation, ledger_at_start: QueueBooks, serving_order: Iterable[int]
) -> frozenset[int]:
    """Those that may not start because a queue would not have enough left for the reservation. turn: who would like to
    start, in order.

    later: the queues when the reserved gang starts (`Outlook.at_start`). Gangs that have ended by then take nothing
    from it. Each of the others is let in as long as all let in before it leave enough.
    """
    ledger, out = ledger_at_start.copy(), set()
    for j in serving_order:
        if j == reservation.gang or ends_in_time(problem, j, reservation):
            continue
        gang = problem.gangs[j]
        amount = waiting_class(j, gang).max_demand(len(problem.resources))
        if ledger.allows_amount(gang.queue, amount):
            ledger.charge_queue(gang.queue, amount)
        else:
            out.add(j)
    return frozenset(out)

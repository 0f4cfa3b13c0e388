"""Repairs of order and time, for a gang for which there is room: each was tried next to the plan, and is the least of
its kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from solver import repairs
from solver.diagnosis.case import GangDiagnosis
from solver.diagnosis.delays import DelayDiagnosis
from solver.diagnosis.minimal import first_sufficient
from solver.diagnosis.precedence import least_free_priority
from solver.diagnosis.question import FitQuestion
from solver.diagnosis.world import has_pod_rules
from solver.facts import DedicatedDomains, Fact, Maintenance, ReservedNodes, StrictOrder
from solver.plan import Reservation
from solver.problem import Gang, Node
from solver.semantics.exclusions import fixed_exclusions, maintenance_conflicts
from solver.semantics.placements import placed_demand
from solver.state.state import State
from solver.timeline.reservation import ends_in_time


def delay_repairs(diagnosis: DelayDiagnosis, j: int, facts: Sequence[Fact]) -> tuple[repairs.Repair, ...]:
    """Return the repairs known for a single fact of order or time."""
    turn = Turn(diagnosis, GangDiagnosis.of(diagnosis.state, j))
    match facts:
        case [DedicatedDomains(queue=q)]:
            return tuple(_dedication_repairs(turn, q))
        case [ReservedNodes()] if diagnosis.state.reservation is not None:
            return tuple(_reservation_repairs(turn, diagnosis.state.reservation))
        case [StrictOrder() as fact]:
            return tuple(_order_repairs(turn, fact))
        case [Maintenance()]:
            return tuple(_maintenance_repairs(turn))
    return ()


@dataclass(frozen=True)
class Turn:
    """A gang for which there is room, and problems with this gang alone."""

    diagnosis: DelayDiagnosis
    case: GangDiagnosis

    def starts(self, gang: Gang | None = None, at: int = 0, **changes: Any) -> bool:
        """Return whether it would start next to the plan in a changed problem, `at` seconds from now, when gangs with a
        known end may have ended: by nodes, by queues, and outside of reserved nodes. Pods with pod rules stay.

        gang: changed; changes: of the problem's other fields."""
        case, reservation, gang = self.case, self.case.state.reservation, gang or self.case.gang
        problem = replace(case.state.problem, gangs=(gang,), **changes)
        excluded = fixed_exclusions(problem).get(0, frozenset())
        if reservation is not None and case.index != reservation.gang and not ends_in_time(problem, 0, reservation):
            if case.index in self.diagnosis.blocked_gangs:
                return False
            excluded |= case.state.reserved_nodes
        gone = sorted(v for v, end in case.state.expected_ends.items() if end <= at)
        ended = tuple(v for v in gone if not has_pod_rules(case.state.problem.gangs[v]))
        return case.lets_start(replace(case.current_world, queue=gang.queue, ended_gangs=ended, excluded=excluded))

    def ends_within(self, seconds: int) -> bool:
        """Return whether it would start with so long a run."""
        return self.starts(_lasting(self.case.gang, seconds))

    def priority_above(self, gangs: Iterable[int]) -> repairs.HigherPriority:
        """Return the least unused priority above all of these gangs."""
        problem = self.case.state.problem
        return repairs.HigherPriority(least_free_priority(problem, max(problem.gangs[i].priority for i in gangs)))


def _lasting(gang: Gang, seconds: int | None) -> Gang:
    return replace(gang, times=replace(gang.times, duration=seconds))


# ---- strict order


def _order_repairs(turn: Turn, fact: StrictOrder) -> Iterator[repairs.Repair]:
    if _both_fit(turn, fact.gang):
        yield repairs.StartOfGang(fact.gang)
    if turn.starts():
        yield turn.priority_above([fact.gang])
        yield repairs.NoStrictOrder(fact.queue)
    elif turn.diagnosis.fits_beside_running(turn.case.index):
        reserved = [] if turn.case.state.reserved_gang is None else [turn.case.state.reserved_gang]
        yield turn.priority_above([fact.gang, *turn.case.state.started_placements, *reserved])


def _both_fit(turn: Turn, first: int) -> bool:
    """Return whether the empty cluster has room for the first gang and then for this one; false where pod rules
    matter."""
    state, (problem, tree), pair = turn.case.state, turn.diagnosis.restricted_world, (first, turn.case.index)
    gangs = [replace(gang, running=()) if i in pair else gang for i, gang in enumerate(problem.gangs)]
    if any(has_pod_rules(gangs[i]) for i in pair):
        return False
    books = state.idle_ledger.copy()
    empty = State.from_free(replace(problem, gangs=tuple(gangs)), tree, state.capacity, books)
    for i in pair:
        placed = FitQuestion(empty, state.options, i).placement()
        demand = placed_demand(gangs[i], placed or (), len(problem.resources))
        if placed is None or not books.allows_amount(gangs[i].queue, demand):
            return False
        empty.start_gang(i, placed)
    return True


# ---- a reservation


def _reservation_repairs(turn: Turn, reservation: Reservation) -> Iterator[repairs.Repair]:
    start = reservation.starts_in
    if start and not turn.case.gang.running and turn.ends_within(start):
        yield repairs.ShorterDuration(start)
    if _fits_after_reservation(turn, reservation):
        yield repairs.StartOfGang(reservation.gang, start)
    # Where it fits next to what the plan starts it need not precede that; where others backfill it must.
    fits = turn.diagnosis.fits_beside_plan(turn.case.index)
    yield turn.priority_above([reservation.gang, *(() if fits else turn.case.state.started_placements)])


def _fits_after_reservation(turn: Turn, reservation: Reservation) -> bool:
    """Return whether it fits next to the plan once the awaited gangs have ended and the reserved gang has started."""
    case, problem = turn.case, turn.case.state.problem
    first, placed = problem.gangs[reservation.gang], {*case.state.kept_placements, *case.state.started_placements}
    excluded = turn.diagnosis.exclusions.get(case.index, frozenset())
    excluded = excluded.union(maintenance_conflicts(problem, case.gang, reservation.starts_in))
    ended = tuple(v for v in reservation.awaited_gangs if v in placed)
    world = replace(case.current_world, with_pod_rules=False, ended_gangs=ended, excluded=excluded)
    q, books = case.question(world), case.ledger(world)
    free = q.state.free.copy()
    for p in reservation.placements:
        free.amounts[p.node] -= np.array(first.roles[p.role].request, dtype=np.int64) * p.pods
    books.charge_queue(first.queue, placed_demand(first, reservation.placements, len(problem.resources)))
    is_allowed = books.allows_amount(case.gang.queue, q.min_demand)
    return not has_pod_rules(case.gang) and is_allowed and q.with_free(free.nonnegative()).placement() is not None


# ---- dedicated domains of another queue


def _dedication_repairs(turn: Turn, q: int) -> Iterator[repairs.Repair]:
    problem, owner = turn.case.state.problem, turn.case.state.problem.queues[q]
    domains, home = owner.dedicated_domains, problem.queues[turn.case.gang.queue]
    is_as_open = set(owner.closed_node_groups) <= set(home.closed_node_groups)
    if is_as_open and not owner.strict_order and turn.starts(replace(turn.case.gang, queue=q)):
        yield repairs.OtherQueue(q)

    def suffices(count: int) -> bool:
        """Return whether the gang starts with so many fewer, of which the last go first."""
        fewer = replace(owner, dedicated_domains=domains[:-count])
        return turn.starts(queues=(*problem.queues[:q], fewer, *problem.queues[q + 1 :]))

    least = first_sufficient(range(1, len(domains) + 1), suffices)
    if least is not None:
        yield repairs.FewerDedicatedDomains(q, least)


# ---- maintenance


def _maintenance_repairs(turn: Turn) -> Iterator[repairs.Repair]:
    """Yield the longest duration with which it ends in time; the soonest end of maintenance after which it need not."""
    problem, gang = turn.case.state.problem, turn.case.gang
    times = sorted({node.maintenance_in for node in problem.nodes if node.maintenance_in}, reverse=True)
    if gang.times.duration is not None:
        times = [t for t in times if t < gang.times.duration]
    if not gang.running:
        longest = first_sufficient(times, turn.ends_within)
        if longest is not None:
            yield repairs.ShorterDuration(longest)
    windows = {window for node in problem.nodes for window in node.maintenance_windows}
    ends = sorted({end for _, end in windows})
    for end in ends[: turn.case.state.options.budget.maintenance_ends]:
        # Counted from now it lasts until end + duration, and a node that closes meanwhile is as one that closes now.
        duration = gang.times.duration
        nodes = tuple(_node_at(node, end, duration) for node in problem.nodes)
        if turn.starts(_lasting(gang, None if duration is None else end + duration), at=end, nodes=nodes):
            yield repairs.EndOfMaintenance(end)
            return


def _node_at(node: Node, start: int, duration: int | None) -> Node:
    """Return the node closed now, where one of its windows meets a run [start, start + duration); else open."""
    if node.maintenance_in is None:
        return node
    windows = [(begin, end) for begin, end in node.maintenance_windows if end > start]
    closes = not node.maintenance_windows or any(duration is None or begin < start + duration for begin, _ in windows)
    return replace(node, maintenance_in=0 if closes else None)

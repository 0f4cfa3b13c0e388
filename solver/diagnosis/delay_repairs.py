"""Repairs of order and time, for a gang for which there is room: each was tried next to the plan, and is the least of
its kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
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
from solver.problem import Node, Problem
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
        case [ReservedNodes()] if diagnosis.reservation is not None:
            return tuple(_reservation_repairs(turn, diagnosis.reservation))
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

    @cached_property
    def gang_problem(self) -> Problem:
        return replace(self.case.state.problem, gangs=(self.case.gang,))

    def with_gang(self, **changes: Any) -> Problem:
        """Return the gang's problem with the gang changed."""
        return replace(self.gang_problem, gangs=(replace(self.case.gang, **changes),))

    def lasting(self, seconds: int) -> Problem:
        """Return the gang's problem with so long a run."""
        return self.with_gang(times=replace(self.case.gang.times, duration=seconds))

    def starts_beside_plan(self, problem: Problem, at: int = 0) -> bool:
        """Return whether it would start in this problem next to the plan, `at` seconds from now, when gangs with a
        known end may have ended: by nodes, by queues, and outside of reserved nodes. Pods with pod rules stay."""
        case, reservation, (gang,) = self.case, self.diagnosis.reservation, problem.gangs
        excluded = fixed_exclusions(problem).get(0, frozenset())
        if reservation is not None and case.index != reservation.gang and not ends_in_time(problem, 0, reservation):
            if case.index in self.diagnosis.blocked_gangs:
                return False
            excluded |= frozenset(p.node for p in reservation.placements)
        gone = sorted(v for v, end in case.state.expected_ends.items() if end <= at)
        ended = tuple(v for v in gone if not has_pod_rules(case.state.problem.gangs[v]))
        world = replace(case.current_world, queue=gang.queue, ended_gangs=ended, excluded=excluded)
        return case.lets_start(world)

    def priority_above(self, gangs: Iterable[int]) -> repairs.HigherPriority:
        """Return the least unused priority above all of these gangs."""
        problem = self.case.state.problem
        return repairs.HigherPriority(least_free_priority(problem, max(problem.gangs[i].priority for i in gangs)))


# ---- strict order


def _order_repairs(turn: Turn, fact: StrictOrder) -> Iterator[repairs.Repair]:
    diagnosis = turn.diagnosis
    if _both_fit(turn, fact.gang):
        yield repairs.StartOfGang(fact.gang)
    if turn.starts_beside_plan(turn.gang_problem):
        yield turn.priority_above([fact.gang])
        yield repairs.NoStrictOrder(fact.queue)
    elif diagnosis.fits_beside_running(turn.case.index):
        reserved = [] if diagnosis.reservation is None else [diagnosis.reservation.gang]
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
    if start and not turn.case.gang.running and turn.starts_beside_plan(turn.lasting(start)):
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
    if is_as_open and not owner.strict_order and turn.starts_beside_plan(turn.with_gang(queue=q)):
        yield repairs.OtherQueue(q)

    def suffices(count: int) -> bool:
        """Return whether the gang starts with so many fewer, of which the last go first."""
        fewer = replace(owner, dedicated_domains=domains[:-count])
        queues = (*problem.queues[:q], fewer, *problem.queues[q + 1 :])
        return turn.starts_beside_plan(replace(turn.gang_problem, queues=queues))

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
        longest = first_sufficient(times, lambda t: turn.starts_beside_plan(turn.lasting(t)))
        if longest is not None:
            yield repairs.ShorterDuration(longest)
    windows = {window for node in problem.nodes for window in node.maintenance_windows}
    ends = sorted({end for _, end in windows})
    for end in ends[: turn.case.state.options.budget.maintenance_ends]:
        if turn.starts_beside_plan(_problem_at(turn.gang_problem, end), end):
            yield repairs.EndOfMaintenance(end)
            return


def _problem_at(problem: Problem, start: int) -> Problem:
    """Return the gang's world at a later start: nodes close whose windows meet its run [start, start + duration).

    Counted from now the gang lasts until start + duration, and such a node is as one that closes now.
    """
    (gang,) = problem.gangs
    duration = gang.times.duration

    def closes(node: Node) -> bool:
        if not node.maintenance_windows:
            return True
        return any(
            end > start and (duration is None or begin < start + duration) for begin, end in node.maintenance_windows
        )

    nodes = list(problem.nodes)
    for n, node in enumerate(nodes):
        if node.maintenance_in is not None:
            nodes[n] = replace(node, maintenance_in=0 if closes(node) else None)
    lasts = None if duration is None else start + duration
    later = replace(gang, times=replace(gang.times, duration=lasts))
    return replace(problem, nodes=tuple(nodes), gangs=(later,))

"""Delays: why a gang waits despite sufficient free capacity, its queue's strict order, a reservation, dedicated domains
or maintenance; and the repairs: each was tried next to the plan, and is the least of its kind."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from solver import repairs
from solver.diagnosis.case import GangDiagnosis
from solver.diagnosis.diagnosis_state import DiagnosisState
from solver.diagnosis.minimal import first_sufficient
from solver.diagnosis.precedence import least_free_priority
from solver.diagnosis.question import FitQuestion
from solver.diagnosis.world import gang_kinds, has_pod_rules
from solver.facts import DedicatedDomains, Fact, Maintenance, ReservedNodes, StrictOrder
from solver.plan import Reservation
from solver.problem import Gang, Node, Problem
from solver.semantics.exclusions import (
    NodeSet,
    dedicated_exclusions,
    fixed_exclusions,
    maintenance_conflicts,
    maintenance_exclusions,
    merge_exclusions,
)
from solver.semantics.placements import placed_demand
from solver.semantics.priorities import blocking_gangs
from solver.semantics.topology import TopologyTree
from solver.state.state import State
from solver.timeline.reservation import ends_in_time, reserved_exclusions

Baseline = Literal["now", "planned", "idle"]


@dataclass(frozen=True)
class DelayDiagnosis:
    """The gangs that a plan leaves waiting. state: without exclusions; restricted_world: with exclusions that hold for
    every plan. blocked_gangs: they may not start for the sake of the reservation's queues."""

    state: DiagnosisState
    restricted_world: tuple[Problem, TopologyTree]
    blocked_gangs: frozenset[int]
    waiting_gangs: Collection[int]

    @cached_property
    def exclusions(self) -> dict[int, NodeSet]:
        """Return gang -> the nodes that are excluded for it in every plan."""
        return fixed_exclusions(self.state.problem)

    @cached_property
    def backfill_exclusions(self) -> dict[int, NodeSet]:
        """Return the same with the reserved nodes, for every gang that would still run at the reserved start."""
        reservation, problem = self.state.reservation, self.state.problem
        return merge_exclusions(self.exclusions, reserved_exclusions(problem, reservation) if reservation else {})

    @cached_property
    def restricted_state(self) -> DiagnosisState:
        before = self.state.before.for_problem(*self.restricted_world)
        return replace(self.state, before=before, exclusions_in_classes=True, closed_classes={})

    # ---- facts

    def delay_facts(self, j: int) -> tuple[Fact, ...]:
        """Return the facts of order and time about gang j; none where it lacks resources, or where only other gangs
        precede it."""
        has_room = self.fits_beside_running(j) or (self.state.plan_frees_capacity and self.fits_beside_plan(j))
        if j in self.exclusions and not has_room and self._fits(j, "now", {}):
            return self._exclusion_facts(j, "now")
        if has_room and (order := self.order_facts(j)):
            return order
        reservation = self.state.reservation
        if reservation is not None and self._is_delayed_by(reservation, j):
            return (ReservedNodes(reservation.gang),)
        return ()

    def order_facts(self, j: int) -> tuple[Fact, ...]:
        """That an earlier gang of its strictly ordered queue waits."""
        if j not in self._earlier_gangs:
            return ()
        return (StrictOrder(self.state.problem.gangs[j].queue, self._earlier_gangs[j]),)

    @cached_property
    def _earlier_gangs(self) -> dict[int, int]:
        return blocking_gangs(self.state.problem, self.waiting_gangs, ())

    def idle_exclusion_facts(self, j: int) -> tuple[Fact, ...]:
        """Return the exclusions that keep gang j, which lacks resources now, out of an empty cluster that would hold
        it; none for a gang with pod rules."""
        if has_pod_rules(self.state.problem.gangs[j]) or not self._fits(j, "idle", {}):
            return ()
        return () if self._fits(j, "idle", self.exclusions) else self._exclusion_facts(j, "idle")

    def _exclusion_facts(self, j: int, baseline: Baseline) -> tuple[Fact, ...]:
        """Return the one exclusion without which it would fit, of a queue's dedicated domains or for maintenance; all
        where no single one suffices."""
        problem, path = self.state.problem, self.state.before.queue_books.path(self.state.problem.gangs[j].queue)
        parts: list[tuple[Fact, Mapping[int, NodeSet]]] = []
        for q, queue in enumerate(problem.queues):
            if queue.dedicated_domains and q not in path:
                tier = max(problem.hypernodes[h].tier for h in queue.dedicated_domains)
                parts.append((DedicatedDomains(q, tier), dedicated_exclusions(problem, frozenset({q}))))
        if j in (closing := maintenance_exclusions(problem)):
            parts.append((Maintenance(), closing))
        for fact, _ in parts:
            rest = (excluded.get(j, frozenset()) for other, excluded in parts if other is not fact)
            if self._fits(j, baseline, {j: frozenset[int]().union(*rest)}):
                return (fact,)
        return tuple(fact for fact, _ in parts)

    def _is_delayed_by(self, reservation: Reservation, j: int) -> bool:
        """Return whether gang j fits next to the plan and only the reservation keeps it waiting; or would, but for
        gangs that backfill the reserved nodes: then it finds no room next to running pods either, with the reserved
        nodes excluded."""
        problem = self.state.problem
        if j == reservation.gang or ends_in_time(problem, j, reservation):
            return False
        if j in reservation.gangs_before:
            return False
        if self.fits_beside_plan(j):
            return j in self.blocked_gangs or not self._fits(j, "planned", self.backfill_exclusions)
        if not self._plan_backfills or not self.fits_beside_running(j):
            return False
        return self._question(j, "now", self.backfill_exclusions.get(j, frozenset())).fits() is False

    @cached_property
    def _plan_backfills(self) -> bool:
        """Return whether the plan starts anything on nodes that it reserves."""
        return any(p.node in self.state.reserved_nodes for pods in self.state.started_placements.values() for p in pods)

    # ---- does it fit?

    def fits_beside_running(self, j: int) -> bool:
        """Return whether it provably fits next to running pods, on nodes that are not excluded."""
        return self._fits(j, "now", self.exclusions)

    def fits_beside_plan(self, j: int) -> bool:
        """Return whether it provably fits next to the plan, on nodes that are not excluded, reserved or not."""
        return self._fits(j, "planned", self.exclusions)

    def _fits(self, j: int, baseline: Baseline, exclusions: Mapping[int, NodeSet]) -> bool:
        """Return whether it provably fits on nodes and in queues: next to running pods, next to the plan, or on the
        empty cluster. Asked once for all gangs of a queue that are alike."""
        state, queue, excluded = self.state, self.state.problem.gangs[j].queue, exclusions.get(j, frozenset())
        ledgers = {"now": state.before.queue_books, "planned": state.after.queue_books, "idle": state.idle_ledger}

        def make() -> bool:
            q = self._question(j, baseline, excluded)
            return ledgers[baseline].allows_amount(queue, q.min_demand) and q.fits() is True

        return state.memoize(("delay", baseline, gang_kinds(state.problem)[j], queue, excluded), make)

    def _question(self, j: int, baseline: Baseline, excluded: NodeSet) -> FitQuestion:
        case = GangDiagnosis.of(self.state, j)
        world = replace(case.current_world, with_started=baseline == "planned")
        if baseline == "idle":
            world = replace(case.empty_world, returned_nodes=(), with_pod_rules=False)
        return self.state.question(world, excluded)


# ---- repairs


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

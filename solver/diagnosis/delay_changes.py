"""Repairs of a gang for which there is room: changes of order and time, tried next to the plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from solver import repairs
from solver.diagnosis.case import GangDiagnosis
from solver.diagnosis.delays import DelayDiagnosis
from solver.diagnosis.precedence import least_free_priority
from solver.diagnosis.search import Section, alone, cheapest_worlds
from solver.diagnosis.world import Family, World, has_pod_rules
from solver.facts import DedicatedDomains, Fact, Maintenance, ReservedNodes, StrictOrder
from solver.plan import Reservation
from solver.problem import Gang, Node
from solver.semantics.exclusions import fixed_exclusions, maintenance_conflicts
from solver.timeline.reservation import ends_in_time


def delay_repairs(diagnosis: DelayDiagnosis, j: int, facts: Sequence[Fact]) -> tuple[repairs.Repair, ...]:
    """Return the repairs of a single fact of order or time, each one change."""
    turn = Turn(diagnosis, GangDiagnosis.of(diagnosis.state, j))
    most = diagnosis.state.options.budget.repairs
    section = Section(most, most, lambda: alone(_families(turn, facts)))
    found = cheapest_worlds(turn.case, turn.case.current_world, [section], lambda _: True)
    return tuple(change for w in found for change in w.changes)


def _families(turn: Turn, facts: Sequence[Fact]) -> Iterator[Family[Any]]:
    match facts:
        case [DedicatedDomains(queue=q)]:
            yield from _of_dedication(turn, q)
        case [ReservedNodes()] if turn.reservation is not None:
            yield from _of_reservation(turn, turn.reservation)
        case [StrictOrder() as fact]:
            yield from _of_order(turn, fact)
        case [Maintenance()]:
            yield from _of_maintenance(turn)


@dataclass(frozen=True)
class Turn:
    """A gang for which there is room, and the worlds in which it would start."""

    diagnosis: DelayDiagnosis
    case: GangDiagnosis

    @property
    def reservation(self) -> Reservation | None:
        return self.case.state.reservation

    @property
    def excluded(self) -> frozenset[int]:
        """Return the nodes that are excluded for it in every plan."""
        return self.diagnosis.exclusions.get(self.case.index, frozenset())

    def beside_plan(
        self, w: World, repair: repairs.Repair, gang: Gang | None = None, at: int = 0, **changes: Any
    ) -> World:
        """Return the world next to the plan in a changed problem, `at` seconds from now, when gangs with a known end
        may have ended, outside of reserved nodes; unchanged where the reservation still keeps it waiting. Pods with pod
        rules stay. gang: changed; changes: of the problem's other fields."""
        state, held, gang = self.case.state, self.reservation, gang or self.case.gang
        problem = replace(state.problem, gangs=(gang,), **changes)
        excluded = fixed_exclusions(problem).get(0, frozenset())
        if held is not None and self.case.index != held.gang and not ends_in_time(problem, 0, held):
            if self.case.index in self.diagnosis.blocked_gangs:
                return w
            excluded |= state.reserved_nodes
        gone = sorted(v for v, end in state.expected_ends.items() if end <= at)
        ended = tuple(v for v in gone if not has_pod_rules(state.problem.gangs[v]))
        return w.with_change(repair, queue=gang.queue, ended_gangs=ended, excluded=excluded)

    def with_duration(self, w: World, seconds: int) -> World:
        """Return the world with so long a run."""
        return self.beside_plan(w, repairs.ShorterDuration(seconds), _lasting(self.case.gang, seconds))

    def before(self, first: int, make: Callable[[World, repairs.Repair], World]) -> Iterator[Family[tuple[int, ...]]]:
        """Yield a priority above the first gang, and the world in which only that comes later; else one above all that
        the plan starts or reserves nodes for."""
        state, gangs = self.case.state, self.case.state.problem.gangs
        reserved = () if state.reserved_gang is None else (state.reserved_gang,)

        def raised(w: World, others: tuple[int, ...]) -> World:
            above = max(gangs[i].priority for i in (first, *others))
            repair = repairs.HigherPriority(least_free_priority(state.problem, above))
            return w.with_change(repair, with_started=False, excluded=self.excluded) if others else make(w, repair)

        yield Family(repairs.HigherPriority, [()], raised)
        if others := (*state.started_placements, *reserved):
            yield Family(repairs.HigherPriority, [others], raised)


def _lasting(gang: Gang, seconds: int | None) -> Gang:
    return replace(gang, times=replace(gang.times, duration=seconds))


# ---- strict order


def _of_order(turn: Turn, fact: StrictOrder) -> Iterator[Family[Any]]:
    yield Family(repairs.StartOfGang, [fact.gang], partial(_after_first, turn))
    yield from turn.before(fact.gang, turn.beside_plan)
    yield Family(repairs.NoStrictOrder, [fact.queue], lambda w, q: turn.beside_plan(w, repairs.NoStrictOrder(q)))


def _after_first(turn: Turn, w: World, first: int) -> World:
    """Return the empty cluster where the first gang has started, before all else; unchanged where pod rules matter."""
    state = turn.case.state
    other, placed = GangDiagnosis.of(state, first), sorted({*state.kept_placements, *state.started_placements})
    if has_pod_rules(turn.case.gang) or has_pod_rules(other.gang):
        return w

    def empty(case: GangDiagnosis, w: World, excluded: frozenset[int]) -> World:
        ended = tuple(i for i in placed if i != case.index)
        return replace(w, gang=replace(w.gang, running=()), ended_gangs=ended, excluded=excluded)

    alone = empty(other, other.current_world, turn.diagnosis.exclusions.get(first, frozenset()))
    pods = other.question(alone).placement() if other.fits_queues(alone) else None
    if pods is None:
        return w
    then = empty(turn.case, w, turn.excluded)
    return then.with_change(repairs.StartOfGang(first), served_first=(first, pods), with_pod_rules=False)


# ---- a reservation


def _of_reservation(turn: Turn, reservation: Reservation) -> Iterator[Family[Any]]:
    start = reservation.starts_in
    if start and not turn.case.gang.running:
        yield Family(repairs.ShorterDuration, [start], turn.with_duration)
    yield Family(repairs.StartOfGang, [reservation], partial(_after_reservation, turn))
    # Where others backfill the reserved nodes it must precede these too.
    yield from turn.before(reservation.gang, lambda w, repair: w.with_change(repair, excluded=turn.excluded))


def _after_reservation(turn: Turn, w: World, reservation: Reservation) -> World:
    """Return the world next to the plan once the awaited gangs have ended and the reserved gang has started; unchanged
    for a gang with pod rules."""
    state, start = turn.case.state, reservation.starts_in
    placed = {*state.kept_placements, *state.started_placements}
    if has_pod_rules(turn.case.gang):
        return w
    return w.with_change(
        repairs.StartOfGang(reservation.gang, start),
        served_first=(reservation.gang, reservation.placements),
        ended_gangs=tuple(v for v in reservation.awaited_gangs if v in placed),
        excluded=turn.excluded.union(maintenance_conflicts(state.problem, turn.case.gang, start)),
        with_pod_rules=False,
    )


# ---- dedicated domains of another queue


def _of_dedication(turn: Turn, q: int) -> Iterator[Family[Any]]:
    queues = turn.case.state.problem.queues
    owner, home = queues[q], queues[turn.case.gang.queue]
    if set(owner.closed_node_groups) <= set(home.closed_node_groups) and not owner.strict_order:
        moved = replace(turn.case.gang, queue=q)
        yield Family(repairs.OtherQueue, [q], lambda w, q: turn.beside_plan(w, repairs.OtherQueue(q), moved))

    def open_last(w: World, count: int) -> World:
        """Return the world with so many fewer, of which the last go first."""
        fewer = replace(owner, dedicated_domains=owner.dedicated_domains[:-count])
        changed = (*queues[:q], fewer, *queues[q + 1 :])
        return turn.beside_plan(w, repairs.FewerDedicatedDomains(q, count), queues=changed)

    yield Family(repairs.FewerDedicatedDomains, range(1, len(owner.dedicated_domains) + 1), open_last)


# ---- maintenance


def _of_maintenance(turn: Turn) -> Iterator[Family[Any]]:
    """Yield durations with which it ends in time, the longest first; and ends of maintenance after which it need not,
    the soonest first."""
    problem, gang = turn.case.state.problem, turn.case.gang
    times = sorted({node.maintenance_in for node in problem.nodes if node.maintenance_in}, reverse=True)
    if gang.times.duration is not None:
        times = [t for t in times if t < gang.times.duration]
    if not gang.running:
        yield Family(repairs.ShorterDuration, times, turn.with_duration)
    windows = {window for node in problem.nodes for window in node.maintenance_windows}
    ends = sorted({end for _, end in windows})
    for end in ends[: turn.case.state.options.budget.maintenance_ends]:
        yield Family(repairs.EndOfMaintenance, [end], partial(_after_maintenance, turn))


def _after_maintenance(turn: Turn, w: World, end: int) -> World:
    """Counted from now it lasts until end + duration, and a node that closes meanwhile is as one that closes now."""
    gang, duration = turn.case.gang, turn.case.gang.times.duration
    nodes = tuple(_node_at(node, end, duration) for node in turn.case.state.problem.nodes)
    longer = _lasting(gang, None if duration is None else end + duration)
    return turn.beside_plan(w, repairs.EndOfMaintenance(end), longer, at=end, nodes=nodes)


def _node_at(node: Node, start: int, duration: int | None) -> Node:
    """Return the node closed now, where one of its windows meets a run [start, start + duration); else open."""
    if node.maintenance_in is None:
        return node
    windows = [(begin, end) for begin, end in node.maintenance_windows if end > start]
    closes = not node.maintenance_windows or any(duration is None or begin < start + duration for begin, _ in windows)
    return replace(node, maintenance_in=0 if closes else None)

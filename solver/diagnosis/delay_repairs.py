"""What would let a gang start for which there is room (`waits`): each change was tried beside the plan, and is the
least of its kind.

Codes, for ever: GR114 a higher priority (as in `reasons`), GR117 no strict order, GR118 the start of those before it,
GR119 fewer domains kept for another queue, GR120 another queue, GR121 a shorter expected duration, GR122 the end of
maintenance. Besides, what would do without the room that is closed to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice

import numpy as np

from solver.diagnosis import DiagnosisState, Explanation, diagnosis_class
from solver.diagnosis.delays import DelayDiagnosis
from solver.diagnosis.minimal import first_sufficient
from solver.diagnosis.questions import explanations
from solver.facts import DedicatedDomains, Fact, Maintenance, ReservedNodes, StrictOrder
from solver.mip.executors import Mapper
from solver.placement.fit import fits, greedy_placement
from solver.plan import Reservation
from solver.problem import Gang, Node, Placement, Problem
from solver.repairs import (
    EndOfGangs,
    EndOfMaintenance,
    EndOfPods,
    FewerDedicatedDomains,
    HigherPriority,
    NoStrictOrder,
    OtherQueue,
    Repair,
    ShorterDuration,
    StartOfGang,
)
from solver.semantics.device_slots import FreeVectors, capacity_vectors
from solver.semantics.exclusions import (
    dedicated_exclusions,
    exclude_nodes,
    maintenance_conflicts,
    maintenance_exclusions,
    merge_exclusions,
)
from solver.semantics.gang_classes import waiting_class
from solver.semantics.placements import placed_demand
from solver.semantics.priorities import expected_end
from solver.semantics.topology import TopologyTree
from solver.state.free_nodes import FreeNodes
from solver.state.queue_books import QueueBooks
from solver.state.state import State
from solver.timeline.reservation import ends_in_time


def waiting_explanations(diagnosis: DelayDiagnosis, mapper: Mapper) -> dict[int, Explanation]:
    """Facts and repairs of each waiting gang."""
    why: dict[int, Explanation] = {}
    budget = diagnosis.state.options.budget
    delayed = {j: facts for j in diagnosis.waiting_gangs if (facts := diagnosis.delay_facts(j))}
    held = None if diagnosis.reservation is None else diagnosis.reservation.gang
    lacking = [
        j
        for j in diagnosis.waiting_gangs
        if j not in delayed or isinstance(delayed[j][0], DedicatedDomains | Maintenance)
    ]
    for guarded in (False, True):
        world = diagnosis.restricted_state if guarded else replace(diagnosis.state, exclusions=diagnosis.exclusions)
        # A gang that something is closed to is asked without that, unless it has no room there even beside what runs
        # alone.
        asked = [
            j
            for j in lacking
            if (diagnosis.has_exclusions(j) and (j in delayed or diagnosis.fits_beside_running(j))) is guarded
        ]
        others = [j for j in asked if j != held]
        why |= explanations(world, others, mapper) if others else {}
        if len(others) < len(asked):  # nobody is kept off the room that is reserved for himself
            why |= explanations(replace(world, reserved_nodes=(), blockers={}), [j for j in asked if j == held], mapper)
    for j in lacking:
        if diagnosis.has_exclusions(j) and j not in delayed and not diagnosis.fits_beside_running(j):
            why[j] = (*why[j][0], *diagnosis.idle_exclusion_facts(j)), why[j][1]
    known: dict[object, tuple[Repair, ...]] = {}
    for j, facts in delayed.items():
        key = (
            diagnosis_class(diagnosis.state, j),
            diagnosis.state.problem.gangs[j].duration,
            j in diagnosis.blocked_gangs,
            j == held,
            facts,
        )
        if key not in known:
            known[key] = _combined_repairs(
                delay_repairs(diagnosis, j, facts), why[j][1] if j in why else (), budget.repairs
            )
        why[j] = facts, known[key]
    if held in why:  # the reservation itself says for whom it waits
        why[held] = (
            why[held][0],
            tuple(repair for repair in why[held][1] if not isinstance(repair, EndOfPods | EndOfGangs)),
        )
    return why


def _combined_repairs(own: Sequence[Repair], usual: Sequence[Repair], most: int) -> tuple[Repair, ...]:
    return tuple(sorted((*own, *usual), key=lambda repair: (bool(repair.also), repair.rank))[:most])


def delay_repairs(diagnosis: DelayDiagnosis, j: int, facts: Sequence[Fact]) -> list[Repair]:
    """What is known to help against these facts."""
    trials = DelayTrials(diagnosis, j)
    match facts:
        case [DedicatedDomains() as fact]:
            return list(_dedication_repairs(trials, fact))
        case [ReservedNodes()]:
            return list(_reservation_repairs(trials))
        case [StrictOrder() as fact]:
            return list(_order_repairs(trials, fact))
        case [Maintenance()]:
            return list(_maintenance_repairs(trials))
    return []


@dataclass(frozen=True)
class DelayTrials:
    """Gang j in worlds that are changed a little. A world is a problem with this gang alone: what the others hold is in
    the room and the ledger."""

    diagnosis: DelayDiagnosis
    j: int

    @cached_property
    def gang_problem(self) -> Problem:
        problem = self.diagnosis.state.problem
        return replace(problem, gangs=(problem.gangs[self.j],))

    def starts_beside_plan(self, problem: Problem, at: int = 0) -> bool:
        """Whether it would start beside the plan, were its world this one: by room, by queues, and without touching
        what is reserved.

        at: seconds from now, when those whose end is known may have ended.
        """
        held = self.diagnosis.reservation
        lasting = held is not None and self.j != held.gang and not ends_in_time(problem, 0, held)
        if lasting and self.j in self.diagnosis.blocked_gangs:
            return False
        reserved = frozenset(p.node for p in held.placements) if held is not None and lasting else frozenset()
        off = merge_exclusions(
            merge_exclusions(dedicated_exclusions(problem), maintenance_exclusions(problem)), {0: reserved}
        )
        return self._fits(exclude_nodes(problem, off), at)

    def _fits(self, problem: Problem, at: int) -> bool:
        (gang,), world = problem.gangs, self.diagnosis.state
        shape, tree, (free, ledger) = waiting_class(0, gang), TopologyTree(problem), self._capacity_at(at)
        allowed = ledger.queue_rules.accepts_gangs[gang.queue] and ledger.allows_amount(
            gang.queue, shape.min_demand(len(problem.resources))
        )
        state = State.from_free(problem, tree, free, ledger, world.rule_counts)
        return allowed and fits(state, 0, world.options) is True

    def _capacity_at(self, at: int) -> tuple[FreeVectors, QueueBooks]:
        """What is free on the nodes and what the queues hold then. Of cells it is not known which come back, and pods
        that others mind stay."""
        world, problem = self.diagnosis.state, self.diagnosis.state.problem
        holding = {**world.kept_placements, **world.started_placements}
        gone = [
            v
            for v in sorted(holding)
            if (ends := expected_end(problem, v)) is not None and ends <= at and not has_pod_rules(problem.gangs[v])
        ]
        return (
            (world.free_after, world.ledger_after)
            if not gone
            else capacity_without(world, [(v, holding[v]) for v in gone])
        )

    def with_change(self, **change: object) -> Problem:
        """Its world with something about the gang changed."""
        return replace(self.gang_problem, gangs=(replace(self.gang_problem.gangs[0], **change),))  # type: ignore[arg-type]


def has_pod_rules(gang: Gang) -> bool:
    """Whether its pods say something of others, or others of them."""
    return any(role.owned_rules or role.selecting_rules for role in gang.roles)


def capacity_without(
    state: DiagnosisState, ended_gangs: Iterable[tuple[int, tuple[Placement, ...]]]
) -> tuple[FreeVectors, QueueBooks]:
    """What is left after the plan once these pods of gangs are gone."""
    free, ledger, pods = (
        state.free_after.copy(),
        state.ledger_after.copy(),
        [(state.problem.gangs[v], placed) for v, placed in ended_gangs],
    )
    state.release_pods(free, pods)
    for gang, placed in pods:
        ledger.charge_queue(gang.queue, tuple(-x for x in placed_demand(gang, placed, len(state.problem.resources))))
    return free, ledger


# ---- an earlier gang of a strict queue


def _order_repairs(trials: DelayTrials, fact: StrictOrder) -> Iterator[Repair]:
    waits, problem = trials.diagnosis, trials.diagnosis.state.problem
    first = fact.gang
    if _both_fit(trials, first):
        yield StartOfGang(gang=first)
    if trials.starts_beside_plan(trials.gang_problem):
        yield HigherPriority(amount=problem.gangs[first].priority)
        yield NoStrictOrder(queue=fact.queue)
    elif waits.fits_beside_running(trials.j):
        above = [
            first,
            *waits.state.started_placements,
            *([] if waits.reservation is None else [waits.reservation.gang]),
        ]
        yield HigherPriority(amount=max(problem.gangs[i].priority for i in above))


def _both_fit(trials: DelayTrials, first: int) -> bool:
    """Whether the empty cluster has room for the first gang and then for this one; no is said of pods that mind others."""
    problem = trials.diagnosis.restricted_problem
    two = replace(problem, gangs=tuple(replace(problem.gangs[i], running=()) for i in (first, trials.j)))
    if any(map(has_pod_rules, two.gangs)):
        return False
    tree, room, ledger, width = (
        TopologyTree(two),
        FreeNodes(capacity_vectors(two)),
        trials.diagnosis.state.idle_ledger.copy(),
        len(two.resources),
    )
    for i, gang in enumerate(two.gangs):
        placed = greedy_placement(State.from_free(two, tree, room.vectors, ledger), i, waiting_class(i, gang))
        if placed is None or not ledger.allows_amount(gang.queue, placed_demand(gang, placed, width)):
            return False
        room.add_gang_pods(gang, placed)
        ledger.charge_queue(gang.queue, placed_demand(gang, placed, width))
    return True


# ---- a reservation


def _reservation_repairs(trials: DelayTrials) -> Iterator[Repair]:
    held = trials.diagnosis.reservation
    if held is None:
        return
    waits, problem = trials.diagnosis, trials.diagnosis.state.problem
    gang = problem.gangs[trials.j]
    if held.starts_in and not gang.running and trials.starts_beside_plan(trials.with_change(duration=held.starts_in)):
        yield ShorterDuration(seconds=held.starts_in)
    if _fits_after_reservation(trials, held):
        yield StartOfGang(gang=held.gang, seconds=held.starts_in)
    # Beside what the plan starts it need not come before that; where others fill in it has to.
    above = [held.gang] if waits.fits_beside_plan(trials.j) else [held.gang, *waits.state.started_placements]
    yield HigherPriority(amount=max(problem.gangs[i].priority for i in above))


def _fits_after_reservation(trials: DelayTrials, reservation: Reservation) -> bool:
    """Whether there is room for it beside the plan once those have ended for whom the reservation waits, and its gang
    has started."""
    waits, world = trials.diagnosis, trials.diagnosis.state
    problem, holding = waits.restricted_problem, {**world.kept_placements, **world.started_placements}
    free, ledger = capacity_without(world, [(v, holding.get(v, ())) for v in reservation.awaited_gangs])
    first = problem.gangs[reservation.gang]
    for p in reservation.placements:
        free.amounts[p.node] -= np.array(first.roles[p.role].request, dtype=np.int64) * p.pods
    ledger.charge_queue(first.queue, placed_demand(first, reservation.placements, len(problem.resources)))
    gang, shape = problem.gangs[trials.j], waiting_class(trials.j, problem.gangs[trials.j])
    free.amounts[maintenance_conflicts(problem, gang, reservation.starts_in)] = 0
    if has_pod_rules(gang) or not ledger.allows_amount(gang.queue, shape.min_demand(len(problem.resources))):
        return False
    state = State.from_free(problem, waits.restricted_tree, free.nonnegative(), ledger)
    return greedy_placement(state, trials.j, shape) is not None


# ---- domains that another queue keeps


def _dedication_repairs(trials: DelayTrials, fact: DedicatedDomains) -> Iterator[Repair]:
    problem, q = trials.diagnosis.state.problem, fact.queue
    if not problem.queues[q].strict_order and trials.starts_beside_plan(trials.with_change(queue=q)):
        yield OtherQueue(queue=q)
    kept = problem.queues[q].dedicated_domains

    def fewer(count: int) -> Problem:
        """The last ones are the first to go: `Queue.kept` has them in order."""
        return replace(
            trials.gang_problem,
            queues=tuple(
                replace(x, dedicated_domains=kept[:-count]) if i == q else x for i, x in enumerate(problem.queues)
            ),
        )

    least = first_sufficient(range(1, len(kept) + 1), lambda count: trials.starts_beside_plan(fewer(count)))
    if least is not None:
        yield FewerDedicatedDomains(queue=q, amount=least)


# ---- maintenance


def _maintenance_repairs(trials: DelayTrials) -> Iterator[Repair]:
    """GR121: the longest duration with which it ends in time. GR122: the soonest end of maintenance after which it need
    not."""
    problem = trials.diagnosis.state.problem
    gang = problem.gangs[trials.j]
    times = {
        node.maintenance_in
        for node in problem.nodes
        if node.maintenance_in and (gang.duration is None or node.maintenance_in < gang.duration)
    }
    longest = (
        None
        if gang.running
        else first_sufficient(
            sorted(times, reverse=True), lambda seconds: trials.starts_beside_plan(trials.with_change(duration=seconds))
        )
    )
    if longest is not None:
        yield ShorterDuration(seconds=longest)
    ends = sorted({to for node in problem.nodes for _, to in node.maintenance_windows})
    yield from islice(
        (
            EndOfMaintenance(seconds=then)
            for then in ends[: trials.diagnosis.state.options.budget.maintenance_ends]
            if trials.starts_beside_plan(_problem_at(trials.gang_problem, then), then)
        ),
        1,
    )


def _problem_at(problem: Problem, start: int) -> Problem:
    """The gang's world when it is to start then: open are the nodes of which no window meets its run [start, start +
    duration)."""
    (gang,) = problem.gangs
    lasts = gang.duration

    def shut_then(node: Node) -> bool:
        if node.maintenance_in is not None and not node.maintenance_windows:
            return True
        return any(to > start and (lasts is None or since < start + lasts) for since, to in node.maintenance_windows)

    # Counted from now it lasts until start + duration, and a node that is shut to it then is as one that is shut now.
    nodes = tuple(
        replace(node, maintenance_in=0 if shut_then(node) else None) if node.maintenance_in is not None else node
        for node in problem.nodes
    )
    return replace(problem, nodes=nodes, gangs=(replace(gang, duration=None if lasts is None else start + lasts),))

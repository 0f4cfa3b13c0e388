"""Repairs of order and time, for a gang for which there is room: each was tried beside the plan, and is the least of
its kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from solver.diagnosis.delays import DelayDiagnosis
from solver.diagnosis.diagnosis_state import DiagnosisState, pod_rows
from solver.diagnosis.gangs import has_pod_rules
from solver.diagnosis.minimal import first_sufficient
from solver.diagnosis.precedence import least_free_priority
from solver.diagnosis.question import FitQuestion
from solver.facts import DedicatedDomains, Fact, Maintenance, ReservedNodes, StrictOrder
from solver.plan import Reservation
from solver.problem import Node, Placement, Problem
from solver.repairs import (
    EndOfMaintenance,
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
    exclude_nodes,
    fixed_exclusions,
    maintenance_conflicts,
    merge_exclusions,
)
from solver.semantics.placements import placed_demand
from solver.semantics.priorities import expected_end
from solver.semantics.topology import TopologyTree
from solver.state.free_nodes import FreeNodes
from solver.state.queue_books import QueueBooks
from solver.state.state import State
from solver.timeline.reservation import ends_in_time


def delay_repairs(diagnosis: DelayDiagnosis, j: int, facts: Sequence[Fact]) -> list[Repair]:
    """The repairs known for a single fact of order or time."""
    trials = DelayTrials(diagnosis, j)
    match facts:
        case [DedicatedDomains(queue=q)]:
            return list(_dedication_repairs(trials, q))
        case [ReservedNodes()] if diagnosis.reservation is not None:
            return list(_reservation_repairs(trials, diagnosis.reservation))
        case [StrictOrder() as fact]:
            return list(_order_repairs(trials, fact))
        case [Maintenance()]:
            return list(_maintenance_repairs(trials))
    return []


@dataclass(frozen=True)
class DelayTrials:
    """Gang j in changed worlds: problems with this gang alone, while the free nodes and the queues hold the others."""

    diagnosis: DelayDiagnosis
    j: int

    @property
    def state(self) -> DiagnosisState:
        return self.diagnosis.state

    @cached_property
    def gang_problem(self) -> Problem:
        return replace(self.state.problem, gangs=(self.state.problem.gangs[self.j],))

    def with_gang(self, **changes: Any) -> Problem:
        """The gang's world with the gang changed."""
        return replace(self.gang_problem, gangs=(replace(self.gang_problem.gangs[0], **changes),))

    def lasting(self, seconds: int) -> Problem:
        """The gang's world with so long a run."""
        return self.with_gang(times=replace(self.gang_problem.gangs[0].times, duration=seconds))

    def starts_beside_plan(self, problem: Problem, at: int = 0) -> bool:
        """Whether it would start in this world beside the plan, `at` seconds from now, when gangs whose end is known
        may have ended: by nodes, by queues, and without touching what is reserved."""
        reservation = self.diagnosis.reservation
        exclusions = fixed_exclusions(problem)
        if reservation is not None and self.j != reservation.gang and not ends_in_time(problem, 0, reservation):
            if self.j in self.diagnosis.blocked_gangs:
                return False
            exclusions = merge_exclusions(exclusions, {0: frozenset(p.node for p in reservation.placements)})
        world, (free, ledger) = exclude_nodes(problem, exclusions), self._capacity_at(at)
        counts, options = self.state.after.rule_counts, self.state.options
        q = FitQuestion(State.from_free(world, TopologyTree(world), free, ledger, counts), options)
        allowed = ledger.queue_rules.accepts_gangs[q.gang.queue] and q.is_allowed(ledger)
        return allowed and q.fits() is True

    def _capacity_at(self, at: int) -> tuple[FreeVectors, QueueBooks]:
        """What is free and what queues hold then. Device slots do not come back, and pods with pod rules stay."""
        state = self.state
        holding, gone = {**state.kept_placements, **state.started_placements}, []
        for v in sorted(holding):
            end = expected_end(state.problem, v)
            if end is not None and end <= at and not has_pod_rules(state.problem.gangs[v]):
                gone.append((v, holding[v]))
        return capacity_without(state, gone) if gone else (state.after.free, state.after.queue_books)


def capacity_without(
    state: DiagnosisState, ended_gangs: Iterable[tuple[int, tuple[Placement, ...]]]
) -> tuple[FreeVectors, QueueBooks]:
    """What is left after the plan once these pods of gangs are gone."""
    free, ledger, width = state.after.free.copy(), state.after.queue_books.copy(), len(state.problem.resources)
    pods = [(state.problem.gangs[v], placed) for v, placed in ended_gangs]
    state.release_pods(free, [pod_rows(gang, placed) for gang, placed in pods])
    for gang, placed in pods:
        ledger.charge_queue(gang.queue, tuple(-x for x in placed_demand(gang, placed, width)))
    return free, ledger


# ---- strict order


def _order_repairs(trials: DelayTrials, fact: StrictOrder) -> Iterator[Repair]:
    diagnosis, gangs = trials.diagnosis, trials.state.problem.gangs
    if _both_fit(trials, fact.gang):
        yield StartOfGang(fact.gang)
    if trials.starts_beside_plan(trials.gang_problem):
        yield HigherPriority(least_free_priority(trials.state.problem, gangs[fact.gang].priority))
        yield NoStrictOrder(fact.queue)
    elif diagnosis.fits_beside_running(trials.j):
        above = [fact.gang, *trials.state.started_placements]
        above += [] if diagnosis.reservation is None else [diagnosis.reservation.gang]
        yield HigherPriority(least_free_priority(trials.state.problem, max(gangs[i].priority for i in above)))


def _both_fit(trials: DelayTrials, first: int) -> bool:
    """Whether the empty cluster has room for the first gang and then for this one; false where pod rules matter."""
    problem = trials.diagnosis.restricted_problem
    two = replace(problem, gangs=tuple(replace(problem.gangs[i], running=()) for i in (first, trials.j)))
    if any(map(has_pod_rules, two.gangs)):
        return False
    tree, nodes, ledger = TopologyTree(two), FreeNodes(capacity_vectors(two)), trials.state.idle_ledger.copy()
    for i, gang in enumerate(two.gangs):
        placed = FitQuestion(State.from_free(two, tree, nodes.vectors, ledger), trials.state.options, i).placement()
        demand = placed_demand(gang, placed or (), len(two.resources))
        if placed is None or not ledger.allows_amount(gang.queue, demand):
            return False
        nodes.add_gang_pods(gang, placed)
        ledger.charge_queue(gang.queue, demand)
    return True


# ---- a reservation


def _reservation_repairs(trials: DelayTrials, reservation: Reservation) -> Iterator[Repair]:
    diagnosis, gangs, start = trials.diagnosis, trials.state.problem.gangs, reservation.starts_in
    if start and not gangs[trials.j].running and trials.starts_beside_plan(trials.lasting(start)):
        yield ShorterDuration(start)
    if _fits_after_reservation(trials, reservation):
        yield StartOfGang(reservation.gang, start)
    # Where it fits beside what the plan starts it need not precede that; where others backfill it must.
    above = [reservation.gang]
    if not diagnosis.fits_beside_plan(trials.j):
        above += trials.state.started_placements
    yield HigherPriority(least_free_priority(trials.state.problem, max(gangs[i].priority for i in above)))


def _fits_after_reservation(trials: DelayTrials, reservation: Reservation) -> bool:
    """Whether it fits beside the plan once the awaited gangs have ended and the reserved gang has started."""
    state, (problem, tree) = trials.state, trials.diagnosis.restricted_world
    holding = {**state.kept_placements, **state.started_placements}
    free, ledger = capacity_without(state, [(v, holding.get(v, ())) for v in reservation.awaited_gangs])
    first, gang = problem.gangs[reservation.gang], problem.gangs[trials.j]
    for p in reservation.placements:
        free.amounts[p.node] -= np.array(first.roles[p.role].request, dtype=np.int64) * p.pods
    ledger.charge_queue(first.queue, placed_demand(first, reservation.placements, len(problem.resources)))
    free.amounts[maintenance_conflicts(problem, gang, reservation.starts_in)] = 0
    q = FitQuestion(State.from_free(problem, tree, free.nonnegative(), ledger), state.options, trials.j)
    return not has_pod_rules(gang) and q.is_allowed(ledger) and q.placement() is not None


# ---- dedicated domains of another queue


def _dedication_repairs(trials: DelayTrials, q: int) -> Iterator[Repair]:
    problem, owner = trials.state.problem, trials.state.problem.queues[q]
    domains = owner.dedicated_domains
    home = problem.queues[trials.gang_problem.gangs[0].queue]
    is_as_open = set(owner.closed_node_groups) <= set(home.closed_node_groups)
    if is_as_open and not owner.strict_order and trials.starts_beside_plan(trials.with_gang(queue=q)):
        yield OtherQueue(q)

    def suffices(count: int) -> bool:
        """Whether the gang starts with so many fewer, of which the last go first."""
        fewer = replace(owner, dedicated_domains=domains[:-count])
        queues = (*problem.queues[:q], fewer, *problem.queues[q + 1 :])
        return trials.starts_beside_plan(replace(trials.gang_problem, queues=queues))

    least = first_sufficient(range(1, len(domains) + 1), suffices)
    if least is not None:
        yield FewerDedicatedDomains(q, least)


# ---- maintenance


def _maintenance_repairs(trials: DelayTrials) -> Iterator[Repair]:
    """The longest duration with which it ends in time; the soonest end of maintenance after which it need not."""
    problem, gang = trials.state.problem, trials.gang_problem.gangs[0]
    times = sorted({node.maintenance_in for node in problem.nodes if node.maintenance_in}, reverse=True)
    if gang.times.duration is not None:
        times = [t for t in times if t < gang.times.duration]
    if not gang.running:
        longest = first_sufficient(times, lambda t: trials.starts_beside_plan(trials.lasting(t)))
        if longest is not None:
            yield ShorterDuration(longest)
    windows = {window for node in problem.nodes for window in node.maintenance_windows}
    ends = sorted({end for _, end in windows})
    for end in ends[: trials.state.options.budget.maintenance_ends]:
        if trials.starts_beside_plan(_problem_at(trials.gang_problem, end), end):
            yield EndOfMaintenance(end)
            return


def _problem_at(problem: Problem, start: int) -> Problem:
    """The gang's world at a later start: nodes close whose windows meet its run [start, start + duration).

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

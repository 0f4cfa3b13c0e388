"""Delays: why a gang waits despite sufficient free capacity, its queue's strict order, a reservation, dedicated domains
or maintenance."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from solver.diagnosis.case import GangDiagnosis
from solver.diagnosis.diagnosis_state import DiagnosisState
from solver.diagnosis.question import FitQuestion
from solver.diagnosis.world import gang_kinds, has_pod_rules
from solver.facts import DedicatedDomains, Fact, Maintenance, ReservedNodes, StrictOrder
from solver.plan import Reservation
from solver.problem import Problem
from solver.semantics.exclusions import (
    NodeSet,
    dedicated_exclusions,
    fixed_exclusions,
    maintenance_exclusions,
    merge_exclusions,
)
from solver.semantics.order import blocking_gangs
from solver.semantics.topology import TopologyTree
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

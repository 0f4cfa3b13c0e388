"""Delays: why a gang waits despite sufficient free capacity. Its queue's strict order, a reservation, dedicated domains
or maintenance."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from solver.diagnosis.diagnosis_state import DiagnosisState
from solver.diagnosis.gangs import gang_kinds, has_pod_rules
from solver.diagnosis.question import FitQuestion
from solver.facts import DedicatedDomains, Fact, Maintenance, ReservedNodes, StrictOrder
from solver.plan import Reservation
from solver.problem import Problem
from solver.semantics.exclusions import (
    NodeSet,
    dedicated_exclusions,
    exclude_nodes,
    fixed_exclusions,
    maintenance_exclusions,
)
from solver.semantics.priorities import blocking_gangs
from solver.semantics.topology import TopologyTree
from solver.state.state import State
from solver.timeline.reservation import ends_in_time, reserved_exclusions

Baseline = Literal["now", "planned", "idle"]
World = tuple[Problem, TopologyTree]
"""A problem with the exclusions in force, and its tree."""


@dataclass(frozen=True)
class DelayDiagnosis:
    """The gangs that a plan leaves waiting. state: without exclusions; restricted_world: with those that hold whatever
    the plan. blocked_gangs: may not start for the sake of the reservation's queues."""

    state: DiagnosisState
    restricted_world: World
    reservation: Reservation | None
    blocked_gangs: frozenset[int]
    waiting_gangs: Collection[int]
    _known_fits: dict[object, bool] = field(default_factory=dict, init=False)

    # ---- worlds

    @cached_property
    def exclusions(self) -> dict[int, NodeSet]:
        """Gang -> the nodes that are excluded for it whatever the plan."""
        return fixed_exclusions(self.state.problem)

    @cached_property
    def unrestricted_world(self) -> World:
        return self.state.problem, self.state.tree

    @property
    def restricted_problem(self) -> Problem:
        return self.restricted_world[0]

    @cached_property
    def backfill(self) -> World:
        """The restricted world in which the reserved nodes are excluded too for every gang that would still run at the
        reserved start."""
        if self.reservation is None:
            return self.restricted_world
        problem = exclude_nodes(self.restricted_problem, reserved_exclusions(self.restricted_problem, self.reservation))
        return problem, TopologyTree(problem)

    @cached_property
    def restricted_state(self) -> DiagnosisState:
        before = self.state.before.for_problem(*self.restricted_world)
        return replace(self.state, before=before, exclusions_in_classes=True, closed_classes={})

    # ---- facts

    def delay_facts(self, j: int) -> tuple[Fact, ...]:
        """The facts of order and time about gang j; none where it lacks resources, or where only other gangs precede
        it."""
        has_room = self.fits_beside_running(j) or (self.state.plan_frees_capacity and self.fits_beside_plan(j))
        if j in self.exclusions and not has_room and self._fits(self.unrestricted_world, j, "now"):
            return self._exclusion_facts(j, "now")
        if has_room and (order := self.order_facts(j)):
            return order
        if self.reservation is not None and self._is_delayed_by(self.reservation, j):
            return (ReservedNodes(self.reservation.gang),)
        return ()

    def order_facts(self, j: int) -> tuple[Fact, ...]:
        """That an earlier gang of its strictly ordered queue waits."""
        if j not in self._earlier_gangs:
            return ()
        return (StrictOrder(self.restricted_problem.gangs[j].queue, self._earlier_gangs[j]),)

    @cached_property
    def _earlier_gangs(self) -> dict[int, int]:
        return blocking_gangs(self.restricted_problem, self.waiting_gangs, ())

    def idle_exclusion_facts(self, j: int) -> tuple[Fact, ...]:
        """The exclusions that keep gang j, which lacks resources now, out of an empty cluster that would hold it; none
        for a gang with pod rules."""
        if has_pod_rules(self.restricted_problem.gangs[j]) or not self._fits(self.unrestricted_world, j, "idle"):
            return ()
        return () if self._fits(self.restricted_world, j, "idle") else self._exclusion_facts(j, "idle")

    def _exclusion_facts(self, j: int, baseline: Baseline) -> tuple[Fact, ...]:
        """The one exclusion without which it would fit, of a queue's dedicated domains or for maintenance; all where no
        single one suffices."""
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
            left = exclude_nodes(problem, {j: frozenset[int]().union(*rest)})
            if self._fits((left, TopologyTree(left)), j, baseline):
                return (fact,)
        return tuple(fact for fact, _ in parts)

    def _is_delayed_by(self, reservation: Reservation, j: int) -> bool:
        """Whether gang j fits beside the plan and only the reservation keeps it waiting; or would, but for gangs that
        backfill the reserved nodes: then it finds no room beside what runs either, with the reserved nodes excluded."""
        problem = self.restricted_problem
        if j == reservation.gang or ends_in_time(problem, j, reservation):
            return False
        if j in reservation.gangs_before:
            return False
        if self.fits_beside_plan(j):
            return j in self.blocked_gangs or not self._fits_alike(self.backfill, j, "planned")
        if not self._plan_backfills or not self.fits_beside_running(j):
            return False
        return self._question(self.backfill, j, "now").fits() is False

    @cached_property
    def _plan_backfills(self) -> bool:
        """Whether the plan starts anything on nodes that it reserves."""
        reserved = set(self.state.reserved_nodes)
        return any(p.node in reserved for pods in self.state.started_placements.values() for p in pods)

    # ---- does it fit?

    def fits_beside_running(self, j: int) -> bool:
        """Whether it provably fits beside what runs, on nodes that are not excluded."""
        return self._fits_alike(self.restricted_world, j, "now")

    def fits_beside_plan(self, j: int) -> bool:
        """Whether it provably fits beside the plan, on nodes that are not excluded, reserved or not."""
        return self._fits_alike(self.restricted_world, j, "planned")

    def _fits_alike(self, world: World, j: int, baseline: Baseline) -> bool:
        """`_fits`, asked once for all gangs of a queue that are alike. world: one that is kept."""
        problem = world[0]
        key = id(problem), baseline, gang_kinds(problem)[j], problem.gangs[j].queue
        if key not in self._known_fits:
            self._known_fits[key] = self._fits(world, j, baseline)
        return self._known_fits[key]

    def _fits(self, world: World, j: int, baseline: Baseline) -> bool:
        """Whether it provably fits on nodes and in queues: beside what runs, beside the plan, or on the empty
        cluster."""
        state, q = self.state, self._question(world, j, baseline)
        ledgers = {"now": state.before.queue_books, "planned": state.after.queue_books, "idle": state.idle_ledger}
        return q.is_allowed(ledgers[baseline]) and q.fits() is True

    def _question(self, world: World, j: int, baseline: Baseline) -> FitQuestion:
        (problem, tree), state = world, self.state
        if baseline == "idle":
            idle = replace(problem.gangs[j], running=())
            problem = replace(problem, gangs=(*problem.gangs[:j], idle, *problem.gangs[j + 1 :]))
            empty = State.from_free(problem, tree, state.capacity, state.before.queue_books)
            return FitQuestion(empty, state.options, j)
        then = state.before if baseline == "now" else state.after
        now = State.from_free(problem, tree, then.free, then.queue_books, then.rule_counts)
        return FitQuestion(now, state.options, j)

"""Why a gang waits for which there is room: its queue's order, a reservation, domains that a queue keeps, maintenance.
Else `reasons`.

Codes, for ever: GW106 kept for a guarantee, GW114 reserved for another gang, GW115 an earlier gang of its queue waits,
GW116 maintenance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from solver.diagnosis import DiagnosisState
from solver.facts import DedicatedDomains, Fact, Maintenance, ReservedNodes, StrictOrder
from solver.placement.fit import fits
from solver.plan import Reservation
from solver.problem import Problem
from solver.semantics.exclusions import dedicated_exclusions, exclude_nodes, maintenance_exclusions, merge_exclusions
from solver.semantics.gang_classes import waiting_class
from solver.semantics.priorities import blocking_gangs, precedence_level
from solver.semantics.topology import TopologyTree
from solver.state.pod_rules import PodRuleCounts, initial_rule_counts
from solver.state.state import State
from solver.timeline.reservation import ends_in_time

Baseline = Literal["now", "planned", "idle"]


@dataclass(frozen=True)
class DelayDiagnosis:
    """world: the problem as it is. guarded: as `closing.guarded`. final: with the reserved nodes closed as well.

    barred: gangs that may not start for the sake of the reservation's queues. waiting: all that wait.
    """

    state: DiagnosisState
    restricted_problem: Problem
    restricted_tree: TopologyTree
    backfill_problem: Problem
    backfill_tree: TopologyTree
    reservation: Reservation | None
    blocked_gangs: frozenset[int]
    waiting_gangs: Sequence[int]

    @cached_property
    def _earlier_gangs(self) -> dict[int, int]:
        return blocking_gangs(self.restricted_problem, self.waiting_gangs, ())

    @cached_property
    def restricted_state(self) -> DiagnosisState:
        return replace(
            self.state,
            problem=self.restricted_problem,
            tree=self.restricted_tree,
            exclusions_in_classes=True,
            blockers={},
        )

    @cached_property
    def exclusions(self) -> dict[int, frozenset[int]]:
        """Gang -> the nodes that are closed to it."""
        return merge_exclusions(dedicated_exclusions(self.state.problem), maintenance_exclusions(self.state.problem))

    def delay_facts(self, j: int) -> tuple[Fact, ...]:
        """Why it waits although it lacks nothing by itself; none where it does, or where only others are before it."""
        room = self.fits_beside_running(j) or self._fits_evicted_capacity(j)
        if j in self.exclusions and not room and self._fits(self.state.problem, self.state.tree, j, "now"):
            return self._exclusion_facts(j, "now")
        if j in self._earlier_gangs and room:
            return (StrictOrder(queue=self.restricted_problem.gangs[j].queue, gang=self._earlier_gangs[j]),)
        if self.reservation is not None and self._is_delayed_by_reservation(j, self.reservation):
            return (ReservedNodes(gang=self.reservation.gang),)
        return ()

    def has_exclusions(self, j: int) -> bool:
        """Whether nodes are closed to it."""
        return j in self.exclusions

    def fits_beside_running(self, j: int) -> bool:
        """Whether it provably fits beside what runs, in what is not closed to it."""
        if j not in self._running_fit_cache:
            self._running_fit_cache[j] = self._fits(self.restricted_problem, self.restricted_tree, j, "now")
        return self._running_fit_cache[j]

    @cached_property
    def _running_fit_cache(self) -> dict[int, bool]:
        return {}

    def _fits_evicted_capacity(self, j: int) -> bool:
        """Whether it provably fits in what evictions have left over: the plan may be roomier than what runs."""
        return self._plan_frees_capacity and self._fits(self.restricted_problem, self.restricted_tree, j, "planned")

    @cached_property
    def _plan_frees_capacity(self) -> bool:
        """Whether the plan leaves some node more than it has beside what runs."""
        return bool((self.state.free_after.amounts > self.state.free_before.amounts).any())

    def _is_delayed_by_reservation(self, j: int, reservation: Reservation) -> bool:
        """Whether it fits beside the plan, and only the reservation keeps it from starting; or would, but for those who
        fill in what is reserved and end in time: it finds no room beside what runs either, with the reserved nodes
        closed."""
        if (
            j == reservation.gang
            or ends_in_time(self.restricted_problem, j, reservation)
            or precedence_level(self.restricted_problem, j)
            > precedence_level(self.restricted_problem, reservation.gang)
        ):
            return False
        if self.fits_beside_plan(j):
            return j in self.blocked_gangs or not self._fits(self.backfill_problem, self.backfill_tree, j, "planned")
        return (
            self._plan_backfills
            and self.fits_beside_running(j)
            and self._lacks_capacity(self.backfill_problem, self.backfill_tree, j)
        )

    def fits_beside_plan(self, j: int) -> bool:
        """Whether it provably fits beside what the plan lets run, in what is not closed to it, reserved or not."""
        return self._fits(self.restricted_problem, self.restricted_tree, j, "planned")

    @cached_property
    def _plan_backfills(self) -> bool:
        """Whether the plan starts anything on nodes that it reserves."""
        reserved = {p.node for p in self.reservation.placements} if self.reservation is not None else set()
        return any(p.node in reserved for placed in self.state.started_placements.values() for p in placed)

    def idle_exclusion_facts(self, j: int) -> tuple[Fact, ...]:
        """What is closed to a gang that lacks room even so, and would keep it out of an empty cluster that would hold
        it; not said of pods that mind others."""
        if any(role.owned_rules or role.selecting_rules for role in self.restricted_problem.gangs[j].roles):
            return ()
        fits = self._fits(self.state.problem, self.state.tree, j, "idle") and not self._fits(
            self.restricted_problem, self.restricted_tree, j, "idle"
        )
        return self._exclusion_facts(j, "idle") if fits else ()

    def _exclusion_facts(self, j: int, baseline: Baseline) -> tuple[Fact, ...]:
        """The one closing without which it would fit: of a queue that keeps domains, or for maintenance. All, where no
        single one would do."""
        problem, path = self.state.problem, self.state.ledger_before.path(self.state.problem.gangs[j].queue)
        keepers = [q for q, queue in enumerate(problem.queues) if queue.dedicated_domains and q not in path]
        facts = {q: DedicatedDomains(queue=q, tier=self._dedicated_tier(q)) for q in keepers}
        closing = maintenance_exclusions(problem)
        without: list[tuple[Fact, Mapping[int, frozenset[int]]]] = [
            (fact, merge_exclusions(closing, dedicated_exclusions(problem, frozenset(keepers) - {q})))
            for q, fact in facts.items()
        ]
        if j in closing:
            without.append((Maintenance(), dedicated_exclusions(problem)))
        enough = [fact for fact, shut in without if self._fits_with_exclusions(j, shut, baseline)]
        return (enough[0],) if enough else tuple(fact for fact, _ in without)

    def _fits_with_exclusions(self, j: int, exclusions: Mapping[int, frozenset[int]], baseline: Baseline) -> bool:
        problem = exclude_nodes(self.state.problem, {j: exclusions[j]} if j in exclusions else {})
        return self._fits(problem, TopologyTree(problem), j, baseline)

    def _dedicated_tier(self, q: int) -> int:
        return max(
            self.restricted_problem.hypernodes[h].tier for h in self.restricted_problem.queues[q].dedicated_domains
        )

    def _fits(self, problem: Problem, tree: TopologyTree, j: int, baseline: Baseline) -> bool:
        """Whether it provably fits, by room and queues, beside what runs (now), beside the plan, or on the empty
        cluster (idle)."""
        world, neighbours = self.state, None
        free, ledger = world.free_before, world.ledger_before
        if baseline == "now":
            neighbours = self._running_rule_counts
        elif baseline == "planned":
            free, ledger, neighbours = world.free_after, world.ledger_after, world.rule_counts
        else:
            free, ledger = world.capacity, world.idle_ledger
            problem = replace(
                problem,
                gangs=tuple(replace(gang, running=()) if i == j else gang for i, gang in enumerate(problem.gangs)),
            )
        shape = waiting_class(j, problem.gangs[j])
        if not ledger.allows_amount(problem.gangs[j].queue, shape.min_demand(len(problem.resources))):
            return False
        return fits(State.from_free(problem, tree, free, ledger, neighbours), j, world.options) is True

    def _lacks_capacity(self, problem: Problem, tree: TopologyTree, j: int) -> bool:
        """Whether it provably finds no room beside what runs."""
        free, ledger, rule_counts = self.state.free_before, self.state.ledger_before, self._running_rule_counts
        return fits(State.from_free(problem, tree, free, ledger, rule_counts), j, self.state.options) is False

    @cached_property
    def _running_rule_counts(self) -> PodRuleCounts | None:
        return initial_rule_counts(self.state.problem)

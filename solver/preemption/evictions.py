"""Evictions so far, and the gangs that may still be evicted for another one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce

import numpy as np

from solver.placement.fit import shortage
from solver.problem import Problem, Vector
from solver.semantics.device_slots import FreeVectors, IntArray, add_held_shares
from solver.semantics.eviction_rights import (
    EvictedUnit,
    ReclaimLimits,
    ReclaimRight,
    ShortResources,
    Victim,
    contend_without_entitlement,
    evictable_placements,
    loss_per_pod,
    may_go_whole,
    may_preempt,
    may_reclaim,
    may_reclaim_domain,
    min_retained_amounts,
    queues_to_check,
    reclaim_right,
    surplus_pods,
    units_lost,
)
from solver.semantics.exclusions import accessible_dedicated_nodes
from solver.semantics.gang_classes import meets_minima, waiting_class
from solver.semantics.placements import add_vectors, merge_placements, subtract_placements
from solver.semantics.queues import PODS
from solver.state.selected_pods import PodRuleCounts
from solver.state.state import Pods, State


@dataclass
class EvictionState:
    """evictable_gangs: gangs whose running pods may be evicted; without gangs that the plan starts. shorts: resources
    that gangs lack before the plan. evicted_pods: victim -> pods. preemptors_of: victim -> the gangs it is evicted for.
    measured_resources: queue that lost pods to other queues -> the resources of which it keeps the deserved amount,
    except for the last evicted pod or gang. settled: no further evictions."""

    state: State
    evictable_gangs: set[int]
    shorts: ShortResources
    evicted_pods: dict[int, Pods] = field(default_factory=dict)
    preemptors_of: dict[int, tuple[int, ...]] = field(default_factory=dict)
    measured_resources: dict[int, frozenset[int]] = field(default_factory=dict)
    settled: bool = False

    @classmethod
    def initial(cls, unrestricted_problem: Problem, state: State) -> EvictionState:
        """Return the state before any eviction. unrestricted_problem: without exclusions."""
        evictable = {j for j in state.running if state.problem.gangs[j].eviction.evictable}
        return cls(state, evictable, ShortResources(unrestricted_problem, state.free_nodes.vectors.amounts.copy()))

    def copy(self, state: State) -> EvictionState:
        """Return a copy over a copy of the state."""
        return replace(
            self,
            state=state,
            evictable_gangs=set(self.evictable_gangs),
            evicted_pods=dict(self.evicted_pods),
            preemptors_of=dict(self.preemptors_of),
            measured_resources=dict(self.measured_resources),
        )

    @property
    def problem(self) -> Problem:
        return self.state.problem

    @cached_property
    def accessible_dedicated_nodes(self) -> dict[int, frozenset[int]]:
        """Return queue -> the nodes of domains that it may take back."""
        return accessible_dedicated_nodes(self.problem)

    # ---- who may go

    def candidates(self, j: int) -> tuple[list[Victim], dict[int, ReclaimLimits]]:
        """(gangs that may be evicted for gang j, what the queues among them can spare)."""
        if self.settled or not self.state.queue_books.queue_rules.accepts_gangs[self.problem.gangs[j].queue]:
            return [], {}
        asked = self._certain_demand(j)
        found: list[Victim] = []
        limits: dict[int, ReclaimLimits] = {}
        rights: dict[int, ReclaimRight] = {}
        for v in sorted(self.evictable_gangs):
            if v == j or not self.state.running[v]:
                continue
            queue = self.problem.gangs[v].queue
            if queue not in rights:
                rights[queue] = self.right_to_reclaim((j,), queue)
            checked = self._checked_queues(j, v, asked, rights[queue])
            victim = None if checked is None else self._victim(j, v, checked, rights[queue] if checked else "full")
            if victim is not None and (not checked or self._can_spare(victim, j, asked, limits)):
                found.append(victim)
        return found, limits

    def right_to_reclaim(self, gangs: Sequence[int], queue: int) -> ReclaimRight:
        """Return the right of these gangs of one queue, together, to reclaim from another queue."""
        books, home = self.state.queue_books, self.problem.gangs[gangs[0]].queue
        if not self.problem.reclaim_enabled or home == queue:
            return "none"
        amount = reduce(add_vectors, map(self._certain_demand, gangs))
        short = frozenset[int]().union(*(self.shorts.of_gang(j) for j in gangs))
        return reclaim_right(self.problem, books.held, books.queue_rules.deserved, (home, queue), amount, short)

    def _certain_demand(self, j: int) -> Vector:
        return waiting_class(j, self.problem.gangs[j]).certain_demand(len(self.problem.resources))

    def _checked_queues(self, j: int, v: int, asked: Vector, right: ReclaimRight) -> tuple[int, ...] | None:
        """Return the queues that must be able to spare gang v's loss to gang j; None where v may not be evicted for j.
        A victim is evicted for gangs of its own queue or of others, not both."""
        problem, gangs = self.problem, self.problem.gangs
        home, queue = gangs[j].queue, gangs[v].queue
        own = may_preempt(problem, j, v)
        if any((gangs[w].queue == queue) != own for w in self.preemptors_of.get(v, ())):
            return None
        if own or may_reclaim_domain(problem, self.accessible_dedicated_nodes, j, v):
            return ()
        if right == "none" or not may_reclaim(problem, j, v):
            return None
        deserved = self.state.queue_books.queue_rules.deserved
        if contend_without_entitlement(problem, home, queue, deserved, asked):
            return None
        return queues_to_check(problem, home, queue)

    def _can_spare(self, victim: Victim, j: int, asked: Vector, limits: dict[int, ReclaimLimits]) -> bool:
        """Return whether each queue to check can spare anything that the victim may lose to gang j. limits: filled on
        the way."""
        gang = self.problem.gangs[victim.gang]
        surplus = tuple(p for p in victim.running if victim.surplus_per_role[p.role]) if victim.max_surplus else ()
        units = [*units_lost(gang, victim, (), True), *units_lost(gang, victim, surplus, False)]
        for q in victim.checked_queues:
            limit = limits.get(q) or self._reclaim_limits(q, j, asked)
            if limit is None or not any(limit.allow(unit.returned, victim.right) for unit in units):
                return False
            limits[q] = limit
        return True

    def _victim(self, j: int, v: int, checked_queues: tuple[int, ...], right: ReclaimRight) -> Victim | None:
        """Return the possible losses of gang v for gang j; None for nothing."""
        problem, running = self.problem, self.state.running[v]
        surplus, most = surplus_pods(problem, self.state.tree, v, running, not meets_minima(problem.gangs[v]))
        whole = may_go_whole(problem, j, v)
        if not (whole or (most and any(surplus[p.role] for p in evictable_placements(problem.gangs[v], running)))):
            return None
        retained = min_retained_amounts(problem, (*self.preemptors_of.get(v, ()), j), v)
        held = self.state.slot_holdings.shares_held(v, running)
        return Victim(v, running, surplus, most, whole, retained, checked_queues, right, held)

    def _reclaim_limits(self, q: int, j: int, asked: Vector) -> ReclaimLimits | None:
        """Return the amounts that queue q keeps when gang j reclaims from it; None where a guarantee of the queue is
        not met."""
        books, guarantee = self.state.queue_books, self.problem.queues[q].guarantee
        held, deserved = books.held[q], books.queue_rules.deserved[q]
        measured = self.measured_resources.get(q, frozenset())
        if any((g or 0) > h for g, h in zip(guarantee, held, strict=True)):
            return None
        beyond = {r: h - d for r, (h, d) in enumerate(zip(held, deserved, strict=True)) if d is not None}
        compared = measured | {r for r, amount in beyond.items() if amount > 0}
        not_pods = (r for r, name in enumerate(self.problem.resources) if name != PODS)
        return ReclaimLimits(
            frozenset(r for r in not_pods if asked[r]),
            self.shorts.of_gang(j),
            frozenset(beyond),
            measured,
            {r: max(0, amount) for r, amount in beyond.items() if r in compared},
            {r: held[r] - g for r, g in enumerate(guarantee) if g},
        )

    @property
    def remaining_budgets(self) -> tuple[int, ...]:
        """Disruption budget -> how many more pods may be evicted."""
        gone: dict[tuple[int, int], int] = {}
        for v, pods in self.evicted_pods.items():
            for p in pods:
                gone[v, p.role] = gone.get((v, p.role), 0) + p.pods
        budgets = self.problem.disruption_budgets
        return tuple(budget.allowed - sum(gone.get(role, 0) for role in set(budget.roles)) for budget in budgets)

    def free_without(self, victims: Iterable[Victim]) -> FreeVectors:
        """Return the free amounts without any of these victims."""
        free = self.state.free_nodes.net_vectors
        for v in victims:
            for p in evictable_placements(self.problem.gangs[v.gang], v.running):
                free.amounts[p.node] += _amounts(self.problem, v.gang, p.role, p.pods)
            add_held_shares(free.slots, v.held_shares)
        return free.nonnegative()

    def rule_counts_without(self, victims: Iterable[Victim]) -> PodRuleCounts | None:
        """Return the pods that pod rules count without any of these victims."""
        if self.state.rule_counts is None:
            return None
        left = self.state.rule_counts.copy()
        for v in victims:
            for p in evictable_placements(self.problem.gangs[v.gang], v.running):
                left.evict_pods(self.problem.gangs[v.gang].roles[p.role], p.node, p.pods, 0)
        return left

    def is_hopeless(self, j: int, victims: Sequence[Victim]) -> bool:
        """Return whether counting proves that gang j does not fit even without all of these victims."""
        state = self.state.with_free(self.free_without(victims))
        return shortage(state, waiting_class(j, self.problem.gangs[j])) is not None

    def eviction_may_help(self, j: int) -> bool:
        """Return whether some gang may be evicted for gang j, and counting does not prove that this helps nothing."""
        victims, _ = self.candidates(j)
        return bool(victims) and not self.is_hopeless(j, victims)

    # ---- who went

    def evict_pods(self, v: int, pods: Pods, preemptors: Iterable[int]) -> None:
        """Evict these pods of gang v for these gangs."""
        self.state.evict_pods(v, pods)
        self.evicted_pods[v] = merge_placements([*self.evicted_pods.get(v, ()), *pods])
        self.preemptors_of[v] = tuple(sorted({*self.preemptors_of.get(v, ()), *preemptors}))

    def restore_pods(self, v: int, pods: Pods) -> None:
        """Undo the eviction of these pods. Raises ValueError, and changes nothing, where their room is taken."""
        self.state.restore_pods(v, pods)
        self.evicted_pods[v] = subtract_placements(self.evicted_pods[v], pods)
        if not self.evicted_pods[v]:
            del self.evicted_pods[v], self.preemptors_of[v]

    def settle(self, settled: bool = True) -> None:
        """Allow no further evictions; or, if not settled, allow them again."""
        self.settled = settled

    def protect_gang(self, j: int) -> None:
        """Make gang j no victim from now on."""
        self.evictable_gangs.discard(j)

    def fully_evicted_count(self, victims: Iterable[int]) -> int:
        """Return the number of these victims without any remaining pod."""
        return sum(1 for v in victims if not self.state.running[v])

    def note_measures(
        self, pods: Mapping[int, Pods], victims: Iterable[Victim], limits: Mapping[int, ReclaimLimits]
    ) -> None:
        """Note by which resources each queue that lost these pods to other queues is measured from now on. Called once
        they are evicted."""
        lost: dict[int, list[tuple[Victim, EvictedUnit]]] = {}
        for v in victims:
            whole, gone = not self.state.running[v.gang], pods.get(v.gang, ())
            units = units_lost(self.problem.gangs[v.gang], v, gone, whole) if gone else []
            for q in v.checked_queues if units else ():
                lost.setdefault(q, []).extend((v, unit) for unit in units)
        for q, some in lost.items():
            self._measure_queue(q, some, limits[q])

    def _measure_queue(self, q: int, units: Sequence[tuple[Victim, EvictedUnit]], limits: ReclaimLimits) -> None:
        """Choose few resources by which the conditions hold: one for all of them where that is enough."""
        held, deserved = self.state.queue_books.held[q], self.state.queue_books.queue_rules.deserved[q]
        enough = {
            r for r in limits.above_deserved if held[r] + max(unit.last[r] for _, unit in units) > (deserved[r] or 0)
        }
        conditions = [one & enough for v, unit in units for one in limits.conditions(unit.returned, v.right)]
        used = limits.measured.union(*(one for one in conditions if len(one) == 1))
        rest = [one for one in conditions if one.isdisjoint(used)]
        if rest:
            used |= frozenset(sorted(frozenset.intersection(*rest))[:1]) or frozenset.union(*rest)
        self.measured_resources[q] = used

    def forget_measures(self) -> None:
        """Forget the resources noted by `note_measures`: no queue retains anything because of earlier evictions."""
        self.measured_resources.clear()

    @property
    def reclaimed_gangs(self) -> frozenset[int]:
        """Return the victims that go for gangs of other queues."""
        queue = [gang.queue for gang in self.problem.gangs]
        return frozenset(v for v, js in self.preemptors_of.items() if any(queue[j] != queue[v] for j in js))

    def total_loss(self) -> int:
        """Return the loss of all evicted pods."""
        return total_loss(self.problem, self.evicted_pods)


def total_loss(problem: Problem, pods: Mapping[int, Pods]) -> int:
    """sum over victims of pods x seconds run"""
    return sum(loss_per_pod(problem.gangs[v]) * p.pods for v, some in pods.items() for p in some)


def _amounts(problem: Problem, v: int, role: int, pods: int) -> IntArray:
    return np.array(problem.gangs[v].roles[role].request, dtype=np.int64) * pods

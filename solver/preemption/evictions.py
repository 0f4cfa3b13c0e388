"""Evictions so far, and the gangs that may still be evicted for another one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from solver.models.evictions import ReclaimLimits
from solver.placement.fit import shortage
from solver.problem import Problem, Vector
from solver.semantics.device_slots import FreeVectors, IntArray
from solver.semantics.eviction_rights import (
    Victim,
    contend_without_entitlement,
    eviction_votes,
    freed_amounts,
    is_entitled_to_reclaim,
    loss_per_pod,
    may_preempt,
    may_reclaim,
    may_reclaim_domain,
    min_retained_amounts,
    queues_to_check,
    reclaimable_amounts,
    surplus_pods,
)
from solver.semantics.exclusions import accessible_dedicated_nodes
from solver.semantics.gang_classes import meets_minima, waiting_class
from solver.semantics.placements import merge_placements, subtract_placements
from solver.semantics.slot_holdings import add_held_shares
from solver.state.state import Pods, State


@dataclass
class EvictionState:
    """evictable_gangs: gangs whose running pods may go; not those that the plan starts. evicted_pods: victim -> pods.
    preemptors_of: victim -> the gangs it goes for. protected_resources: queue that lost pods to other queues -> the
    resource of which it keeps what it deserves."""

    state: State
    evictable_gangs: set[int]
    evicted_pods: dict[int, Pods] = field(default_factory=dict)
    preemptors_of: dict[int, tuple[int, ...]] = field(default_factory=dict)
    protected_resources: dict[int, int] = field(default_factory=dict)

    def copy(self, state: State) -> EvictionState:
        """A copy over a copy of the state."""
        return replace(
            self,
            state=state,
            evictable_gangs=set(self.evictable_gangs),
            evicted_pods=dict(self.evicted_pods),
            preemptors_of=dict(self.preemptors_of),
            protected_resources=dict(self.protected_resources),
        )

    @property
    def problem(self) -> Problem:
        return self.state.problem

    @cached_property
    def accessible_dedicated_nodes(self) -> dict[int, frozenset[int]]:
        """Queue -> the nodes of domains that it may take back."""
        return accessible_dedicated_nodes(self.problem)

    # ---- who may go

    def candidates(self, j: int) -> tuple[list[Victim], dict[int, ReclaimLimits]]:
        """(gangs that may be evicted for gang j, what the queues among them can spare)."""
        if not self.state.queue_books.queue_rules.accepts_gangs[self.problem.gangs[j].queue]:
            return [], {}
        asked = waiting_class(j, self.problem.gangs[j]).min_demand(len(self.problem.resources))
        found: list[Victim] = []
        limits: dict[int, ReclaimLimits] = {}
        reclaiming = self._may_reclaim_from_others(j, asked)
        for v in sorted(self.evictable_gangs):
            checked = self._checked_queues(j, v, asked, reclaiming) if v != j and self.state.running[v] else None
            if checked is None:
                continue
            if not all(limits.setdefault(q, self._reclaim_limits(q, asked)).above_deserved for q in checked):
                continue
            if (victim := self._victim(j, v, checked)) is not None:
                found.append(victim)
        return found, {q: limit for q, limit in limits.items() if limit.above_deserved}

    def _may_reclaim_from_others(self, j: int, asked: Vector) -> bool:
        rules, held, home = self.state.queue_books.queue_rules, self.state.queue_books.held, self.problem.gangs[j].queue
        return self.problem.reclaim_enabled and is_entitled_to_reclaim(self.problem, held, home, rules.deserved, asked)

    def _checked_queues(self, j: int, v: int, asked: Vector, reclaiming: bool) -> tuple[int, ...] | None:
        """The queues that must be able to spare what gang v loses to gang j; None where v may not go for j. A victim
        goes for gangs of its own queue or of others, not both."""
        problem, gangs = self.problem, self.problem.gangs
        home, queue = gangs[j].queue, gangs[v].queue
        own = may_preempt(problem, j, v)
        if any((gangs[w].queue == queue) != own for w in self.preemptors_of.get(v, ())):
            return None
        if own or may_reclaim_domain(problem, self.accessible_dedicated_nodes, j, v):
            return ()
        if not reclaiming or not may_reclaim(problem, j, v):
            return None
        deserved = self.state.queue_books.queue_rules.deserved
        if contend_without_entitlement(problem, home, queue, deserved, asked):
            return None
        return queues_to_check(problem, home, queue)

    def _victim(self, j: int, v: int, checked_queues: tuple[int, ...]) -> Victim | None:
        """What gang v may lose for gang j; None for nothing."""
        problem, running = self.problem, self.state.running[v]
        surplus, most = surplus_pods(problem, self.state.tree, v, running, not meets_minima(problem.gangs[v]))
        whole = eviction_votes(problem, j, v).whole_gangs
        if not (whole or most):
            return None
        retained = min_retained_amounts(problem, (*self.preemptors_of.get(v, ()), j), v)
        held = self.state.slot_holdings.shares_held(v, running)
        return Victim(v, running, surplus, most, whole, retained, checked_queues, held)

    def _reclaim_limits(self, q: int, asked: Sequence[int]) -> ReclaimLimits:
        books = self.state.queue_books
        amounts = reclaimable_amounts(self.problem, q, books.held[q], books.queue_rules.deserved[q], asked)
        most = {r: amount for r, amount in amounts.items() if self.protected_resources.get(q, r) == r}
        guarantee = self.problem.queues[q].guarantee
        return ReclaimLimits(most, {r: books.held[q][r] - g for r, g in enumerate(guarantee) if g})

    @property
    def remaining_budgets(self) -> tuple[int, ...]:
        """Disruption budget -> how many more pods it lets go."""
        gone: dict[tuple[int, int], int] = {}
        for v, pods in self.evicted_pods.items():
            for p in pods:
                gone[v, p.role] = gone.get((v, p.role), 0) + p.pods
        budgets = self.problem.disruption_budgets
        return tuple(budget.allowed - sum(gone.get(role, 0) for role in set(budget.roles)) for budget in budgets)

    def free_without(self, victims: Iterable[Victim]) -> FreeVectors:
        """What is free were all of these gone."""
        free = self.state.free_nodes.net_vectors
        for v in victims:
            for p in v.running:
                free.amounts[p.node] += _amounts(self.problem, v.gang, p.role, p.pods)
            add_held_shares(free.slots, v.held_shares)
        return free.nonnegative()

    def is_hopeless(self, j: int, victims: Sequence[Victim]) -> bool:
        """Whether counting proves that gang j does not fit even without all of them."""
        state = self.state.with_free(self.free_without(victims))
        return shortage(state, waiting_class(j, self.problem.gangs[j])) is not None

    def eviction_may_help(self, j: int) -> bool:
        """Whether some gang may be evicted for gang j, and counting does not prove that this helps nothing."""
        victims, _ = self.candidates(j)
        return bool(victims) and not self.is_hopeless(j, victims)

    # ---- who went

    def evict_pods(self, v: int, pods: Pods, preemptors: Iterable[int]) -> None:
        """Evict these pods of gang v for these gangs."""
        self.state.evict_pods(v, pods)
        self.evicted_pods[v] = merge_placements([*self.evicted_pods.get(v, ()), *pods])
        self.preemptors_of[v] = tuple(sorted({*self.preemptors_of.get(v, ()), *preemptors}))

    def restore_pods(self, v: int, pods: Pods) -> None:
        """Evicted pods stay after all. Raises ValueError where their room is taken; then nothing has changed."""
        self.state.restore_pods(v, pods)
        self.evicted_pods[v] = subtract_placements(self.evicted_pods[v], pods)
        if not self.evicted_pods[v]:
            del self.evicted_pods[v], self.preemptors_of[v]

    def protect_gang(self, j: int) -> None:
        """From now on gang j is no victim."""
        self.evictable_gangs.discard(j)

    def fully_evicted_count(self, victims: Iterable[int]) -> int:
        """How many of these victims have no pod left."""
        return sum(1 for v in victims if not self.state.running[v])

    def protect_deserved(self, pods: Mapping[int, Pods], j: int, limits: Mapping[int, ReclaimLimits]) -> None:
        """Note of which resource each queue that lost these pods to gang j keeps what it deserves. Called once they are
        evicted."""
        problem, books = self.problem, self.state.queue_books
        home = problem.gangs[j].queue
        checked: dict[int, tuple[int, ...]] = {}
        for v in pods:
            own = problem.gangs[v].queue == home
            if not own and not may_reclaim_domain(problem, self.accessible_dedicated_nodes, j, v):
                checked[v] = queues_to_check(problem, home, problem.gangs[v].queue)
        for q in sorted({q for queues in checked.values() for q in queues} - self.protected_resources.keys()):
            lost = [freed_amounts(problem, v, pods[v]) for v, queues in checked.items() if q in queues]
            held, deserved, most = books.held[q], books.queue_rules.deserved[q], limits[q].above_deserved
            self.protected_resources[q] = next(
                r for r in sorted(most) if all(amount[r] for amount in lost) and held[r] >= (deserved[r] or 0)
            )

    def forget_protected_resources(self) -> None:
        """No queue keeps anything for the sake of earlier evictions any more."""
        self.protected_resources.clear()

    def total_loss(self) -> int:
        """The loss of all evicted pods."""
        return total_loss(self.problem, self.evicted_pods)


def total_loss(problem: Problem, pods: Mapping[int, Pods]) -> int:
    """sum over victims of pods x seconds run"""
    return sum(loss_per_pod(problem.gangs[v]) * p.pods for v, some in pods.items() for p in some)


def _amounts(problem: Problem, v: int, role: int, pods: int) -> IntArray:
    return np.array(problem.gangs[v].roles[role].request, dtype=np.int64) * pods

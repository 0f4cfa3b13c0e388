"""Room by eviction: each gang that found none, in order, is placed together with the choice of who must go for it, at
the least loss.

One exact model for one gang (`solver.models.evictions`), over the nodes where room is cheapest
(`solver.preemption.bounds`); then the gang is placed as any other in the room that it got, so that it is spread no more
than it must.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pulp

from solver.admission.admit import pods_per_bucket
from solver.mip.engine import solve_model
from solver.mip.lexicographic import verdict_of
from solver.mip.rows import Terms, at_most
from solver.models.evictions import EvictionModel, ReclaimLimits
from solver.models.sets import AdmissionClass, Bucket, Sets, coarsest_buckets, split_buckets
from solver.options import Options
from solver.placement.fit import shortage
from solver.plan import Objective
from solver.preemption.bounds import LossBounds
from solver.problem import Limits, Placement, PodRequest, Problem, Vector
from solver.semantics.device_slots import FreeVectors, IntArray
from solver.semantics.eviction_rights import (
    Victim,
    contend_without_entitlement,
    deserved_limits,
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
from solver.semantics.gang_classes import GangClass, meets_minima, waiting_class
from solver.semantics.placements import add_vectors, merge_placements
from solver.semantics.priorities import precedence
from solver.semantics.slot_holdings import SlotHoldings, add_held_shares
from solver.semantics.topology import TopologyTree
from solver.state.free_nodes import FreeNodes
from solver.state.queue_books import QueueBooks


@dataclass(frozen=True, slots=True)
class EvictionChoice:
    """Who goes for one gang or for several. pods: victim -> the pods it loses. placed: gang -> its pods in the model's
    own answer."""

    evicted_pods: Mapping[int, tuple[Placement, ...]]
    placements: Mapping[int, tuple[Placement, ...]]
    objectives: tuple[Objective, ...]
    exposures: Mapping[int, ReclaimLimits]


@dataclass
class EvictionState:
    """What runs of every gang that may be a victim, and what was taken from it so far.

    running: gang -> pods that are left, for gangs that the plan does not start. owed: `room.owed_vectors`, which pods
    that go pay first. holdings: what pods have of cells. evicted: victim -> pods taken. winners: victim -> for whom.
    anchors: queue that others took from -> the resource of which it stays at what it deserves.
    """

    problem: Problem
    tree: TopologyTree
    room: FreeNodes
    ledger: QueueBooks
    running: dict[int, tuple[Placement, ...]]
    overcommitted: IntArray
    holdings: SlotHoldings
    evicted_pods: dict[int, tuple[Placement, ...]] = field(default_factory=dict)
    preemptors_of: dict[int, tuple[int, ...]] = field(default_factory=dict)
    protected_resources: dict[int, int] = field(default_factory=dict)

    @cached_property
    def deserved(self) -> tuple[Limits, ...]:
        return deserved_limits(self.problem)

    @cached_property
    def accessible_dedicated_nodes(self) -> dict[int, frozenset[int]]:
        """`closing.owned`"""
        return accessible_dedicated_nodes(self.problem)

    def copy(self, room: FreeNodes, ledger: QueueBooks) -> EvictionState:
        """The same, apart from these, over other holdings."""
        return replace(
            self,
            room=room,
            ledger=ledger,
            running=dict(self.running),
            overcommitted=self.overcommitted.copy(),
            evicted_pods=dict(self.evicted_pods),
            preemptors_of=dict(self.preemptors_of),
            protected_resources=dict(self.protected_resources),
        )

    def candidates(self, j: int) -> tuple[list[Victim], dict[int, ReclaimLimits]]:
        """Everybody who may be evicted for gang j, and what the queues among them can spare. A victim serves its own
        queue or others, not both."""
        gangs, home = self.problem.gangs, self.problem.gangs[j].queue
        if not self.ledger.queue_rules.accepts_gangs[home]:
            return [], {}
        asked = waiting_class(j, gangs[j]).min_demand(len(self.problem.resources))
        found: list[Victim] = []
        exposures: dict[int, ReclaimLimits] = {}
        reclaiming = self.problem.reclaim_enabled and is_entitled_to_reclaim(
            self.problem, self.ledger.held, home, self.deserved, asked
        )
        for v in sorted(self.running):
            if v == j or not self.running[v]:
                continue
            before = {gangs[w].queue == gangs[v].queue for w in self.preemptors_of.get(v, ())}
            own = may_preempt(self.problem, j, v)
            back = may_reclaim_domain(self.problem, self.accessible_dedicated_nodes, j, v)
            if before - {own} or not (own or back or (reclaiming and may_reclaim(self.problem, j, v))):
                continue
            gated = () if own or back else queues_to_check(self.problem, home, gangs[v].queue)
            if gated and contend_without_entitlement(self.problem, home, gangs[v].queue, self.deserved, asked):
                continue
            if not all(exposures.setdefault(q, self._exposure(q, asked)).above_deserved for q in gated):
                continue
            if (victim := self._victim(j, v, gated)) is not None:
                found.append(victim)
        return found, {q: exposure for q, exposure in exposures.items() if exposure.above_deserved}

    def _victim(self, j: int, v: int, checked_queues: tuple[int, ...]) -> Victim | None:
        """What gang v may lose for gang j; None for nothing."""
        problem, running = self.problem, self.running[v]
        spared, spare = surplus_pods(problem, self.tree, v, running, not meets_minima(problem.gangs[v]))
        whole = eviction_votes(problem, j, v).whole_gangs
        if not (whole or spare):
            return None
        kept = min_retained_amounts(problem, (*self.preemptors_of.get(v, ()), j), v)
        return Victim(v, running, spared, spare, whole, kept, checked_queues, self.holdings.shares_held(v, running))

    @property
    def remaining_budgets(self) -> tuple[int, ...]:
        """How many more pods each budget lets go."""
        gone = {(v, p.role): 0 for v, pods in self.evicted_pods.items() for p in pods}
        for v, pods in self.evicted_pods.items():
            for p in pods:
                gone[v, p.role] += p.pods
        return tuple(
            budget.allowed - sum(gone.get(spot, 0) for spot in set(budget.roles))
            for budget in self.problem.disruption_budgets
        )

    def _exposure(self, q: int, asked: Sequence[int]) -> ReclaimLimits:
        most = {
            r: amount
            for r, amount in reclaimable_amounts(self.problem, q, self.ledger.held[q], self.deserved[q], asked).items()
            if self.protected_resources.get(q, r) == r
        }
        guarantee = self.problem.queues[q].guarantee
        return ReclaimLimits(most, {r: self.ledger.held[q][r] - g for r, g in enumerate(guarantee) if g})

    def free_without(self, victims: Iterable[Victim]) -> FreeVectors:
        """What is free were all of these gone."""
        free = self.free_now
        for v in victims:
            for p in v.running:
                free.amounts[p.node] += (
                    np.array(self.problem.gangs[v.gang].roles[p.role].request, dtype=np.int64) * p.pods
                )
            add_held_shares(free.slots, v.held_shares)
        return free.nonnegative()

    @property
    def free_now(self) -> FreeVectors:
        """What is free, below 0 where what runs exceeds the node."""
        return FreeVectors(self.room.vectors.amounts - self.overcommitted, self.room.vectors.slots.copy())

    def is_hopeless(self, j: int, victims: Sequence[Victim]) -> bool:
        """Whether counting proves that not even without all of them the gang fits."""
        return (
            shortage(self.problem, self.tree, waiting_class(j, self.problem.gangs[j]), self.free_without(victims))
            is not None
        )

    def evict_pods(self, v: int, pods: tuple[Placement, ...], preemptors: Iterable[int]) -> None:
        """Evict these pods of gang v for these gangs."""
        gang = self.problem.gangs[v]
        for p in pods:
            back = np.array(gang.roles[p.role].request, dtype=np.int64) * p.pods
            paid = np.minimum(self.overcommitted[p.node], back)
            self.overcommitted[p.node] -= paid
            self.room.take_pods(p.node, PodRequest(tuple(int(x) for x in back - paid)), -1)
        self.ledger.charge_queue(gang.queue, tuple(-x for x in freed_amounts(self.problem, v, pods)))
        left = merge_placements([*self.running[v], *(Placement(p.role, p.node, -p.pods) for p in pods)])
        for node, cells in self.holdings.returned_amounts(v, self.running[v], left).items():
            self.room.adjust_slots(node, cells)
        self.running[v] = left
        self.evicted_pods[v] = merge_placements([*self.evicted_pods.get(v, ()), *pods])
        self.preemptors_of[v] = tuple(sorted({*self.preemptors_of.get(v, ()), *preemptors}))

    def restore_pods(self, v: int, pods: tuple[Placement, ...]) -> None:
        """The pods stay after all. Raises ValueError where their room is taken; then nothing has changed."""
        gang, mark = self.problem.gangs[v], self.room.mark()
        together = merge_placements([*self.running[v], *pods])
        try:
            self.room.take_running_pods(gang, pods)
            for node, cells in self.holdings.returned_amounts(v, self.running[v], together).items():
                self.room.adjust_slots(node, cells)
        except ValueError:
            self.room.undo(mark)
            raise
        self.ledger.charge_queue(gang.queue, freed_amounts(self.problem, v, pods))
        self.running[v] = together
        self.evicted_pods[v] = merge_placements(
            [*self.evicted_pods[v], *(Placement(p.role, p.node, -p.pods) for p in pods)]
        )
        if not self.evicted_pods[v]:
            del self.evicted_pods[v], self.preemptors_of[v]

    def fully_evicted_count(self, victims: Iterable[int]) -> int:
        """How many of these victims have no pod left."""
        return sum(1 for v in victims if not self.running[v])

    def record_protected_resources(
        self, pods: Mapping[int, tuple[Placement, ...]], j: int, exposures: Mapping[int, ReclaimLimits]
    ) -> None:
        """Remember of which resource each queue that lost pods to others stays at what it deserves. Called once the
        pods are taken."""
        problem = self.problem
        home = problem.gangs[j].queue
        others = [
            v
            for v in pods
            if problem.gangs[v].queue != home and not may_reclaim_domain(problem, self.accessible_dedicated_nodes, j, v)
        ]
        gated = {v: queues_to_check(problem, home, problem.gangs[v].queue) for v in others}
        for q in sorted({q for asked in gated.values() for q in asked} - self.protected_resources.keys()):
            given = [freed_amounts(problem, v, pods[v]) for v, asked in gated.items() if q in asked]
            held, most = self.ledger.held[q], exposures[q].above_deserved
            self.protected_resources[q] = next(
                r for r in sorted(most) if all(x[r] for x in given) and held[r] >= (self.deserved[q][r] or 0)
            )


def cheapest_victims(state: EvictionState, j: int, options: Options) -> EvictionChoice | None:
    """Whom to evict for gang j, with the least loss; None where the rules allow nobody who would help, or a limit
    struck before an answer."""
    victims, exposures = state.candidates(j)
    if not victims or state.is_hopeless(j, victims):
        return None
    room = EvictionProblem(state, (j,), (waiting_class(j, state.problem.gangs[j]),), victims, exposures)
    bounds = room.loss_bounds(0)
    best: EvictionChoice | None = None
    for size in options.budget.eviction_nodes:
        choice = bounds.choose_nodes(size)
        if not choice.nodes:
            break
        best = solve_eviction_model(room.model(choice.nodes), (j,), choice.outside_bound, options) or best
        if math.isinf(choice.outside_bound) or (best is not None and room.is_conclusive(best)):
            break
    return best


@dataclass(frozen=True)
class EvictionProblem:
    """The gangs that room is made for, each with its shape, and who may go for all of them; what the queues of victims
    can spare."""

    state: EvictionState
    gangs: tuple[int, ...]
    gang_classes: tuple[GangClass, ...]
    victims: Sequence[Victim]
    exposures: Mapping[int, ReclaimLimits]

    @cached_property
    def buckets(self) -> tuple[Bucket, ...]:
        return coarsest_buckets(self.state.problem)

    @cached_property
    def free_without_victims(self) -> FreeVectors:
        """What is free were all victims gone."""
        return self.state.free_without(self.victims)

    @cached_property
    def waiting_gangs(self) -> dict[AdmissionClass, tuple[int, ...]]:
        gangs = self.state.problem.gangs
        return {(gangs[j].queue, precedence(gangs[j]), k): (j,) for k, j in enumerate(self.gangs)}

    @cached_property
    def count_everywhere(self) -> bool:
        """Whether pods count wherever they are, since what is short is some queue's."""
        problem, width = self.state.problem, len(self.state.problem.resources)
        asked: dict[int, Vector] = {}
        for j, shape in zip(self.gangs, self.gang_classes, strict=True):
            queue = problem.gangs[j].queue
            asked[queue] = add_vectors(asked.get(queue, (0,) * width), shape.min_demand(width))
        return len(asked) > 1 or not all(self.state.ledger.allows_amount(q, amount) for q, amount in asked.items())

    def is_conclusive(self, best: EvictionChoice) -> bool:
        """Whether a model of more nodes has nothing to add: nothing loses less, and where surplus might go instead of a
        gang, none does."""
        loss, whole, _ = best.objectives
        return loss.verdict == "proven" and (whole.verdict == "proven" or not any(v.max_surplus for v in self.victims))

    def loss_bounds(self, k: int) -> LossBounds:
        """The bounds on the loss of the gang of shape k alone."""
        standing, gang = self.state, self.state.problem.gangs[self.gangs[k]]
        waiting = {(gang.queue, precedence(gang), 0): (self.gangs[k],)}
        s = Sets(
            standing.problem,
            standing.tree,
            self.buckets,
            self.free_without_victims,
            standing.ledger,
            (self.gang_classes[k],),
            waiting,
        )
        return LossBounds(s, standing.room.vectors, self.victims)

    def model(self, nodes: frozenset[int]) -> EvictionModel:
        """The model over these nodes, each a place of its own."""
        standing = self.state
        within = [i for i, place in enumerate(self.buckets) if nodes.intersection(place.nodes)]
        free = self.free_without_victims.copy()
        free.amounts[[n for n in range(len(standing.problem.nodes)) if n not in nodes]] = 0
        places = split_buckets(self.buckets, within)
        s = Sets(
            standing.problem,
            standing.tree,
            places,
            free,
            standing.ledger,
            self.gang_classes,
            self.waiting_gangs,
            standing.room.rule_counts,
        )
        useful = [v for v in self.victims if self.count_everywhere or any(p.node in nodes for p in v.running)]
        return EvictionModel(
            s, standing.free_now, useful, self.exposures, standing.remaining_budgets, self.count_everywhere
        )


def solve_eviction_model(
    m: EvictionModel, gangs: Sequence[int], outside_bound: float, options: Options
) -> EvictionChoice | None:
    """Least loss, then fewest gangs that go whole, then fewest victims, each held while the next is minimised. beyond:
    no answer outside the model loses less."""
    model = m.x.model
    model.sense = pulp.LpMinimize
    losses = m.loss_terms()
    unit = math.gcd(*(int(c) for _, c in losses)) or 1
    model.setObjective(pulp.LpAffineExpression([(x, c / unit) for x, c in losses]))
    answer = solve_model(model, options)
    if not answer.values:
        return None
    value = _objective_value(losses, answer.values)
    values: Mapping[str, float] = m.with_minimal_d(answer.values)
    bound = min(
        math.ceil(answer.bound - 1e-6 * max(1.0, abs(answer.bound))) * unit if math.isfinite(answer.bound) else 0.0,
        outside_bound,
    )
    objectives = [verdict_of("loss", value, max(0.0, bound), options.gap, maximise=False)]
    model.addConstraint(at_most([(x, c / unit) for x, c in losses], value / unit + 0.5), "held_loss")
    values, fewest = _minimize_count(m, m.whole_gang_terms(), 0 if m.has_surplus else 1, values, options)
    only_here = outside_bound > value and objectives[0].verdict == "proven"
    whole = _objective_value(m.whole_gang_terms(), values)
    objectives.append(
        verdict_of(
            "whole gangs",
            whole,
            fewest if only_here else min(whole, 0 if m.has_surplus else 1),
            options.gap,
            maximise=False,
        )
    )
    if m.has_surplus:
        model.addConstraint(at_most(m.whole_gang_terms(), whole + 0.5), "held_whole")
        values, fewest = _minimize_count(m, m.victim_terms(), 1, values, options)
    number = _objective_value(m.victim_terms(), values)
    only_here = only_here and objectives[1].verdict == "proven"
    objectives.append(
        verdict_of("victims", number, fewest if only_here else min(number, 1), options.gap, maximise=False)
    )
    fresh: dict[int, list[Placement]] = {
        j: list(shape.running_pods) for j, shape in zip(gangs, m.s.gang_classes, strict=True)
    }
    for (k, t, i), pods in sorted(pods_per_bucket(m.x, values).items()):
        fresh[gangs[k]].append(Placement(t, m.s.buckets[i].nodes[0], pods))
    return EvictionChoice(
        m.evicted_pods(values),
        {j: merge_placements(pods) for j, pods in fresh.items()},
        tuple(objectives),
        m.reclaim_limits,
    )


def _minimize_count(
    m: EvictionModel, terms: Terms, known_bound: int, values: Mapping[str, float], options: Options
) -> tuple[Mapping[str, float], int]:
    """The solution with the smallest sum of these, given what is held, and a bound on that sum. values: a solution.
    least: a bound that is known."""
    number = _objective_value(terms, values)
    if number <= known_bound:
        return values, number
    m.x.model.setObjective(pulp.LpAffineExpression(terms))
    answer = solve_model(m.x.model, options, values)
    if (
        answer.values
        and _objective_value(m.loss_terms(), answer.values) <= _objective_value(m.loss_terms(), values)
        and _objective_value(terms, answer.values) <= number
    ):
        values = m.with_minimal_d(answer.values)
    return values, max(known_bound, math.ceil(answer.bound - 1e-6)) if math.isfinite(answer.bound) else known_bound


def _objective_value(terms: Iterable[tuple[pulp.LpVariable, float]], values: Mapping[str, float]) -> int:
    return round(sum(values[x.name] * c for x, c in terms))


def total_loss(problem: Problem, pods: Mapping[int, tuple[Placement, ...]]) -> int:
    """sum over victims of pods x seconds run"""
    return sum(loss_per_pod(problem.gangs[v]) * p.pods for v, some in pods.items() for p in some)

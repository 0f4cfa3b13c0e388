"""The cheapest victims for one gang or for several: one exact model (`solver.models.evictions`) over the nodes where
room is cheapest (`solver.preemption.bounds`), over more of them until the answer is proved."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pulp

from solver.admission.admit import pods_per_bucket
from solver.mip.engine import solve_model
from solver.mip.lexicographic import verdict_of
from solver.mip.rows import Terms, at_most
from solver.models.evictions import EvictionModel
from solver.models.sets import AdmissionClass, Bucket, Sets, coarsest_buckets, split_buckets
from solver.options import Options
from solver.plan import Objective
from solver.preemption.bounds import LossBounds
from solver.preemption.evictions import EvictionState
from solver.problem import Placement, Problem, Vector
from solver.semantics.device_slots import FreeVectors
from solver.semantics.eviction_rights import ReclaimLimits, Victim
from solver.semantics.gang_classes import GangClass, waiting_class
from solver.semantics.order import precedence
from solver.semantics.placements import add_vectors, merge_placements
from solver.semantics.topology import ROOT


@dataclass(frozen=True, slots=True)
class EvictionChoice:
    """evicted_pods: victim -> the pods it loses. placements: preemptor -> its pods in the model's own answer. victims:
    all candidates. reclaim_limits: queue -> amounts that it could spare."""

    evicted_pods: Mapping[int, tuple[Placement, ...]]
    placements: Mapping[int, tuple[Placement, ...]]
    objectives: tuple[Objective, ...]
    victims: Sequence[Victim]
    reclaim_limits: Mapping[int, ReclaimLimits]


def cheapest_victims(evictions: EvictionState, j: int, options: Options) -> EvictionChoice | None:
    """Return the victims for gang j with the least loss; None where no allowed eviction lets it start, or a limit
    struck before an answer."""
    victims, limits = evictions.candidates(j)
    if not victims or evictions.is_hopeless(j, victims):
        return None
    gang_class = waiting_class(j, evictions.problem.gangs[j])
    eviction_problem = EvictionProblem(evictions, (j,), (gang_class,), victims, limits)
    bounds = eviction_problem.loss_bounds(0)
    best: EvictionChoice | None = None
    for size in options.budget.eviction_nodes:
        choice = bounds.choose_nodes(size)
        if not choice.nodes:
            break
        answer = eviction_problem.solve(choice.nodes, choice.outside_bound, options)
        best = answer or best
        if math.isinf(choice.outside_bound) or (
            best is not None and eviction_problem.is_conclusive(best, choice.outside_bound)
        ):
            break
    return best


@dataclass(frozen=True)
class EvictionProblem:
    """Preemptors, each with its gang class, the gangs that may be evicted for all of them, and what the victims' queues
    can spare."""

    evictions: EvictionState
    gangs: tuple[int, ...]
    gang_classes: tuple[GangClass, ...]
    victims: Sequence[Victim]
    reclaim_limits: Mapping[int, ReclaimLimits]

    @property
    def problem(self) -> Problem:
        return self.evictions.problem

    @cached_property
    def buckets(self) -> tuple[Bucket, ...]:
        return coarsest_buckets(self.evictions.state.tree)

    @cached_property
    def free_without_victims(self) -> FreeVectors:
        """Return the free amounts without any victims."""
        return self.evictions.free_without(self.victims)

    @cached_property
    def asked_per_queue(self) -> dict[int, Vector]:
        """Return queue -> what its preemptors ask for at least."""
        asked: dict[int, Vector] = {}
        nothing = (0,) * len(self.problem.resources)
        for j, gang_class in zip(self.gangs, self.gang_classes, strict=True):
            queue = self.problem.gangs[j].queue
            asked[queue] = add_vectors(asked.get(queue, nothing), gang_class.min_demand(len(nothing)))
        return asked

    @cached_property
    def count_everywhere(self) -> bool:
        """Return whether evicted pods count wherever they are: a queue is short, or they may be in the way of new
        ones."""
        asked, books = self.asked_per_queue, self.evictions.state.queue_books
        if self.opens_domains:
            return True
        return len(asked) > 1 or not all(books.allows_amount(q, amount) for q, amount in asked.items())

    @cached_property
    def opens_domains(self) -> bool:
        """Return whether evicted pods may make room for new ones that keep apart from them. As in Volcano, only pods
        evicted for their resources count: each gang lacks some somewhere."""
        nodes = len(self.problem.nodes)
        return any(gang_class.has_pod_rules for gang_class in self.gang_classes) and all(
            len(roomy) < nodes for roomy in self.roomy_nodes
        )

    @cached_property
    def roomy_nodes(self) -> tuple[frozenset[int], ...]:
        """Return for each gang the nodes of its domains in which it lacks no resource (`ShortResources.lacks_room`)."""
        tree, shorts, found = self.evictions.state.tree, self.evictions.shorts, []
        for j, gang_class in zip(self.gangs, self.gang_classes, strict=True):
            homes = (ROOT,) if gang_class.hard_tier is None else tree.domains_at_tier(gang_class.hard_tier)
            roomy = (h for h in homes if not shorts.lacks_room(j, h, tree.nodes_under(h)))
            found.append(frozenset(n for h in roomy for n in tree.nodes_under(h).tolist()))
        return tuple(found)

    def useful_victims(self, nodes: Iterable[int]) -> list[Victim]:
        """Return the victims whose pods count in a model over these nodes."""
        if self.count_everywhere:
            return list(self.victims)
        inside = set(nodes)
        return [v for v in self.victims if any(p.node in inside for p in v.running)]

    def is_conclusive(self, best: EvictionChoice, outside_bound: float) -> bool:
        """Return whether a model of more nodes cannot improve the choice: nothing has a smaller loss, and where surplus
        might be evicted instead of a gang, or pods without a reported checkpoint instead of others, nothing has as
        small a loss."""
        loss, whole, _ = best.objectives
        if loss.verdict != "proven":
            return False
        reporting = {v.gang for v in self.victims if self.problem.gangs[v.gang].eviction.reports_checkpoint}
        is_limited = not reporting.isdisjoint(best.evicted_pods) and len(reporting) < len(self.victims)
        if is_limited and outside_bound <= loss.value:
            return False
        return whole.verdict == "proven" or not any(v.max_surplus for v in self.victims)

    def loss_bounds(self, k: int) -> LossBounds:
        """Return the bounds on the loss for gang k alone."""
        state = self.evictions.state.with_free(self.free_without_victims)
        waiting = {self._admission_class(k, 0): (self.gangs[k],)}
        s = Sets(state, self.buckets, (self.gang_classes[k],), waiting)
        return LossBounds(s, self.evictions.state.free, self.victims)

    def _admission_class(self, k: int, index: int) -> AdmissionClass:
        gang = self.problem.gangs[self.gangs[k]]
        return gang.queue, precedence(gang), index

    def solve(self, nodes: frozenset[int], outside_bound: float, options: Options) -> EvictionChoice | None:
        """Return the cheapest victims with new pods on these nodes only. outside_bound: no answer elsewhere loses
        less."""
        return solve_eviction_model(self._model(nodes), self.gangs, outside_bound, options)

    def _model(self, nodes: frozenset[int]) -> EvictionModel:
        """Return the model over these nodes, each a bucket of its own."""
        within = [i for i, bucket in enumerate(self.buckets) if nodes.intersection(bucket.nodes)]
        free = self.free_without_victims.copy()
        free.amounts[[n for n in range(len(self.problem.nodes)) if n not in nodes]] = 0
        state, victims = self.evictions.state, self.useful_victims(nodes)
        rule_counts = self.evictions.rule_counts_without(victims) if self.opens_domains else state.rule_counts
        s = Sets(
            state.with_free(free, rule_counts),
            split_buckets(self.buckets, within),
            self.gang_classes,
            {self._admission_class(k, k): (j,) for k, j in enumerate(self.gangs)},
        )
        budgets, net = self.evictions.remaining_budgets, state.free_nodes.net_vectors
        roomy = self.roomy_nodes if self.opens_domains else None
        return EvictionModel(s, net, victims, self.reclaim_limits, budgets, self.count_everywhere, roomy)


def solve_eviction_model(
    m: EvictionModel, gangs: Sequence[int], outside_bound: float, options: Options
) -> EvictionChoice | None:
    """Minimize the loss, then the number of whole gangs, then of victims, each held while the next is minimised. Among
    equals, the fewest pods that report a checkpoint, so that reporting never costs a job its place, then the lowest
    priorities. outside_bound: no answer outside the model has a smaller loss."""
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
    if _objective_value(ties := m.tie_terms(), values):
        model.addConstraint(at_most(m.victim_terms(), number + 0.5), "held_victims")
        values, _ = _minimize_count(m, ties, 0, values, options)
    fresh: dict[int, list[Placement]] = {
        j: list(shape.running_pods) for j, shape in zip(gangs, m.s.gang_classes, strict=True)
    }
    for (k, t, i), pods in sorted(pods_per_bucket(m.x, values).items()):
        fresh[gangs[k]].append(Placement(t, m.s.buckets[i].nodes[0], pods))
    return EvictionChoice(
        m.evicted_pods(values),
        {j: merge_placements(pods) for j, pods in fresh.items()},
        tuple(objectives),
        m.victims,
        m.reclaim_limits,
    )


def _minimize_count(
    m: EvictionModel, terms: Terms, known_bound: int, values: Mapping[str, float], options: Options
) -> tuple[Mapping[str, float], int]:
    """Return (the solution with the least sum of these terms, a bound on the sum), given the held goals. values: a
    solution."""
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

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

from solver.admission.admit import pods_of
from solver.mip.engine import solve_model
from solver.mip.rows import at_most
from solver.models.evictions import Evictions, Exposure, Terms
from solver.models.lexicographic import judge
from solver.models.sets import Class, Place, Sets, aggregate, refine
from solver.options import Options
from solver.placement.fit import shortage
from solver.plan import Objective
from solver.preemption.bounds import Cheapest
from solver.problem import Ask, Limits, Placement, Problem, Vector
from solver.semantics.device_slots import Free, Ints
from solver.semantics.eviction_rights import (
    Victim,
    deserved,
    entitled,
    exposed,
    freed,
    gates,
    keeps,
    loss,
    may_preempt,
    may_reclaim,
    may_take_back,
    quarrel,
    surplus,
    votes,
)
from solver.semantics.exclusions import owned
from solver.semantics.gang_classes import Shape, satisfied, shape_of
from solver.semantics.placements import merged
from solver.semantics.priorities import urgency
from solver.semantics.slot_holdings import Holdings, add_held
from solver.semantics.topology import Tree
from solver.state.room import Ledger, Room, add

SIZES = (96, 768, 3_072)
"""Nodes in the model, one try after another until the answer is proved; beyond the last the objective says how much may
be missing."""


@dataclass(frozen=True, slots=True)
class Taken:
    """Who goes for one gang or for several. pods: victim -> the pods it loses. placed: gang -> its pods in the model's
    own answer."""

    pods: Mapping[int, tuple[Placement, ...]]
    placed: Mapping[int, tuple[Placement, ...]]
    objectives: tuple[Objective, ...]
    exposures: Mapping[int, Exposure]


@dataclass
class Standing:
    """What runs of every gang that may be a victim, and what was taken from it so far.

    running: gang -> pods that are left, for gangs that the plan does not start. owed: `room.owed_vectors`, which pods
    that go pay first. holdings: what pods have of cells. evicted: victim -> pods taken. winners: victim -> for whom.
    anchors: queue that others took from -> the resource of which it stays at what it deserves.
    """

    problem: Problem
    tree: Tree
    room: Room
    ledger: Ledger
    running: dict[int, tuple[Placement, ...]]
    owed: Ints
    holdings: Holdings
    evicted: dict[int, tuple[Placement, ...]] = field(default_factory=dict)
    winners: dict[int, tuple[int, ...]] = field(default_factory=dict)
    anchors: dict[int, int] = field(default_factory=dict)

    @cached_property
    def due(self) -> tuple[Limits, ...]:
        return deserved(self.problem)

    @cached_property
    def kept(self) -> dict[int, frozenset[int]]:
        """`closing.owned`"""
        return owned(self.problem)

    def copy(self, room: Room, ledger: Ledger) -> Standing:
        """The same, apart from these, over other holdings."""
        return replace(
            self,
            room=room,
            ledger=ledger,
            running=dict(self.running),
            owed=self.owed.copy(),
            evicted=dict(self.evicted),
            winners=dict(self.winners),
            anchors=dict(self.anchors),
        )

    def candidates(self, j: int) -> tuple[list[Victim], dict[int, Exposure]]:
        """Everybody who may be evicted for gang j, and what the queues among them can spare. A victim serves its own
        queue or others, not both."""
        gangs, home = self.problem.gangs, self.problem.gangs[j].queue
        if not self.ledger.rules.takes[home]:
            return [], {}
        asked = shape_of(j, gangs[j]).demand(len(self.problem.resources))
        found: list[Victim] = []
        exposures: dict[int, Exposure] = {}
        reclaiming = self.problem.reclaim and entitled(self.problem, self.ledger, home, self.due, asked)
        for v in sorted(self.running):
            if v == j or not self.running[v]:
                continue
            before = {gangs[w].queue == gangs[v].queue for w in self.winners.get(v, ())}
            own = may_preempt(self.problem, j, v)
            back = may_take_back(self.problem, self.kept, j, v)
            if before - {own} or not (own or back or (reclaiming and may_reclaim(self.problem, j, v))):
                continue
            gated = () if own or back else gates(self.problem, home, gangs[v].queue)
            if gated and quarrel(self.problem, home, gangs[v].queue, self.due, asked):
                continue
            if not all(exposures.setdefault(q, self._exposure(q, asked)).most for q in gated):
                continue
            if (victim := self._victim(j, v, gated)) is not None:
                found.append(victim)
        return found, {q: exposure for q, exposure in exposures.items() if exposure.most}

    def _victim(self, j: int, v: int, gated: tuple[int, ...]) -> Victim | None:
        """What gang v may lose for gang j; None for nothing."""
        problem, running = self.problem, self.running[v]
        spared, spare = surplus(problem, self.tree, v, running, not satisfied(problem.gangs[v]))
        whole = votes(problem, j, v).whole
        if not (whole or spare):
            return None
        kept = keeps(problem, (*self.winners.get(v, ()), j), v)
        return Victim(v, running, spared, spare, whole, kept, gated, self.holdings.held(v, running))

    @property
    def allowed(self) -> tuple[int, ...]:
        """How many more pods each budget lets go."""
        gone = {(v, p.role): 0 for v, pods in self.evicted.items() for p in pods}
        for v, pods in self.evicted.items():
            for p in pods:
                gone[v, p.role] += p.pods
        return tuple(
            budget.allowed - sum(gone.get(spot, 0) for spot in set(budget.roles)) for budget in self.problem.budgets
        )

    def _exposure(self, q: int, asked: Sequence[int]) -> Exposure:
        most = {
            r: amount
            for r, amount in exposed(self.problem, self.ledger, q, self.due[q], asked).items()
            if self.anchors.get(q, r) == r
        }
        guarantee = self.problem.queues[q].guarantee
        return Exposure(most, {r: self.ledger.held[q][r] - g for r, g in enumerate(guarantee) if g})

    def without(self, victims: Iterable[Victim]) -> Free:
        """What is free were all of these gone."""
        free = self.bare
        for v in victims:
            for p in v.running:
                free.amounts[p.node] += (
                    np.array(self.problem.gangs[v.gang].roles[p.role].request, dtype=np.int64) * p.pods
                )
            add_held(free.cells, v.holds)
        return free.clipped()

    @property
    def bare(self) -> Free:
        """What is free, below 0 where what runs exceeds the node."""
        return Free(self.room.free.amounts - self.owed, self.room.free.cells.copy())

    def hopeless(self, j: int, victims: Sequence[Victim]) -> bool:
        """Whether counting proves that not even without all of them the gang fits."""
        return shortage(self.problem, self.tree, shape_of(j, self.problem.gangs[j]), self.without(victims)) is not None

    def take(self, v: int, pods: tuple[Placement, ...], winners: Iterable[int]) -> None:
        """Evict these pods of gang v for these gangs."""
        gang = self.problem.gangs[v]
        for p in pods:
            back = np.array(gang.roles[p.role].request, dtype=np.int64) * p.pods
            paid = np.minimum(self.owed[p.node], back)
            self.owed[p.node] -= paid
            self.room.take(p.node, Ask(tuple(int(x) for x in back - paid)), -1)
        self.ledger.charge(gang.queue, tuple(-x for x in freed(self.problem, v, pods)))
        left = merged([*self.running[v], *(Placement(p.role, p.node, -p.pods) for p in pods)])
        for node, cells in self.holdings.given_back(v, self.running[v], left).items():
            self.room.shift(node, cells)
        self.running[v] = left
        self.evicted[v] = merged([*self.evicted.get(v, ()), *pods])
        self.winners[v] = tuple(sorted({*self.winners.get(v, ()), *winners}))

    def give_back(self, v: int, pods: tuple[Placement, ...]) -> None:
        """The pods stay after all. Raises ValueError where their room is taken; then nothing has changed."""
        gang, mark = self.problem.gangs[v], self.room.mark()
        together = merged([*self.running[v], *pods])
        try:
            self.room.take_running(gang, pods)
            for node, cells in self.holdings.given_back(v, self.running[v], together).items():
                self.room.shift(node, cells)
        except ValueError:
            self.room.undo(mark)
            raise
        self.ledger.charge(gang.queue, freed(self.problem, v, pods))
        self.running[v] = together
        self.evicted[v] = merged([*self.evicted[v], *(Placement(p.role, p.node, -p.pods) for p in pods)])
        if not self.evicted[v]:
            del self.evicted[v], self.winners[v]

    def gone_whole(self, victims: Iterable[int]) -> int:
        """How many of these victims have no pod left."""
        return sum(1 for v in victims if not self.running[v])

    def anchor(self, pods: Mapping[int, tuple[Placement, ...]], j: int, before: Mapping[int, Exposure]) -> None:
        """Remember of which resource each queue that lost pods to others stays at what it deserves. Called once the
        pods are taken."""
        problem = self.problem
        home = problem.gangs[j].queue
        others = [v for v in pods if problem.gangs[v].queue != home and not may_take_back(problem, self.kept, j, v)]
        gated = {v: gates(problem, home, problem.gangs[v].queue) for v in others}
        for q in sorted({q for asked in gated.values() for q in asked} - self.anchors.keys()):
            given = [freed(problem, v, pods[v]) for v, asked in gated.items() if q in asked]
            held, most = self.ledger.held[q], before[q].most
            self.anchors[q] = next(
                r for r in sorted(most) if all(x[r] for x in given) and held[r] >= (self.due[q][r] or 0)
            )


def cheapest_victims(standing: Standing, j: int, options: Options) -> Taken | None:
    """Whom to evict for gang j, with the least loss; None where the rules allow nobody who would help, or a limit
    struck before an answer."""
    victims, exposures = standing.candidates(j)
    if not victims or standing.hopeless(j, victims):
        return None
    room = Making(standing, (j,), (shape_of(j, standing.problem.gangs[j]),), victims, exposures)
    bounds = room.cheapest(0)
    best: Taken | None = None
    for size in SIZES:
        choice = bounds.choose(size)
        if not choice.nodes:
            break
        best = solved(room.model(choice.nodes), (j,), choice.beyond, options) or best
        if math.isinf(choice.beyond) or (best is not None and room.settled(best)):
            break
    return best


@dataclass(frozen=True)
class Making:
    """The gangs that room is made for, each with its shape, and who may go for all of them; what the queues of victims
    can spare."""

    standing: Standing
    gangs: tuple[int, ...]
    shapes: tuple[Shape, ...]
    victims: Sequence[Victim]
    exposures: Mapping[int, Exposure]

    @cached_property
    def places(self) -> tuple[Place, ...]:
        return aggregate(self.standing.problem)

    @cached_property
    def rich(self) -> Free:
        """What is free were all victims gone."""
        return self.standing.without(self.victims)

    @cached_property
    def waiting(self) -> dict[Class, tuple[int, ...]]:
        gangs = self.standing.problem.gangs
        return {(gangs[j].queue, urgency(gangs[j]), k): (j,) for k, j in enumerate(self.gangs)}

    @cached_property
    def away(self) -> bool:
        """Whether pods count wherever they are, since what is short is some queue's."""
        problem, width = self.standing.problem, len(self.standing.problem.resources)
        asked: dict[int, Vector] = {}
        for j, shape in zip(self.gangs, self.shapes, strict=True):
            queue = problem.gangs[j].queue
            asked[queue] = add(asked.get(queue, (0,) * width), shape.demand(width))
        return len(asked) > 1 or not all(self.standing.ledger.allows(q, amount) for q, amount in asked.items())

    def settled(self, best: Taken) -> bool:
        """Whether a model of more nodes has nothing to add: nothing loses less, and where surplus might go instead of a
        gang, none does."""
        loss, whole, _ = best.objectives
        return loss.verdict == "proven" and (whole.verdict == "proven" or not any(v.spare for v in self.victims))

    def cheapest(self, k: int) -> Cheapest:
        """The bounds on the loss of the gang of shape k alone."""
        standing, gang = self.standing, self.standing.problem.gangs[self.gangs[k]]
        waiting = {(gang.queue, urgency(gang), 0): (self.gangs[k],)}
        s = Sets(standing.problem, standing.tree, self.places, self.rich, standing.ledger, (self.shapes[k],), waiting)
        return Cheapest(s, standing.room.free, self.victims)

    def model(self, nodes: frozenset[int]) -> Evictions:
        """The model over these nodes, each a place of its own."""
        standing = self.standing
        within = [i for i, place in enumerate(self.places) if nodes.intersection(place.nodes)]
        free = self.rich.copy()
        free.amounts[[n for n in range(len(standing.problem.nodes)) if n not in nodes]] = 0
        places = refine(self.places, within)
        s = Sets(
            standing.problem,
            standing.tree,
            places,
            free,
            standing.ledger,
            self.shapes,
            self.waiting,
            standing.room.neighbours,
        )
        useful = [v for v in self.victims if self.away or any(p.node in nodes for p in v.running)]
        return Evictions(s, standing.bare, useful, self.exposures, standing.allowed, self.away)


def solved(m: Evictions, gangs: Sequence[int], beyond: float, options: Options) -> Taken | None:
    """Least loss, then fewest gangs that go whole, then fewest victims, each held while the next is minimised. beyond:
    no answer outside the model loses less."""
    model = m.x.model
    model.sense = pulp.LpMinimize
    losses = m.losses()
    unit = math.gcd(*(int(c) for _, c in losses)) or 1
    model.setObjective(pulp.LpAffineExpression([(x, c / unit) for x, c in losses]))
    answer = solve_model(model, options)
    if not answer.values:
        return None
    value = _sum(losses, answer.values)
    values: Mapping[str, float] = m.settled(answer.values)
    bound = min(
        math.ceil(answer.bound - 1e-6 * max(1.0, abs(answer.bound))) * unit if math.isfinite(answer.bound) else 0.0,
        beyond,
    )
    objectives = [judge("loss", value, max(0.0, bound), options.gap, maximise=False)]
    model.addConstraint(at_most([(x, c / unit) for x, c in losses], value / unit + 0.5), "held_loss")
    values, fewest = _fewest(m, m.whole(), 0 if m.elastic else 1, values, options)
    only_here = beyond > value and objectives[0].verdict == "proven"
    whole = _sum(m.whole(), values)
    objectives.append(
        judge(
            "whole gangs",
            whole,
            fewest if only_here else min(whole, 0 if m.elastic else 1),
            options.gap,
            maximise=False,
        )
    )
    if m.elastic:
        model.addConstraint(at_most(m.whole(), whole + 0.5), "held_whole")
        values, fewest = _fewest(m, m.touched(), 1, values, options)
    number = _sum(m.touched(), values)
    only_here = only_here and objectives[1].verdict == "proven"
    objectives.append(judge("victims", number, fewest if only_here else min(number, 1), options.gap, maximise=False))
    fresh: dict[int, list[Placement]] = {j: list(shape.fixed) for j, shape in zip(gangs, m.s.shapes, strict=True)}
    for (k, t, i), pods in sorted(pods_of(m.x, values).items()):
        fresh[gangs[k]].append(Placement(t, m.s.places[i].nodes[0], pods))
    return Taken(m.taken(values), {j: merged(pods) for j, pods in fresh.items()}, tuple(objectives), m.exposures)


def _fewest(
    m: Evictions, terms: Terms, least: int, values: Mapping[str, float], options: Options
) -> tuple[Mapping[str, float], int]:
    """The solution with the smallest sum of these, given what is held, and a bound on that sum. values: a solution.
    least: a bound that is known."""
    number = _sum(terms, values)
    if number <= least:
        return values, number
    m.x.model.setObjective(pulp.LpAffineExpression(terms))
    answer = solve_model(m.x.model, options, values)
    if (
        answer.values
        and _sum(m.losses(), answer.values) <= _sum(m.losses(), values)
        and _sum(terms, answer.values) <= number
    ):
        values = m.settled(answer.values)
    return values, max(least, math.ceil(answer.bound - 1e-6)) if math.isfinite(answer.bound) else least


def _sum(terms: Iterable[tuple[pulp.LpVariable, float]], values: Mapping[str, float]) -> int:
    return round(sum(values[x.name] * c for x, c in terms))


def total_loss(problem: Problem, pods: Mapping[int, tuple[Placement, ...]]) -> int:
    """sum over victims of pods x seconds run"""
    return sum(loss(problem.gangs[v]) * p.pods for v, some in pods.items() for p in some)

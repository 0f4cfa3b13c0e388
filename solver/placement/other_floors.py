"""Neighbourhoods of a floor: where its gangs may go anywhere, other greedies choose all of them again, or pods are
exchanged node by node.

A floor is the gangs that a greedy starts, of a batch in which pods need nothing but a node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import fsum

from solver.admission.admit import solve_first_goal
from solver.admission.greedy_fill import greedy_floor
from solver.greedy.best_fit import GreedyPlacer
from solver.greedy.fragmentation import Fragmentation, PodClass
from solver.models.sets import Sets
from solver.options import Budget, Options
from solver.placement.node_exchange import exchange_pods
from solver.placement.realise import pack_buckets
from solver.placement.spread import gang_pods_by_bucket
from solver.plan import Objective
from solver.problem import Problem, Vector
from solver.search.search import Incumbent, Limits, Moves, improve
from solver.semantics.gang_classes import waiting_class
from solver.semantics.placements import Placements, dominant_share, new_placements, placed_demand
from solver.semantics.priorities import precedence
from solver.state.state import State


@dataclass(frozen=True, slots=True)
class FloorCost:
    """The less, the more is started. started: (queue, precedence) -> (the sum of the dominant shares of its gangs, the
    dominant share of all of them together)."""

    started: Mapping[tuple[int, int], tuple[float, float]]

    @classmethod
    def of(cls, problem: Problem, floor: Placements) -> FloorCost:
        totals, demands = problem.totals, dict[tuple[int, int], list[Vector]]()
        for j, pods in floor.items():
            gang = problem.gangs[j]
            demand = placed_demand(gang, new_placements(gang, pods), len(totals))
            demands.setdefault((gang.queue, precedence(gang)), []).append(demand)
        started = {}
        for key, found in demands.items():
            # fsum is exact, so that the order of the gangs decides nothing
            each, together = (dominant_share(d, totals) for d in found), map(sum, zip(*found, strict=True))
            started[key] = fsum(each), dominant_share(together, totals)
        return cls(started)

    def __lt__(self, other: FloorCost) -> bool:
        """Return whether more of some queue and precedence is started, and less of none, by both sums."""
        for key, theirs in other.started.items():
            mine = self.started.get(key, (0.0, 0.0))
            if mine[0] < theirs[0] or mine[1] < theirs[1]:
                return False
        return self.started != other.started


def best_floor(state: State, floor: Placements, gangs: Sequence[int], options: Options) -> Placements:
    """Return the first floor of another greedy that starts more, else this one."""

    def moves(_: Incumbent[Placements]) -> Moves[Placements]:
        for placer in fragmentation_aware_placers(state, gangs, options.budget):
            yield partial(greedy_floor, placer, gangs)

    return improve(floor, partial(FloorCost.of, state.problem), moves, Limits(options.clock, improvements=1, passes=1))


def floor_after_exchange(s: Sets, floor: Placements, gangs: list[int], options: Options) -> Placements:
    """Return the floor after exchanges of pods and with the gangs that then still fit; the floor itself, if that starts
    no more."""

    def exchange() -> Placements:
        state, found = exchange_pods(s.state, floor, gangs, options)
        waiting = [j for j in gangs if j not in found]
        return {**found, **greedy_floor(GreedyPlacer(state, budget=options.budget), waiting)}

    return improve(floor, partial(FloorCost.of, s.problem), lambda _: iter([exchange]), Limits(options.clock, passes=1))


def fragmentation_aware_placers(
    state: State, gangs: Iterable[int], budget: Budget | None = None
) -> Iterator[GreedyPlacer]:
    """Two placers, each on a copy of the state, that put pods where the rest of the batch misses the room least: one
    serves the largest gangs of a queue first, between which small ones still fit, the other the oldest."""
    problem, pods = state.problem, Counter[PodClass]()
    for j in gangs:
        for role in waiting_class(j, problem.gangs[j]).roles:
            pods[role.pod_request, role.node_classes] += role.min_pods
    for largest_first in (True, False):
        own = state.copy()
        yield GreedyPlacer(own, Fragmentation(problem, own.free_nodes, pods), largest_first, budget)


def unpackable_objective(s: Sets, floor: Placements, options: Options) -> Objective | None:
    """Return the first objective of a batch, if nodes cannot hold what its buckets could: then no model of later
    objectives is worth its time."""
    admission = solve_first_goal(s, floor, options)
    packed = pack_buckets(s, admission.admitted, gang_pods_by_bucket(s, admission), options)
    return admission.objectives[0] if isinstance(packed, tuple) else None

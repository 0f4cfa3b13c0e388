"""More greedies for pods that may go anywhere: not where the fewest still fit, but where the rest of the batch misses
the room least."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from math import fsum

from solver.greedy.best_fit import GreedyPlacer
from solver.greedy.fragmentation import Fragmentation, PodClass
from solver.problem import Problem, Vector
from solver.semantics.gang_classes import hard_tier, waiting_class
from solver.semantics.placements import Placements, new_placements, placed_demand
from solver.semantics.priorities import precedence
from solver.semantics.queue_limits import cluster_totals
from solver.state.state import State


def may_go_anywhere(problem: Problem, gangs: Iterable[int]) -> bool:
    """Whether nothing binds these gangs to domains, nor pods to other pods: then there is no more to choose than a node
    for each pod."""
    asking = ((problem.gangs[j], waiting_class(j, problem.gangs[j])) for j in gangs)
    return not any(hard_tier(gang) is not None or gang.subgroups or shape.has_pod_rules for gang, shape in asking)


def fragmentation_aware_placers(state: State, gangs: Iterable[int]) -> Iterator[GreedyPlacer]:
    """Two placers, each on a copy of the state: the first serves the largest gangs of a queue first, between which small
    ones still fit, the second the oldest."""
    problem = state.problem
    pods = Counter[PodClass]()
    for j in gangs:
        for role in waiting_class(j, problem.gangs[j]).roles:
            pods[role.pod_request, role.node_classes] += role.min_pods
    for largest in (True, False):
        own = state.copy()
        yield GreedyPlacer(own, Fragmentation(problem, own.free_nodes, pods), largest)


def starts_more(problem: Problem, one: Placements, other: Placements) -> bool:
    """Whether the first starts more than the second: of some queue and urgency more, and of none less, by both sums of
    `_started`."""
    mine, theirs = _started_shares(problem, one), _started_shares(problem, other)
    return mine != theirs and all(
        a >= b for key, sums in theirs.items() for a, b in zip(mine.get(key, (0.0, 0.0)), sums, strict=True)
    )


def _started_shares(problem: Problem, placements: Placements) -> dict[tuple[int, int], tuple[float, float]]:
    """(queue, urgency) -> (the sum of the dominant shares of its gangs that start, the dominant share of all of them
    together)."""
    whole = cluster_totals(problem)
    amounts: dict[tuple[int, int], list[Vector]] = {}
    for j, pods in placements.items():
        gang = problem.gangs[j]
        amounts.setdefault((gang.queue, precedence(gang)), []).append(
            placed_demand(gang, new_placements(gang, pods), len(whole))
        )

    def share(amount: Iterable[int]) -> float:
        return max((a / t for a, t in zip(amount, whole, strict=True) if t), default=0.0)

    # fsum is exact, so that the order of the gangs decides nothing
    return {
        key: (fsum(share(amount) for amount in found), share(map(sum, zip(*found, strict=True))))
        for key, found in amounts.items()
    }

"""More greedies for pods that may go anywhere: not where the fewest still fit, but where the rest of the batch misses
the room least."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from solver.greedy.best_fit import GreedyPlacer
from solver.greedy.fragmentation import Fragmentation, PodClass
from solver.options import Budget
from solver.problem import Problem
from solver.semantics.gang_classes import hard_tier, waiting_class
from solver.state.state import State


def may_go_anywhere(problem: Problem, gangs: Iterable[int]) -> bool:
    """Whether nothing binds these gangs to domains, nor pods to other pods: then there is no more to choose than a node
    for each pod."""
    asking = ((problem.gangs[j], waiting_class(j, problem.gangs[j])) for j in gangs)
    return not any(hard_tier(gang) is not None or gang.subgroups or shape.has_pod_rules for gang, shape in asking)


def fragmentation_aware_placers(
    state: State, gangs: Iterable[int], budget: Budget | None = None
) -> Iterator[GreedyPlacer]:
    """Two placers, each on a copy of the state: one serves the largest gangs of a queue first, between which small
    ones still fit, the other the oldest."""
    problem = state.problem
    pods = Counter[PodClass]()
    for j in gangs:
        for role in waiting_class(j, problem.gangs[j]).roles:
            pods[role.pod_request, role.node_classes] += role.min_pods
    for largest in (True, False):
        own = state.copy()
        yield GreedyPlacer(own, Fragmentation(problem, own.free_nodes, pods), largest, budget)

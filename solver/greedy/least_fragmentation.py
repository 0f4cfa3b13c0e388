"""More greedies for pods that may go anywhere: not where the fewest still fit, but where the rest of the batch misses
the room least."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from math import fsum

from solver.greedy.best_fit import Greedy
from solver.greedy.fragmentation import Fragments, Pod
from solver.problem import Problem, Vector
from solver.semantics.gang_classes import hard_tier, shape_of
from solver.semantics.placements import Placements, fresh
from solver.semantics.priorities import urgency
from solver.semantics.queue_limits import totals
from solver.semantics.topology import Tree
from solver.state.room import Room, demand


def anywhere(problem: Problem, gangs: Iterable[int]) -> bool:
    """Whether nothing binds these gangs to domains, nor pods to other pods: then there is no more to choose than a node
    for each pod."""
    asking = ((problem.gangs[j], shape_of(j, problem.gangs[j])) for j in gangs)
    return not any(hard_tier(gang) is not None or gang.subgroups or shape.related for gang, shape in asking)


def sparing(problem: Problem, tree: Tree, room: Room, gangs: Iterable[int]) -> Iterator[Greedy]:
    """These greedies, each in a room of its own: of a queue's gangs the largest first, between which small ones still
    fit, and the oldest first."""
    pods = Counter[Pod]()
    for j in gangs:
        for role in shape_of(j, problem.gangs[j]).roles:
            pods[role.ask, role.kinds] += role.need
    for largest in (True, False):
        again = room.copy()
        yield Greedy(problem, tree, again, Fragments(problem, again, pods), largest)


def more(problem: Problem, one: Placements, other: Placements) -> bool:
    """Whether the first starts more than the second: of some queue and urgency more, and of none less, by both sums of
    `_started`."""
    mine, theirs = _started(problem, one), _started(problem, other)
    return mine != theirs and all(
        a >= b for key, sums in theirs.items() for a, b in zip(mine.get(key, (0.0, 0.0)), sums, strict=True)
    )


def _started(problem: Problem, placements: Placements) -> dict[tuple[int, int], tuple[float, float]]:
    """(queue, urgency) -> (the sum of the dominant shares of its gangs that start, the dominant share of all of them
    together)."""
    whole = totals(problem)
    amounts: dict[tuple[int, int], list[Vector]] = {}
    for j, pods in placements.items():
        gang = problem.gangs[j]
        amounts.setdefault((gang.queue, urgency(gang)), []).append(demand(gang, fresh(gang, pods), len(whole)))

    def share(amount: Iterable[int]) -> float:
        return max((a / t for a, t in zip(amount, whole, strict=True) if t), default=0.0)

    # fsum is exact, so that the order of the gangs decides nothing
    return {
        key: (fsum(share(amount) for amount in found), share(map(sum, zip(*found, strict=True))))
        for key, found in amounts.items()
    }

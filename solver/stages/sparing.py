"""A second greedy for pods that may go anywhere: not where the fewest still fit, but where the rest of the batch misses the room least."""

from __future__ import annotations

from collections.abc import Iterable
from math import fsum

from solver.fragments import Fragments
from solver.greedy import Greedy
from solver.order import urgency
from solver.problem import Problem
from solver.quotas import totals
from solver.room import Room, demand
from solver.shapes import hard_tier, shape_of
from solver.stages.admit import Placements
from solver.stages.pack import fresh
from solver.tree import Tree


def sparing(problem: Problem, tree: Tree, room: Room, gangs: Iterable[int]) -> Greedy | None:
    """That greedy in a copy of the room; None where gangs are bound to domains, or pods to other pods: then there is more to choose than a node."""
    asking = [(problem.gangs[j], shape_of(j, problem.gangs[j])) for j in gangs]
    if any(hard_tier(gang) is not None or gang.subgroups or shape.related for gang, shape in asking):
        return None
    pods = [(role.ask, role.kinds) for _, shape in asking for role in shape.roles for _ in range(role.need)]
    again = room.copy()
    return Greedy(problem, tree, again, Fragments(problem, again, pods))


def no_less(problem: Problem, one: Placements, other: Placements) -> bool:
    """Whether the first starts, of every queue and urgency, at least as much as the second, each gang counted by its dominant share."""
    mine, theirs = _started(problem, one), _started(problem, other)
    return all(mine.get(key, 0.0) >= amount for key, amount in theirs.items())


def _started(problem: Problem, placements: Placements) -> dict[tuple[int, int], float]:
    whole = totals(problem)
    shares: dict[tuple[int, int], list[float]] = {}
    for j, pods in placements.items():
        gang = problem.gangs[j]
        amount = demand(gang, fresh(gang, pods), len(whole))
        shares.setdefault((gang.queue, urgency(gang)), []).append(max((a / t for a, t in zip(amount, whole, strict=True) if t), default=0.0))
    return {key: fsum(found) for key, found in shares.items()}  # exact, so that the order of the gangs decides nothing

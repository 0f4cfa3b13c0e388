"""Which gangs are in the way."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import replace

from solver.diagnosis.minimal import spared
from solver.diagnosis.world import Case, Setting
from solver.greedy.best_fit import Greedy
from solver.placement.fit import found
from solver.state.room import Room

FEW = 32
"""Up to so many gangs each is tried whether it can be spared."""


def blockers(case: Case, s: Setting) -> tuple[int, tuple[int, ...]]:
    """(pods of the gang that fit beside the plan, the gangs that the plan starts without which all of it would, none of
    them to spare).

    Whose queue they are in does not matter. Those of the gang's priority and above come first into question, the lowest
    and youngest first.
    """
    world, priority = case.world, case.gang.priority
    key = (priority, s)
    if key not in world.blockers:
        q = case.question(s)
        gangs = world.problem.gangs
        order = sorted(world.started, key=lambda i: (gangs[i].priority, -gangs[i].age, -i))
        order = [i for i in order if gangs[i].priority >= priority] or order
        most = Greedy(q.problem, q.tree, Room(q.free, q.neighbours)).most(0, q.shape)
        world.blockers[key] = most, tuple(sorted(_least_prefix(case, s, order)))
    return world.blockers[key]


def _least_prefix(case: Case, s: Setting, order: list[int]) -> tuple[int, ...]:
    """The shortest prefix of `order` without which the gang fits, less the members that it does not need."""
    world, q = case.world, case.question(replace(s, started=False))
    left = q.free.less(world.given)

    def fits(without: Iterable[int]) -> bool:
        free = left.copy()
        for i in without:
            world.give_back(free, i)
        return (
            found(q.problem, q.tree, 0, q.shape, free.clipped(), world.without(without) if s.related else None)
            is not None
        )

    number = bisect_left(range(len(order)), True, key=lambda number: fits(order[:number]))
    chosen = tuple(reversed(order[:number]))
    return spared(chosen, fits) if len(chosen) <= FEW else chosen

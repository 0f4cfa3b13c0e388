"""The floor of docs/model.md: no plan is worth less than what the greedy alone starts, whatever cuts the search short.

The greedy is said here once more: its turns, its queues, what its gangs are worth. Only the nodes that it picks are `solver.greedy`'s own, since
another choice of nodes would be another floor.
"""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import event, given, settings
from hypothesis import strategies as st

from solver import Options, solve
from solver.greedy import Greedy
from solver.problem import Problem
from solver.room import Room as Nodes
from solver.room import free_vectors
from solver.shapes import shape_of
from solver.tree import Tree
from solver.verify import verify
from tests.property import brute
from tests.property.optimum import Ceilings, Value, ancestors, demand, measures, rank, takes, totals, worth
from tests.property.strategies import policies, problems

CUT = (
    Options(time_limit=0.0),
    Options(max_nodes=1),
    Options(max_nodes=1, joint_variables=10**6, share_variables=10**6),
    Options(gap=0.5),
    Options(joint_variables=1, share_variables=10**6),
    Options(joint_variables=1, share_variables=1),
    Options(joint_variables=1, share_variables=1, max_nodes=1),
    Options(joint_variables=1, share_variables=1, fair_levels=1),
)
"""Short searches of every kind: no time, no branching, a gap, each priority by itself, shares held at the greedy's."""


def greedy(world: Problem) -> frozenset[int]:
    """Gang by gang: the highest level, the queue with the lowest share, the oldest (with drf the one that holds least); whoever fits starts."""
    rooms, ceilings, width = brute.Room(world), Ceilings.of(world), len(world.resources)
    added = [(0,) * width] * len(world.queues)
    hand = Greedy(world, Tree(world), Nodes(free_vectors(world)))
    waiting = {g for g, gang in enumerate(world.gangs) if not brute.is_kept(gang) and takes(world, gang.queue)}
    started = set()
    while waiting:
        g = min(waiting, key=lambda g: turn(world, g, [_plus(held, more) for held, more in zip(rooms.held, added, strict=True)]))
        waiting.remove(g)
        gang = world.gangs[g]
        charged = [_plus(more, demand(gang, width)) if q == gang.queue else more for q, more in enumerate(added)]
        if rooms.queues_hold(charged) and ceilings.hold(rooms.held, charged) and hand.place(g, shape_of(g, gang)) is not None:
            started.add(g)
            added = charged
    return frozenset(started)


def turn(world: Problem, g: int, held: list[tuple[int, ...]]) -> tuple[object, ...]:
    """Whoever has the smallest is next. held: by queue, without those below it."""
    gang, whole = world.gangs[g], totals(world)
    first = tuple(-x for x in rank(world, g))
    line = ancestors(world, gang.queue)[::-1] if world.policy.capacity and world.policy.capacity_hierarchy else [gang.queue]
    standing = tuple((share(world, q, held), q) for q in line)
    mine = [sum(n * gang.roles[t].request[r] for (t, _), n in brute.running(gang).items()) for r in range(len(whole))]
    holds = max((have / total for have, total in zip(mine, whole, strict=True) if total), default=0.0) if world.policy.drf else 0.0
    return first, standing, holds, gang.age, g


def share(world: Problem, q: int, held: list[tuple[int, ...]]) -> float:
    """In floats, which round equal shares as the greedy's own do."""
    measure, weight = measures(world)[q], 1
    below = [d for d in range(len(world.queues)) if q in ancestors(world, d)]
    mine = [sum(held[d][r] for d in below) for r in range(len(world.resources))]
    return measure.base + max((have / per for have, per in zip(mine, measure.per, strict=True) if per), default=0.0) / float(measure.weight / weight)


def _plus(left: Iterable[int], right: Iterable[int]) -> tuple[int, ...]:
    return tuple(a + b for a, b in zip(left, right, strict=True))


def older_than_the_tie_break(value: Value) -> Value:
    return value[:-1]


@settings(max_examples=400)
@given(policies(problems(running="whole gangs")), st.sampled_from(CUT))
def test_no_plan_is_worth_less_than_what_the_greedy_starts(world: Problem, options: Options) -> None:
    made = solve(world, options)
    assert verify(world, made) == []
    mine = frozenset(decision.gang for decision in made.decisions if decision.action == "start")
    floor = greedy(world)
    event("as the greedy" if mine == floor else "other than the greedy")
    assert worth(world, mine)[:-1] >= worth(world, floor)[:-1], (sorted(mine), sorted(floor))

"""The floor of model.md: no plan is worth less than what the greedy alone starts, whatever cuts the search short.

The greedy is said here once more: its turns, its queues, what its gangs are worth. Only the nodes that it picks are
`solver.greedy.best_fit`'s own, since another choice of nodes would be another floor.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hypothesis import event, given
from hypothesis import strategies as st

from solver import Options
from solver.greedy.best_fit import GreedyPlacer
from solver.options import Budget
from solver.problem import Gang, Node, Problem, Queue, Role, Topology
from solver.semantics.gang_classes import waiting_class
from solver.state.state import State
from solver.verify import verify
from tests.builders.depth import settings
from tests.builders.plans import solve_without_repairs
from tests.builders.strategies import HYPERNODE_TREES, POLICIES, problems, problems_under_policies
from tests.property import brute
from tests.property.brute_queues import QueueCeilings, accepts_gangs, ancestors, cluster_totals
from tests.property.optimum import missing_demand, objective_values, precedence_level, share_measures

CUT = (
    Options(time_limit=0.0),
    Options(max_nodes=1),
    Options(max_nodes=1, budget=Budget(joint_variables=10**6, share_variables=10**6)),
    Options(gap=0.5),
    Options(max_nodes=1, budget=Budget(joint_variables=1, share_variables=1)),
)
"""Short searches of every kind: no time, no branching, a gap, shares held at the greedy's."""

SPLIT = (
    Options(budget=Budget(joint_variables=1, share_variables=10**6)),
    Options(budget=Budget(joint_variables=1, share_variables=1)),
    Options(time_limit=0.0, budget=Budget(joint_variables=1)),
    Options(budget=Budget(joint_variables=1, batch_variables=1, free_batch_variables=1)),
)
"""Each priority by itself; each gang by itself."""


def greedy(world: Problem) -> frozenset[int]:
    """Gang by gang: the highest level, the queue with the lowest share, the oldest (with drf the one that holds least);
    whoever fits starts."""
    rooms, ceilings, width = brute.FreeCapacity(world), QueueCeilings.of(world), len(world.resources)
    added = [(0,) * width] * len(world.queues)
    hand = GreedyPlacer(State.initial(world))
    waiting = {
        g for g, gang in enumerate(world.gangs) if not brute.meets_minima_now(gang) and accepts_gangs(world, gang.queue)
    }
    started, stopped = set[int](), set[int]()
    while waiting:
        g = min(
            waiting,
            key=lambda g: turn(world, g, [_plus(held, more) for held, more in zip(rooms.held, added, strict=True)]),
        )
        waiting.remove(g)
        gang = world.gangs[g]
        if gang.queue in stopped:
            continue
        charged = [
            _plus(more, missing_demand(gang, width)) if q == gang.queue else more for q, more in enumerate(added)
        ]
        if (
            rooms.fits_queues(charged)
            and ceilings.allow_amounts(rooms.held, charged)
            and hand.place_gang(g, waiting_class(g, gang)) is not None
        ):
            started.add(g)
            added = charged
        elif world.queues[gang.queue].strict_order:
            stopped.add(gang.queue)
    return frozenset(started)


def turn(world: Problem, g: int, held: list[tuple[int, ...]]) -> tuple[object, ...]:
    """Whoever has the smallest is next. held: by queue, without those below it."""
    gang = world.gangs[g]
    first = tuple(-x for x in precedence_level(world, g))
    line = (
        ancestors(world, gang.queue)[::-1]
        if world.policy.capacity and world.policy.capacity_hierarchy
        else [gang.queue]
    )
    standing = tuple((share(world, q, held), q) for q in line)
    return first, standing, holds(world, g), gang.age, g


def holds(world: Problem, g: int) -> float:
    """What drf goes by inside a queue."""
    gang, whole = world.gangs[g], cluster_totals(world)
    if not world.policy.drf or world.queues[gang.queue].strict_order:
        return 0.0
    mine = [
        sum(n * gang.roles[t].request[r] for (t, _), n in brute.running_pods(gang).items()) for r in range(len(whole))
    ]
    return max((have / total for have, total in zip(mine, whole, strict=True) if total), default=0.0)


def share(world: Problem, q: int, held: list[tuple[int, ...]]) -> float:
    """In floats, which round equal shares as the greedy's own do."""
    measure = share_measures(world)[q]
    below = [d for d in range(len(world.queues)) if q in ancestors(world, d)]
    mine = {name: sum(held[d][r] for d in below) for r, name in enumerate(world.resources)}
    parts = (mine[name] / per for name, per in measure.per.items() if per)
    return measure.base + max(parts, default=0.0) / float(measure.weight)


def _plus(left: Iterable[int], right: Iterable[int]) -> tuple[int, ...]:
    return tuple(a + b for a, b in zip(left, right, strict=True))


@st.composite
def tight(draw: st.DrawFn) -> Problem:
    """Rigid gangs of all sizes on up to 5 nodes that hold about half of them: 3 priorities, tight domains, queues under
    every policy, some strict."""
    spots = draw(st.lists(st.sampled_from((None, 0, 1)), min_size=2, max_size=5))
    sizes = [draw(st.sampled_from((4, 8))) for _ in spots]
    nodes = tuple(
        _node(n, leaf, (draw(st.sampled_from((0, 8))), size))
        for n, (leaf, size) in enumerate(zip(spots, sizes, strict=True))
    )
    parents = draw(st.sampled_from(((None,), (None, None), (None, None, None), (None, 0, 0, None))))
    queues = tuple(draw(_queues(q, parent, sum(sizes))) for q, parent in enumerate(parents))
    homes = [q for q in range(len(parents)) if q not in parents]
    gangs = tuple(draw(_rigid(g, homes)) for g in range(draw(st.integers(4, 9))))
    policy = draw(st.sampled_from(POLICIES))
    return Problem(("cpu", "gpu"), nodes, HYPERNODE_TREES[2], queues, gangs, replace(policy, order="priorities-first"))


def _node(n: int, leaf: int | None, amounts: tuple[int, int]) -> Node:
    return Node(f"n{n}", 0, leaf, amounts, amounts)


@st.composite
def _queues(draw: st.DrawFn, q: int, parent: int | None, gpus: int) -> Queue:
    deserved, capability = (
        (None, draw(st.sampled_from((None, 2, gpus)))),
        (None, draw(st.sampled_from((None, None, gpus // 2)))),
    )
    strict, weight = draw(st.sampled_from((False, False, False, True))), draw(st.integers(1, 3))
    return Queue(
        f"q{q}",
        parent,
        weight,
        draw(st.integers(0, 1)),
        (None, None),
        deserved,
        capability,
        (0, 0),
        strict_order=strict,
    )


@st.composite
def _rigid(draw: st.DrawFn, g: int, homes: list[int]) -> Gang:
    pods, request = draw(st.integers(1, 3)), (draw(st.integers(0, 2)), draw(st.sampled_from((1, 2, 3, 4, 5, 8))))
    topology = draw(st.sampled_from((None, None, Topology("hard", 1), Topology("hard", 2))))
    role = Role("r", pods, pods, request, frozenset({0}))
    return Gang(f"g{g}", draw(st.sampled_from(homes)), draw(st.integers(0, 2)), g, pods, (role,), topology)


def never_below(world: Problem, options: Options) -> None:
    made = solve_without_repairs(world, options)
    assert verify(world, made) == []
    mine = frozenset(decision.gang for decision in made.decisions if decision.action == "start")
    floor = greedy(world)
    event("as the greedy" if mine == floor else "other than the greedy")
    assert objective_values(world, mine)[:-1] >= objective_values(world, floor)[:-1], (sorted(mine), sorted(floor))


@settings(max_examples=35)
@given(st.one_of(tight(), problems_under_policies(problems(running="whole gangs"))), st.sampled_from(CUT))
def test_no_plan_is_worth_less_than_what_the_greedy_starts(world: Problem, options: Options) -> None:
    never_below(world, options)


@settings(max_examples=35)
@given(tight(), st.sampled_from(SPLIT))
def test_nor_is_one_whose_batches_are_decided_one_after_another(world: Problem, options: Options) -> None:
    never_below(world, options)

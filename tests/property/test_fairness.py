"""Fair shares against the order that every scheduler of this kind follows: the queue with the lowest share takes its next gang."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from solver import solve
from solver.problem import Policy, Problem
from solver.verify import verify
from tests.property.strategies import policies, problems
from tests.unit.solver.builders import gang, nodes, problem, queue, role


@st.composite
def one_resource(draw: st.DrawFn) -> Problem:
    """At most 3 queues with weights, on one node of up to 12 GPUs, each with up to 4 gangs of one pod; measured by weight or by what they deserve."""
    queues = [
        queue(f"q{q}", weight=draw(st.integers(1, 3)), used={"gpu": draw(st.integers(0, 2))}, deserved={"gpu": draw(st.integers(0, 6))})
        for q in range(draw(st.integers(2, 3)))
    ]
    sizes = [draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)) for _ in queues]
    gangs = [gang(f"q{q}-{g}", role(1, gpu=size), queue=f"q{q}") for q, mine in enumerate(sizes) for g, size in enumerate(mine)]
    policy = draw(st.sampled_from((Policy(), Policy(drf=True), Policy(capacity=True), Policy(capacity=True, capacity_hierarchy=True))))
    return problem(nodes(1, gpu=draw(st.integers(2, 12))), *queues, *gangs, policy=policy)


def share(world: Problem, q: int, held: int) -> Fraction:
    """Of what the queue deserves, where that counts; else of the cluster, by weight, after those that deserve something."""
    total, spec = world.nodes[0].capacity[0], world.queues[q]
    if world.policy.capacity and spec.deserved[0]:
        return Fraction(held, min(spec.deserved[0], total))
    return Fraction(held, total * spec.weight) + world.policy.capacity


def shares(world: Problem, held: list[int]) -> list[Fraction]:
    return sorted(share(world, q, amount) for q, amount in enumerate(held))


def lowest_first(world: Problem) -> list[int]:
    """What each queue holds when the one with the lowest share is asked again and again for its oldest gang that still fits."""
    held, left = [spec.used[0] for spec in world.queues], world.nodes[0].free[0]
    waiting = [[one.roles[0].request[0] for one in world.gangs if one.queue == q] for q in range(len(world.queues))]
    while any(waiting):
        q = min((q for q, sizes in enumerate(waiting) if sizes), key=lambda q: (share(world, q, held[q]), q))
        size = waiting[q].pop(0)
        if size <= left:
            left -= size
            held[q] += size
    return held


@settings(max_examples=300)
@given(one_resource())
def test_the_sorted_shares_are_never_below_those_of_lowest_share_first(world: Problem) -> None:
    plan = solve(world)
    assert verify(world, plan) == []
    held = [use.allocated[0] + use.admitted[0] for use in plan.queues]
    assert shares(world, held) >= shares(world, lowest_first(world))


@settings(max_examples=300)
@given(policies(problems(running="anything")))
def test_whatever_decides_between_queues_the_plan_is_valid_and_the_same_twice(world: Problem) -> None:
    plan = solve(world)
    assert verify(world, plan) == []
    assert [decision.action for decision in solve(world).decisions] == [decision.action for decision in plan.decisions]

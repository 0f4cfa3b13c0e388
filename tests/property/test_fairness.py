"""Fair shares against the order that every scheduler of this kind follows: the queue with the lowest share takes its
next gang."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from solver import Plan
from solver.problem import Policy, Problem
from solver.verify import verify
from tests.builders.plans import solve_without_repairs as solve
from tests.builders.problems import gang, nodes, problem, queue, role
from tests.builders.strategies import problems, problems_under_policies
from tests.property.brute_queues import cluster_totals
from tests.property.plan_events import plan_events, rare_events


@st.composite
def one_resource(draw: st.DrawFn) -> Problem:
    """At most 3 queues with weights, on one node of up to 12 GPUs, each with up to 4 gangs of one pod; measured by
    weight or by what they deserve."""
    queues = [
        queue(
            f"q{q}",
            weight=draw(st.integers(1, 3)),
            used={"gpu": draw(st.integers(0, 2))},
            deserved={"gpu": draw(st.integers(0, 6))},
        )
        for q in range(draw(st.integers(2, 3)))
    ]
    sizes = [draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)) for _ in queues]
    gangs = [
        gang(f"q{q}-{g}", role(1, gpu=size), queue=f"q{q}")
        for q, mine in enumerate(sizes)
        for g, size in enumerate(mine)
    ]
    policy = draw(
        st.sampled_from(
            (
                Policy(order="priorities-first"),
                Policy(drf=True, order="priorities-first"),
                Policy(capacity=True, order="priorities-first"),
                Policy(capacity=True, capacity_hierarchy=True, order="priorities-first"),
            )
        )
    )
    return problem(nodes(1, gpu=draw(st.integers(2, 12))), *queues, *gangs, policy=policy)


@st.composite
def several_resources(draw: st.DrawFn) -> Problem:
    """Up to 5 queues with weights on up to 4 nodes of many makes, each with up to 3 gangs of up to 3 pods that want
    CPUs, GPUs or both."""
    amount = st.integers(0, 6)
    queues = [
        queue(f"q{q}", weight=draw(st.integers(1, 3)), deserved={"cpu": draw(amount), "gpu": draw(amount)})
        for q in range(draw(st.sampled_from((2, 3, 3, 4, 5))))
    ]
    gangs = []
    for q in range(len(queues)):
        cpu, gpu = draw(st.sampled_from(((4, 1), (1, 4), (4, 4), (2, 0))))  # most that a pod of this queue asks for
        for g in range(draw(st.integers(1, 3))):
            pods = role(
                draw(st.sampled_from((1, 1, 2, 3))),
                cpu=draw(st.integers(1, cpu)),
                gpu=draw(st.integers(min(1, gpu), gpu)),
            )
            gangs.append(gang(f"q{q}-{g}", pods, queue=f"q{q}"))
    machines = [
        nodes(1, cpu=draw(st.integers(4, 12)), gpu=draw(st.integers(2, 8))) for _ in range(draw(st.integers(1, 4)))
    ]
    return problem(
        *machines,
        *queues,
        *gangs,
        policy=draw(
            st.sampled_from(
                (
                    Policy(order="priorities-first"),
                    Policy(drf=True, order="priorities-first"),
                    Policy(capacity=True, order="priorities-first"),
                )
            )
        ),
    )


def share(world: Problem, q: int, held: Sequence[int]) -> Fraction:
    """The dominant one: of what the queue deserves, where that counts; else of the cluster, by weight, after those that
    deserve something."""
    spec = world.queues[q]
    if world.policy.capacity and any(spec.deserved):
        return max(
            Fraction(h, min(d, t)) for h, d, t in zip(held, spec.deserved, cluster_totals(world), strict=True) if d
        )
    return (
        max(Fraction(h, t) for h, t in zip(held, cluster_totals(world), strict=True)) / spec.weight
        + world.policy.capacity
    )


def shares(world: Problem, held: Sequence[Sequence[int]]) -> list[Fraction]:
    return sorted(share(world, q, amounts) for q, amounts in enumerate(held))


def lowest_first(world: Problem) -> list[list[int]]:
    """What each queue holds when the one with the lowest share is asked again and again for its oldest gang that still
    fits, node after node."""
    held, left = [list(spec.used) for spec in world.queues], [list(node.free) for node in world.nodes]
    waiting = [[one.roles[0] for one in world.gangs if one.queue == q] for q in range(len(world.queues))]
    while any(waiting):
        q = min((q for q, roles in enumerate(waiting) if roles), key=lambda q: (share(world, q, held[q]), q))
        asks = waiting[q].pop(0)
        fewer, missing = [list(node) for node in left], asks.minimum
        for node in fewer:
            while missing and all(asked <= have for asked, have in zip(asks.request, node, strict=True)):
                node[:] = [have - asked for asked, have in zip(asks.request, node, strict=True)]
                missing -= 1
        if not missing:
            left = fewer
            held[q] = [have + asks.minimum * asked for have, asked in zip(held[q], asks.request, strict=True)]
    return held


def never_below(world: Problem) -> tuple[Plan, list[list[int]]]:
    """The plan, and what each queue then holds."""
    plan = solve(world)
    assert verify(world, plan) == []
    held = [[before + more for before, more in zip(use.allocated, use.admitted, strict=True)] for use in plan.queues]
    assert shares(world, held) >= shares(world, lowest_first(world))
    return plan, held


@settings(max_examples=50)
@given(one_resource())
def test_the_sorted_shares_are_never_below_the_greedys_by_lowest_share(world: Problem) -> None:
    never_below(world)


def test_dominant_shares_of_several_resources_are_never_below_the_greedys() -> None:
    seen = Counter[str]()

    @settings(max_examples=50)
    @given(several_resources())
    def dominant(world: Problem) -> None:
        plan, held = never_below(world)
        seen.update(plan_events(world, plan))
        parts = [[Fraction(h, t) for h, t in zip(amounts, cluster_totals(world), strict=True)] for amounts in held]
        seen.update(
            {"cpu dominates" for cpu, gpu in parts if cpu > gpu} | {"gpu dominates" for cpu, gpu in parts if cpu < gpu}
        )

    dominant()
    assert rare_events(seen, share=23, two_start=28, starts_and_waits=23, cpu_dominates=23, gpu_dominates=23) == {}


@settings(max_examples=25)
@given(problems_under_policies(problems(running="anything")))
def test_whatever_decides_between_queues_the_plan_is_valid_and_the_same_twice(world: Problem) -> None:
    plan = solve(world)
    assert verify(world, plan) == []
    assert [decision.action for decision in solve(world).decisions] == [decision.action for decision in plan.decisions]

"""Growth against the rule of develop/model.md, unit by unit, in a world where it does not matter on which node a pod
lies."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from solver.problem import Policy, Problem
from solver.verify import verify
from tests.builders.plans import solve_without_repairs as solve
from tests.builders.problems import gang, nodes, problem, queue, role, running_pods, subgroup

SIZE = 16
"""Devices of the node: a power of two, so that shares by weight that are equal are so as floats too."""


@st.composite
def elastic(draw: st.DrawFn) -> Problem:
    """Up to 4 gangs in up to 3 queues on one node, whose minima fit and whose replicas may not; some of them run
    already."""
    queues = [
        queue(
            f"q{q}",
            weight=draw(st.integers(1, 3)),
            priority=draw(st.integers(0, 1)),
            capability={"gpu": draw(st.sampled_from((4, 6, SIZE)))},
        )
        for q in range(draw(st.integers(1, 3)))
    ]
    gangs = []
    for g in range(draw(st.integers(1, 4))):
        unit, size = draw(st.sampled_from((1, 1, 2))), draw(st.sampled_from((1, 1, 2)))
        replicas = unit * draw(st.integers(1, 6 // unit))
        home, pods = draw(st.integers(0, len(queues) - 1)), unit if draw(st.booleans()) else 0
        gangs.append(
            gang(
                f"g{g}",
                role(replicas, minimum=unit, gpu=size),
                queue=f"q{home}",
                priority=draw(st.integers(0, 1)),
                running=(running_pods(0, 0, pods),) if pods else (),
                subgroups=(subgroup(2, mode="soft"),) if unit == 2 else (),
            )
        )
    policy = draw(
        st.sampled_from(
            (
                Policy(order="priorities-first"),
                Policy(drf=True, order="priorities-first"),
                Policy(capacity=True, order="priorities-first"),
            )
        )
    )
    return problem(nodes(1, gpu=SIZE), *queues, *gangs, policy=policy)


def grown(world: Problem, pods: dict[int, int]) -> dict[int, int]:
    """Unit by unit: the highest priority, then that of the queue, then the queue with the lowest share, in it the
    oldest gang (with drf the one that holds least), as long as its unit fits the node and the queue."""
    pods, wanting = dict(pods), set(pods)
    each = [spec.roles[0].request[0] for spec in world.gangs]
    running = sum(place.pods * each[g] for g, spec in enumerate(world.gangs) if g not in pods for place in spec.running)

    def held(q: int) -> int:
        return sum(n * each[g] for g, n in pods.items() if world.gangs[g].queue == q)

    def turn(g: int) -> tuple[int, int, Fraction, int, int, int]:
        spec = world.gangs[g]
        q = world.queues[spec.queue]
        return (
            -spec.priority,
            -q.priority if world.policy.capacity else 0,
            Fraction(held(spec.queue), q.weight),
            spec.queue,
            pods[g] * each[g] if world.policy.drf else 0,
            spec.age,
        )

    while wanting:
        g = min(wanting, key=turn)
        spec = world.gangs[g]
        unit = spec.subgroups[0].size if spec.subgroups else 1
        most = world.queues[spec.queue].capability[0]
        fits = sum(n * each[j] for j, n in pods.items()) + running + unit * each[g] <= SIZE
        if (
            pods[g] + unit <= spec.roles[0].replicas
            and fits
            and (most is None or held(spec.queue) + unit * each[g] <= most)
        ):
            pods[g] += unit
        else:
            wanting.remove(g)
    return pods


@settings(max_examples=60)
@given(elastic())
def test_growth_follows_the_order_that_the_model_gives(world: Problem) -> None:
    made = solve(world)
    assert verify(world, made) == []
    minima = tuple(
        replace(spec, roles=(replace(spec.roles[0], replicas=spec.roles[0].minimum),)) for spec in world.gangs
    )
    admitted = {
        d.gang: sum(place.pods for place in d.placements)
        for d in solve(replace(world, gangs=minima)).decisions
        if d.action != "wait"
    }
    final = {d.gang: sum(place.pods for place in d.placements) for d in made.decisions if d.action != "wait"}
    assert final == grown(world, admitted)

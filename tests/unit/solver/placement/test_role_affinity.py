"""Roles that like to share a node, and roles that do not: a wish inside a leaf, which nothing else notices."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from solver import solve
from solver.plan import Plan
from solver.problem import InvalidProblemError, Problem
from solver.validation.values import validate
from solver.verify import verify
from tests.builders.problems import gang, nodes, pod_rule, problem, role, running_pods


def liking(world: Problem, *affinities: tuple[int, int, int]) -> Problem:
    return replace(world, gangs=(replace(world.gangs[0], role_affinities=affinities), *world.gangs[1:]))


def nodes_of(made: Plan, role: int) -> Counter[int]:
    return Counter({place.node: place.pods for place in made.decisions[0].placements if place.role == role})


def objectives(made: Plan) -> list[tuple[str, float]]:
    return [(objective.name, objective.value) for batch in made.batches for objective in batch.objectives]


PAIRS = problem(nodes(4, leaf="s", gpu=4), gang("a", role(4, gpu=2), role(4, gpu=2)), hypernodes={"s": (1, None)})


def test_each_worker_shares_its_node_with_a_server() -> None:
    plain, paired = solve(PAIRS), solve(liking(PAIRS, (0, 1, 1)))
    assert set(nodes_of(plain, 0)) != set(nodes_of(plain, 1)), "without the wish each role fills nodes of its own"
    assert nodes_of(paired, 0) == nodes_of(paired, 1) == {0: 1, 1: 1, 2: 1, 3: 1}
    assert objectives(plain) == objectives(paired)
    assert verify(liking(PAIRS, (0, 1, 1)), paired) == []


def test_roles_that_dislike_each_other_part() -> None:
    world = liking(
        problem(
            nodes(2, gpu=4),
            gang("a", role(2, gpu=2), role(2, gpu=2), running=(running_pods(0, 0, 1), running_pods(1, 1, 1))),
        ),
        (0, 1, -1),
    )
    made = solve(world)
    assert nodes_of(made, 0) == {0: 2}
    assert nodes_of(made, 1) == {1: 2}


def test_pods_of_one_role_that_dislike_each_other_take_the_nodes_that_the_gang_has_anyway() -> None:
    world = liking(problem(nodes(2, gpu=4), gang("a", role(2, gpu=1), role(4, gpu=1))), (0, 0, -1))
    made = solve(world)
    assert set(nodes_of(made, 0).values()) == {1}
    assert verify(world, made) == []


def test_a_wish_opens_no_further_node() -> None:
    world = liking(problem(nodes(3, gpu=4), gang("a", role(3, gpu=1))), (0, 0, -1))
    assert nodes_of(solve(world), 0) == nodes_of(solve(problem(nodes(3, gpu=4), gang("a", role(3, gpu=1)))), 0)


def test_pods_under_pod_rules_stay_where_they_are() -> None:
    world = problem(
        nodes(2, gpu=4),
        gang("a", role(2, owned_rules=[0], selecting_rules=[0], gpu=1), role(2, gpu=2)),
        pod_rules=(pod_rule("anti-affinity", range(2)),),
    )
    made = solve(liking(world, (0, 0, 1), (0, 1, -1)))
    assert nodes_of(made, 0) == {0: 1, 1: 1}
    assert verify(liking(world, (0, 0, 1), (0, 1, -1)), made) == []


@pytest.mark.parametrize("affinity", [(0, 2, 1), (0, 1, 2), (-1, 0, 1)])
def test_a_wish_about_a_role_that_does_not_exist_or_of_no_sign_is_refused(affinity: tuple[int, int, int]) -> None:
    with pytest.raises(InvalidProblemError) as caught:
        validate(liking(PAIRS, affinity))
    assert caught.value.where == ("gangs", 0, "role_affinities", 0)

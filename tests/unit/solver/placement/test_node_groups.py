"""Node groups that a queue prefers: the last goal of placement, and nothing at all to a queue that prefers none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solver import Options, solve
from solver.options import Budget
from solver.plan import Plan
from solver.problem import Problem
from solver.verify import verify
from tests.builders.problems import GangSpec, NodeSpec, QueueSpec, gang, nodes, problem, queue, role

TREE = {"s0": (1, None), "s1": (1, None)}
GROUPS = ("", "cheap", "dear")
HOME, OTHER = queue("home", node_group_ranks=(0, 1, 0)), queue("other")
LARGE = Options(budget=Budget(placement_variables=0))
"""Every batch is too large for a model of its placement."""


def grouped(*things: list[NodeSpec] | QueueSpec | GangSpec) -> Problem:
    return problem(*things, hypernodes=TREE, node_groups=GROUPS)


def group_cost(made: Plan) -> list[tuple[float, float, str]]:
    every = (objective for batch in made.batches for objective in batch.objectives)
    return [(goal.value, goal.bound, goal.verdict) for goal in every if goal.name == "node groups"]


def nodes_of(made: Plan, j: int = 0) -> set[int]:
    return {place.node for place in made.decisions[j].placements}


@pytest.mark.parametrize("options", [Options(), LARGE])
def test_of_equal_nodes_and_supernodes_the_wanted_ones_are_taken(options: Options) -> None:
    flat = grouped(
        nodes(2, gpu=8, node_group=1), nodes(2, gpu=8, node_group=2), HOME, gang("a", role(2, gpu=8), queue="home")
    )
    tree = grouped(
        *(nodes(2, gpu=8, leaf=leaf, node_group=g) for g, leaf in ((1, "s0"), (2, "s1"))),
        HOME,
        gang("a", role(2, gpu=8), queue="home"),
    )
    for world in (flat, tree):
        made = solve(world, options)
        assert nodes_of(made) == {2, 3}
        assert group_cost(made) == [(0, 0, "proven")]
        assert verify(world, made) == []


def test_no_further_node_is_opened_for_the_sake_of_a_wanted_group() -> None:
    used = nodes(1, gpu=8, free={"gpu": 4}, node_group=1)
    world = grouped(used, nodes(1, gpu=8, node_group=2), HOME, gang("a", role(1, gpu=4), queue="home"))
    made = solve(world)
    assert nodes_of(made) == {0}
    assert group_cost(made) == [(1, 1, "proven")]


def test_two_queues_get_what_each_prefers_and_one_that_prefers_none_makes_way() -> None:
    machines = nodes(1, gpu=8, node_group=2), nodes(1, gpu=8, node_group=1)
    gangs = gang("a", role(1, gpu=8), queue="other"), gang("b", role(1, gpu=8), queue="home")
    world = grouped(*machines, HOME, OTHER, *gangs)
    made = solve(world)
    assert (nodes_of(made, 0), nodes_of(made, 1)) == ({1}, {0})
    assert group_cost(made) == [(0, 0, "proven")]
    indifferent = tuple(replace(each, node_group_ranks=()) for each in world.queues)
    assert group_cost(solve(replace(world, queues=indifferent))) == []


def test_roles_that_part_do_not_leave_the_wanted_group() -> None:
    machines = nodes(1, gpu=4, node_group=1), nodes(1, gpu=4, node_group=2)
    world = grouped(*machines, HOME, gang("a", role(3, gpu=1), role(3, gpu=1), queue="home"))
    parting = replace(world, gangs=(replace(world.gangs[0], role_affinities=((0, 0, -1), (1, 1, -1))),))
    made = solve(parting)
    assert sum(place.pods for place in made.decisions[0].placements if place.node == 1) == 4
    assert verify(parting, made) == []


def test_what_a_batch_says_of_its_groups_is_counted() -> None:
    used = nodes(1, gpu=8, free={"gpu": 4}, node_group=1)
    world = grouped(used, nodes(1, gpu=8, node_group=2), HOME, gang("a", role(1, gpu=4), queue="home"))
    made = solve(world)
    (batch,) = made.batches
    told = tuple(
        replace(goal, value=0.0, bound=0.0, gap=0.0) if goal.name == "node groups" else goal
        for goal in batch.objectives
    )
    boasting = replace(made, batches=(replace(batch, objectives=told),))
    assert [finding.message for finding in verify(world, boasting)] == [
        "node groups is said to be 0.0, and is not what the batch's pods cost"
    ]


def test_pods_that_grow_are_not_in_what_is_said_of_groups() -> None:
    machines = nodes(1, gpu=8, node_group=2), nodes(1, gpu=8, node_group=1)
    world = grouped(*machines, HOME, gang("a", role(2, minimum=1, gpu=8), queue="home"))
    made = solve(world)
    assert (nodes_of(made), group_cost(made)) == ({0, 1}, [(0, 0, "proven")])
    assert verify(world, made) == []

"""Bounds on opened supernodes and nodes, which know the nodes that pods can never share."""

from __future__ import annotations

from dataclasses import replace

from solver.problem import Problem
from tests.builders.models import task_of
from tests.builders.problems import gang, nodes, problem, role

TREE = {"s0": (1, None), "s1": (1, None), "s2": (1, None)}


def opened(world: Problem) -> tuple[int, int]:
    """The least number of whole supernodes and whole nodes, as counting says."""
    least = task_of(world).lower_bound
    return least.supernodes, least.nodes


def test_nodes_that_count_by_other_resources_are_bounded_apart() -> None:
    machines = [*nodes(2, leaf="s0", a=8, cpu=8), *nodes(2, leaf="s1", b=8, cpu=8), *nodes(2, leaf="s2", cpu=8)]
    world = problem(
        machines, gang("x", role(2, a=8)), gang("y", role(2, b=8)), gang("z", role(1, cpu=1)), hypernodes=TREE
    )
    world = replace(world, device_resources=tuple(map(world.resources.index, ("a", "b"))))
    assert opened(world) == (2, 4)  # z may go anywhere, and opens nothing next to x or y
    only = replace(world.gangs[2].roles[0], node_classes=frozenset({1}))
    kinds = [replace(node, node_class=int(n > 3)) for n, node in enumerate(world.nodes)]
    asked = [
        replace(g, roles=tuple(replace(r, node_classes=frozenset({0, 1})) for r in g.roles)) for g in world.gangs[:2]
    ]
    apart = replace(world, nodes=tuple(kinds), gangs=(*asked, replace(world.gangs[2], roles=(only,))))
    assert opened(apart) == (3, 5)


def test_a_supernode_with_nodes_of_two_kinds_counts_once() -> None:
    machines = [*nodes(1, leaf="s0", a=8), *nodes(1, leaf="s0", b=8)]
    world = problem(machines, gang("x", role(1, a=8)), gang("y", role(1, b=8)), hypernodes=TREE)
    assert opened(replace(world, device_resources=(0, 1))) == (1, 1)

"""Gangs of alike pods: how they are cut into pieces, and where the pods of their other roles go."""

from __future__ import annotations

import pytest

from solver import Options
from solver.mip.engine import solve_model
from solver.models import identical_pods as model
from solver.models.identical_pods import IdenticalPodsGang, LeafCapacity, Region
from solver.placement import identical_pods
from solver.placement.task import PlacementTask
from solver.problem import Placement
from solver.semantics.gang_classes import waiting_class
from solver.semantics.placement_cost import tier_span
from tests.builders.models import sets_of
from tests.builders.plans import verified_plan
from tests.builders.problems import gang, nodes, problem, role

TWO_PODS = LeafCapacity({Region((10,)): {0: 2}, Region((11,)): {1: 2}}, (1, 4))
"""Two leaves of two slots, below different domains."""


@pytest.mark.parametrize(("level", "status"), [(None, "optimal"), (1, "infeasible"), (0, "infeasible")])
def test_a_gang_that_one_domain_must_hold_is_not_cut_across_two(level: int | None, status: str) -> None:
    answer = solve_model(model.build_model([IdenticalPodsGang(0, 4, level, (2, 2))], TWO_PODS, {}).model, Options())
    assert answer.status == status
    if level is None:
        assert answer.value == 1 + 4


def test_the_flow_knows_that_pieces_must_fit_leaf_by_leaf() -> None:
    """Three gangs of two, leaves of three slots: counted together there is room, yet one of them is cut."""
    slots = LeafCapacity({Region(): {0: 3, 1: 3}}, (1,))
    x = model.build_model([IdenticalPodsGang(j, 2, None, (1,)) for j in range(3)], slots, {})
    answer = solve_model(x.model, Options())
    assert answer.value == 1
    placed = model.read_solution(x, slots, answer.values)
    assert [sum(placed[j].values()) for j in range(3)] == [2, 2, 2]
    assert [sum(placed[j].get(leaf, 0) for j in range(3)) for leaf in (0, 1)] == [3, 3]


def test_the_master_is_placed_beside_its_workers() -> None:
    """Two gangs of four whole nodes share the leaf of four, and could have it alone; a master fits next to any
    worker."""
    leaves = [node for name, count in (("a", 4), ("b", 2), ("c", 2)) for node in nodes(count, leaf=name, gpu=8, cpu=16)]
    gangs = [gang(name, role(4, gpu=8, cpu=8), role(1, cpu=1)) for name in ("one", "two")]
    world = problem(leaves, *gangs, hypernodes=dict.fromkeys("abc", (1, None)))
    apart = {
        0: (*(Placement(0, node, 1) for node in (0, 1, 4, 5)), Placement(1, 0, 1)),
        1: (*(Placement(0, node, 1) for node in (2, 3, 6, 7)), Placement(1, 2, 1)),
    }
    s, shapes = sets_of(world), {j: waiting_class(j, world.gangs[j]) for j in apart}
    known = identical_pods.joint_bounds(s, shapes, Options())
    assert known.is_single_class
    assert known.spread_bound == 1
    found = identical_pods.improve_spread(PlacementTask(s, shapes, Options()), apart, known)
    assert sum(tier_span(s.tree, pods) for pods in found.values()) == 1
    s.state_after(found)  # raises ValueError where a node holds more than it can
    assert {j: [sum(p.pods for p in pods if p.role == t) for t in (0, 1)] for j, pods in found.items()} == {
        0: [4, 1],
        1: [4, 1],
    }


def test_without_a_topology_there_is_nothing_to_be_near() -> None:
    """More gangs and kinds of nodes than one exact model takes, and more nodes opened than are proved to be needed."""
    kinds = range(25)
    machines = [nodes(1, gpu=4 + n, cpu=n + 1, node_class=n) for n in kinds]
    world = problem(*machines, *(gang(f"g{j}", role(2, gpu=3, cpu=1 + j % 3, node_classes=kinds)) for j in range(20)))
    assert {decision.action for decision in verified_plan(world).decisions} == {"start"}

"""What placements cost: each figure worked by hand, and the plans that follow from them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solver.plan import Plan
from solver.problem import Placement, Policy, Problem
from solver.semantics.placement_cost import COST_NAMES, UnopenedCapacity, split_subgroups
from solver.semantics.topology import TopologyTree
from solver.state.free_nodes import free_and_overcommitted
from tests.builders.beside import beside
from tests.builders.plans import verified_plan
from tests.builders.problems import GangSpec, NodeSpec, gang, hard_topology, nodes, problem, role, subgroup
from tests.builders.stories import assert_story

STORIES = beside(__file__)


@pytest.mark.parametrize("story", STORIES)
def test_story(story: str) -> None:
    assert_story(STORIES[story])


SPINES = {
    "s0": (1, "left"),
    "s1": (1, "left"),
    "s2": (1, "right"),
    "s3": (1, "right"),
    "left": (2, None),
    "right": (2, None),
}


def spines(*gangs: GangSpec, policy: Policy | None = None, **free: int) -> Problem:
    """Two spines of two supernodes of two nodes with 8 GPUs each. free: of the nodes of a supernode, where it is not
    all."""
    return problem(
        *(supernode(f"s{i}", free.get(f"s{i}", 8)) for i in range(4)), *gangs, hypernodes=SPINES, policy=policy
    )


def supernode(name: str, free: int) -> list[NodeSpec]:
    return nodes(2, leaf=name, free={"gpu": free}, gpu=8)


def costs(world: Problem) -> dict[str, float]:
    """Of the only batch; every one of them proved."""
    (batch,) = verified_plan(world).batches
    found = {o.name: o for o in batch.objectives if o.name in COST_NAMES}
    assert {o.verdict for o in found.values()} == {"proven"}
    return {name: o.value for name, o in found.items()}


def per_node(world: Problem, plan: Plan | None = None) -> list[int]:
    """Planned pods of all gangs."""
    pods = [0] * len(world.nodes)
    for decision in (plan or verified_plan(world)).decisions:
        for p in decision.placements:
            pods[p.node] += p.pods
    return pods


# --- the figures


@pytest.mark.parametrize(
    ("where", "cost"),
    [
        ({0: 4, 2: 4}, 0),  # a whole part in each of two supernodes
        ({0: 2, 2: 6}, 1),  # the second supernode has one whole part, the other one is torn below the spine
        ({0: 2, 4: 6}, 1 + 4),  # and at the spine as well
        ({0: 2, 2: 2, 4: 2, 6: 2}, 2),  # each spine has one whole
        ({0: 1, 2: 2, 4: 2, 6: 3}, 2 + 4),
        ({0: 2, 2: 2, 4: 4}, 1),
    ],
)
def test_a_subgroup_is_split_at_each_tier_where_no_domain_holds_it(where: dict[int, int], cost: int) -> None:
    world = spines(gang("a", role(8, gpu=1), subgroups=(subgroup(4, mode="soft"),)))
    assert (
        split_subgroups(TopologyTree(world), world.gangs[0], [Placement(0, n, pods) for n, pods in where.items()])
        == cost
    )


def test_subgroups_of_several_roles_count_them_together_and_each_subgroup_counts() -> None:
    both = (subgroup(2, roles=(0, 1), mode="soft"), subgroup(4, mode="soft"))
    world = spines(gang("a", role(4, gpu=1), role(4, gpu=1), subgroups=both))
    pods = [Placement(0, 0, 3), Placement(1, 0, 1), Placement(0, 2, 1), Placement(1, 2, 3)]
    assert split_subgroups(TopologyTree(world), world.gangs[0], pods) == 0 + 1


def test_nodes_and_supernodes_are_opened_by_pods_that_ask_for_what_counts() -> None:
    asking = gang("a", role(1, gpu=1, cpu=1), role(1, cpu=1))
    machines = [
        *nodes(2, leaf="s0", gpu=8, cpu=8),
        *nodes(2, leaf="s1", free={"gpu": 8, "cpu": 7}, gpu=8, cpu=8),
        *nodes(1, leaf="s2", cpu=8),
    ]
    world = problem(machines, asking, hypernodes={"s0": (1, None), "s1": (1, None), "s2": (1, None)})
    everything, gpus = world, replace(world, device_resources=(world.resources.index("gpu"),))

    def opened(of: Problem, *pods: tuple[int, int]) -> tuple[int, int]:
        return UnopenedCapacity(of, TopologyTree(of), free_and_overcommitted(of)[0].amounts).opened_counts(
            {0: [Placement(t, n, 1) for t, n in pods]}
        )

    assert opened(everything, (0, 0)) == opened(everything, (1, 0)) == (1, 1)
    assert opened(everything, (0, 2)) == (0, 0)  # a daemon's cpu makes it a node that is not whole
    assert opened(gpus, (0, 2), (0, 3)) == (1, 2)  # where only GPUs count it is
    assert opened(gpus, (1, 0), (1, 2)) == (0, 0)  # and a pod without GPUs opens nothing
    assert opened(gpus, (1, 4)) == (1, 1)  # but on a node that has none


# --- the plans


def test_no_subgroup_objective_without_subgroups_or_for_hard_ones_of_the_lowest_tier() -> None:
    assert "subgroups" not in costs(spines(gang("a", role(2, gpu=1))))
    assert "subgroups" not in costs(spines(gang("a", role(2, gpu=1), subgroups=(subgroup(2, tier=1),))))


def test_scattered_pods_go_to_the_least_loaded_nodes_of_their_supernode() -> None:
    gangs = (gang("a", role(4, gpu=1)), gang("b", role(2, gpu=2), topology=hard_topology(1)))
    packed, even = spines(*gangs), spines(*gangs, policy=Policy(spread_pods=True))
    assert costs(packed) == {"spread": 0, "supernodes": 1, "nodes": 1}
    assert costs(even) == {"spread": 0, "supernodes": 1}
    assert sorted(per_node(packed)) == [0] * 7 + [6]
    assert sorted(per_node(even)) == [0] * 6 + [3, 3]


def test_scattering_begins_with_what_is_least_loaded_and_never_loses_a_pod() -> None:
    world = problem(
        [*nodes(1, free={"gpu": 3}, gpu=8), *nodes(2, gpu=8)],
        gang("a", role(4, gpu=1)),
        policy=Policy(spread_pods=True),
    )
    assert per_node(world) == [0, 2, 2]
    # Dealt out evenly, 3 + 3 leave no room for the 2 of the last pod; so the pods stay where they fit.
    tight = problem(
        nodes(2, gpu=8), gang("a", role(2, gpu=4), role(2, gpu=3), role(1, gpu=2)), policy=Policy(spread_pods=True)
    )
    assert sum(per_node(tight)) == 5

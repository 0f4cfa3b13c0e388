"""The node groups of a problem, and whose affinity a queue has."""

from __future__ import annotations

from dataclasses import replace

import pytest

from compiler.lower.lowering import lower
from compiler.specs.cluster_spec import PluginSpec, SchedulerSpec
from compiler.specs.queue_spec import NodeGroupAffinity, QueueSpec
from solver.problem import Problem
from tests.builders.specs import document, node, queue, specs

A, B = NodeGroupAffinity(("a",)), NodeGroupAffinity(("b",))
TREE = (
    queue("top", affinity=A),
    queue("left", "top"),
    queue("leaf", "left"),
    queue("right", "top", affinity=B),
    queue("cut", "top", affinity=NodeGroupAffinity()),
)


def lowered(*queues: QueueSpec, plugin: PluginSpec | None = None) -> tuple[Problem, dict[str, str]]:
    """The problem on nodes of the groups a and b and of none; queue -> whose affinity it has."""
    labels: tuple[dict[str, str], ...] = ({"volcano.sh/nodegroup-name": "b"}, {"volcano.sh/nodegroup-name": "a"}, {})
    conf = SchedulerSpec(document("SchedulerConfiguration", "c"), "c", "n", ("allocate",), ((plugin,),), {})  # type: ignore[arg-type]
    machines = tuple(node(f"n{n}", labels=label) for n, label in enumerate(labels))
    problem, origins = lower(replace(specs(nodes=machines, queues=queues), scheduler=conf if plugin else None))
    names = [spec.name for spec in problem.queues]
    return problem, {name: names[owner] for name, owner in zip(names, origins.affinity_owners, strict=True)}


def open_groups(problem: Problem) -> dict[str, list[str]]:
    names = problem.node_groups
    return {
        spec.name: [name for g, name in enumerate(names) if g not in spec.closed_node_groups] for spec in problem.queues
    }


def test_every_node_has_its_group_and_a_queue_its_own_affinity_only() -> None:
    problem, owners = lowered(*TREE, plugin=PluginSpec("nodegroup", {}, {}))
    assert [problem.node_groups[node.node_group] for node in problem.nodes] == ["b", "a", "(none)"]
    found = open_groups(problem)
    assert {name: groups for name, groups in found.items() if groups} == {"top": ["a"], "right": ["b"]}
    assert all(name == owner for name, owner in owners.items())


def test_with_hierarchy_a_queue_has_the_affinity_of_the_nearest_queue_above_it() -> None:
    """An empty affinity is one, and cuts the queue off from what is above it."""
    problem, owners = lowered(*TREE, plugin=PluginSpec("nodegroup", {"strict": False}, {"enableHierarchy": True}))
    found = open_groups(problem)
    assert [found[name] for name in ("top", "left", "leaf")] == [["a"]] * 3
    assert [found[name] for name in ("cut", "root", "default")] == [["(none)"]] * 3
    assert found["right"] == ["b"]
    assert (owners["leaf"], owners["right"], owners["cut"], owners["default"]) == ("top", "right", "cut", "default")


def test_undeclared_queues_inherit_the_roots_affinity() -> None:
    plugin = PluginSpec("nodegroup", {}, {"enableHierarchy": True})
    problem, owners = lowered(queue("root", affinity=B), plugin=plugin)
    assert (open_groups(problem), owners) == ({"root": ["b"], "default": ["b"]}, {"root": "root", "default": "root"})


@pytest.mark.parametrize(
    "plugin", [None, PluginSpec("binpack", {}, {}), PluginSpec("nodegroup", {}, {"enablePredicate": False})]
)
def test_without_the_plugin_s_predicate_there_are_no_groups(plugin: PluginSpec | None) -> None:
    problem, _ = lowered(*TREE, plugin=plugin)
    assert not problem.node_groups
    assert not any(spec.closed_node_groups for spec in problem.queues)

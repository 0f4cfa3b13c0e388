"""HyperNodes of the cluster that contradict each other: the server takes them, the plan leaves the wrong one out."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.cluster_state.cluster_state import ClusterState
from compiler.cluster_state.nodes import observed_hypernodes
from tests.builders.specs import node, specs


def hypernode(name: str, tier: int, kind: str, *members: str) -> dict[str, Any]:
    rows = [{"type": kind, "selector": {"exactMatch": {"name": member}}} for member in members]
    spec = {"tier": tier, "members": rows}
    return {"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": {"name": name}, "spec": spec}


LEAVES = hypernode("leaf-0", 1, "Node", "n0"), hypernode("leaf-1", 1, "Node", "n1")
TREE = (*LEAVES, hypernode("spine", 2, "HyperNode", "leaf-0", "leaf-1"))


@pytest.mark.parametrize(
    ("wrong", "left"),
    [
        (hypernode("z-spine", 2, "HyperNode", "leaf-0"), ["leaf-0", "leaf-1", "spine"]),
        (hypernode("z-leaf", 1, "Node", "n1"), ["leaf-0", "leaf-1", "spine"]),
        (hypernode("z-core", 2, "HyperNode", "spine"), ["leaf-0", "leaf-1", "spine"]),
        (hypernode("z-loop", 3, "HyperNode", "z-loop"), ["leaf-0", "leaf-1", "spine"]),
        (hypernode("z-core", 3, "HyperNode", "spine"), ["leaf-0", "leaf-1", "spine", "z-core"]),
    ],
    ids=["two parents", "a node in two", "tier not above", "loop", "sound"],
)
def test_what_contradicts_the_tree_is_left_out(wrong: dict[str, Any], left: list[str]) -> None:
    nodes = [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}} for name in ("n0", "n1")]
    state = ClusterState.from_objects([*nodes, *TREE, wrong])
    found = observed_hypernodes(specs(), state, (node("n0"), node("n1")))
    assert [each.name for each in found] == left

from __future__ import annotations

import random
from typing import Any

import pytest

from compiler.specs.eligibility import classify_nodes, node_requirement
from compiler.specs.node_spec import NodeSpec
from compiler.specs.pod_spec import Expression, NodeSelectorTerm, PodSpec, Taint, Toleration
from tests.builders.specs import node

NODES = (
    node("a1", labels={"zone": "a", "rank": "3"}),
    node("a2", labels={"zone": "a", "rank": "12"}),
    node("b1", labels={"zone": "b"}),
    node(
        "t1",
        labels={"zone": "b", "rank": "x"},
        taints=(Taint("gpu", "yes", "NoSchedule"), Taint("soft", "", "PreferNoSchedule")),
    ),
    node("c1", unschedulable=True),
)


def open_to(pod: PodSpec, nodes: tuple[NodeSpec, ...] = NODES) -> set[str]:
    made = classify_nodes(nodes, [node_requirement(pod)])
    return {
        spec.name
        for spec, kind in zip(nodes, made.class_by_node, strict=True)
        if kind in made.classes_by_requirement[node_requirement(pod)]
    }


def labels(*expressions: tuple[str, str, tuple[str, ...]]) -> tuple[NodeSelectorTerm, ...]:
    return (
        NodeSelectorTerm(
            label_expressions=tuple(Expression(key, operator, values) for key, operator, values in expressions)  # type: ignore[arg-type]
        ),
    )


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        ({}, {"a1", "a2", "b1"}),
        ({"node_selector": {"zone": "a"}}, {"a1", "a2"}),
        ({"node_selector": {"zone": "nowhere"}}, set()),
        ({"node_affinity": labels(("zone", "In", ("a", "b")))}, {"a1", "a2", "b1"}),
        ({"node_affinity": labels(("zone", "NotIn", ("a",)))}, {"b1"}),
        ({"node_affinity": labels(("rank", "Exists", ()))}, {"a1", "a2"}),
        ({"node_affinity": labels(("rank", "DoesNotExist", ()))}, {"b1"}),
        ({"node_affinity": labels(("rank", "Gt", ("3",)))}, {"a2"}),
        ({"node_affinity": labels(("rank", "Lt", ("12",)))}, {"a1"}),
        ({"node_affinity": labels(("rank", "Gt", ("many",)))}, set()),
        ({"node_affinity": labels(("zone", "In", ("a",)), ("rank", "Lt", ("5",)))}, {"a1"}),
        ({"node_affinity": (*labels(("zone", "In", ("b",))), *labels(("rank", "Gt", ("10",))))}, {"a2", "b1"}),
        (
            {
                "node_affinity": (
                    NodeSelectorTerm(field_expressions=(Expression("metadata.name", "In", ("b1", "c1")),)),
                )
            },
            {"b1"},
        ),
        ({"node_affinity": (NodeSelectorTerm(),)}, set()),
        ({"node_name": "a2"}, {"a2"}),
        ({"node_affinity": ()}, set()),
        ({"tolerations": (Toleration("gpu", "Equal", "yes"),)}, {"a1", "a2", "b1", "t1"}),
        ({"tolerations": (Toleration("gpu", "Equal", "no"),)}, {"a1", "a2", "b1"}),
        ({"tolerations": (Toleration("gpu", "Exists", "", "NoExecute"),)}, {"a1", "a2", "b1"}),
        ({"tolerations": (Toleration(operator="Exists"),)}, {"a1", "a2", "b1", "t1", "c1"}),
        ({"tolerations": (Toleration("node.kubernetes.io/unschedulable", "Exists"),)}, {"a1", "a2", "b1", "c1"}),
    ],
)
def test_a_pod_goes_where_kubernetes_lets_it(pod: dict[str, Any], expected: set[str]) -> None:
    assert open_to(PodSpec(requests={}, **pod)) == expected


def test_nodes_that_no_requirement_tells_apart_are_of_one_kind() -> None:
    made = classify_nodes(NODES, [node_requirement(PodSpec(requests={}, node_selector={"zone": "a"}))])
    assert made.class_by_node == (0, 0, 1, 1, 1)


def test_without_pods_all_nodes_are_of_one_kind() -> None:
    assert classify_nodes(NODES, []).class_by_node == (0,) * len(NODES)


def test_masks_agree_with_a_node_by_node_evaluation_on_many_nodes() -> None:
    chance = random.Random(3)  # noqa: S311 - a fixed sample, no secret
    nodes = tuple(node(f"n{i}", labels={"zone": chance.choice("abcd"), "host": str(i)}) for i in range(300))
    for _ in range(20):
        zones = tuple(chance.sample("abcd", 2))
        least = chance.randrange(300)
        pod = PodSpec(requests={}, node_affinity=labels(("zone", "In", zones), ("host", "Gt", (str(least),))))
        assert open_to(pod, nodes) == {
            n.name for n in nodes if n.labels["zone"] in zones and int(n.labels["host"]) > least
        }

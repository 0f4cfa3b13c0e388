from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.emit.block import to_yaml
from compiler.importing.node_pools import fold_nodes, name_ranges
from compiler.kinds.node_pool import expand_name_range
from compiler.reading import read_specs
from compiler.repository.tree import Repository
from tests.builders.cluster_objects import node
from tests.builders.declared import GPU

SIZES = ({"cpu": "64", "memory": "512Gi"}, {"cpu": "64", "memory": "1Ti", "nvidia.com/gpu": "8"}, {"pods": "30"})
TAINTS: tuple[list[dict[str, str]], ...] = ([], [{"key": "gpu", "value": "a", "effect": "NoSchedule"}])


@st.composite
def clusters(draw: st.DrawFn) -> list[dict[str, Any]]:
    names = draw(
        st.lists(st.from_regex(r"[ab]-?[0-9]{1,3}(\.x)?", fullmatch=True), min_size=1, max_size=9, unique=True)
    )
    return [
        node(
            name,
            draw(st.sampled_from(SIZES)),
            labels={
                "kubernetes.io/hostname": name,
                "kubernetes.io/arch": draw(st.sampled_from(("amd64", "arm64"))),
                "zone": draw(st.sampled_from(("a", "b"))),
            },
            spec={"taints": draw(st.sampled_from(TAINTS))},
        )
        for name in names
    ]


def nodes_of(documents: list[dict[str, Any]]) -> dict[str, tuple[Any, ...]]:
    """Name -> what the compiler makes of the node, the labels of every kubelet aside."""
    text = "---\n".join(map(to_yaml, documents)).encode()
    cluster = b"apiVersion: gangplan.dev/v1alpha1\nkind: Cluster\nmetadata: {name: t}\nspec: {}\n"
    found = read_specs(Repository.of_files({"cluster-specs/t/c.yaml": cluster, "cluster-specs/t/n.yaml": text}))
    return {
        each.name: (
            {key: value for key, value in each.labels.items() if "/os" not in key and not key.startswith("beta.")},
            each.taints,
            each.allocatable,
        )
        for each in found.nodes
    }


@given(clusters())
def test_pools_are_the_nodes_that_they_were_folded_from(nodes: list[dict[str, Any]]) -> None:
    folded = fold_nodes(nodes, "").documents
    assert {each["kind"] for each in folded} == {"NodePool"}
    assert nodes_of(folded) == nodes_of(nodes)


@pytest.mark.parametrize(
    ("names", "ranges"),
    [
        (["a-8", "a-9", "a-10"], ["a-[8-10]"]),
        (["a-08", "a-09", "a-10"], ["a-[08-10]"]),
        (["a-1", "a-3", "b"], ["a-1", "a-3", "b"]),
        (["ip-10-0.ec2.internal", "ip-10-1.ec2.internal"], ["ip-10-[0-1].ec2.internal"]),
        (["a-09", "a-10", "a-011"], ["a-[09-10]", "a-011"]),
    ],
)
def test_names_become_ranges(names: list[str], ranges: list[str]) -> None:
    assert name_ranges(names) == ranges
    assert [name for each in ranges for name in expand_name_range(each)] == names


def test_equal_machines_that_report_a_little_less_are_one_pool() -> None:
    amounts = ("1000Gi", "999Gi", "500Gi")
    found = fold_nodes([node(f"a-{at}", {"cpu": "8", "memory": amounts[at]}) for at in range(3)], "")
    assert [(each["spec"]["names"], each["spec"]["capacity"]["memory"]) for each in found.documents] == [
        (["a-[0-1]"], "999Gi"),
        (["a-2"], "500Gi"),
    ]
    assert found.notes == ["the nodes of 1 pool differ a little in memory or storage: the least of a pool is written"]


def test_a_label_that_tells_every_node_from_the_others_is_left_out_unless_something_names_it() -> None:
    labels = [{"kubernetes.io/hostname": f"a-{at}", "serial": str(at)} for at in range(3)]
    nodes = [node(f"a-{at}", {"cpu": "8"}, labels=labels[at]) for at in range(3)]
    assert len(fold_nodes(nodes, "").documents) == 1
    assert len(fold_nodes(nodes, "nodeSelector: {serial: 2}").documents) == 3


def test_a_node_whose_cards_are_known_by_annotations_stays_a_node() -> None:
    register = {"volcano.sh/node-vgpu-register": "GPU-0,10,32768,100,V100,0,true:"}
    made = node("a", {"cpu": "8", "volcano.sh/vgpu-number": "10"}, annotations=register, uid="u")
    [document] = fold_nodes([made], "").documents
    assert document["kind"] == "Node"
    assert document["metadata"]["annotations"] == register
    assert "uid" not in document["metadata"]
    assert nodes_of([document]) == nodes_of([made])


def test_taints_of_conditions_and_a_hostname_of_its_own_are_not_taken_for_a_pool() -> None:
    unreachable = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}
    [pool] = fold_nodes([node("a", {"cpu": "8"}, spec={"taints": [unreachable]})], "").documents
    assert "taints" not in pool["spec"]
    [other] = fold_nodes([node("a", {"cpu": "8"}, labels={"kubernetes.io/hostname": "b"})], "").documents
    assert other["kind"] == "Node"


def test_a_node_whose_amounts_cannot_be_read_stays_a_node() -> None:
    """So that a check can say what is wrong with them."""
    [document] = fold_nodes([node("a", {"cpu": "many"})], "").documents
    assert (document["kind"], document["status"]["allocatable"]["cpu"]) == ("Node", "many")


def test_the_names_of_pools_are_unique_where_a_label_ends_in_a_number_too() -> None:
    label = "node.kubernetes.io/instance-type"
    nodes = [
        node(name, {GPU: amount}, labels={label: value})
        for name, amount, value in (("x1", "8", "gpu"), ("x2", "4", "gpu"), ("x3", "8", "gpu-2"))
    ]
    assert [each["metadata"]["name"] for each in fold_nodes(nodes, "").documents] == ["gpu", "gpu-2", "gpu-2-2"]

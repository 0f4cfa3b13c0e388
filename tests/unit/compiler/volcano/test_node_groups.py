"""Which node groups a queue may use, as Volcano's plugin nodegroup has it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from compiler.kubernetes import NODE_GROUP_LIMITS_ANNOTATION
from compiler.specs.cluster_spec import PluginSpec
from compiler.specs.queue_spec import NodeGroupAffinity
from compiler.syntax.documents import Document
from compiler.volcano.node_groups import group_limits, has_readable_limits, may_use
from tests.builders.beside import beside
from tests.builders.specs import queue

CASES = beside(__file__)

STRICT = PluginSpec("nodegroup", {}, {})
LAX = PluginSpec("nodegroup", {"strict": False}, {})
AFFINITY = NodeGroupAffinity(("a", "both"), ("b",), ("c", "both", "near"), ("d", "near"))


@pytest.mark.parametrize(
    ("group", "open_"),
    [("a", True), ("b", True), ("c", False), ("d", True), ("both", False), ("near", True), ("other", False)],
)
def test_a_queue_uses_the_groups_that_it_names_but_for_those_of_required_anti_affinity(group: str, open_: bool) -> None:
    """A group of preferred anti-affinity is open even where it is of required anti-affinity too."""
    assert may_use(STRICT, AFFINITY, group) is may_use(LAX, AFFINITY, group) is open_


@pytest.mark.parametrize("plugin", [STRICT, LAX])
def test_anti_affinity_alone_closes_every_group(plugin: PluginSpec) -> None:
    affinity = NodeGroupAffinity(anti_required=("c",))
    assert not any(may_use(plugin, affinity, group) for group in ("a", "c", "", None))


@pytest.mark.parametrize("affinity", [None, NodeGroupAffinity()])
def test_without_affinity_a_queue_uses_nodes_without_a_group_unless_the_plugin_is_strict(
    affinity: NodeGroupAffinity | None,
) -> None:
    assert [may_use(plugin, affinity, None) for plugin in (STRICT, LAX)] == [False, True]
    assert not any(may_use(plugin, affinity, group) for plugin in (STRICT, LAX) for group in ("a", ""))


def test_an_empty_label_is_a_group_of_that_name() -> None:
    assert may_use(STRICT, NodeGroupAffinity(("",)), "")
    assert not may_use(LAX, NodeGroupAffinity(("",)), None)


@pytest.mark.parametrize(("text", "limits"), CASES["limits of groups are read as go reads json"])
def test_limits_of_groups_are_read_as_go_reads_json(text: str, limits: dict[str, Any] | None) -> None:
    data = {"metadata": {"name": "q", "annotations": {NODE_GROUP_LIMITS_ANNOTATION: text}}}
    limited = replace(queue("q"), document=Document("q.yaml", 1, "", data, {}))
    assert has_readable_limits(limited) == (limits is not None)
    assert limits is None or group_limits(limited) == limits

"""Nodes that are lost, flap and come back: since when, and when their pods leave."""

from __future__ import annotations

from reconciler.cluster.objects import Object
from reconciler.observation.nodes import NodeIndex
from reconciler.pods.node_health import NodeHealth
from tests.builders.pods import node


def seen(health: NodeHealth, now: float, lost: str = "", pods: tuple[Object, ...] = ()) -> NodeHealth:
    """Four nodes, of which these are not ready."""
    nodes = NodeIndex.from_nodes([node(name, is_ready=name not in lost) for name in "abcd"], {})
    health.observe(nodes, nodes.pods_by_node(pods), now)
    return health


def test_the_pods_of_a_lost_node_leave_after_the_set_time() -> None:
    health = seen(NodeHealth(), 0, lost="a")
    found = [health.nodes_to_leave(timeout, now) for timeout, now in ((60, 59.9), (60, 60), (0, 1000))]
    assert found == [set(), {"a"}, set()], "0: it is left to Kubernetes"
    assert health.deadlines(60, 0) == [60]
    assert seen(health, 61).nodes_to_leave(60, 61) == frozenset(), "it is back"


def test_the_time_of_a_lost_node_goes_on_in_the_next_process() -> None:
    """A process that was killed began it anew: the pods of the node left a minute later than they should."""
    lost = {name: node(name, is_ready=False) for name in "abc"}
    for name, time in (("a", "2026-01-01T00:00:10Z"), ("b", "2025-12-31T00:00:00Z"), ("c", None)):
        lost[name]["status"]["conditions"][0]["lastTransitionTime"] = time
    health, wall_now = NodeHealth(), 1767225600 + 50
    health.begin([*lost.values(), node("d")], 1000, wall_now, 60)
    assert health.lost_since == {"a": 960, "b": 940}
    health.begin([*lost.values()], 2000, wall_now + 1000, 60)
    assert seen(health, 1000, lost="ab").nodes_to_leave(60, 1019) == {"b"}
    assert health.nodes_to_leave(60, 1020) == {"a", "b"}
    ahead = NodeHealth()
    ahead.begin([lost["a"]], 1000, wall_now - 3600, 60)
    assert ahead.lost_since == {"a": 1000}, "its clock is ahead of ours"


def test_a_node_that_is_gone_is_as_good_as_lost_while_pods_name_it() -> None:
    pod: Object = {"metadata": {"name": "p", "uid": "p"}, "spec": {"nodeName": "e"}}
    health = seen(NodeHealth(), 0, pods=(pod,))
    assert seen(health, 60, pods=(pod,)).nodes_to_leave(60, 60) == {"e"}
    assert seen(health, 61).lost_since == {}


def test_the_time_of_a_flapping_node_goes_on_and_it_takes_nothing_new_for_longer_each_time() -> None:
    health = NodeHealth()
    for at in range(0, 60, 10):
        seen(health, at, lost="a")
        seen(health, at + 5)
    assert seen(health, 60, lost="a").nodes_to_leave(60, 60) == {"a"}
    assert seen(health, 62).quarantined_nodes(62) == {"a": 62 + 300}
    assert seen(NodeHealth(), 0, lost="a").quarantined_nodes(0) == {}
    calm = seen(seen(NodeHealth(), 0, lost="a"), 5)
    assert calm.quarantined_nodes(5) == {}, "the first loss is forgiven"
    assert seen(calm, 16).lost_since == {}


def test_when_most_nodes_are_lost_the_control_plane_is_at_fault_and_nothing_leaves() -> None:
    health = seen(NodeHealth(), 0, lost="abc")
    assert health.nodes_to_leave(60, 100) == frozenset()
    assert seen(health, 100, lost="ab").nodes_to_leave(60, 100) == {"a", "b"}

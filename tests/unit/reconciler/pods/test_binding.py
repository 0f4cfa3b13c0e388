"""Pods that the scheduler does not bind (S7) and nodes that are lost: whose fault it is, and what happens when."""

from __future__ import annotations

import pytest

from compiler.kubernetes import HOSTNAME_LABEL, UNREACHABLE_TAINT
from reconciler.cluster.objects import Object
from reconciler.observation.nodes import NodeIndex, facts_of_node
from reconciler.pods.binding import SILENCE, BindingMemory, GangTrouble, UnboundPod, blames_node
from reconciler.pods.node_health import NodeHealth
from reconciler.timings import PodTimings
from tests.builders.pods import node

TIMINGS = PodTimings()
NODES = NodeIndex({"n1": "h1", "n2": "h2"}, {"h1": "n1", "h2": "n2"}, {})
PORTS = (
    "all nodes are unavailable: 1 node(s) didn't have free ports for the requested pod ports, "
    "15 node(s) didn't match Pod's node affinity/selector."
)
CLAIM = 'all nodes are unavailable: 16 persistentvolumeclaim "data" not found.'


def pod(name: str, message: str = "", reason: str = "Unschedulable", bound: bool = False) -> Object:
    """A pod that was given n1."""
    conditions = [{"type": "PodScheduled", "status": "False", "reason": reason, "message": message}] if message else []
    spec = {"nodeSelector": {HOSTNAME_LABEL: "h1"}, **({"nodeName": "n1"} if bound else {})}
    return {"metadata": {"name": name, "uid": name}, "spec": spec, "status": {"conditions": conditions}}


@pytest.mark.parametrize(
    ("message", "is_about_node"),
    [
        (PORTS, True),
        ("0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match Pod's node affinity/selector.", True),
        ("1 node(s) had volume node affinity conflict", True),
        (CLAIM, False),
        (f"{CLAIM} 15 node(s) didn't match Pod's node affinity/selector.", False),
        ("", False),
    ],
)
def test_a_node_is_to_blame_only_where_the_scheduler_says_so(message: str, is_about_node: bool) -> None:
    assert blames_node(message) == is_about_node


def test_of_a_gang_only_the_pods_that_the_scheduler_refuses_are_to_blame() -> None:
    memory = BindingMemory()
    gang = [pod("a", PORTS), pod("b", "can possibly be assigned to n1", reason="Schedulable"), pod("c", bound=True)]
    memory.observe(gang, 0)
    assert memory.overdue_pods(gang, NODES, 119, 120) == []
    assert [(each.pod["metadata"]["name"], each.node) for each in memory.overdue_pods(gang, NODES, 120, 120)] == [
        ("a", "n1")
    ]
    assert memory.deadlines(120) == [120, 120]


def test_a_pod_that_waits_for_its_gang_closes_no_node_where_another_one_is_refused() -> None:
    memory = BindingMemory()
    gang = [pod("a", "pod group is not ready, 1 Unschedulable, 1 Schedulable"), pod("b", PORTS)]
    memory.observe(gang, 0)
    assert [each.message for each in memory.overdue_pods(gang, NODES, 120, 120)] == [PORTS]
    assert len(memory.overdue_pods(gang[:1], NODES, 120, 120)) == 1


def test_a_scheduler_that_is_silent_about_all_is_no_fault_of_the_gang() -> None:
    memory, gang = BindingMemory(), [pod("a"), pod("b", "gated", reason="SchedulingGated")]
    memory.observe(gang, 0)
    memory.observe(gang, 120)
    assert memory.overdue_pods(gang, NODES, 120, 120) == []
    memory.observe([*gang, pod("other", bound=True)], 121)
    assert [each.message for each in memory.overdue_pods(gang, NODES, 121, 120)] == [SILENCE, SILENCE]


def test_a_blamed_node_is_closed_to_this_gang_for_longer_each_time_and_the_gang_is_held_at_the_end() -> None:
    trouble = GangTrouble(("digest", 0))
    memory = BindingMemory(troubles={"gang": trouble})

    def fail(node: str, now: float) -> None:
        trouble.record_round([UnboundPod({}, node, PORTS, True)], now, 120, TIMINGS, {})

    fail("n1", 0)
    assert memory.closed_nodes(0) == {"gang": {"n1"}}
    assert memory.closed_nodes(TIMINGS.closed) == {}
    assert memory.held_jobs(0) == {}
    fail("n1", 1)
    assert trouble.rounds == 1, "pods of one round may come a little after each other"
    fail("n2", 120)
    assert memory.closed_nodes(121) == {"gang": {"n1", "n2"}}
    fail("n1", 240)
    assert PORTS in memory.held_jobs(241)["gang"]
    assert "3 times" in memory.held_jobs(241)["gang"]
    assert memory.held_jobs(240 + TIMINGS.longest_hold) == {}


def test_where_no_node_is_to_blame_none_is_closed_and_the_gang_pauses() -> None:
    trouble = GangTrouble(("digest", 0))
    memory = BindingMemory(troubles={"gang": trouble})
    for at, pause in ((0, 15), (200, 30), (400, 2600)):
        trouble.record_round([UnboundPod({}, "n1", CLAIM, False)], at, 120, TIMINGS, {})
        assert memory.held_jobs(at + pause - 1)
        assert at == 400 or not memory.held_jobs(at + pause)
    assert memory.closed_nodes(400) == {}
    assert trouble.missing_claim == "data"


def seen(health: NodeHealth, now: float, lost: str = "", pods: tuple[Object, ...] = ()) -> NodeHealth:
    """Four nodes, of which these are not ready."""
    nodes = NodeIndex.from_facts([facts_of_node(node(name, is_ready=name not in lost)) for name in "abcd"], {})
    health.observe(nodes, nodes.pods_by_node(pods), now)
    return health


def test_the_pods_of_a_lost_node_leave_after_the_set_time() -> None:
    health = seen(NodeHealth(), 0, lost="a")
    found = [health.nodes_to_leave(timeout, now) for timeout, now in ((60, 59.9), (60, 60), (0, 1000))]
    assert found == [set(), {"a"}, set()], "0: it is left to Kubernetes"
    assert health.deadlines(60, 0) == [60]
    assert seen(health, 61).nodes_to_leave(60, 61) == frozenset(), "it is back"


def lost_node(name: str, time: str | None, status: str = "Unknown", tainted: str = "") -> Object:
    made = node(name, is_ready=False)
    made["status"]["conditions"][0] |= {"status": status, "lastTransitionTime": time}
    taints = [{"key": UNREACHABLE_TAINT, "effect": "NoExecute", "timeAdded": tainted}] if tainted else []
    return {**made, "spec": {**(made.get("spec") or {}), "taints": taints}}


def test_the_time_of_a_lost_node_goes_on_in_the_next_process() -> None:
    """A process that was killed began it anew: the pods of the node left a minute later than they should."""
    lost = [lost_node("a", "2026-01-01T00:00:10Z"), lost_node("b", "2025-12-31T00:00:00Z"), lost_node("c", None)]
    health = NodeHealth()
    health.begin([*lost, node("d"), lost_node("e", None, "False", "2026-01-01T00:00:50Z")], 1000, 60)
    assert health.lost_since == {"a": 960, "b": 940, "e": 1000}
    health.begin(lost, 2000, 60)
    assert seen(health, 1000, lost="ab").nodes_to_leave(60, 1019) == {"b"}
    assert health.nodes_to_leave(60, 1020) == {"a", "b"}


@pytest.mark.parametrize("lost_on", ["1970-01-01T00:10:00Z", "2026-01-01T00:00:00Z", "2099-01-01T00:00:00Z"])
def test_a_node_is_not_left_because_of_another_machine_s_clock(lost_on: str) -> None:
    """With a node controller a minute behind, a node that was lost a moment ago was left at once after a restart."""
    health = NodeHealth()
    kubelets = lost_node("b", "2026-06-01T00:00:00Z", "False")
    health.begin([lost_node("a", lost_on), kubelets, node("c")], 1000, 60)
    assert health.lost_since == {"a": 1000}
    assert seen(health, 1000, lost="ab").nodes_to_leave(60, 1059) == set()
    assert health.nodes_to_leave(60, 1060) == {"a", "b"}


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

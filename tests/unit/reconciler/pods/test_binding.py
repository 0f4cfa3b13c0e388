"""Pods that the scheduler does not bind: whose fault it is, and how often a gang is tried again (S7)."""

from __future__ import annotations

import pytest

from compiler.kubernetes import HOSTNAME_LABEL
from reconciler.cluster.objects import Object
from reconciler.observation.nodes import NodeIndex
from reconciler.pods.binding import SILENCE, BindingMemory, GangTrouble, UnboundPod, blames_node
from reconciler.timings import PodTimings

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

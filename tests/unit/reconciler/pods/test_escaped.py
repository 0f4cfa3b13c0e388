"""Pods whose gate others removed before they had a node."""

from __future__ import annotations

import pytest

from compiler.kubernetes import SCHEDULING_GATE
from reconciler.cluster.objects import Object
from reconciler.pods.escaped import gates_all_pods
from tests.builders.pods import PodsWorld, key_of, live_job, planned, pod
from tests.builders.scripted_server import error_answer

GATED: Object = {"schedulingGates": [{"name": SCHEDULING_GATE}], "containers": []}
UNGATED: Object = {"containers": []}


def job(*pod_specs: Object) -> Object:
    tasks = [{"name": "w", "template": {"spec": spec}} for spec in pod_specs]
    return {**live_job("g"), "spec": {"tasks": tasks}}


def escaped(index: int, version: str = "7") -> Object:
    made = pod("g", index)
    made["metadata"].update({"uid": f"g-{index}-{version}", "resourceVersion": version})
    del made["spec"]["schedulingGates"]
    return made


@pytest.mark.parametrize("decision", ["wait", "start", "keep"])
def test_a_pod_that_lost_its_gate_without_a_node_is_evicted_and_returns_gated(world: PodsWorld, decision: str) -> None:
    """Seen once: the gate of one pod of a waiting gang was removed by hand. It never got a node, and no report named
    it. The eviction is for the pod as it was seen: one that is bound meanwhile stays."""
    world.plan(planned("g", decision, n1=1, n2=1))
    p = world.act(job(GATED), escaped(0), pod("g", 1))
    late = world.act(job(GATED), escaped(0), pod("g", 1))
    assert list(world.part.unplaced_jobs(late.observation)) == [], "the watch is late"
    assert (world.evicted, p.reasons[:1]) == (["g-w-0"], ["GateRemoved"])
    (body,) = (body for _, path, body in world.cluster.requests if path.endswith("/eviction"))
    assert body["deleteOptions"]["preconditions"] == {"uid": "g-0-7", "resourceVersion": "7"}


def test_where_each_gate_is_removed_the_evictions_become_rare_and_are_reported(world: PodsWorld) -> None:
    world.plan(planned("g", "wait"))
    evicted_at = []
    for now in range(1800):
        world.now, before = float(now), len(world.evicted)
        p = world.act(job(GATED), escaped(0, version=f"{before}"))
        evicted_at += [now] if len(world.evicted) > before else []
    p = world.act(job(GATED), escaped(0, version="again"))
    assert evicted_at == [0, 10, 30, 70, 150, 310, 630, 1230]
    (row,) = world.part.unplaced_jobs(p.observation)
    assert "others remove the gates of its pods" in row.reason
    p = world.act(job(GATED), pod("g", 0))
    assert list(world.part.unplaced_jobs(p.observation)) == []
    world.now += 1300.0
    world.act(job(GATED), pod("g", 0))
    assert world.part.escaped.rounds == {}


def test_pods_that_never_had_a_gate_or_that_nothing_recreates_are_left_alone(world: PodsWorld) -> None:
    world.plan(planned("g", "wait"))
    bare, other_run = escaped(1), job(GATED)
    del bare["metadata"]["ownerReferences"]
    other_run["metadata"]["annotations"] = {}
    placed, bound = pod("g", 2, "n1", bound=False), pod("g", 3, "n1")
    world.act(job(GATED, UNGATED), escaped(0))
    runs = {**escaped(4), "status": {"phase": "Running"}}
    world.act(job(GATED), bare, placed, bound, runs)
    world.act(other_run, escaped(0))
    assert world.evicted == []
    assert [gates_all_pods(job(*specs)) for specs in ((), (GATED,), (UNGATED,))] == [False, True, False]


def test_a_refused_eviction_is_no_round(world: PodsWorld) -> None:
    world.plan(planned("g", "wait"))
    world.put(escaped(0))
    world.cluster.fail(error_answer(409, "the pod has changed"), "eviction")
    p = world.act(job(GATED), escaped(0))
    assert "the pod has changed" in p.effects.held[0].reason
    world.cluster.recover()
    world.now = 1.0
    assert world.act(job(GATED), escaped(0)).reasons == ["GateRemoved"]
    assert world.part.escaped.rounds[key_of("g")].number == 1

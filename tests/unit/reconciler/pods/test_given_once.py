"""A node is given once: by a late watch, a patch without an answer, a new leader, and a plan that is behind."""

from __future__ import annotations

import pytest

from reconciler.cluster.objects import Object, ref_of
from reconciler.cluster.write_threads import NO_ANSWER
from tests.builders.pods import (
    FULL,
    GPU,
    LOST,
    NODES,
    PORTS,
    Acted,
    PodsWorld,
    evicted_pod,
    key_of,
    live_job,
    planned,
    pod,
)


@pytest.fixture
def world() -> PodsWorld:
    """A plan starts g2 on n2."""
    made = PodsWorld()
    made.plan(planned("g1", "wait"), planned("g2", "start", n2=1))
    return made


def give_n2_to_g1(world: PodsWorld, objects: list[Object]) -> Acted:
    """A pass with a plan that was made before g2 was given n2, of what the watch shows still."""
    behind = PodsWorld()
    for each in (behind, world):
        each.plan(planned("g1", "start", n2=1), planned("g2", "start", n3=1))
    return world.look(objects, base=behind.look(objects).fingerprint)


@pytest.mark.parametrize("seconds", [0.1, 11.0, 3600.0])
def test_a_watch_that_is_late_by_our_own_patch(world: PodsWorld, seconds: float) -> None:
    objects = world.two_gangs()
    assert world.look(objects).lifted == {key_of("g2"): 1}
    world.now += seconds
    p = give_n2_to_g1(world, objects)
    assert (p.lifted, world.given("n2")) == ({}, ["g2-w-0"])
    assert p.unlifted[key_of("g1")] == "node n2 changed since it was planned there; it is planned again"


def test_a_patch_that_has_no_answer_yet(world: PodsWorld) -> None:
    objects = world.two_gangs()
    world.hang("g2-w-0", "PATCH")
    assert world.look(objects).unlifted == {key_of("g2"): NO_ANSWER}
    assert give_n2_to_g1(world, objects).lifted == {}
    world.let_go()
    give_n2_to_g1(world, objects)
    assert world.given("n2") == ["g2-w-0"]


def test_an_answer_that_was_lost_counts_meanwhile(world: PodsWorld) -> None:
    objects = world.two_gangs()
    world.cluster.fail(LOST, "g2-w-0", "PATCH")
    assert world.look(objects).lifted == {}
    assert give_n2_to_g1(world, objects).lifted == {}


def test_another_replica_leads_and_its_watch_is_late(world: PodsWorld) -> None:
    objects = world.two_gangs()
    world.look(objects)
    follower = PodsWorld(world.cluster)
    pods = {ref_of(item).key: item for item in objects if item["kind"] == "Pod"}
    follower.own.record_reads("Pod", world.stored(), pods)
    assert give_n2_to_g1(follower, objects).lifted == {}
    assert world.given("n2") == ["g2-w-0"]


def test_a_pod_that_a_new_leader_has_only_read_counts_while_its_gate_is_lifted(world: PodsWorld) -> None:
    """Its watch did not show the pod yet, so its own lift counted as one of a pod that was gone."""
    without_pods = [item for item in world.two_gangs() if item["kind"] != "Pod"]
    world.own.record_reads("Pod", world.stored(), {})
    world.hang("", "PATCH")
    world.look(without_pods)
    p = world.look(without_pods)
    assert [name for name, there in sorted(p.seen.pods.items()) if there] == [key_of("g1"), key_of("g2")]
    assert p.unlifted == {key_of("g2"): NO_ANSWER}
    world.let_go()


def test_foreign_pods_and_what_pods_really_ask_count_whatever_the_plan_says(world: PodsWorld) -> None:
    world.plan(planned("g1", "start", n2=1), planned("g2", "start", n1=1))
    pods = pod("g1", 0, asks=FULL), pod("g2", 0, asks={GPU: "9"}), pod("stranger", 0, "n2", asks={GPU: "1"})
    for crowded in (set(), {key_of("g1"), key_of("g2")}):
        p = world.act(live_job("g1"), live_job("g2"), *pods)
        assert p.observation.restrictions.crowded_jobs == crowded, "a reason for a new plan"
        assert p.lifted == {}
        assert p.unlifted == {
            key_of("g1"): f"node n2: 7 {GPU} free, 8 needed",
            key_of("g2"): f"node n1: 8 {GPU} free, 9 needed",
        }


def test_a_node_whose_pods_ask_for_more_cpu_than_it_has_gets_no_pod(world: PodsWorld) -> None:
    """Volcano binds none there, whatever it asks for."""
    world.plan(planned("g1", "start", n2=1))
    full = pod("stranger", 0, "n2", asks={"cpu": "1000"})
    p = world.act(live_job("g1"), pod("g1", 0, asks={GPU: "1"}), full)
    assert p.lifted == {}
    assert p.unlifted == {key_of("g1"): "node n2: its pods request more cpu than it has, so Volcano binds no pod there"}


def test_two_gangs_of_one_pass_are_counted_together(world: PodsWorld) -> None:
    world.plan(planned("g1", "start", n2=1), planned("g2", "start", n2=1))
    assert world.look(world.two_gangs()).lifted == {key_of("g1"): 1}


def test_virtual_gpus_count_by_what_the_cards_of_a_node_have_together(world: PodsWorld) -> None:
    cards = "GPU-0,10,8000,NVIDIA,true:GPU-1,10,8000,NVIDIA,true:"
    register = {"volcano.sh/node-vgpu-register": cards}
    nodes = [{**item, "metadata": {**item["metadata"], "annotations": register}} for item in NODES]
    asks = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "6000"}
    pods = [pod(f"g{at}", 0, asks=asks) for at in (1, 2, 3)]
    world.put(*pods)
    world.plan(*(planned(f"g{at}", "start", n2=1) for at in (1, 2, 3)))
    p = world.look([*nodes, *(live_job(f"g{at}") for at in (1, 2, 3)), *pods])
    assert p.lifted == {key_of("g1"): 1, key_of("g2"): 1}
    assert p.unlifted == {key_of("g3"): "node n2: 4000 volcano.sh/vgpu-memory free, 6000 needed"}


def test_a_gang_whose_planned_node_is_closed_to_it_is_planned_again_and_says_so(world: PodsWorld) -> None:
    """Its pods were evicted in two passes, the plan kept it at the closed node, and it waited for five minutes."""
    world.plan(planned("g", "start", n1=2))
    for world.now in (0.0, 120.0):
        world.act(live_job("g"), *(pod("g", at, "n1", bound=False, message=PORTS) for at in (0, 1)))
    assert world.evicted == ["g-w-0", "g-w-1"]
    world.plan(planned("g", "keep", n1=2))
    gated = [pod("g", at) for at in (0, 1)]
    back = [{**item, "metadata": {**item["metadata"], "uid": f"new-{at}"}} for at, item in enumerate(gated)]
    p = world.act(live_job("g"), *back)
    assert "planned on node n1, where its pods were not bound before" in p.unlifted[key_of("g")]
    assert world.act(live_job("g"), *back).observation.restrictions.crowded_jobs == {key_of("g")}


def test_room_that_evicted_pods_still_hold_is_awaited_in_silence(world: PodsWorld) -> None:
    world.plan(planned("winner", "start", n1=1), planned("victim", "wait"))
    victim = evicted_pod("victim", "1970-01-01T00:10:00Z", FULL)
    p = world.act(live_job("winner"), live_job("victim"), pod("winner", 0, asks=FULL), victim)
    assert (p.lifted, p.unlifted) == ({}, {})

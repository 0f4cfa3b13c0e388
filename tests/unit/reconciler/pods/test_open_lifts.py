"""Writes that the watch does not show: they count; lifts without an answer are asked for again where that is safe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from reconciler.changes.pods import Eviction, GateLift
from reconciler.cluster.client import LostLease
from reconciler.cluster.objects import Object, ref_of
from reconciler.cluster.write_threads import NO_ANSWER
from reconciler.observation.informers import InformerSet
from reconciler.observation.own_writes import OwnWrites
from reconciler.pods.lifts import Orders
from tests.builders.fake_cluster import FakeCluster
from tests.builders.live import live
from tests.builders.pods import FULL, GPU, LOST, NODES, PODS, PORTS, PodsWorld, key_of, live_job, node, planned, pod
from tests.builders.scripted_server import error_answer
from tests.builders.threads import lose_lease


def lose_lift(world: PodsWorld) -> list[Object]:
    """Lift the gate of g2, eight GPUs, to n2, and lose the answer; what the watch shows a minute later."""
    objects = world.two_gangs()
    world.cluster.fail(LOST, "/pods/", "PATCH")
    world.plan(planned("g1", "wait"), planned("g2", "start", n2=1))
    world.look(objects)
    world.cluster.recover()
    world.now = 60.0
    return objects


@pytest.mark.parametrize(
    ("nodes", "pods", "reason"),
    [
        (NODES, [], ""),
        (NODES, [pod("stranger", 0, "n2", asks={GPU: "1"})], "node n2: 0 nvidia.com/gpu free, 0 needed"),
        (NODES[:1], [], "node n2 does not exist"),
    ],
    ids=["all is as it was", "a foreign pod has the room", "the node is gone"],
)
def test_one_is_asked_for_again_where_its_room_is_not_gone(
    world: PodsWorld, nodes: list[Object], pods: list[Object], reason: str
) -> None:
    objects = [item for item in lose_lift(world) if item["kind"] != "Node"]
    p = world.look([*nodes, *objects, *pods])
    assert (world.given("n2"), p.unlifted) == (([], {key_of("g2"): reason}) if reason else (["g2-w-0"], {}))
    assert (p.lifted, world.own.open_lifts() == {}) == ({} if reason else {key_of("g2"): 1}, not reason)


def test_a_leader_that_returns_after_another_sends_no_lift_of_before_beyond_what_there_is() -> None:
    """The request had not even been sent: the lease was lost."""
    first = PodsWorld()
    *others, one, two = first.two_gangs()
    first.cluster.before = lambda method, path, body: lose_lease() if method == "PATCH" else None
    first.plan(planned("g1", "wait"), planned("g2", "start", n2=1))
    with pytest.raises(LostLease):
        first.look([*others, one, two])
    first.cluster.recover()
    other = PodsWorld(first.cluster)
    other.own.record_reads("Pod", first.stored(), {ref_of(item).key: item for item in (one, two)})
    other.plan(planned("g1", "start", n2=1), planned("g2", "wait"))
    assert other.look([*others, *first.stored()]).lifted == {key_of("g1"): 1}
    now = first.stored()
    first.own.record_reads("Pod", now, {ref_of(item).key: item for item in now})
    first.plan(planned("g1", "keep", n2=1), planned("g2", "wait"))
    first.now = 60.0
    first.look([*others, *now])
    assert first.given("n2") == ["g1-w-0"]


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_newer_read_of_a_pod_that_is_still_gated_ends_no_lift(is_lost: bool) -> None:
    """The lease was not renewed for a moment and pods are read again: the patch may still be made."""
    item = FakeCluster().put(f"{PODS}g2-w-0", pod("g2", 0, asks=FULL))
    own, lift = OwnWrites(), GateLift(item, "n2", "n2")
    own.begin_lift(lift)
    if is_lost:
        own.lose_answer(lift)
    newer = {**item, "metadata": {**item["metadata"], "resourceVersion": "500"}}
    own.record_reads("Pod", [newer], {ref_of(item).key: item})
    assert own.open_lifts()


@pytest.mark.parametrize(("reached", "is_there"), [(6, True), (8, False)])
def test_what_is_deleted_soon_after_our_write_is_seen_to_be_gone(reached: int, is_there: bool) -> None:
    """The scheduler's ConfigMap, edited by hand, put back and deleted, returned half a minute later."""
    own, item = OwnWrites(), live("v1", "ConfigMap", "a", resourceVersion="7")
    own.record_write(item)
    assert (ref_of(item).key in own.laid_over("ConfigMap", {}, reached)) == is_there


def test_a_pod_that_is_made_while_a_new_leader_reads_is_not_hidden() -> None:
    cluster, shown = FakeCluster(), dict[str, Object]()
    cluster.put(f"{PODS}g1-w-0", pod("g1", 0))

    class Watch:
        def keyed_items(self) -> Mapping[str, Object]:
            return dict(shown)

    def make_another(method: str, path: str, body: Any) -> None:
        made = cluster.put(f"{PODS}stranger-w-0", pod("stranger", 0, "n2", asks=FULL))
        shown[ref_of(made).key] = made

    cluster.after = make_another
    watches = InformerSet(cluster.client(), "test", lambda: None)
    watches.informers["Pod"] = Watch()  # type: ignore[assignment]
    watches.read_pods()
    assert "Pod/default/stranger-w-0" in watches.own.laid_over("Pod", shown, 10_000)


def test_one_whose_tests_cannot_hold_any_more_was_not_made(world: PodsWorld) -> None:
    """Another controller took its own gate away: the same patch was sent for ever, and the node was blocked."""
    item = pod("g", 0, asks=FULL)
    both = [*item["spec"]["schedulingGates"], {"name": "kueue.x-k8s.io/admission"}]
    two = {**item, "spec": {**item["spec"], "schedulingGates": both}}
    world.put(two)
    world.plan(planned("g", "start", n2=1))
    world.cluster.fail(LOST, "/pods/", "PATCH")
    world.look([*NODES, live_job("g"), two])
    world.cluster.recover()
    now = world.cluster.put(f"{PODS}g-w-0", item)
    for world.now in (60.0, 120.0, 600.0):
        world.look([*NODES, live_job("g"), now])
    assert world.given("n2") == ["g-w-0"]


def test_one_of_a_job_that_left_the_plan_or_is_suspended_is_reported(world: PodsWorld) -> None:
    objects = lose_lift(world)
    world.orders = Orders(suspended={key_of("g2")})
    assert world.look(objects).unlifted == {key_of("g2"): NO_ANSWER}
    world.orders = Orders()
    world.plan(planned("g1", "start", n2=1))
    assert world.look(objects).unlifted[key_of("g2")] == NO_ANSWER


def test_one_is_not_asked_for_beside_an_eviction_under_way(world: PodsWorld) -> None:
    """The eviction's result was lost."""
    objects = lose_lift(world)
    world.hang("")
    assert world.writes.evict(Eviction(objects[-1], "NodeLost", "its node is lost")).outcome == "left"
    call = world.threads._left["Pod/default/g2-w-0"]
    world.look(objects)
    assert world.threads._left["Pod/default/g2-w-0"] is call
    world.let_go()


def test_the_scheduler_is_not_blamed_for_a_pod_that_may_still_be_gated(world: PodsWorld) -> None:
    objects = lose_lift(world)
    world.cluster.fail(LOST, "/pods/", "PATCH")
    for at, world.now in enumerate((60.0, 100.0, 185.0, 190.0)):
        world.look([*objects, *(pod("other", number, "n1") for number in range(at))])
    assert world.evicted == []


def test_a_conflict_that_leaves_the_pod_is_no_eviction(world: PodsWorld) -> None:
    """It counted as granted, and nothing was planned until the watch showed the pod's end: never."""
    waiting = pod("g", 0, "n1", bound=False, message=PORTS)
    world.put(waiting)
    world.cluster.fail(error_answer(409, "modified"), "eviction")
    world.plan(planned("g", "start", n1=1))
    for world.now in (0.0, 120.0):
        p = world.act(live_job("g"), waiting)
    assert ("modified" in p.effects.held[0].reason, world.part.awaits_evictions) == (True, False)


def test_a_node_that_does_not_say_what_it_has_is_given_nothing(world: PodsWorld) -> None:
    world.plan(planned("g", "start", n1=1))
    p = world.look([{**node("n1"), "status": {}}, live_job("g"), pod("g", 0)])
    assert p.unlifted == {key_of("g"): "node n1 does not say what it has"}


def test_a_refusal_asks_for_the_next_pass_once(world: PodsWorld) -> None:
    world.plan(planned("g1", "start", n2=1))
    for _ in range(2):
        world.act(live_job("g1"), pod("g1", 0, asks=FULL), pod("stranger", 0, "n2", asks={GPU: "1"}))
    assert world.wakes == 1

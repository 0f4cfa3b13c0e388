"""Lifts whose answer was lost: they count, are asked for again where that is safe, and end for certain."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import pytest

from reconciler.changes.pods import Eviction, GateLift
from reconciler.cluster.client import LostLease
from reconciler.cluster.objects import Object, Ref, ref_of
from reconciler.cluster.write_threads import NO_ANSWER, Task, WriteThreads
from reconciler.observation.informers import InformerSet
from reconciler.observation.own_writes import OwnWrites
from reconciler.pods.lifts import Orders
from tests.builders.fake_cluster import FakeCluster
from tests.builders.pods import GPU, PodsWorld, key_of, live_job, node, planned, pod
from tests.builders.scripted_server import ScriptedAnswer, error_answer
from tests.builders.threads import HASTY_WRITES

FULL = {GPU: "8"}
NODES = [node(name) for name in ("n1", "n2", "n3", "n4")]
PODS = "/api/v1/namespaces/default/pods/"
PORTS = "all nodes are unavailable: 1 node(s) didn't have free ports for the requested pod ports."


class LossyWorld(PodsWorld):
    """A world in which the answers to patches of pods are lost while `is_lossy`, and the patches are not made."""

    def __init__(self) -> None:
        super().__init__()
        self.is_lossy = True
        self.cluster.before = self._lose

    def _lose(self, method: str, path: str, body: Any) -> ScriptedAnswer | None:
        is_lost = self.is_lossy and method == "PATCH" and "/pods/" in path
        return ScriptedAnswer(200, {}, breaks_off=True) if is_lost else None

    def lose_lift(self, *others: Object) -> list[Object]:
        """Lift the gate of g2, eight GPUs, to n2, and lose the answer; what the watch shows."""
        pods = [pod("g1", 0, asks=FULL), pod("g2", 0, asks=FULL)]
        self.put(*pods)
        objects = [*NODES, live_job("g1"), live_job("g2"), *pods, *others]
        self.plan(planned("g1", "wait"), planned("g2", "start", n2=1))
        self.look(objects)
        self.is_lossy, self.now = False, 60.0
        return objects

    def given(self, node_name: str) -> list[str]:
        items = self.cluster.objects.values()
        there = (item for item in items if node_name in (item["spec"].get("nodeSelector") or {}).values())
        return sorted(item["metadata"]["name"] for item in there)


@pytest.fixture
def world() -> LossyWorld:
    return LossyWorld()


def test_one_is_asked_for_again_as_it_was(world: LossyWorld) -> None:
    objects = world.lose_lift()
    assert world.look(objects).lifted == {key_of("g2"): 1}
    assert (world.given("n2"), world.own.open_lifts()) == (["g2-w-0"], {})


def test_one_is_not_asked_for_again_where_a_foreign_pod_has_the_room_meanwhile(world: LossyWorld) -> None:
    objects = world.lose_lift()
    p = world.look([*objects, pod("stranger", 0, "n2", asks={GPU: "1"})])
    assert (world.given("n2"), p.unlifted) == ([], {key_of("g2"): "node n2: 0 nvidia.com/gpu free, 0 needed"})


def test_one_is_not_asked_for_again_where_its_node_is_gone(world: LossyWorld) -> None:
    objects = world.lose_lift()
    p = world.look([node("n1"), *objects[4:]])
    assert (world.given("n2"), list(p.unlifted)) == ([], [key_of("g2")])


def test_a_leader_that_returns_after_another_sends_no_lift_of_before_beyond_what_there_is() -> None:
    """The request had not even been sent: the lease was lost."""
    first = PodsWorld()
    pods = [pod("g1", 0, asks=FULL), pod("g2", 0, asks=FULL)]
    first.put(*pods)
    jobs = [live_job("g1"), live_job("g2")]

    def lose_lease(method: str, path: str, body: Any) -> None:
        if method == "PATCH":
            raise LostLease("another replica leads")

    first.cluster.before = lose_lease
    first.plan(planned("g1", "wait"), planned("g2", "start", n2=1))
    with pytest.raises(LostLease):
        first.look([*NODES, *jobs, *pods])
    first.cluster.before = lambda method, path, body: None
    other = PodsWorld(first.cluster)
    other.own.record_reads("Pod", stored(first.cluster), {ref_of(item).key: item for item in pods})
    other.plan(planned("g1", "start", n2=1), planned("g2", "wait"))
    assert other.look([*NODES, *jobs, *stored(first.cluster)]).lifted == {key_of("g1"): 1}
    now = stored(first.cluster)
    first.own.record_reads("Pod", now, {ref_of(item).key: item for item in now})
    first.plan(planned("g1", "keep", n2=1), planned("g2", "wait"))
    first.now = 60.0
    first.look([*NODES, *jobs, *now])
    assert [name_and_node(item) for item in stored(first.cluster)] == [("g1-w-0", "n2"), ("g2-w-0", None)]


def stored(cluster: FakeCluster) -> list[Object]:
    return [item for path, item in sorted(cluster.objects.items()) if path.startswith(PODS)]


def name_and_node(item: Object) -> tuple[str, str | None]:
    return item["metadata"]["name"], (item["spec"].get("nodeSelector") or {}).get("kubernetes.io/hostname")


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


def test_one_whose_tests_cannot_hold_any_more_was_not_made(world: LossyWorld) -> None:
    """Another controller took its own gate away: the same patch was sent for ever, and the node was blocked."""
    item = pod("g", 0, asks=FULL)
    both = [*item["spec"]["schedulingGates"], {"name": "kueue.x-k8s.io/admission"}]
    two = {**item, "spec": {**item["spec"], "schedulingGates": both}}
    world.put(two)
    world.plan(planned("g", "start", n2=1))
    world.look([*NODES, live_job("g"), two])
    world.is_lossy = False
    now = world.cluster.put(f"{PODS}g-w-0", item)
    for world.now in (60.0, 120.0, 600.0):
        world.look([*NODES, live_job("g"), now])
    assert world.given("n2") == ["g-w-0"]


def test_one_of_a_job_that_left_the_plan_or_is_suspended_is_reported(world: LossyWorld) -> None:
    objects = world.lose_lift()
    world.orders = Orders(suspended={key_of("g2")})
    assert world.look(objects).unlifted == {key_of("g2"): NO_ANSWER}
    world.orders = Orders()
    world.plan(planned("g1", "start", n2=1))
    assert world.look(objects).unlifted[key_of("g2")] == NO_ANSWER


def test_one_is_not_asked_for_beside_an_eviction_under_way(world: LossyWorld) -> None:
    """The eviction's result was lost."""
    objects, gate = world.lose_lift(), threading.Event()
    world.threads.timings = HASTY_WRITES

    def hang(method: str, path: str, body: Any) -> None:
        gate.wait(10)

    world.cluster.before = hang
    assert world.writes.evict(Eviction(objects[-1], "NodeLost", "its node is lost")).outcome == "left"
    call = world.threads._left["Pod/default/g2-w-0"]
    world.look(objects)
    assert world.threads._left["Pod/default/g2-w-0"] is call
    gate.set()


def test_the_scheduler_is_not_blamed_for_a_pod_that_may_still_be_gated(world: LossyWorld) -> None:
    objects = world.lose_lift()
    world.is_lossy = True
    for at, world.now in enumerate((60.0, 100.0, 185.0, 190.0)):
        world.look([*objects, *(pod("other", number, "n1") for number in range(at))])
    assert world.evicted == []


def test_a_conflict_that_leaves_the_pod_is_no_eviction(world: LossyWorld) -> None:
    """It counted as granted, and nothing was planned until the watch showed the pod's end: never."""
    pods = [pod("g", 0, "n1", bound=False, message=PORTS)]
    world.cluster.put(f"{PODS}g-w-0", pods[0])
    world.cluster.before = lambda method, path, body: error_answer(409, "modified") if "eviction" in path else None
    world.plan(planned("g", "start", n1=1))
    for world.now in (0.0, 120.0):
        p = world.act(live_job("g"), *pods)
    assert ("modified" in p.effects.held[0].reason, world.part.awaits_evictions) == (True, False)


def test_a_node_that_does_not_say_what_it_has_is_given_nothing(world: LossyWorld) -> None:
    world.plan(planned("g", "start", n1=1))
    p = world.look([{**NODES[0], "status": {}}, live_job("g"), pod("g", 0)])
    assert p.unlifted == {key_of("g"): "node n1 does not say what it has"}


def test_a_refusal_asks_for_the_next_pass_once(world: LossyWorld) -> None:
    world.plan(planned("g1", "start", n2=1))
    for _ in range(2):
        world.act(live_job("g1"), pod("g1", 0, asks=FULL), pod("stranger", 0, "n2", asks={GPU: "1"}))
    assert world.wakes == 1


def test_a_note_that_raises_loses_no_other_result() -> None:
    threads, gate = WriteThreads(HASTY_WRITES), threading.Event()

    def fail() -> str:
        raise ValueError("a note")

    def task(name: str, note: Any) -> Task:
        def send(proceed: Any) -> Any:
            gate.wait(10)
            return note

        return Task(Ref("v1", "Pod", "d", name), send, lambda told, _: told)

    assert threads.run([task("a", fail), task("b", lambda: "done")]) == ["left", "left"]
    gate.set()
    while not all(call.answer.done() for call in threads._left.values()):
        gate.wait(0.001)
    assert threads.take_ended() == ["retry", "done"]

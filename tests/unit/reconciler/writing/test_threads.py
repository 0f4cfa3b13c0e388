"""Writes without an answer: each holds up only itself, sends nothing more, and is taken up when it has ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from compiler.emit.manifest import Manifest
from reconciler.cluster.inventory import Inventory, InventoryEntry, InventoryStore
from reconciler.cluster.objects import ref_of
from reconciler.cluster.shards import Table
from reconciler.decisions.diff import Change
from reconciler.decisions.gates import GateLift
from reconciler.writing.threads import MAX_LEFT_OF_GROUP, NO_ANSWER, WRITERS
from reconciler.writing.writer import SLOW_SAVE, ClusterWriter
from tests.builders.fake_cluster import FakeCluster
from tests.builders.scripted_server import ScriptedAnswer, error_answer

JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
Answer = ScriptedAnswer | None


class HangingServer:
    """A cluster whose answers to some requests wait until a test lets them go; then they are the cluster's own, or
    `answer`."""

    def __init__(self) -> None:
        self.cluster = FakeCluster()
        self.answer: Answer = None
        self.hangs: Callable[[str, str], bool] = lambda method, path: False
        self.gate, self.ended = threading.Event(), threading.Event()
        self.cluster.before = self._wait
        self.inventory = Inventory()
        store = InventoryStore(self.cluster.client(), "gangplan-system", "test")
        self.writer = ClusterWriter(self.cluster.client(), store, clock=lambda: 0.0, sleep=lambda seconds: None)
        self.writer.threads.patience = 0.05
        self.writer.threads.tell_ends(self.ended.set)

    def _wait(self, method: str, path: str, body: Any) -> Answer:
        if not self.hangs(method, path):
            return None
        self.gate.wait()
        return self.answer

    def asked(self, name: str) -> int:
        return sum(path.endswith(f"/{name}") for _, path in self.cluster.writes)

    def let_go(self, answer: Answer = None) -> None:
        """Let what hangs have its answer, and wait until nothing is under way."""
        self.answer = answer
        self.gate.set()
        while any(not call.future.done() for call in self.writer.threads._left.values()):
            time.sleep(0.001)


@pytest.fixture
def server() -> Iterator[HangingServer]:
    server = HangingServer()
    yield server
    server.let_go()


def manifest(name: str, kind: str = "ConfigMap") -> Manifest:
    version = "v1" if kind == "ConfigMap" else "batch.volcano.sh/v1alpha1"
    item = {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": {"a": 1}}
    return Manifest(5, item, "x.yaml:1", run_digest="sha256:1" if kind == "Job" else "")


def creation(name: str, kind: str = "ConfigMap") -> Change:
    desired = manifest(name, kind)
    return Change("create", ref_of(desired.object), desired)


def test_a_write_that_hangs_holds_up_no_other_and_is_taken_up_when_it_has_ended(server: HangingServer) -> None:
    server.hangs = lambda method, path: path.startswith(f"{JOBS}/bad")
    bad, good = creation("bad", "Job"), creation("good", "Job")
    results = server.writer.apply_changes([bad, good], server.inventory)
    assert [(result.outcome, result.message) for result in results] == [("retry", NO_ANSWER), ("done", "")]
    assert not server.writer.is_due(bad), "it is under way"
    assert not server.writer.settle()
    assert not server.inventory.entries[bad.ref.key].uid
    server.let_go()
    assert server.ended.is_set(), "a pass is made for it"
    (settled,) = server.writer.settle()
    assert (settled.change, settled.outcome) == (bad, "done")
    assert server.inventory.entries[bad.ref.key].uid == server.cluster.objects[f"{JOBS}/bad"]["metadata"]["uid"]
    assert not server.writer.memory.failures
    assert server.asked("bad") == 1


def test_what_is_left_and_fails_is_told_and_tried_again(server: HangingServer) -> None:
    server.hangs = lambda method, path: path.startswith(f"{JOBS}/bad")
    bad = creation("bad", "Job")
    server.writer.apply_changes([bad], server.inventory)
    server.let_go(error_answer(500, "the webhook gave no answer"))
    (settled,) = server.writer.settle()
    assert settled.outcome == "retry"
    assert "the webhook gave no answer" in settled.message
    server.writer.clock = lambda: 100.0
    assert server.writer.is_due(bad)
    server.gate.clear()
    (result,) = server.writer.apply_changes([bad], server.inventory)
    assert "the webhook gave no answer" in result.message, "the last answer says more than that there is none"


def test_a_write_that_was_left_sends_nothing_more(server: HangingServer) -> None:
    """It would be sent long after the loop looked: its object may be given up by then."""
    server.cluster.put(f"{CONFIGMAPS}/there", {**manifest("there").object, "data": {"theirs": "1"}})
    server.hangs = lambda method, path: path.startswith(f"{CONFIGMAPS}/there")
    change = creation("there")
    server.writer.apply_changes([change], server.inventory)
    before = len(server.cluster.requests)
    server.let_go()
    (settled,) = server.writer.settle()
    assert (settled.outcome, len(server.cluster.requests)) == ("retry", before)
    assert "spec" not in server.cluster.objects[f"{CONFIGMAPS}/there"] or settled.outcome == "retry"


def test_many_that_hang_take_no_thread_from_objects_of_other_kinds(server: HangingServer) -> None:
    server.hangs = lambda method, path: path.startswith(f"{CONFIGMAPS}/bad")
    bad = [creation(f"bad-{at}") for at in range(60)]
    results = server.writer.apply_changes([*bad, creation("good", "Job")], server.inventory)
    assert {result.change.ref.name for result in results if result.outcome == "done"} == {"good"}
    asked = sum(server.asked(f"bad-{at}") for at in range(60))
    assert MAX_LEFT_OF_GROUP <= asked <= 2 * WRITERS
    server.writer.apply_changes([change for change in bad if server.writer.is_due(change)], server.inventory)
    assert sum(server.asked(f"bad-{at}") for at in range(60)) == asked, "no more of its kind while so many have none"
    server.let_go()
    assert len(server.writer.settle()) == asked


def test_a_gate_and_an_eviction_without_an_answer_are_left_as_well(server: HangingServer) -> None:
    pods = []
    for name in ("a", "bad"):
        item = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}}
        spec = {"schedulingGates": [{"name": "gangplan.dev/placement"}]}
        pods.append(server.cluster.put(f"/api/v1/namespaces/default/pods/{name}", {**item, "spec": spec}))
    server.hangs = lambda method, path: "/pods/bad" in path
    troubles = server.writer.lift_gates([GateLift(pod, "n", "n") for pod in pods])
    assert [(trouble.message, trouble.is_certain) for trouble in troubles] == [("", False), (NO_ANSWER, False)]
    server.let_go()
    assert not server.writer.settle(), "of a pod there is no result"
    assert server.writer.newest_object(ref_of(pods[1]).key, pods[1]) != pods[1]
    server.gate.clear()
    assert str(server.writer.evict_pod(pods[1])) == NO_ANSWER
    assert server.writer.is_open(ref_of(pods[1]))


def test_an_inventory_whose_write_hangs_is_not_waited_for_again_at_once(server: HangingServer) -> None:
    """What needs no new entry went on only after four attempts, each as long as the webhook's time limit."""
    now, writer = 0.0, server.writer

    def answer(method: str, path: str, body: Any) -> Answer:
        nonlocal now
        if "gangplan-system" not in path or method == "GET":
            return None
        now += 3 * SLOW_SAVE
        return error_answer(500, "the webhook gave no answer")

    server.cluster.before, writer.clock = answer, lambda: now
    live = server.cluster.put(f"{CONFIGMAPS}/old", manifest("old").object)
    desired = manifest("old")
    change = Change("update", ref_of(desired.object), desired, live)
    inventory = Inventory(Table({change.ref.key: InventoryEntry(change.ref, live["metadata"]["uid"])}))
    results = writer.apply_changes([change, creation("new")], inventory)
    assert {result.change.ref.name: result.outcome for result in results} == {
        "old": "done",
        "new": "retry",
        "gangplan-test-inventory": "retry",
    }
    assert now == 3 * SLOW_SAVE, "one attempt"
    assert writer.save_inventory(inventory)
    assert now == 3 * SLOW_SAVE, "and none for longer than it took"
    server.cluster.before, now = lambda method, path, body: None, 13 * SLOW_SAVE
    assert not writer.save_inventory(inventory)

"""Writes: fenced one by one, each meant for one object, and none of them held up by another."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from compiler.emit.manifest import Manifest
from reconciler.changes.diff import Change, field_differences
from reconciler.changes.pods import Eviction, GateLift
from reconciler.cluster.client import Client, LostLease
from reconciler.cluster.objects import Ref, ref_of
from reconciler.cluster.write_threads import WriteThreads
from reconciler.inventory.shards import Table
from reconciler.inventory.store import Inventory, InventoryEntry, InventoryStore
from reconciler.objects.writer import PUT_OFF, ClusterWriter, _differences_digest
from reconciler.observation.own_writes import OwnWrites
from reconciler.pods.writes import PodWrites
from reconciler.timings import TIMINGS
from tests.builders.fake_cluster import FakeCluster
from tests.builders.scripted_server import ScriptedAnswer, error_answer

JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
INVENTORY = "/api/v1/namespaces/gangplan-system/configmaps/gangplan-test-inventory"


def writer_for(client: Client) -> ClusterWriter:
    store = InventoryStore(client, "gangplan-system", "test")
    return ClusterWriter(client, store, clock=lambda: 0.0, sleep=lambda seconds: None)


def job(name: str, **spec: Any) -> Manifest:
    metadata = {"name": name, "namespace": "default"}
    item = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": metadata, "spec": {"a": 1, **spec}}
    return Manifest(5, item, "jobs/x.yaml:1", run_digest=f"sha256:{name}")


def creation(name: str) -> Change:
    manifest = job(name)
    return Change("create", ref_of(manifest.object), manifest)


def update(cluster: FakeCluster, name: str, **spec: Any) -> Change:
    manifest = job(name, **spec)
    return Change("in-place", ref_of(manifest.object), manifest, cluster.objects[f"{JOBS}/{name}"])


class LeaseLostAfter:
    """A fence that closes after so many writes."""

    def __init__(self, writes: int) -> None:
        self.left = writes

    def check(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise LostLease("another replica holds the lease")


def test_a_leader_that_loses_the_lease_inside_a_wave_writes_nothing_more() -> None:
    cluster = FakeCluster()
    client = cluster.client()
    client.fence = LeaseLostAfter(9).check  # the inventory, and eight jobs
    with pytest.raises(LostLease):
        writer_for(client).apply_changes([creation(f"job-{at}") for at in range(120)], Inventory())
    assert len(cluster.writes) == 9
    assert cluster.writes[0][1].startswith(INVENTORY.rpartition("/")[0])


def test_every_request_that_writes_asks_the_fence_first() -> None:
    cluster = FakeCluster()
    client = cluster.client()
    pod = cluster.put(
        "/api/v1/namespaces/default/pods/p", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    )
    pod["spec"] = {"schedulingGates": [{"name": "gangplan.dev/placement"}]}
    pod["metadata"]["namespace"] = "default"
    client.fence = LeaseLostAfter(0).check
    writer = writer_for(client)
    pods = PodWrites(client, writer.threads, writer.own, lambda: False)
    ref = Ref("v1", "ConfigMap", "default", "c")
    for attempt in (
        lambda: pods.lift_gates({"g": [GateLift(pod, "n", "n")]}),
        lambda: pods.evict(Eviction(pod, "NodeLost", "its node is lost")),
        lambda: writer.prune_objects([Change("prune", ref, live={"metadata": {"uid": "uid"}})], Inventory()),
        lambda: writer.save_inventory(Inventory(commit="c0ffee")),
        lambda: client.create(pod),
        lambda: client.apply_anyway(pod),
    ):
        with pytest.raises(LostLease):
            attempt()
    assert not cluster.writes


def test_a_change_of_an_object_that_is_gone_makes_none() -> None:
    cluster = FakeCluster()
    cluster.put(f"{JOBS}/done", job("done").object)
    change = update(cluster, "done", a=2)
    del cluster.objects[f"{JOBS}/done"]
    (result,) = writer_for(cluster.client()).apply_changes([change], Inventory())
    assert result.outcome == "retry"
    assert f"{JOBS}/done" not in cluster.objects


def test_a_change_of_an_object_whose_name_another_has_taken_changes_nothing() -> None:
    cluster = FakeCluster()
    cluster.put(f"{JOBS}/done", job("done").object)
    change = update(cluster, "done", a=2)
    cluster.put(f"{JOBS}/done", job("done", a=3).object)
    (result,) = writer_for(cluster.client()).apply_changes([change], Inventory())
    assert result.outcome == "retry"
    assert cluster.objects[f"{JOBS}/done"]["spec"] == {"a": 3}


def test_a_create_that_meets_a_job_leaves_it_to_the_next_pass() -> None:
    cluster = FakeCluster()
    cluster.put(f"{JOBS}/new", job("new", a=3).object)
    (result,) = writer_for(cluster.client()).apply_changes([creation("new")], Inventory())
    assert result.outcome == "retry"
    assert cluster.objects[f"{JOBS}/new"]["spec"] == {"a": 3}


def test_a_create_that_meets_an_object_which_no_watch_shows_joins_it() -> None:
    cluster = FakeCluster()
    path = "/api/v1/namespaces/default/configmaps/c"
    item = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "default"}}
    theirs = cluster.put(path, {**item, "data": {"theirs": "1"}})
    manifest = Manifest(4, {**item, "data": {"ours": "1"}}, "x.yaml:1")
    inventory = Inventory()
    (result,) = writer_for(cluster.client()).apply_changes([Change("create", ref_of(item), manifest)], inventory)
    assert result.outcome == "done"
    assert inventory.entries[ref_of(item).key].origin == "joined"
    assert cluster.objects[path]["data"] == {"theirs": "1", "ours": "1"}
    assert cluster.objects[path]["metadata"]["uid"] == theirs["metadata"]["uid"]


def test_the_inventory_knows_each_object_before_it_exists_and_carries_the_term() -> None:
    cluster = FakeCluster()
    seen: list[int] = []

    def look(method: str, path: str, body: Any) -> None:
        if path.startswith(f"{JOBS}/job-") and "0?" in path:
            stored = InventoryStore(cluster.client(), "gangplan-system", "test").read()
            assert body["metadata"]["name"] in {entry.ref.name for entry in stored.entries.values()}
            seen.append(stored.transitions)

    cluster.before = look
    results = writer_for(cluster.client()).apply_changes(
        [creation(f"job-{at:03}") for at in range(450)], Inventory(transitions=7)
    )
    assert [result.change.ref.name for result in results] == [f"job-{at:03}" for at in range(450)]
    assert set(seen) == {7}
    saves = [path for _, path in cluster.writes if "configmaps" in path]
    assert len(saves) <= 9, "head, shard and new layout for each of three batches, and none for an object"


def test_another_replica_that_wrote_the_inventory_ends_the_wave_at_its_next_batch() -> None:
    cluster = FakeCluster()
    writer = writer_for(cluster.client())
    inventory = Inventory(transitions=1)
    writer.apply_changes([creation("first")], inventory)
    other = InventoryStore(cluster.client(), "gangplan-system", "test")
    taken = other.read()
    taken.transitions = 2
    other.write(taken)
    before = len(cluster.writes)
    with pytest.raises(LostLease):
        writer.apply_changes([creation(f"job-{at}") for at in range(120)], inventory)
    assert len(cluster.writes) == before + 1, "the refused write of the inventory and no other"


def test_a_failed_write_of_the_inventory_holds_up_only_what_it_does_not_know() -> None:
    cluster = FakeCluster()
    live = cluster.put(f"{JOBS}/old", job("old").object)
    change = update(cluster, "old", a=2)
    inventory = Inventory(Table({change.ref.key: InventoryEntry(change.ref, live["metadata"]["uid"])}))
    cluster.before = lambda method, path, body: (
        error_answer(500) if "inventory" in path or (method == "POST" and "configmaps" in path) else None
    )
    writer = writer_for(cluster.client())
    results = writer.apply_changes([change, creation("new")], inventory)
    assert [(result.change.ref.name, result.outcome) for result in results] == [
        ("old", "done"),
        ("new", "retry"),
        ("gangplan-test-inventory", "retry"),
    ]
    assert cluster.objects[f"{JOBS}/old"]["spec"] == {"a": 2}
    cluster.before = lambda method, path, body: None
    assert writer.apply_changes([creation("new")], inventory)[0].outcome == "done"


def test_one_failed_write_of_the_inventory_is_made_good_at_once() -> None:
    cluster = FakeCluster()
    answers = iter([error_answer(500)])
    cluster.before = lambda method, path, body: next(answers, None) if "configmaps" in path else None
    (result,) = writer_for(cluster.client()).apply_changes([creation("new")], Inventory())
    assert result.outcome == "done"


def test_an_inventory_that_was_written_although_the_answer_was_lost_is_no_other_replica() -> None:
    cluster = FakeCluster()
    writer = writer_for(cluster.client())
    inventory = Inventory(transitions=3)
    assert not writer.save_inventory(inventory)
    lost = iter([error_answer(500)])
    cluster.after = lambda method, path, body: next(lost, None) if method == "PUT" else None
    (result,) = writer.apply_changes([creation("new")], inventory)
    assert result.outcome == "done"


def test_one_object_that_is_refused_holds_up_no_other() -> None:
    cluster = FakeCluster()
    cluster.before = lambda method, path, body: error_answer(422, "no") if path.startswith(f"{JOBS}/bad") else None
    names = ["a", "bad", "c"]
    results = writer_for(cluster.client()).apply_changes([creation(name) for name in names], Inventory())
    assert {result.change.ref.name: result.outcome for result in results} == {
        "a": "done",
        "bad": "refused",
        "c": "done",
    }


def test_gates_of_a_gang_are_lifted_also_where_one_of_its_pods_is_gone() -> None:
    cluster = FakeCluster()
    pods = []
    for at in range(40):
        item = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p-{at}", "namespace": "default"}}
        spec = {"schedulingGates": [{"name": "gangplan.dev/placement"}]}
        pods.append(cluster.put(f"/api/v1/namespaces/default/pods/p-{at}", {**item, "spec": spec}))
    del cluster.objects["/api/v1/namespaces/default/pods/p-7"]
    writes = PodWrites(cluster.client(), WriteThreads(), OwnWrites(), lambda: False)
    results = writes.lift_gates({"g": [GateLift(pod, "n", "n") for pod in pods]})
    assert [result.outcome for result in results] == ["refused" if at == 7 else "done" for at in range(40)]
    assert all("schedulingGates" not in item["spec"] for item in cluster.objects.values())


def test_an_answer_that_is_lost_does_not_make_a_second_object() -> None:
    cluster = FakeCluster()
    lost = iter([ScriptedAnswer(200, {}, breaks_off=True)])
    cluster.after = lambda method, path, body: next(lost, None) if path.startswith(JOBS) else None
    writer, inventory = writer_for(cluster.client()), Inventory()
    assert writer.apply_changes([creation("new")], inventory)[0].outcome == "retry"
    uid = cluster.objects[f"{JOBS}/new"]["metadata"]["uid"]
    assert writer.apply_changes([creation("new")], inventory)[0].outcome == "retry"
    assert cluster.objects[f"{JOBS}/new"]["metadata"]["uid"] == uid


def test_a_pass_of_slow_writes_ends_and_the_next_one_goes_on() -> None:
    cluster = FakeCluster()
    client = cluster.client()
    now = 0.0

    def take_long() -> None:
        nonlocal now
        now += 10.0

    client.fence = take_long
    writer = writer_for(client)
    writer.clock, writer.deadline = lambda: now, 60.0
    left = [creation(f"job-{at}") for at in range(60)]
    inventory, rounds = Inventory(), 0
    while left:
        results = writer.apply_changes(left, inventory)
        done = {result.change.ref for result in results if result.outcome == "done"}
        assert 0 < len(done) <= 6 + TIMINGS.writes.writers
        assert all(r.message == PUT_OFF for r in results if r.change.ref not in done)
        assert not writer.memory.paused_changes, "nothing has failed"
        left = [change for change in left if change.ref not in done]
        writer.deadline, rounds = now + 60.0, rounds + 1
    assert rounds > 2


def test_what_another_manager_has_taken_is_put_back_with_one_request() -> None:
    cluster = FakeCluster()
    theirs = {"manager": "kubectl-edit", "operation": "Update", "fieldsV1": {"f:spec": {"f:a": {}}}}
    item = job("edited", a=7).object
    metadata = {**item["metadata"], "managedFields": [theirs]}
    live = cluster.put(f"{JOBS}/edited", {**item, "metadata": metadata})
    differences = field_differences(job("edited").object, live)
    change = replace(update(cluster, "edited"), live=live, fields=differences)
    inventory = Inventory(Table({change.ref.key: InventoryEntry(change.ref, live["metadata"]["uid"])}))
    seen: list[str] = []
    cluster.before = lambda method, path, body: seen.append(path) if f"{JOBS}/edited" in path else None
    (result,) = writer_for(cluster.client()).apply_changes([change], inventory)
    assert (result.outcome, result.message) == ("done", ".spec.a was set by kubectl-edit")
    assert len(seen) == 1
    assert "force=true" in seen[0]


def test_what_was_made_anew_just_before_a_stop_is_ours_though_the_inventory_knows_its_former_uid() -> None:
    """What somebody then changed in it was held for ever, as if the object were another's."""
    cluster = FakeCluster()
    ours: dict[str, Any] = {"manager": "gangplan", "operation": "Apply", "time": "2026-01-02T00:00:00Z"}
    ours["fieldsV1"] = {"f:metadata": {"f:labels": {"f:gangplan.dev/cluster": {}}}}
    theirs: dict[str, Any] = {"manager": "their-tool", "operation": "Update", "time": "2026-01-03T00:00:00Z"}
    theirs["fieldsV1"] = {"f:data": {"f:mode": {}}}
    labels = {"app.kubernetes.io/managed-by": "gangplan", "gangplan.dev/cluster": "test"}
    metadata = {"namespace": "default", "name": "settings", "labels": labels}
    item = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"mode": "fast"}}
    path = "/api/v1/namespaces/default/configmaps/settings"
    written = {**item, "data": {"mode": "theirs"}, "metadata": {**metadata, "managedFields": [ours, theirs]}}
    live = cluster.put(path, written)
    desired = Manifest(4, item, "x.yaml:1")
    change = Change("update", ref_of(item), desired, live, fields=field_differences(item, live))
    inventory = Inventory(Table({change.ref.key: InventoryEntry(change.ref, "the former uid")}))
    seen: list[str] = []
    cluster.before = lambda method, path, body: seen.append(path) if "/settings" in path else None
    (result,) = writer_for(cluster.client()).apply_changes([change], inventory)
    assert (result.outcome, result.message) == ("done", ".data.mode was set by their-tool")
    assert "force=true" in seen[0]
    assert inventory.entries[change.ref.key].uid == live["metadata"]["uid"]


def test_what_a_webhook_changes_is_not_written_again_at_once_and_for_ever_is_not_never() -> None:
    """The difference that stayed was passed over without a word for as long as the process lived, also when the webhook
    was gone."""
    cluster, now = FakeCluster(), 0.0
    cluster.put(f"{JOBS}/changed", job("changed").object)
    writer = writer_for(cluster.client())
    writer.clock = lambda: now
    pauses = []
    for _ in range(9):
        live = cluster.put(f"{JOBS}/changed", {**job("changed").object, "spec": {"a": 7}})
        change = replace(update(cluster, "changed"), live=live, fields=field_differences(job("changed").object, live))
        before = now
        while writer.is_unfixable(change):
            assert not writer.is_due(change)
            now += 30.0
        pauses.append(now - before)
        assert writer.is_due(change)
        assert change.desired is not None
        writer.memory.record_apply(change.ref.key, "sha256:1", _differences_digest(change.desired, change.fields), now)
    assert pauses == [0.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 3600.0, 3600.0]
    other = replace(change, fields=(replace(change.fields[0], live=8),))
    assert not writer.is_unfixable(other), "what somebody else changes is put back"


@pytest.mark.parametrize(
    ("is_answer", "seconds", "pause"), [(True, 10.0, 30.0), (True, 30.0, 60.0), (False, 30.0, 1.0)]
)
def test_an_object_whose_webhook_hangs_is_left_alone_for_longer_than_it_held_up_the_pass(
    is_answer: bool, seconds: float, pause: float
) -> None:
    """Each pass waited for it again, and so did all that is done to other objects. A connection that was lost is
    another matter."""
    cluster, now = FakeCluster(), [0.0]

    def hang(method: str, path: str, body: Any) -> ScriptedAnswer | None:
        if not path.startswith(JOBS):
            return None
        now[0] += seconds
        if not is_answer:
            raise TimeoutError("nothing came")
        return error_answer(500, "failed calling webhook: context deadline exceeded")

    cluster.before = hang
    writer = writer_for(cluster.client())
    writer.clock = lambda: now[0]
    (result,) = writer.apply_changes([creation("a")], Inventory())
    assert (result.outcome, result.retry_after) == ("retry", pause)
    now[0] += pause - 0.1
    assert not writer.is_due(creation("a"))
    now[0] += 0.2
    assert writer.is_due(creation("a"))

"""Single objects are put back between two passes where nothing but their own fields decides; the rest wakes a pass."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compiler.emit.manifest import Manifest
from compiler.kubernetes import CLUSTER_LABEL, MANAGED_BY_LABEL
from reconciler.changes.diff import Change, classify_change
from reconciler.changes.results import ChangeResult
from reconciler.cluster.client import LostLease
from reconciler.cluster.objects import Object, ref_of
from reconciler.cluster.watch import Informer
from reconciler.context import Pass, Settings, build_reconciler
from reconciler.inventory.store import Inventory, InventoryEntry
from reconciler.objects import drift
from reconciler.objects.drift import note_basis, put_back_updates
from reconciler.objects.writer import MANY_CHANGES
from reconciler.observation.observe import Observation
from reconciler.planning.snapshot import Snapshot
from reconciler.requests.store import Requests
from tests.builders.fake_cluster import FakeCluster
from tests.builders.scripted_server import error_answer

WAYS = [
    "no pass yet",
    "standstill",
    "no leader",
    "lease lost",
    "lease lost and won",
    "another plan",
    "inventory read anew",
    "requests changed",
    "kind is stale",
    "not ours",
    "held",
    "write outstanding",
    "left the repository",
]
LABELS = {MANAGED_BY_LABEL: "gangplan", CLUSTER_LABEL: "test"}


def config_map(name: str, **data: str) -> Object:
    metadata = {"namespace": "default", "name": name, "labels": LABELS}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data or {"value": "good"}}


class World:
    """A reconciler that leads and has just made a pass that found these objects as they are to be."""

    def __init__(self, folder: Path, *names: str) -> None:
        self.cluster, self.time = FakeCluster(), 1000.0
        settings = Settings(str(folder), "main", "test", "gangplan-system", folder / "data")
        self.r = r = build_reconciler(settings, self.cluster.client(), "me")
        r.client.fence = lambda: None
        r.clock = r.writer.clock = lambda: self.time
        r.requests._latest = Requests()
        r.lease.clock = lambda: self.time
        r.lease._renewed_at = self.time
        r.fence.enter()
        r.keeper.is_leading, r.keeper.inventory = True, Inventory()
        r.planning.snapshot = Snapshot("c0ffee", True, plan={"gangs": []})
        informer = Informer(r.client, r.client.resource("v1", "ConfigMap"), lambda: None)
        informer.health.is_synced = True
        r.watches.informers["ConfigMap"] = informer
        self.desired = [config_map(name) for name in names]
        for item in self.desired:
            live = self.cluster.put(self.path(item["metadata"]["name"]), item)
            r.keeper.inventory.entries[ref_of(item).key] = InventoryEntry(ref_of(item), live["metadata"]["uid"])
        r.store.write(r.keeper.inventory)
        self.cluster.requests.clear()
        self.note()

    @staticmethod
    def path(name: str) -> str:
        return f"/api/v1/namespaces/default/configmaps/{name}"

    def note(self, **of_pass: Any) -> None:
        """The end of a pass."""
        assert self.r.keeper.inventory is not None
        p = Pass(Observation({}, frozenset()), self.r.keeper.inventory, snapshot=self.r.planning.snapshot)
        p.manifests = {ref_of(item).key: Manifest(4, item, "x.yaml:1") for item in self.desired}
        for name, value in of_pass.items():
            setattr(p, name, value)
        note_basis(self.r, p)

    def edit(self, name: str, **metadata: Any) -> Object:
        """Another manager changes the object, and the watch shows it."""
        live = self.cluster.objects[self.path(name)]
        changed = {**live, "data": {"value": "edited"}, "metadata": {**live["metadata"], **metadata}}
        del changed["metadata"]["resourceVersion"]
        return self.show(self.cluster.put(self.path(name), changed))

    def show(self, item: Object) -> Object:
        """The watch tells of this version."""
        informer = self.r.watches.informers["ConfigMap"]
        informer._cache.apply_event(json.dumps({"type": "MODIFIED", "object": item}).encode())
        self.r.watches._record_update(item)
        return item

    def value(self, name: str) -> str:
        return str(self.cluster.objects[self.path(name)]["data"]["value"])

    @property
    def is_woken(self) -> bool:
        return self.r.wake_event.is_set()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, "a", "b", *(f"more-{at}" for at in range(MANY_CHANGES)))


def test_an_object_is_put_back_by_one_write_and_no_pass(world: World) -> None:
    edited = world.edit("a")
    assert world.r.wake_event.stirred.is_set()
    (result,) = put_back_updates(world.r)
    assert (result.outcome, result.change.action, result.change.live) == ("done", "update", edited)
    (write,) = world.cluster.requests
    assert write[0] == "PATCH"
    assert write[2]["metadata"]["uid"] == edited["metadata"]["uid"]
    assert world.value("a") == "good"
    assert not world.is_woken
    world.show(edited)
    assert put_back_updates(world.r) == [], "what the watch tells late is older than our write"
    world.show(world.cluster.objects[world.path("a")])
    assert put_back_updates(world.r) == [], "our own write is as planned"
    assert len(world.cluster.requests) == 1
    assert not world.is_woken


def test_the_same_requests_read_again_are_no_news(world: World) -> None:
    """The poller reads them every two seconds."""
    world.r.requests._latest = Requests()
    world.edit("a")
    assert len(put_back_updates(world.r)) == 1
    assert not world.is_woken


def test_work_is_in_proportion_to_what_has_changed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []

    def counted(desired: Manifest, *args: Any, **options: Any) -> Change | None:
        compared.append(ref_of(desired.object).name)
        return classify_change(desired, *args, **options)

    monkeypatch.setattr("reconciler.objects.drift.classify_change", counted)
    world.edit("a")
    world.edit("a")
    world.edit("b")
    put_back_updates(world.r)
    assert sorted(compared) == ["a", "b"]
    assert [path for _, path, _ in world.cluster.requests if "configmaps/more" in path] == []


@pytest.mark.parametrize(
    "change",
    [
        lambda world: setattr(world.r, "drift_basis", None),
        lambda world: world.note(standstill="the inventory is lost"),
        lambda world: setattr(world.r.keeper, "is_leading", False),
        lambda world: setattr(world.r.lease, "_renewed_at", None),
        lambda world: setattr(world.r.lease, "transitions", 7),
        lambda world: setattr(world.r.planning, "snapshot", replace(world.r.planning.snapshot, commit="other")),
        lambda world: setattr(world.r.keeper, "inventory", Inventory()),
        lambda world: setattr(world.r.requests, "_latest", Requests(suspended=frozenset({"all"}))),
        lambda world: setattr(world.r.watches.informers["ConfigMap"].health, "is_synced", False),
        lambda world: world.r.keeper.inventory.entries.pop("ConfigMap/default/a"),
        lambda world: world.note(held_changes=[Change("held", ref_of(world.desired[0]))]),
        lambda world: world.note(changes=[Change("update", ref_of(world.desired[0]))]),
        lambda world: world.note(manifests={}),
    ],
    ids=WAYS,
)
def test_what_has_changed_since_the_last_pass_is_left_to_one(world: World, change: Callable[[World], object]) -> None:
    change(world)
    world.edit("a")
    assert put_back_updates(world.r) == []
    assert world.is_woken
    assert world.cluster.writes == []
    assert not world.r.watches.updates


@pytest.mark.parametrize("metadata", [{"uid": "another"}, {"deletionTimestamp": "2026", "finalizers": ["x/y"]}])
def test_an_object_that_is_another_or_ends_is_left_to_a_pass(world: World, metadata: dict[str, Any]) -> None:
    world.edit("a", **metadata)
    assert put_back_updates(world.r) == []
    assert world.is_woken
    assert world.cluster.writes == []


def test_jobs_services_and_the_schedulers_configuration_are_left_to_a_pass(world: World) -> None:
    conf = "volcano-scheduler.conf"
    for index, manifest in enumerate(
        (
            Manifest(4, world.desired[0], "x.yaml:1", "sha256:1"),
            Manifest(4, world.desired[0], "x.yaml:1", pods=2),
            Manifest(4, {**world.desired[0], "data": {conf: "actions: allocate"}}, "x.yaml:1"),
        )
    ):
        world.note(manifests={ref_of(world.desired[0]).key: manifest})
        world.r.wake_event.clear()
        world.edit("a")
        assert put_back_updates(world.r) == []
        assert world.is_woken
        assert world.cluster.writes == [], index


def test_an_object_that_a_pass_has_just_written_is_as_planned(world: World) -> None:
    change = Change("update", ref_of(world.desired[0]))
    world.note(changes=[change], results=[ChangeResult(change, "done")])
    world.edit("a")
    assert len(put_back_updates(world.r)) == 1
    assert world.value("a") == "good"


def test_a_refusal_is_told_by_a_pass_and_tried_again_after_a_pause(world: World) -> None:
    world.cluster.before = lambda method, path, body: error_answer(422, "no") if method == "PATCH" else None
    world.edit("a")
    (result,) = put_back_updates(world.r)
    assert result.outcome == "refused"
    assert world.is_woken
    world.edit("a")
    assert put_back_updates(world.r) == [], "it pauses, as between two passes"


def test_an_object_that_is_fought_over_is_left_alone(world: World) -> None:
    outcomes = []
    for _ in range(9):
        world.edit("a")
        outcomes += [result.outcome for result in put_back_updates(world.r)]
    assert outcomes.count("done") == 6
    assert outcomes[-1] == "fight"
    assert world.is_woken
    world.edit("b")
    assert [result.outcome for result in put_back_updates(world.r)] == ["done"], "and no other"


def test_a_leader_that_lost_the_lease_meanwhile_writes_nothing(world: World) -> None:
    def closed() -> None:
        raise LostLease("another replica holds the lease")

    world.r.client.fence = closed
    world.edit("a")
    with pytest.raises(LostLease):
        put_back_updates(world.r)
    assert world.cluster.writes == []


def test_of_a_joined_object_the_inventory_is_written_by_a_pass(world: World) -> None:
    """What another manager held was taken over: when the object leaves the repository that keeps its value."""
    assert world.r.keeper.inventory is not None
    key = ref_of(world.desired[0]).key
    entry = replace(world.r.keeper.inventory.entries[key], origin="joined")
    world.r.keeper.inventory.entries[key] = entry
    world.r.store.write(world.r.keeper.inventory)
    world.note()
    held = {"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:data": {"f:value": {}}}}
    ours = {"metadata": {"managedFields": [{**held, "manager": "gangplan", "operation": "Apply"}]}}
    world.r.writer.memory.record_own_fields(key, ours)
    world.edit("a", managedFields=[held])
    cause = {"reason": "FieldManagerConflict", "field": ".data.value", "message": 'conflict with "kubectl" using v1'}
    conflict = error_answer(409, "conflict", [cause])
    world.cluster.before = lambda method, path, body: conflict if "force=false" in path else None
    (result,) = put_back_updates(world.r)
    assert "kubectl" in result.message
    assert world.r.keeper.inventory.entries[key].origin == "taken"
    assert world.is_woken


def test_events_wait_for_many_corrections(world: World) -> None:
    world.edit("a")
    put_back_updates(world.r)
    assert world.r.writer.busy_at < 0
    for at in range(MANY_CHANGES):
        world.edit(f"more-{at}")
    put_back_updates(world.r)
    assert world.r.writer.busy_at == world.time


def test_more_updates_than_a_batch_are_put_back_in_turns(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drift, "BATCH", 1)
    world.edit("a")
    world.edit("b")
    world.r.wake_event.stirred.clear()
    assert len(put_back_updates(world.r)) == 1
    assert world.r.wake_event.stirred.is_set()
    assert len(put_back_updates(world.r)) == 1
    assert not world.r.watches.updates
    assert json.dumps([world.value("a"), world.value("b")]) == '["good", "good"]'

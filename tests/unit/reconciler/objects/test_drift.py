"""Single objects are put back between two passes where nothing but their own fields decides; the rest wakes a pass."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from compiler.emit.manifest import Manifest
from reconciler.changes.diff import Change, classify_change
from reconciler.changes.results import Allowed, ChangeResult, Changes, Effects
from reconciler.cluster.client import LostLease
from reconciler.cluster.objects import Object, ref_of
from reconciler.cluster.watch import Informer
from reconciler.inventory.store import Inventory
from reconciler.objects.part import Basis, Corrections
from reconciler.observation.informers import InformerSet
from reconciler.planning.snapshot import Snapshot
from reconciler.requests.part import Requests
from reconciler.threads.rest import WakeEvent
from reconciler.timings import TIMINGS, ObjectTimings
from tests.builders.scripted_server import error_answer, manager_conflict
from tests.builders.threads import lose_lease
from tests.builders.writing import CONFIGMAPS, LABELS, Writing, config_map, manifest_of


class World(Writing):
    """Of a leader that has just made a pass, which found these objects as they are to be."""

    def __init__(self, *names: str, timings: ObjectTimings = TIMINGS.objects) -> None:
        super().__init__(timings)
        client, self.time, self.wake = self.client, 1000.0, WakeEvent()
        self.watches = InformerSet(client, "test", self.wake.set, self.wake.stirred.set)
        self.corrections = Corrections(self.watches, self.writer, self.wake.set)
        self.informer = Informer(client, client.resource("v1", "ConfigMap"), lambda: None)
        self.informer.health.record_list(self.time)
        self.watches.informers["ConfigMap"] = self.informer
        self.basis: Basis | None = Basis(Snapshot("c0ffee", True, plan={"gangs": []}), self.inventory, Requests())
        self.desired = [config_map(name, {"value": "good"}, labels=LABELS) for name in names]
        for item in self.desired:
            self.enter(self.put(item))
        self.writer.store.write(self.inventory)
        self.cluster.requests.clear()
        self.note()

    def note(self, *results: ChangeResult, standstill: str = "", **of_changes: Any) -> None:
        """The end of a pass."""
        manifests = {ref_of(item).key: manifest_of(item) for item in self.desired}
        changes = Changes(**{"manifests": manifests, **of_changes})
        self.corrections.note_pass(self.basis, Allowed(changes, standstill=standstill), Effects(results))

    def declare(self, **of_manifest: Any) -> None:
        """The end of a pass, with another manifest of the first object."""
        item = self.desired[0]
        self.note(manifests={ref_of(item).key: replace(manifest_of(item), **of_manifest)})

    def goes_on_with(self, **of_basis: Any) -> None:
        """Something has changed since the last pass."""
        assert self.basis is not None
        self.basis = replace(self.basis, **of_basis)

    def put_back(self) -> list[ChangeResult]:
        return self.corrections.put_back(self.basis)

    def edit(self, name: str, **metadata: Any) -> Object:
        """Another manager changes the object, and the watch shows it."""
        live = self.live(name, CONFIGMAPS)
        changed = {**live, "data": {"value": "edited"}, "metadata": {**live["metadata"], **metadata}}
        del changed["metadata"]["resourceVersion"]
        return self.show(self.put(changed))

    def show(self, item: Object) -> Object:
        """The watch tells of this version."""
        self.informer._cache.apply_event(json.dumps({"type": "MODIFIED", "object": item}).encode())
        self.watches._record_update(item)
        return item

    def value(self, name: str) -> str:
        return str(self.live(name, CONFIGMAPS)["data"]["value"])

    def left_to_a_pass(self) -> bool:
        """Whether nothing is written of what was edited, and a pass is woken."""
        return self.put_back() == [] and self.wake.is_set() and self.cluster.writes == []


@pytest.fixture
def world() -> World:
    return World("a", "b")


def test_an_object_is_put_back_by_one_write_and_no_pass(world: World) -> None:
    world.goes_on_with(requests=Requests())  # the same, which the poller has read again
    edited = world.edit("a")
    assert world.wake.stirred.is_set()
    (result,) = world.put_back()
    assert (result.outcome, result.change.action, result.change.live) == ("done", "update", edited)
    (write,) = world.cluster.requests
    assert write[0] == "PATCH"
    assert write[2]["metadata"]["uid"] == edited["metadata"]["uid"]
    assert world.value("a") == "good"
    assert not world.wake.is_set()
    world.show(edited)
    assert world.put_back() == [], "what the watch tells late is older than our write"
    world.show(world.live("a", CONFIGMAPS))
    assert world.put_back() == [], "our own write is as planned"
    assert len(world.cluster.requests) == 1
    assert not world.wake.is_set()


def test_work_is_in_proportion_to_what_has_changed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []

    def counted(desired: Manifest, *args: Any, **options: Any) -> Change | None:
        compared.append(ref_of(desired.object).name)
        return classify_change(desired, *args, **options)

    monkeypatch.setattr("reconciler.objects.part.classify_change", counted)
    world.edit("a")
    world.edit("a")
    world.edit("b")
    world.put_back()
    assert sorted(compared) == ["a", "b"]
    assert [path for _, path, _ in world.cluster.requests if "configmaps/more" in path] == []


LEFT_TO_A_PASS: dict[str, Callable[[World], object]] = {
    "no pass yet": lambda world: world.corrections.forbid(),
    "standstill": lambda world: world.note(standstill="the inventory is lost"),
    "no leader": lambda world: setattr(world, "basis", None),
    "another plan": lambda world: world.goes_on_with(snapshot=Snapshot("other", True, plan={"gangs": []})),
    "inventory read anew": lambda world: world.goes_on_with(inventory=Inventory()),
    "requests changed": lambda world: world.goes_on_with(requests=Requests(suspended=frozenset({"all"}))),
    "kind is stale": lambda world: world.informer.health.record_problem("503", False),
    "not ours": lambda world: world.inventory.drop_entry("ConfigMap/default/a"),
    "held": lambda world: world.note(held=(Change("held", ref_of(world.desired[0])),)),
    "write outstanding": lambda world: world.note(due=(Change("update", ref_of(world.desired[0])),)),
    "left the repository": lambda world: world.note(manifests={}),
    "another object": lambda world: world.edit("a", uid="another"),
    "it ends": lambda world: world.edit("a", deletionTimestamp="2026", finalizers=["x/y"]),
    "a job": lambda world: world.declare(run_digest="sha256:1"),
    "a service": lambda world: world.declare(pods=2),
    "the scheduler's configuration": lambda world: world.declare(
        object={**world.desired[0], "data": {"volcano-scheduler.conf": "actions: allocate"}}
    ),
}


@pytest.mark.parametrize("change", LEFT_TO_A_PASS.values(), ids=LEFT_TO_A_PASS)
def test_what_its_own_fields_do_not_decide_is_left_to_a_pass(world: World, change: Callable[[World], object]) -> None:
    change(world)
    world.edit("a")
    assert world.left_to_a_pass()
    assert not world.watches.updates


def test_an_object_that_a_pass_has_just_written_is_as_planned(world: World) -> None:
    change = Change("update", ref_of(world.desired[0]))
    world.note(ChangeResult(change, "done"), due=(change,))
    world.edit("a")
    assert len(world.put_back()) == 1
    assert world.value("a") == "good"


def test_a_refusal_is_told_by_a_pass_and_tried_again_after_a_pause(world: World) -> None:
    world.cluster.fail(error_answer(422, "no"), method="PATCH")
    world.edit("a")
    (result,) = world.put_back()
    assert result.outcome == "refused"
    assert world.wake.is_set()
    world.edit("a")
    assert world.put_back() == [], "it pauses, as between two passes"


def test_an_object_that_is_fought_over_is_left_alone(world: World) -> None:
    outcomes = []
    for _ in range(9):
        world.edit("a")
        outcomes += [result.outcome for result in world.put_back()]
    assert outcomes.count("done") == 6
    assert outcomes[-1] == "fight"
    assert world.wake.is_set()
    world.edit("b")
    assert [result.outcome for result in world.put_back()] == ["done"], "and no other"


def test_a_leader_that_lost_the_lease_meanwhile_writes_nothing(world: World) -> None:
    world.client.fence = lose_lease
    world.edit("a")
    with pytest.raises(LostLease):
        world.put_back()
    assert world.cluster.writes == []


def test_of_a_joined_object_the_inventory_is_written_by_a_pass(world: World) -> None:
    """What another manager held was taken over: when the object leaves the repository that keeps its value."""
    key = ref_of(world.desired[0]).key
    world.inventory.enter(replace(world.inventory.entries[key], origin="joined"))
    world.writer.store.write(world.inventory)
    world.note()
    held = {"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:data": {"f:value": {}}}}
    ours = {"metadata": {"managedFields": [{**held, "manager": "gangplan", "operation": "Apply"}]}}
    world.writer.memory.record_own_fields(key, ours)
    world.edit("a", managedFields=[held])
    world.cluster.fail(manager_conflict("kubectl", ".data.value"), "force=false")
    (result,) = world.put_back()
    assert "kubectl" in result.message
    assert world.inventory.entries[key].origin == "taken"
    assert world.wake.is_set()


def test_more_updates_than_a_batch_are_put_back_in_turns() -> None:
    world = World("a", "b", timings=replace(TIMINGS.objects, batch=1))
    world.edit("a")
    world.edit("b")
    world.wake.stirred.clear()
    assert len(world.put_back()) == 1
    assert world.wake.stirred.is_set()
    assert len(world.put_back()) == 1
    assert not world.watches.updates
    assert [world.value("a"), world.value("b")] == ["good", "good"]

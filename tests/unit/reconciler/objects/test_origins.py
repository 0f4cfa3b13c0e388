"""Where an object comes from: made by us, joined, or another's; and what is declared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compiler.emit.manifest import Manifest
from reconciler.cluster.objects import ref_of
from reconciler.inventory.marks import is_marked, origin_of
from reconciler.inventory.store import InventoryEntry
from reconciler.loop import _collect_manifests
from reconciler.ownership.controller import confirm_entries
from reconciler.planning.snapshot import Snapshot
from tests.builders.scripted_server import ScriptedAnswer
from tests.unit.reconciler.ownership.test_controller import COMMIT, LABELS, OURS, World, manager


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.mark.parametrize(
    ("others", "origin"),
    [
        ([], "created"),
        ([manager("helm", "2026-01-01T00:00:00Z", **{"f:data": {"f:b": {}}})], "joined"),
        ([manager("kubectl", "2026-01-03T00:00:00Z", **{"f:data": {"f:b": {}}})], "created"),
        ([manager("controller", "2026-01-02T00:00:00Z", **{"f:status": {}})], "created"),
    ],
)
def test_an_object_that_existed_before_us_is_joined(world: World, others: list[Any], origin: str) -> None:
    item = world.put("a", managedFields=[OURS, *others])
    assert origin_of(item, "test") == origin
    assert origin_of(item, "another") == "joined", "the mark of another gangplan is not ours"
    world.enter(item, "former")
    confirm_entries(world.r, world.look())
    assert world.inventory.entries[ref_of(item).key].origin == origin


def test_labels_that_we_did_not_apply_are_no_mark(world: World) -> None:
    assert not is_marked(world.put("a", managedFields=[manager("kubectl", "", **{"f:metadata": {}})]), "test")


def test_an_intention_becomes_ours_only_with_our_mark(world: World) -> None:
    for name, marked in (("ours", True), ("theirs", False)):
        ref = ref_of(world.put(name, marked=marked))
        world.inventory.entries[ref.key] = InventoryEntry(ref)
    confirm_entries(world.r, world.look())
    assert [bool(entry.uid) for entry in world.inventory.entries.values()] == [True, False]


@pytest.mark.parametrize(
    ("created_at", "others", "annotations", "origin"),
    [
        ("2026-01-02T00:00:00Z", [manager("controller", "2026-01-02T00:00:00Z", **{"f:spec": {}})], {}, "created"),
        ("2026-01-01T00:00:00Z", [manager("helm", "2026-01-01T00:00:00Z", **{"f:data": {}})], {}, "joined"),
        (
            "2026-01-01T00:00:00Z",
            [manager("helm", "2026-01-01T00:00:00Z", **{"f:data": {}})],
            {"gangplan.dev/adopt": "true"},
            "taken",
        ),
    ],
)
def test_an_intention_that_joined_what_existed_is_no_creation(
    world: World, created_at: str, others: list[Any], annotations: dict[str, str], origin: str
) -> None:
    """Stopped just after the first write of an object that existed before, or with the answer to it lost, the object
    counted as made by us, and was deleted with its owner's data when it left the repository."""
    fields: dict[str, Any] = {
        "creationTimestamp": created_at,
        "managedFields": [OURS, *others],
        "annotations": annotations,
    }
    item = world.put("a", **fields)
    world.inventory.enter(InventoryEntry(ref_of(item)))
    confirm_entries(world.r, world.look(item))
    entry = world.inventory.entries[ref_of(item).key]
    assert (entry.uid, entry.origin) == (item["metadata"]["uid"], origin)
    world.prune(world.look())
    assert world.deleted() == (["a"] if origin == "created" else [])


@pytest.mark.parametrize("is_job", [False, True])
@pytest.mark.parametrize("looks_before", [True, False])
def test_what_was_made_anew_just_before_a_stop_goes_when_it_leaves_the_repository(
    world: World, is_job: bool, looks_before: bool
) -> None:
    """The inventory kept the former uid: the object, a running job too, belonged to nothing and stayed for ever. What
    others made anew is theirs, and what we know is not given up for what was before it."""
    items = {
        "ours": world.put("ours", job=is_job),
        "theirs": world.put("theirs", job=is_job, marked=False),
        "older": world.put("older", job=is_job, deletionTimestamp="2026-01-02T00:00:00Z"),
    }
    for item in items.values():
        entry = InventoryEntry(ref_of(item), "former", started=True, origin="joined")
        world.inventory.enter(entry)
    if looks_before:
        confirm_entries(world.r, world.look(*items.values()))
        ours = world.inventory.entries[ref_of(items["ours"]).key]
        assert (ours.uid, ours.started, ours.origin) == (items["ours"]["metadata"]["uid"], False, "created")
        assert {world.inventory.entries[ref_of(items[name]).key].uid for name in ("theirs", "older")} == {"former"}
    for _ in range(2):
        world.prune(world.look())
    assert world.deleted() == ["ours"]


@pytest.mark.parametrize("namespace", [{}, {"namespace": "default"}])
def test_an_object_that_is_declared_in_a_version_that_is_not_served_is_not_deleted(
    world: World, namespace: dict[str, str]
) -> None:
    """Its kind was watched in the version that the cluster serves, and it counted as one that had left the
    repository: so it was deleted, by a typing error in its apiVersion."""
    known = {"resources": [{"kind": "Thing", "name": "things", "namespaced": True}]}
    world.cluster.before = lambda _, path, __: ScriptedAnswer(200, known) if path == "/apis/example.com/v1" else None
    metadata = {"namespace": "default", "name": "t", "labels": LABELS, "managedFields": [OURS]}
    live = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": metadata}
    world.enter(world.cluster.put("/apis/example.com/v1/namespaces/default/things/t", live))
    declared = {"apiVersion": "example.com/v7", "kind": "Thing", "metadata": {"name": "t", **namespace}}
    p = world.look()
    p.observation = replace(p.observation, readable_kinds=p.observation.readable_kinds | {"Thing.example.com"})
    snapshot = Snapshot(COMMIT, True, plan={"digest": "", "gangs": []}, manifests=(Manifest(4, declared, "x.yaml:1"),))
    _collect_manifests(world.r, p, snapshot)
    world.prune(p)
    assert world.deleted() == []

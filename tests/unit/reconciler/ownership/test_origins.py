"""Where an object comes from: made by us, joined, or another's; and what is declared."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.emit.manifest import Manifest
from compiler.kubernetes import DIGEST_ANNOTATION
from reconciler.changes.planned import PlannedRuns
from reconciler.cluster.objects import Object, ref_of
from reconciler.inventory.keeper import is_marked, origin_of
from reconciler.inventory.store import InventoryEntry
from tests.builders.ownership import World, manager
from tests.builders.writing import OURS, thing

HELM = manager("helm", "2026-01-01T00:00:00Z", **{"f:data": {"f:b": {}}})


@pytest.mark.parametrize(
    ("others", "origin"),
    [
        ([], "created"),
        ([HELM], "joined"),
        ([manager("kubectl", "2026-01-03T00:00:00Z", **{"f:data": {"f:b": {}}})], "created"),
        ([manager("controller", "2026-01-02T00:00:00Z", **{"f:status": {}})], "created"),
    ],
)
def test_an_object_that_existed_before_us_is_joined(world: World, others: list[Any], origin: str) -> None:
    item = world.make("a", managedFields=[OURS, *others])
    assert origin_of(item, "test") == origin
    assert origin_of(item, "another") == "joined", "the mark of another gangplan is not ours"


def test_labels_that_we_did_not_apply_are_no_mark(world: World) -> None:
    assert not is_marked(world.make("a", managedFields=[manager("kubectl", "", **{"f:metadata": {}})]), "test")


@pytest.mark.parametrize(
    ("created_at", "other", "annotations", "origin"),
    [
        ("2026-01-02T00:00:00Z", manager("controller", "2026-01-02T00:00:00Z", **{"f:spec": {}}), {}, "created"),
        ("2026-01-01T00:00:00Z", HELM, {}, "joined"),
        ("2026-01-01T00:00:00Z", HELM, {"gangplan.dev/adopt": "true"}, "taken"),
    ],
)
def test_an_intention_that_joined_what_existed_is_no_creation(
    world: World, created_at: str, other: Any, annotations: dict[str, str], origin: str
) -> None:
    """Stopped just after the first write of an object that existed before, or with the answer to it lost, the object
    counted as made by us, and was deleted with its owner's data when it left the repository. And one of that name
    without our mark is not ours."""
    item = world.make("a", creationTimestamp=created_at, managedFields=[OURS, other], annotations=annotations)
    for each in (item, world.make("theirs", marked=False)):
        world.inventory.enter(InventoryEntry(ref_of(each)))
    world.confirm()
    ours, theirs = world.inventory.entries.values()
    assert (ours.uid, ours.origin, theirs.uid) == (item["metadata"]["uid"], origin, "")
    world.prune(world.look())
    assert world.deleted() == (["a"] if origin == "created" else [])


@pytest.mark.parametrize("is_job", [False, True])
@pytest.mark.parametrize("looks_before", [True, False])
def test_what_was_made_anew_before_a_stop_goes_when_it_leaves(world: World, is_job: bool, looks_before: bool) -> None:
    """The inventory kept the former uid: the object, a running job too, belonged to nothing and stayed for ever. What
    others made anew is theirs, and what we know is not given up for what was before it."""
    ours = world.make("ours", job=is_job)
    others = (
        world.make("theirs", job=is_job, marked=False),
        world.make("older", job=is_job, deletionTimestamp="2026-01-02T00:00:00Z"),
    )
    for item in (ours, *others):
        world.inventory.enter(InventoryEntry(ref_of(item), "former", started=True, origin="joined"))
    if looks_before:
        world.confirm()
        entries = world.inventory.entries
        assert entries[ref_of(ours).key] == InventoryEntry(ref_of(ours), ours["metadata"]["uid"])
        assert {entries[ref_of(item).key].uid for item in others} == {"former"}
    for _ in range(2):
        world.prune(world.look())
    assert world.deleted() == ["ours"]


def test_the_run_of_a_job_that_is_changed_in_place_is_the_changed_one(world: World) -> None:
    """Else it would run again when it has gone unseen."""
    for digest in ("sha256:a", "sha256:more"):
        job = world.make("train", job=True, marked=False, uid="u", annotations={DIGEST_ANNOTATION: digest})
        if not world.inventory.entries:
            world.enter(job)
        world.confirm()
        assert world.inventory.entries[ref_of(job).key].run == digest


@pytest.mark.parametrize("status", [{}, {"phase": "Running"}])
def test_a_job_of_a_kind_that_nobody_knows_has_begun_when_it_has_a_status(world: World, status: Object) -> None:
    job = {**thing("FooJob", "foo", api="example.org/v1"), "status": status}
    item = world.cluster.put("/apis/example.org/v1/namespaces/default/foojobs/foo", job)
    world.enter(item)
    runs = PlannedRuns({ref_of(item).key: Manifest(4, job, "jobs/foo.yaml:1", "sha256:foo")})
    world.part.confirm_entries(world.look().seen, runs)
    assert world.inventory.entries[ref_of(item).key].started == bool(status)

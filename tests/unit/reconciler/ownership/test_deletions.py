"""Where an object comes from; deletions whose process is killed, that cannot be noted, or meet what is under way."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from compiler.emit.manifest import Manifest
from compiler.kubernetes import DIGEST_ANNOTATION
from reconciler.changes.planned import PlannedRuns
from reconciler.cluster.objects import Object, ref_of
from reconciler.inventory.keeper import is_marked, origin_of
from reconciler.inventory.store import InventoryEntry
from reconciler.timings import TIMINGS
from tests.builders.ownership import World, creation_of, manager
from tests.builders.scripted_server import ScriptedAnswer, error_answer
from tests.builders.threads import HASTY_WRITES, wait_for_answers
from tests.builders.writing import CONFIGMAPS, OURS, thing


def test_a_process_that_is_killed_while_it_deletes_has_counted_what_it_deleted_and_no_more(world: World) -> None:
    """The toll of a pass was noted after its deletions: a kill before that let as much go again. And S14: ten at a time
    took everything."""
    names = [f"o{at}" for at in range(9)]
    kept = world.put_ours(*names, "kept")

    def kill(method: str, path: str, body: Any) -> None:
        if method == "DELETE" and len(world.deleted()) > 5:
            raise KeyboardInterrupt

    def dead() -> int:
        return sum(row[1] for row in world.inventory.deletions)

    world.cluster.before = kill
    with pytest.raises(KeyboardInterrupt):
        world.prune(world.look(kept))
    gone = sum(f"{CONFIGMAPS}/{name}" not in world.cluster.objects for name in names)
    world.cluster.recover()
    world.read_inventory()
    look = world.look(kept)
    allowed = world.guard(look)
    assert (dead(), len(allowed.prune_plan.changes)) == (gone, 9 - gone)
    world.delete(look, allowed)
    assert world.prune(world.look(kept)).changes == ()
    assert dead() == 9, "each counts once"
    world.put_ours("two", "more")
    held = world.prune(world.look(kept))
    assert "2 of 3 objects would be deleted after 9 within the last hour, the limit is 10" in held.obstacles
    world.time += TIMINGS.ownership.prune_window
    assert len(world.prune(world.look(kept)).changes) == 2


REFUSED = error_answer(500, "not now")


def test_what_cannot_be_read_while_its_deletion_is_refused_is_not_dead(world: World) -> None:
    """Each time that the watch was stale what was there counted as deleted, and the rest was held for an hour."""
    kept = world.put_ours(*"abcdef", "kept")
    world.cluster.fail(REFUSED, method="DELETE")
    world.prune(world.look(kept))
    for _ in range(3):
        world.guard(world.look(kept, kinds=(), obstacles={"ConfigMap": "it is stale"}))
        world.time += 61
        world.prune(world.look(kept))
    assert (len(world.inventory.announced), world.inventory.deletions) == (6, [])
    world.cluster.recover()
    world.time += 61
    world.prune(world.look(kept))
    world.prune(world.look(kept))
    assert [row[1] for row in world.inventory.deletions] == [6]


def test_a_deletion_that_was_refused_for_long_counts_from_when_it_was_made(world: World) -> None:
    """Ten deletions, noted an hour before they were granted, were forgotten a moment after that, and ten more went."""
    kept = world.put_ours(*"abcdefghij", "kept")
    world.cluster.fail(REFUSED, method="DELETE")
    world.prune(world.look(kept))
    world.time += TIMINGS.ownership.prune_window - 10
    world.cluster.recover()
    world.prune(world.look(kept))
    world.time += 20
    world.put_ours(*"klmnopqrst")
    plan = world.prune(world.look(kept))
    assert any("would be deleted after 10 within the last hour" in each for each in plan.obstacles)
    assert all(f"{CONFIGMAPS}/{name}" in world.cluster.objects for name in "klmnopqrst")


def test_the_entry_of_an_object_whose_creation_has_no_answer_stays(world: World) -> None:
    """Its commit is superseded, and it may still come to be: nobody else would know that it is ours."""
    gate, writer = threading.Event(), world.writer
    writer.threads.timings = HASTY_WRITES
    new = creation_of("late")

    def hang(method: str, path: str, body: Any) -> None:
        if "/late?" in path:
            gate.wait()

    world.cluster.before = hang
    assert (world.outcome(new)[0], writer.threads.is_open(new.ref.key)) == ("left", True)
    world.leads_since = -1e9
    world.prune(world.look())
    assert new.ref.key in world.inventory.entries
    gate.set()
    wait_for_answers(writer.threads)
    writer.settle()
    world.live("late", CONFIGMAPS)["metadata"]["managedFields"] = [OURS]
    world.prune(world.look())
    assert world.deleted() == ["late"]


def test_an_object_whose_creation_lost_its_answer_is_ours_also_when_it_comes_late(world: World) -> None:
    """Something between us and the server may have kept the request: it came after its entry was given up."""
    world.cluster.fail(ScriptedAnswer(200, {}, breaks_off=True), "/late?")
    assert world.outcome(creation_of("late"))[0] == "retry"
    world.leads_since = -1e9
    world.prune(world.look())
    world.make("late")
    world.confirm()
    world.prune(world.look())
    assert world.deleted() == ["late"]
    world.apply(creation_of("late"))
    world.time += TIMINGS.ownership.intent + 1
    world.prune(world.look())
    assert creation_of("late").ref.key not in world.inventory.entries


def test_nothing_is_deleted_while_what_is_deleted_cannot_be_noted(world: World) -> None:
    world.enter(world.make("left"))
    world.writer.save_inventory(world.inventory)
    world.cluster.fail(REFUSED, "inventory")
    look = world.look()
    assert [result.outcome for result in world.delete(look, world.guard(look))] == ["retry", "retry"]
    assert world.deleted() == []
    world.cluster.recover()
    world.time += 60
    world.prune(world.look())
    assert world.deleted() == ["left"]


def test_whether_what_was_deleted_is_gone_is_not_asked_for_without_end(world: World) -> None:
    """A hundred reads without an answer took 400 s, within a pass that had begun no write for most of it."""
    asked = list[str]()
    kept = world.put_ours(*"abcde", "kept")
    world.prune(world.look(kept))
    look = world.look(kept)
    allowed = world.guard(look)

    def hang(method: str, path: str, body: Any) -> None:
        asked.append(path.rpartition("/")[2])
        world.time += TIMINGS.client.brief.total
        raise TimeoutError("the read timed out")

    world.cluster.before = hang
    world.delete(look, allowed)
    world.delete(look, allowed)
    assert asked == ["a", "b"], "one in each pass, and others in the next one"
    world.writer.set_deadline(-1.0)
    world.delete(look, allowed)
    assert asked == ["a", "b"], "none in a pass that has taken too long"
    world.cluster.recover()
    world.writer.set_deadline(60.0)
    world.delete(look, allowed)
    assert [entry.ref.name for entry in world.inventory.entries.values()] == ["a", "b", "kept"]


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

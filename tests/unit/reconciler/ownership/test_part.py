"""Whose an object is, what becomes of it when it leaves the repository, and what a lost inventory costs."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.emit.manifest import Manifest
from reconciler.changes.diff import Change
from reconciler.changes.results import Allowed, ChangeResult
from reconciler.cluster.objects import ref_of
from reconciler.inventory.store import InventoryEntry
from reconciler.ownership.guard import deletion_digest
from tests.builders.ownership import COMMIT, Look, World, creation_of, manager
from tests.builders.scripted_server import ScriptedAnswer, error_answer, served
from tests.builders.writing import CONFIGMAPS, JOBS, OURS

# ---- what leaves the repository


def test_a_joined_object_is_released_and_a_created_one_deleted(world: World) -> None:
    """S3."""
    for name, origin in (("made", "created"), ("joined", "joined"), ("taken", "taken")):
        world.enter(world.make(name), origin)  # type: ignore[arg-type]
    world.prune(world.look())
    assert world.deleted() == ["made"]
    bodies = {path.rpartition("/")[2].partition("?")[0]: body for method, path, body in world.cluster.requests if body}
    assert bodies["joined"].keys() == {"apiVersion", "kind", "metadata"}, "the empty set of fields"
    assert bodies["joined"]["metadata"].keys() == {"name", "namespace", "uid"}
    assert [(each["op"], each["path"]) for each in bodies["taken"]] == [
        ("test", "/metadata/uid"),
        ("remove", "/metadata/labels/app.kubernetes.io~1managed-by"),
        ("remove", "/metadata/labels/gangplan.dev~1cluster"),
        ("test", "/metadata/managedFields/0/manager"),
        ("remove", "/metadata/managedFields/0"),
    ]
    assert [key.rpartition("/")[2] for key in world.inventory.entries] == ["made"]


def test_an_entry_ends_when_the_server_says_that_the_object_is_gone(world: World) -> None:
    """S30: with a finalizer the entry was gone long before the object."""
    item = world.make("stuck", finalizers=["example.com/slow"])
    world.enter(item)
    world.prune(world.look())
    assert world.deleted() == ["stuck"]
    for _ in range(3):
        world.time += 5
        plan = world.prune(world.look())
        assert (len(world.inventory.entries), world.deleted()) == (1, ["stuck"])
        assert [change.reason for change in plan.leaving] == ["it was deleted and waits for example.com/slow"]
    del world.cluster.objects[f"{CONFIGMAPS}/stuck"]
    world.cluster.fail(error_answer(500), "stuck")
    world.prune(world.look())
    assert len(world.inventory.entries) == 1, "an error is no answer"
    world.cluster.recover()
    world.prune(world.look())
    assert not world.inventory.entries


def test_pruning_waits_for_no_unrelated_change(world: World) -> None:
    """S13: one refused object anywhere, and nothing that had left the repository was deleted."""
    world.put_ours("old")
    world.prune(world.look(due=(creation_of("refused"),)))
    assert world.deleted() == ["old"]


@pytest.mark.parametrize(("outcome", "goes"), [(None, False), ("retry", False), ("refused", True), ("conflict", True)])
def test_what_takes_over_a_name_goes_first_unless_it_may_need_room(world: World, outcome: Any, goes: bool) -> None:
    world.put_ours("train")
    new = creation_of("train", job=True)
    if outcome:
        world.writer.memory.record_result(ChangeResult(new, outcome), world.time)
    world.prune(world.look(due=(new,)))
    assert world.deleted() == (["train"] if goes else [])


def replacement(item: Any) -> Change:
    return Change("replace", ref_of(item), Manifest(5, item, "x.yaml:1"), item)


def test_too_many_new_runs_are_held_and_what_was_ended_is_remembered(world: World) -> None:
    jobs = [world.make(f"j{at}", job=True) for at in range(7)]
    for item in jobs:
        world.enter(item)
        world.put_pod(item)

    def new_runs(count: int) -> tuple[Look, Allowed]:
        look = world.look(*jobs, due=tuple(map(replacement, jobs[:count])))
        return look, world.guard(look)

    _, allowed = new_runs(6)
    assert allowed.changes.due == ()
    assert {change.action for change in allowed.prune_plan.held_changes} == {"held"}
    assert "6 of 7 running jobs would be deleted, the limit is 5" in allowed.prune_plan.excess
    look, allowed = new_runs(3)
    assert len(allowed.changes.due) == 3
    world.part.announce_deletions(allowed.changes.due, look.seen, allowed.prune_plan)
    assert new_runs(5)[1].changes.due, "what is still there counts once"
    for item in jobs[:3]:
        del world.cluster.objects[f"{JOBS}/{item['metadata']['name']}"]
    jobs = jobs[3:]
    new_runs(0)
    assert world.inventory.deletions == [[1000, 0, 3, 3, 0]]
    assert new_runs(2)[1].changes.due, "within the limit"
    assert not new_runs(3)[1].changes.due, "three have died within the hour"


def test_a_job_of_which_nothing_runs_gets_its_new_run_though_too_much_is_deleted(world: World) -> None:
    """A job that waits, and one that is over, were held for an hour by deletions that they had nothing to do with."""
    names = [f"j{at}" for at in range(8)]
    jobs = [world.make(name, job=True) for name in names]
    for item in jobs:
        world.enter(item)
    waits, runs, *leaving = jobs
    for item in (runs, *leaving):
        world.put_pod(item)
    world.put_pod(waits, "Succeeded")
    allowed = world.guard(world.look(waits, runs, due=(replacement(waits), replacement(runs))))
    assert (allowed.prune_plan.changes, [change.ref.name for change in allowed.changes.due]) == ((), ["j0"])
    assert [change.ref.name for change in allowed.prune_plan.held_changes] == [*names[2:], "j1"]


@pytest.mark.parametrize("where", ["status", "cluster"])
def test_an_annotation_releases_a_held_deletion(world: World, where: str) -> None:
    """S31: it took a flag, and so a rollout of two replicas."""
    world.put_ours(*(f"o{at}" for at in range(12)))
    assert world.prune(world.look()).changes == ()
    digest = deletion_digest(world.prune(world.look()).held_changes)
    if where == "status":
        world.annotate("gangplan.dev/allow-prune", COMMIT)
    else:
        world.allow_on_cluster(digest)
    world.prune(world.look())
    assert len(world.deleted()) == 12


def test_an_object_that_left_and_cannot_be_looked_at_is_neither_forgotten_nor_in_the_way(world: World) -> None:
    world.put_ours("left")
    world.cluster.fail(error_answer(403, "may not get"), "/left")
    allowed = world.guard(world.look(kinds=()))
    assert (allowed.prune_plan.changes, allowed.prune_plan.vanished_keys) == ((), ())
    (change,) = allowed.changes.obstructed
    assert (change.ref.name, "may not get" in change.reason) == ("left", True)


@pytest.mark.parametrize("answer", [error_answer(404), error_answer(403), error_answer(500), ScriptedAnswer(200, None)])
def test_an_intent_of_a_kind_in_no_plan_is_gone_if_the_server_says_so(world: World, answer: ScriptedAnswer) -> None:
    intent = creation_of("intended").ref
    world.inventory.enter(InventoryEntry(intent))
    answers = {"/api/v1": served("ConfigMap")}
    world.cluster.before = lambda method, path, body: answer if "configmaps?" in path else answers.get(path)
    assert world.guard(world.look(kinds=())).prune_plan.vanished_keys == ()
    world.cluster.before = lambda method, path, body: answers.get(path)
    assert world.guard(world.look(kinds=())).prune_plan.vanished_keys == (intent.key,)


# ---- a lost inventory


def test_a_cluster_without_our_marks_begins_with_an_empty_inventory(world: World) -> None:
    world.make("theirs", marked=False)
    world.inventory.is_lost = True
    standstill = world.guard(world.look(due=(creation_of("train", job=True),))).standstill
    assert (standstill, world.inventory.is_lost, len(world.inventory.entries)) == ("", False, 0)


def test_without_an_inventory_nothing_is_written_that_might_run_a_job_again(world: World) -> None:
    """S9: with an empty inventory all finished jobs ran again."""
    world.make("queue")
    world.make("joined", managedFields=[OURS, manager("helm", "2026-01-01T00:00:00Z", **{"f:data": {"f:b": {}}})])
    world.inventory.is_lost = True
    standstill = world.guard(world.look(due=(creation_of("train", job=True),))).standstill
    assert "Job default/train" in standstill
    assert f"gangplan.dev/allow-rebuild: {COMMIT} on ConfigMap gangplan-test-status" in standstill
    world.annotate("gangplan.dev/allow-rebuild", COMMIT)
    standstill = world.guard(world.look(due=(creation_of("train", job=True),))).standstill
    assert (standstill, world.inventory.is_lost) == ("", False)
    assert [entry.origin for entry in world.inventory.entries.values()] == ["created", "joined"]


def test_where_no_job_could_run_again_the_inventory_is_made_anew_from_the_marks(world: World) -> None:
    train = world.make("train", job=True)
    world.inventory.is_lost = True
    gone: dict[str, Any] = {"withdrawn_kinds": frozenset({"Job.batch"}), "obstacles": {"Job.batch": "404"}}
    for doubt, reason in (({"problems": ("no pods",)}, "no pods"), (gone, "404")):
        assert world.guard(world.look(train, **doubt)).standstill.endswith(f"while a read fails: {reason}")
        assert world.inventory.is_lost
    assert world.guard(world.look(train)).standstill == ""
    assert [entry.uid for entry in world.inventory.entries.values()] == [train["metadata"]["uid"]]

"""Whose an object is, what becomes of it when it leaves the repository, and what a lost inventory costs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from compiler.emit.manifest import Manifest
from compiler.repository import Repository
from reconciler.changes.diff import Change
from reconciler.changes.results import ChangeOutcome, ChangeResult
from reconciler.cluster.objects import Object, Ref, ref_of
from reconciler.context import Pass, Settings, build_reconciler
from reconciler.git.poller import BranchHead
from reconciler.housekeeping import keep_house, trim_memory
from reconciler.inventory.store import Inventory, InventoryEntry, Origin
from reconciler.objects.memory import GIVEN_UP_AFTER
from reconciler.observation.observe import Observation
from reconciler.ownership.controller import announce_deletions, plan_pruning, prune, settle_lost_inventory
from reconciler.ownership.guard import PRUNE_WINDOW, PrunePlan, deletion_digest
from reconciler.planning.snapshot import Snapshot
from reconciler.planning.state import Rejection
from reconciler.report.build import build_report
from tests.builders.fake_cluster import FakeCluster
from tests.builders.scripted_server import ScriptedAnswer, error_answer

COMMIT = "c0ffee"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
STATUS = "/api/v1/namespaces/gangplan-system/configmaps/gangplan-test-status"
LABELS = {"app.kubernetes.io/managed-by": "gangplan", "gangplan.dev/cluster": "test"}
OURS = {
    "manager": "gangplan",
    "operation": "Apply",
    "time": "2026-01-02T00:00:00Z",
    "fieldsV1": {"f:metadata": {"f:labels": {"f:gangplan.dev/cluster": {}}}, "f:data": {"f:a": {}}},
}

ALWAYS: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default", "name": "always"}}
"""In the repository of every world."""


class Held:
    """A lease that is held."""

    def is_held(self) -> bool:
        return True


class Unrelated:
    """A mirror in which no commit is another's parent."""

    def is_parent(self, old: str, new: str) -> bool:
        return False


class World:
    """A reconciler on a cluster in memory; each pass is told what it sees."""

    def __init__(self, folder: Path) -> None:
        self.cluster, self.time = FakeCluster(), 1000.0
        settings = Settings(str(folder), "main", "test", "gangplan-system", folder / "data")
        self.r = build_reconciler(settings, self.cluster.client(), "me")
        self.r.client.fence = lambda: None
        self.r.poller.head = BranchHead(COMMIT, Repository({}, {}, ()))
        self.r.clock = self.r.wall_clock = self.r.writer.clock = lambda: self.time
        self.r.writer.sleep = lambda seconds: None
        self.r.planning.snapshot = Snapshot(COMMIT, True, plan={"digest": "", "gangs": []})

    def put(self, name: str, *, marked: bool = True, job: bool = False, **metadata: Any) -> Object:
        kind = ("batch.volcano.sh/v1alpha1", "Job") if job else ("v1", "ConfigMap")
        mark = {"labels": LABELS, "managedFields": [OURS]} if marked else {}
        meta = {"namespace": "default", "name": name, **mark, **metadata}
        return self.cluster.put(
            f"{JOBS if job else CONFIGMAPS}/{name}", {"apiVersion": kind[0], "kind": kind[1], "metadata": meta}
        )

    def enter(self, item: Object, origin: Origin = "created") -> None:
        ref = ref_of(item)
        self.inventory.entries[ref.key] = InventoryEntry(ref, item["metadata"]["uid"], origin=origin)

    @property
    def inventory(self) -> Inventory:
        self.r.inventory = self.r.inventory or Inventory()
        return self.r.inventory

    def look(self, *desired: Object, problems: tuple[str, ...] = ()) -> Pass:
        """A pass that sees what the cluster holds."""
        objects = {ref_of(item).key: item for item in self.cluster.objects.values()}
        kinds = frozenset({"ConfigMap", "Job.batch.volcano.sh"})
        p = Pass(Observation(objects, kinds, problems), self.inventory, snapshot=self.r.planning.snapshot)
        p.problems = list(problems)
        p.desired_manifests = [Manifest(4, item, "x.yaml:1") for item in (ALWAYS, *desired)]
        p.desired_keys = {ref_of(manifest.object).key for manifest in p.desired_manifests}
        return p

    def prune(self, p: Pass) -> Pass:
        plan_pruning(self.r, p)
        prune(self.r, p)
        return p

    def annotate(self, name: str, value: str) -> None:
        """Annotate the status ConfigMap."""
        metadata = {"namespace": "gangplan-system", "name": "gangplan-test-status", "annotations": {name: value}}
        self.cluster.put(STATUS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})

    def deleted(self) -> list[str]:
        return [path.rpartition("/")[2] for method, path in self.cluster.writes if method == "DELETE"]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def manager(name: str, time: str, **fields: Any) -> dict[str, Any]:
    return {"manager": name, "operation": "Update", "time": time, "fieldsV1": fields}


def creation(name: str, kind: str = "ConfigMap") -> Change:
    ref = Ref("batch.volcano.sh/v1alpha1" if kind == "Job" else "v1", kind, "default", name)
    item = {"apiVersion": ref.api_version, "kind": kind, "metadata": {"namespace": "default", "name": name}}
    return Change("create", ref, Manifest(4, item, "x.yaml:1", "run" if kind == "Job" else ""))


# ---- what leaves the repository


def test_a_joined_object_is_released_and_a_created_one_deleted(world: World) -> None:
    """S3."""
    for name, origin in (("made", "created"), ("joined", "joined"), ("taken", "taken")):
        world.enter(world.put(name), origin)  # type: ignore[arg-type]
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
    item = world.put("stuck", finalizers=["example.com/slow"])
    world.enter(item)
    world.prune(world.look())
    assert world.deleted() == ["stuck"]
    for _ in range(3):
        world.time += 5
        p = world.prune(world.look())
        assert (len(world.inventory.entries), world.deleted()) == (1, ["stuck"])
        assert [change.reason for change in p.prune_plan.leaving] == ["it was deleted and waits for example.com/slow"]
    del world.cluster.objects[f"{CONFIGMAPS}/stuck"]
    world.cluster.before = lambda method, path, body: error_answer(500) if "stuck" in path else None
    world.prune(world.look())
    assert len(world.inventory.entries) == 1, "an error is no answer"
    world.cluster.before = lambda method, path, body: None
    world.prune(world.look())
    assert not world.inventory.entries


def test_a_kind_that_is_not_served_for_a_moment_ends_no_entry(world: World) -> None:
    """S2: objects that were leaving were forgotten."""
    world.enter(world.put("a"))
    p = world.look()
    p.observation = Observation({}, frozenset({"ConfigMap"}))
    world.cluster.before = lambda method, path, body: error_answer(404, "404 page not found")
    world.prune(p)
    p.observation = Observation({}, frozenset())
    world.prune(p)
    assert len(world.inventory.entries) == 1


def test_pruning_waits_for_no_unrelated_change(world: World) -> None:
    """S13: one refused object anywhere, and nothing that had left the repository was deleted."""
    world.enter(world.put("old"))
    p = world.look()
    p.changes = [creation("refused")]
    world.prune(p)
    assert world.deleted() == ["old"]


@pytest.mark.parametrize(("outcome", "goes"), [(None, False), ("retry", False), ("refused", True), ("conflict", True)])
def test_what_takes_over_the_name_goes_first_unless_it_may_need_the_room(
    world: World, outcome: Any, goes: bool
) -> None:
    world.enter(world.put("train"))
    p = world.look()
    p.changes = [creation("train", "Job")]
    if outcome:
        world.r.writer.memory.failures[p.changes[0].ref.key] = ChangeResult(p.changes[0], outcome)
    world.prune(p)
    assert world.deleted() == (["train"] if goes else [])


def test_deletions_are_summed_up_for_an_hour_also_by_the_next_process(world: World) -> None:
    """S14: ten at a time took everything."""
    for name in [f"o{at}" for at in range(10)]:
        world.enter(world.put(name))
    world.enter(world.put("kept"))
    kept = world.cluster.objects[f"{CONFIGMAPS}/kept"]
    world.prune(world.look(kept))
    assert len(world.deleted()) == 10
    world.r.inventory = world.r.store.read()  # a process that was killed in the same pass had stored it
    world.prune(world.look(kept))
    world.enter(world.put("one-more"))
    held = world.prune(world.look(kept)).prune_plan
    assert "1 of 2 objects would be deleted after 10 within the last hour, the limit is 10" in held.obstacles
    world.time += PRUNE_WINDOW
    assert len(world.prune(world.look(kept)).prune_plan.changes) == 1


def test_too_many_new_runs_are_held_and_what_was_ended_is_remembered(world: World) -> None:
    jobs = [world.put(f"j{at}", job=True) for at in range(7)]
    pod: Object = {"metadata": {}, "spec": {}, "status": {"phase": "Running"}}
    for item in jobs:
        world.enter(item)

    def new_runs(count: int) -> Pass:
        p = world.look(*jobs)
        p.pods = {ref_of(item).key: [pod] for item in jobs}
        p.changes = [Change("replace", ref_of(item), Manifest(5, item, "x.yaml:1"), item) for item in jobs[:count]]
        plan_pruning(world.r, p)
        return p

    p = new_runs(6)
    assert p.changes == []
    assert {change.action for change in p.prune_plan.held_changes} == {"held"}
    condition = next(each for each in build_report(world.r, p).conditions if each.type == "PruneHeld")
    assert "6 of 7 running jobs would be deleted, the limit is 5" in condition.message
    p = new_runs(3)
    assert len(p.changes) == 3
    announce_deletions(world.r, p, p.changes)
    assert new_runs(5).changes, "what is still there counts once"
    for item in jobs[:3]:
        del world.cluster.objects[f"{JOBS}/{item['metadata']['name']}"]
    jobs = jobs[3:]
    new_runs(0)
    assert world.inventory.deletions == [[1000, 0, 3, 3, 0]]
    assert new_runs(2).changes, "within the limit"
    assert not new_runs(3).changes, "three have died within the hour"


def test_a_namespace_is_held_until_an_annotation_names_it(world: World) -> None:
    known = {"resources": [{"kind": "Namespace", "name": "namespaces", "namespaced": False}]}
    world.cluster.before = lambda _, path, __: ScriptedAnswer(200, known) if path == "/api/v1" else None
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
    world.enter(world.cluster.put("/api/v1/namespaces/team", space))
    held = world.prune(world.look()).prune_plan
    world.annotate("gangplan.dev/allow-prune", deletion_digest(held.held_changes))
    assert world.deleted() == []
    world.prune(world.look())
    assert world.deleted() == ["team"]


def test_a_job_of_which_nothing_runs_gets_its_new_run_though_too_much_is_deleted(world: World) -> None:
    """A job that waits, and one that is over, were held for an hour by deletions that they had nothing to do with."""
    names = [f"j{at}" for at in range(8)]
    jobs = [world.put(name, job=True) for name in names]
    for item in jobs:
        world.enter(item)
    waits, runs, *leaving = jobs
    p = world.look(waits, runs)
    running: Object = {"metadata": {}, "spec": {}, "status": {"phase": "Running"}}
    p.pods = {ref_of(item).key: [running] for item in (runs, *leaving)}
    p.pods[ref_of(waits).key] = [{"metadata": {}, "spec": {}, "status": {"phase": "Succeeded"}}]
    p.changes = [Change("replace", ref_of(item), Manifest(5, item, "x.yaml:1"), item) for item in (waits, runs)]
    plan_pruning(world.r, p)
    assert (p.prune_plan.changes, [change.ref.name for change in p.changes]) == ((), ["j0"])
    assert [change.ref.name for change in p.prune_plan.held_changes] == [*names[2:], "j1"]


@pytest.mark.parametrize("where", ["status", "cluster"])
def test_an_annotation_releases_a_held_deletion(world: World, where: str) -> None:
    """S31: it took a flag, and so a rollout of two replicas."""
    for name in [f"o{at}" for at in range(12)]:
        world.enter(world.put(name))
    assert world.prune(world.look()).prune_plan.changes == ()
    digest = deletion_digest(world.prune(world.look()).prune_plan.held_changes)
    if where == "status":
        world.annotate("gangplan.dev/allow-prune", COMMIT)
    else:
        snapshot = world.r.planning.snapshot
        assert snapshot is not None
        world.r.planning.snapshot = replace(snapshot, allow_prune=digest)
        world.r.mirror = cast("Any", Unrelated())
    world.prune(world.look())
    assert len(world.deleted()) == 12


# ---- a lost inventory


def test_a_cluster_without_our_marks_begins_with_an_empty_inventory(world: World) -> None:
    world.put("theirs", marked=False)
    world.inventory.is_lost = True
    p = world.look()
    p.changes = [creation("train", "Job")]
    settle_lost_inventory(world.r, p)
    assert (p.standstill, world.inventory.is_lost, len(world.inventory.entries)) == ("", False, 0)


def test_without_an_inventory_nothing_is_written_that_might_run_a_job_again(world: World) -> None:
    """S9: with an empty inventory all finished jobs ran again."""
    world.put("queue")
    world.put("joined", managedFields=[OURS, manager("helm", "2026-01-01T00:00:00Z", **{"f:data": {"f:b": {}}})])
    world.inventory.is_lost = True
    p = world.look()
    p.changes = [creation("train", "Job")]
    settle_lost_inventory(world.r, p)
    assert "Job default/train" in p.standstill
    conditions = {each.type: each for each in build_report(world.r, p).conditions}
    assert (conditions["InventoryLost"].status, conditions["Applied"].status) == (True, False)
    assert f"gangplan.dev/allow-rebuild: {COMMIT} on ConfigMap gangplan-test-status" in conditions["Applied"].message
    world.annotate("gangplan.dev/allow-rebuild", COMMIT)
    p.standstill = ""
    settle_lost_inventory(world.r, p)
    assert (p.standstill, world.inventory.is_lost) == ("", False)
    assert [entry.origin for entry in world.inventory.entries.values()] == ["created", "joined"]


def test_where_no_job_could_run_again_the_inventory_is_made_anew_from_the_marks(world: World) -> None:
    world.put("train", job=True)
    world.inventory.is_lost = True
    for problems in (("pods cannot be read",), ()):
        p = world.look(problems=problems)
        settle_lost_inventory(world.r, p)
        assert bool(p.standstill) == bool(problems)
    assert [entry.uid for entry in world.inventory.entries.values()] == [
        world.cluster.objects[f"{JOBS}/train"]["metadata"]["uid"]
    ]


# ---- memory that ends


def test_nothing_that_one_process_remembers_outlives_its_object(world: World) -> None:
    """S22: names with a date in them grew without end."""
    r, memory = world.r, world.r.writer.memory
    p = world.look({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default", "name": "kept"}})
    p.target_commit = COMMIT
    manifest = p.desired_manifests[-1]
    for name in ("kept", *(f"job-{day}" for day in range(1000))):
        change = creation(name)
        key = change.ref.key
        r.planning.unchanged[key] = manifest, ()
        memory.applied_digests[key] = memory.refused_updates[key] = "x"
        memory.unfixable_differences[key] = "x", 60.0, 0.0
        memory.paused_changes[key] = "x", 1, 0.0
        memory.failures[key] = ChangeResult(change, "refused")
        r.writer.own.record_deletion(key, "uid")
        memory.fights.record_correction(key, "them", world.time - 600)
        memory.fights.opponents[key] = "them"
        r.planning.rejections[name] = Rejection(Snapshot(name, False), 0.0, 0.0, (None, None))
    r.planning.rejections[COMMIT] = r.planning.rejections["kept"]
    p.desired_manifests = [manifest]
    trim_memory(r, p)
    kept = {"ConfigMap/default/kept"}
    for table in (r.planning.unchanged, memory.unfixable_differences, memory.applied_digests, memory.failures):
        assert table.keys() == kept
    assert memory.refused_updates.keys() == memory.paused_changes.keys() == kept
    assert not {**memory.fights.heat, **memory.fights.opponents}
    assert r.writer.own.entries["ConfigMap"].keys() == kept
    assert r.planning.rejections.keys() == {COMMIT}


def test_what_was_deleted_by_hand_is_written_again_while_nothing_else_happens(world: World) -> None:
    world.enter(world.put("a"))
    world.r.store.write(world.inventory)
    world.r.was_holder = True
    world.r.lease = cast("Any", Held())
    paths = [path for path in world.cluster.objects if "gangplan-test" in path]
    for path in paths:
        del world.cluster.objects[path]
    world.cluster.before = lambda method, path, body: error_answer(500)
    keep_house(world.r, world.look())
    world.cluster.before = lambda method, path, body: None
    for _ in paths:
        world.time += 60
        keep_house(world.r, world.look())
    assert set(paths) <= world.cluster.objects.keys()
    assert json.loads(world.cluster.objects[paths[0]]["data"]["inventory.json"])["version"] == 2


# ---- what is said


def test_conditions_describe_the_state_and_not_the_last_pass(world: World) -> None:
    """S12: Applied was False only in the pass that tried."""
    p = world.look()
    p.changes = [creation("refused")]
    result = ChangeResult(p.changes[0], "refused", "admission denied it")
    world.r.writer.memory.failures[p.changes[0].ref.key] = result
    world.r.writer.memory.failures["ConfigMap/default/of-before"] = result
    report = build_report(world.r, p)
    applied = next(each for each in report.conditions if each.type == "Applied")
    assert (applied.status, applied.message) == (False, "ConfigMap default/refused: admission denied it")
    assert report.outstanding == (result,)


def test_what_is_refused_again_and_again_keeps_nothing_busy(world: World) -> None:
    """`--once` waited its whole time limit, ten minutes, for an object of a namespace that is not there."""
    change, memory = creation("refused"), world.r.writer.memory
    p = world.look()
    p.changes = [change]
    p.aim_at(COMMIT)

    def is_idle_after(outcome: ChangeOutcome, times: int) -> bool:
        for _ in range(times):
            memory.record_result(ChangeResult(change, outcome, "no such namespace"), world.time)
        return build_report(world.r, p).is_idle

    assert not is_idle_after("refused", GIVEN_UP_AFTER - 1)
    assert is_idle_after("refused", 1)
    p.record_results([ChangeResult(change, "refused")])
    assert build_report(world.r, p).is_idle, "another try that was refused is no progress"
    assert not is_idle_after("retry", 1), "a server that is too busy will answer"
    assert is_idle_after("conflict", GIVEN_UP_AFTER)
    assert is_idle_after("fight", 1)
    p.changes = [change, creation("new")]
    assert not build_report(world.r, p).is_idle


def test_prune_held_says_all_reasons_and_how_many_objects_each_keeps(world: World) -> None:
    """S14: one protected object hid that 14 others were held."""
    p = world.look()
    reasons = ["prune: disabled protects it", *["14 objects would be deleted"] * 14]
    held = tuple(Change("held", Ref("v1", "ConfigMap", "d", f"o{at}"), reason=text) for at, text in enumerate(reasons))
    p.prune_plan = PrunePlan(held_changes=held)
    said = next(each for each in build_report(world.r, p).conditions if each.type == "PruneHeld")
    assert said.message == "14 objects: 14 objects would be deleted; 1 object: prune: disabled protects it"


def test_while_something_is_held_an_annotation_is_looked_for_soon(world: World) -> None:
    p = world.look()
    assert build_report(world.r, p).next_wakeup is None
    p.rewrite_message = "held"
    assert build_report(world.r, p).next_wakeup == 5.0

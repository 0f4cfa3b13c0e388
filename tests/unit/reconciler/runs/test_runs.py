"""A run that is over is recorded once, with what was seen of it, and is never made again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.emit.manifest import Manifest
from compiler.kubernetes import DIGEST_ANNOTATION, PLACEMENT_ANNOTATION
from compiler.run_kinds import RUN_KINDS, end_of_run
from compiler.syntax.runs import run_digest
from reconciler.changes.diff import classify_change
from reconciler.cluster.objects import FIELD_MANAGER, Object, Ref, ref_of
from reconciler.context import Pass, Reconciler, Settings, build_reconciler
from reconciler.inventory.store import Inventory, InventoryEntry, _as_row
from reconciler.loop import compute_changes
from reconciler.observation.informers import InformerSet
from reconciler.observation.observe import Observation
from reconciler.ownership.controller import confirm_entries
from reconciler.planning.snapshot import Snapshot
from reconciler.runs.controller import (
    former_flows,
    record_deletions,
    record_finished_runs,
    record_unobserved_ends,
)
from reconciler.runs.lost_jobs import LOST_SECONDS
from reconciler.runs.run_record import final_record
from tests.builders.fake_cluster import FakeCluster

RAY: Object = {
    "apiVersion": "ray.io/v1",
    "kind": "RayJob",
    "metadata": {"name": "train", "namespace": "default"},
    "spec": {"entrypoint": "python train.py", "ttlSecondsAfterFinished": 10},
}
DIGEST = run_digest(RAY)
MANIFEST = Manifest(4, RAY, "jobs/ray.yaml:1", DIGEST)
LIVE: Object = {
    **RAY,
    "metadata": {**RAY["metadata"], "uid": "u", "annotations": {DIGEST_ANNOTATION: DIGEST}},
    "status": {"jobDeploymentStatus": "Complete"},
}
KEY = ref_of(RAY).key


@pytest.fixture
def r(tmp_path: Path) -> Reconciler:
    settings = Settings(str(tmp_path), "main", "test", "gangplan-system", tmp_path / "data")
    made = build_reconciler(settings, FakeCluster().client(), "me")
    made.planning.snapshot = Snapshot("c0ffee", True, manifests=(MANIFEST,))
    return made


def a_pass(*objects: Object) -> Pass:
    inventory = Inventory()
    inventory.entries[KEY] = InventoryEntry(ref_of(RAY), "u", started=True)
    return Pass(Observation({ref_of(item).key: item for item in objects}, frozenset({"RayJob.ray.io"})), inventory)


def test_a_job_of_a_kind_that_passes_through_runs_once(r: Reconciler) -> None:
    """S16: a RayJob ends, and its time to live takes it away."""
    p = a_pass()
    r.watches.deleted_objects.append((LIVE, True))
    record_deletions(r, p)
    run = p.inventory.runs[KEY]
    assert (run.digest, run.phase) == (DIGEST, "Completed")
    kwargs = {"has_started": True, "is_update_refused": False}
    assert classify_change(MANIFEST, None, finished_digest=run.digest, **kwargs) is None
    changed = replace(MANIFEST, run_digest="sha256:other")
    change = classify_change(changed, None, finished_digest=run.digest, **kwargs)
    assert change is not None
    assert change.action == "create"


def test_one_that_is_deleted_before_its_end_is_made_again(r: Reconciler) -> None:
    p = a_pass()
    r.watches.deleted_objects.append(({**LIVE, "status": {"jobDeploymentStatus": "Running"}}, True))
    record_deletions(r, p)
    assert p.inventory.runs == {}
    assert p.inventory.entries[KEY].uid == ""


def test_what_was_seen_to_go_is_told_again_to_an_inventory_that_is_read_again(r: Reconciler) -> None:
    """A gang deleted by hand, before the pass that saw it lost its write of the inventory, counted as finished."""
    r.watches.deleted_objects.append(({**LIVE, "status": {"jobDeploymentStatus": "Running"}}, True))
    for _ in range(3):
        p = a_pass()
        record_deletions(r, p)
        assert p.inventory.entries[KEY].uid == ""
    p.inventory.entries.mark_written()
    record_deletions(r, p)
    p = a_pass()
    record_deletions(r, p)
    assert p.inventory.entries[KEY].uid == "u", "it is stored, and told no more"


def test_the_new_run_of_a_job_that_was_deleted_for_it_just_before_a_stop_is_made(
    r: Reconciler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next process, which saw no object and an entry that had started, took the new run for one that is over."""
    monkeypatch.setattr(type(r.client), "find", lambda self, ref: None)
    live = {**LIVE, "metadata": {**LIVE["metadata"], "annotations": {DIGEST_ANNOTATION: "sha256:former"}}}
    for over in (True, False):
        p = a_pass(live)
        confirm_entries(r, p)
        if over:
            record_finished_runs(r, p)
        p.look_again(Observation({}, frozenset({"RayJob.ray.io"})))
        p.go_by(r.planning.snapshot)
        record_unobserved_ends(r, p)
        assert p.inventory.runs[KEY].digest == "sha256:former"
        finished = p.inventory.runs[KEY].digest
        change = classify_change(MANIFEST, None, finished_digest=finished, has_started=True, is_update_refused=False)
        assert change is not None
        assert change.action == "create"


def test_the_run_of_a_job_that_is_changed_in_place_is_the_changed_one(r: Reconciler) -> None:
    """Else it would run again when it has gone unseen."""
    p = a_pass(LIVE)
    confirm_entries(r, p)
    assert p.inventory.entries[KEY].run == DIGEST
    changed = {**LIVE, "metadata": {**LIVE["metadata"], "annotations": {DIGEST_ANNOTATION: "sha256:more"}}}
    p.look_again(Observation({KEY: changed}, frozenset({"RayJob.ray.io"})))
    confirm_entries(r, p)
    assert p.inventory.entries[KEY].run == "sha256:more"


def test_a_changed_specification_of_a_running_one_waits_for_the_end() -> None:
    running = {**LIVE, "status": {"jobDeploymentStatus": "Running"}}
    changed = replace(MANIFEST, object={**RAY, "spec": {"entrypoint": "python other.py"}}, run_digest="sha256:other")
    for live, action in ((running, "held"), (LIVE, "replace")):
        change = classify_change(changed, live, finished_digest=None, has_started=True, is_update_refused=False)
        assert change is not None
        assert change.action == action


def test_a_record_is_made_once_and_keeps_the_former_runs(r: Reconciler) -> None:
    p = a_pass(LIVE)
    record_finished_runs(r, p)
    first = p.inventory.runs[KEY]
    p.pods[KEY] = [{"metadata": {"name": "late"}, "spec": {"nodeName": "n9"}}]
    record_finished_runs(r, p)
    assert p.inventory.runs[KEY] is first
    again = {**LIVE, "metadata": {**LIVE["metadata"], "uid": "v", "annotations": {DIGEST_ANNOTATION: "sha256:other"}}}
    p.observation = a_pass(again).observation
    record_finished_runs(r, p)
    assert p.inventory.runs[KEY].digest == "sha256:other"
    assert [run["digest"] for run in p.inventory.runs[KEY].details["former"]] == [DIGEST]


def test_a_job_that_the_job_controller_has_lost_is_made_again(r: Reconciler, monkeypatch: pytest.MonkeyPatch) -> None:
    """Volcano's issue 5973: nothing happens to it any more, for ever."""
    monkeypatch.setattr(InformerSet, "watch_kinds", lambda watches, kinds: False)
    r.clock = r.writer.clock = lambda: now
    body: Object = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "spec": {"minAvailable": 1}}
    desired = {**body, "metadata": {"namespace": "default", "name": "train"}}
    manifest = Manifest(4, desired, "jobs/train.yaml:1", run_digest(desired), pods=1)
    lost, served = ({**body, "metadata": {"namespace": "default", "name": name}} for name in ("train", "other"))
    lost["metadata"] |= {"uid": "old", "creationTimestamp": "2026-01-01T00:00:00Z"}
    served["metadata"] |= {"uid": "other", "creationTimestamp": "2026-01-01T00:00:01Z"}
    served["status"] = {"state": {"phase": "Running"}}
    lost["metadata"]["annotations"] = {DIGEST_ANNOTATION: manifest.run_digest}
    manifests = (manifest, replace(manifest, object={**body, "metadata": {"namespace": "default", "name": "other"}}))
    snapshot = Snapshot("c0ffee", True, plan={"digest": "", "gangs": []}, manifests=manifests)
    now, actions = 0.0, []
    for _ in range(2):
        p = a_pass(lost, served)
        p.snapshot = snapshot
        p.observation = Observation(p.observation.objects, frozenset({"Job.batch.volcano.sh", "Pod"}))
        compute_changes(r, p)
        actions.append([change.action for change in p.changes if change.ref.name == "train"])
        now += LOST_SECONDS
    assert actions[1] == ["replace"] != actions[0]


FLOW: Object = {
    "apiVersion": "flow.volcano.sh/v1alpha1",
    "kind": "JobFlow",
    "metadata": {"name": "nightly", "namespace": "default", "uid": "new"},
}


def test_the_end_of_a_flow_is_recorded_though_its_conditions_are_a_map(r: Reconciler) -> None:
    """One that was over ended every pass of the reconciler."""
    over = {"state": {"phase": "Succeed"}, "conditions": {"nightly-a": {"phase": "Completed"}}}
    live = {**FLOW, "metadata": {**FLOW["metadata"], "annotations": {DIGEST_ANNOTATION: "d"}}, "status": over}
    p = a_pass(live)
    p.inventory.entries[ref_of(FLOW).key] = InventoryEntry(ref_of(FLOW), "new", started=True)
    record_finished_runs(r, p)
    assert p.inventory.runs[ref_of(FLOW).key].phase == "Completed"


FIELDS = (
    "phase",
    "state",
    "conditions",
    "taskStatusCount",
    "startTime",
    "completionTime",
    "jobStatus",
    "status",
    "type",
)
WORDS = st.sampled_from((*FIELDS, "Completed", "True", "Failed", "Succeed", "lastTransitionTime"))
ANYTHING = st.recursive(
    st.none() | st.integers() | WORDS,
    lambda part: st.lists(part, max_size=3) | st.dictionaries(WORDS, part),
    max_leaves=6,
)


@given(st.sampled_from(sorted(RUN_KINDS)), ANYTHING | st.dictionaries(st.sampled_from(FIELDS), ANYTHING))
def test_whatever_a_status_holds_the_pass_goes_on(kind: str, status: object) -> None:
    """What raises here ends each pass, for all objects; kinds that pass through have no schema that we know."""
    name, _, group = kind.partition(".")
    item = {"apiVersion": f"{group}/v1", "kind": name, "metadata": {"name": "j"}, "status": status}
    end_of_run(item)
    final_record({}, item, [])


def applied(*annotations: str) -> list[Object]:
    """managedFields of an object of which we have applied these annotations."""
    fields: Object = {"f:metadata": {"f:annotations": {f"f:{name}": {} for name in annotations}}}
    return [{"manager": FIELD_MANAGER, "operation": "Apply", "fieldsV1": fields}]


@pytest.mark.parametrize("is_known", [True, False])
def test_a_finished_job_whose_digest_others_overwrite_is_not_run_again(r: Reconciler, is_known: bool) -> None:
    """With another digest it looked like a run of another specification, so that the planned one was made again."""
    metadata = {**LIVE["metadata"], "managedFields": applied(DIGEST_ANNOTATION)}
    live = {**LIVE, "metadata": metadata}
    p = a_pass(live)
    if is_known:
        record_finished_runs(r, p)
    others = {**metadata, "annotations": {DIGEST_ANNOTATION: "sha256:else"}, "managedFields": applied("other")}
    for changed in ({**live, "metadata": others}, {**live, "metadata": {**others, "managedFields": []}}):
        if is_known or changed["metadata"]["managedFields"]:
            p.observation = Observation({KEY: changed}, p.observation.readable_kinds)
            record_finished_runs(r, p)
    run = p.inventory.runs[KEY]
    assert (run.digest, "former" in run.details) == (DIGEST, False)


@pytest.mark.parametrize("started", [False, True])
@pytest.mark.parametrize("gone", [False, True])
def test_a_job_that_was_terminated_before_its_first_pod_has_had_no_run(
    r: Reconciler, started: bool, gone: bool
) -> None:
    """Volcano terminates a job whose pods a quota refuses fifteen times; it was recorded as over, and never ran."""
    metadata = {**LIVE["metadata"], "name": "quoted"}
    status = {"state": {"phase": "Terminated"}, "conditions": [{"status": "Pending"}, {"status": "Terminated"}]}
    job = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": metadata, "status": status}
    p = a_pass(*(() if gone else (job,)))
    p.inventory.entries[ref_of(job).key] = InventoryEntry(ref_of(job), "u", started=started)
    r.watches.deleted_objects += [(job, True)] if gone else []
    record_deletions(r, p)
    record_finished_runs(r, p)
    assert (ref_of(job).key in p.inventory.runs) == started


@pytest.mark.parametrize(("owner", "flows", "former"), [("old", [], 1), ("old", [FLOW], 1), ("new", [FLOW], 0)])
def test_a_flow_is_made_again_when_the_jobs_of_the_former_one_are_gone(
    owner: str, flows: list[Object], former: int
) -> None:
    owners = [{"kind": "JobFlow", "name": "nightly", "uid": owner}]
    metadata = {"name": "nightly-a", "namespace": "default", "uid": "a", "ownerReferences": owners}
    job = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": metadata}
    objects = {ref_of(item).key: item for item in (job, *flows)}
    for readable in (frozenset({ref_of(FLOW).group_kind}), frozenset[str]()):
        found = list(former_flows(Pass(Observation(objects, readable), Inventory())))
        assert found == ([ref_of(FLOW).key] * former if readable else [])


FOO: Object = {
    "apiVersion": "example.org/v1",
    "kind": "FooJob",
    "metadata": {"name": "foo", "namespace": "default"},
    "spec": {"ttlSecondsAfterFinished": 10},
}
FOO_KEY = ref_of(FOO).key


@pytest.mark.parametrize("way", ["is there", "is deleted", "was deleted unseen"])
@pytest.mark.parametrize("marked", [True, False])
def test_a_run_of_a_kind_that_nobody_knows_is_made_once(
    r: Reconciler, monkeypatch: pytest.MonkeyPatch, way: str, marked: bool
) -> None:
    """S16: it was made again each time that its time to live took it away. A former gangplan, to which it was a
    service, has not marked it."""
    monkeypatch.setattr(type(r.client), "find", lambda self, ref: None)
    manifest = Manifest(4, FOO, "jobs/foo.yaml:1", run_digest(FOO))
    r.planning.restore(Snapshot("c0ffee", True, manifests=(manifest,)))
    annotations = {DIGEST_ANNOTATION: manifest.run_digest} if marked else {}
    live = {**FOO, "metadata": {**FOO["metadata"], "uid": "f", "annotations": annotations}}
    inventory = Inventory()
    inventory.entries[FOO_KEY] = InventoryEntry(ref_of(FOO), "f")

    def look(*objects: Object) -> Pass:
        seen = {ref_of(item).key: item for item in objects}
        p = Pass(Observation(seen, frozenset({ref_of(FOO).group_kind})), inventory)
        p.go_by(r.planning.snapshot)
        record_deletions(r, p)
        confirm_entries(r, p)
        record_finished_runs(r, p)
        record_unobserved_ends(r, p)
        return p

    look({**live, "status": {"phase": "Running"}})
    assert inventory.entries[FOO_KEY].started
    assert inventory.runs == {}
    over = {**live, "status": {"phase": "Succeeded"}}
    if way == "is deleted":
        r.watches.record_deletion(over, witnessed=True)
    look(*([over] if way == "is there" else []))
    run = inventory.runs[FOO_KEY]
    assert (run.digest, run.phase) == (manifest.run_digest, "Unknown" if "unseen" in way else "Completed")


TRAIN: Object = {
    "apiVersion": "batch.volcano.sh/v1alpha1",
    "kind": "Job",
    "metadata": {"name": "train", "namespace": "default", "uid": "t", "annotations": {DIGEST_ANNOTATION: "sha256:1"}},
    "status": {"state": {"phase": "Running"}},
}
TRAIN_KEY = ref_of(TRAIN).key


def train_pod(name: str, code: int) -> Object:
    owner = {"apiVersion": TRAIN["apiVersion"], "kind": "Job", "name": "train", "uid": "t", "controller": True}
    metadata = {"name": name, "namespace": "default", "uid": name, "ownerReferences": [owner]}
    state = {"terminated": {"exitCode": code, "finishedAt": "2026-01-01T00:05:00Z"}}
    status = {"phase": "Failed", "containerStatuses": [{"state": state}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"nodeName": f"on-{name}"},
        "status": status,
    }


def after_losing(r: Reconciler, inventory: Inventory, *pods: Object, phase: str = "Running") -> Inventory:
    """The inventory after a pass that sees these pods gone."""
    job = {**TRAIN, "status": {"state": {"phase": phase}}}
    p = Pass(Observation({TRAIN_KEY: job}, frozenset({"Job.batch.volcano.sh", "Pod"})), inventory)
    for pod in pods:
        r.watches.record_deletion(pod, witnessed=True)
    record_deletions(r, p)
    record_finished_runs(r, p)
    return inventory


def stored(inventory: Inventory) -> Inventory:
    """The inventory is written: as it is read again."""
    rows = [[_as_row(each) for each in table.values()] for table in (inventory.entries, inventory.runs)]
    objects, runs = json.loads(json.dumps(rows))
    read = Inventory.from_rows(objects, runs, {"commit": ""})
    for table in (inventory.entries, inventory.runs, read.entries, read.runs):
        table.mark_written()
    return read


def test_what_became_of_former_pods_outlives_the_process_and_is_counted_once(r: Reconciler) -> None:
    """Exit codes and nodes of pods that were made anew were lost, and evictions with the process."""
    inventory = Inventory()
    inventory.entries[TRAIN_KEY] = InventoryEntry(ref_of(TRAIN), "t", started=True)
    inventory = stored(inventory)
    r.was_holder = False
    after_losing(r, inventory, train_pod("unled", 1))
    assert inventory.is_stored, "the one that leads tells it"
    r.was_holder = True
    after_losing(r, inventory, train_pod("a", 3))
    inventory = stored(after_losing(r, inventory))
    lost = after_losing(r, stored(inventory), train_pod("b", 4))
    assert lost.entries[TRAIN_KEY].record["nodes"] == ["on-a", "on-b"]
    inventory = stored(after_losing(r, inventory))
    assert inventory.entries[TRAIN_KEY].record["nodes"] == ["on-a", "on-b"], "told again to one that is read again"
    after_losing(r, inventory, train_pod("c", 4), phase="Failed")
    details = stored(inventory).runs[TRAIN_KEY].details
    assert (details["nodes"], details["exitCodes"]) == (["on-a", "on-b", "on-c"], {"": {"3": 1, "4": 2}})
    assert details["events"][""]["failed"] == [3, "2026-01-01T00:05:00Z", "2026-01-01T00:05:00Z"]
    inventory = stored(inventory)
    after_losing(r, inventory, train_pod("late", 9), phase="Failed")
    assert inventory.is_stored, "what goes after the end costs no write"


def test_the_pods_of_a_service_are_not_recorded(r: Reconciler) -> None:
    inventory, key = Inventory(), "Deployment.apps/default/web"
    inventory.entries[key] = InventoryEntry(Ref("apps/v1", "Deployment", "default", "web"), "w")
    inventory.entries.mark_written()
    r.was_holder = True
    web = {**TRAIN, "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"}}
    web["metadata"] |= {"uid": "w", "annotations": {PLACEMENT_ANNOTATION: "{}"}}
    p = Pass(Observation({key: web}, frozenset({"Pod"})), inventory)
    pod = train_pod("web-1", 0)
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "w", "controller": True}
    r.watches.record_deletion({**pod, "metadata": {**pod["metadata"], "ownerReferences": [owner]}}, witnessed=True)
    record_deletions(r, p)
    assert inventory.is_stored

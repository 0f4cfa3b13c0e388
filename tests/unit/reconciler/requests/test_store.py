"""What operators ask for beside git: suspensions, reruns, and another round of binding."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler.emit.manifest import Manifest
from compiler.kubernetes import DIGEST_ANNOTATION, SUSPEND_ANNOTATION
from reconciler.changes.diff import Change
from reconciler.cluster.client import Client, Retry
from reconciler.cluster.objects import Object, ref_of
from reconciler.context import Pass, Reconciler, Settings, build_reconciler, planned_runs
from reconciler.inventory.store import FinishedRun, Inventory, InventoryEntry
from reconciler.loop import compute_changes
from reconciler.observation.informers import InformerSet
from reconciler.observation.observe import Observation
from reconciler.ownership.guard import PrunePlan
from reconciler.planning.snapshot import Snapshot
from reconciler.pods.controller import observe_pods
from reconciler.report.build import build_report
from reconciler.requests.store import (
    EVERYTHING,
    Requests,
    RequestStore,
    with_rerun,
    with_resumed,
    with_retry,
    with_suspended,
)
from reconciler.requests.suspension import SUSPENDED, without_suspended
from tests.builders.fake_cluster import FakeCluster
from tests.builders.scripted_server import error_answer

JOB: Object = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "train", "namespace": "default"},
    "spec": {"suspend": False},
}
REF = ref_of(JOB)
GANG: Object = {
    **{"apiVersion": "batch/v1", "kind": "Job", "namespace": "default", "name": "train", "decision": "start"},
    **{"pods": {}, "queue": "q", "domains": [], "reasons": [], "evictedFor": [], "startsAt": None},
}


@pytest.fixture
def cluster() -> FakeCluster:
    made = FakeCluster()
    path = "/api/v1/namespaces/gangplan-system/configmaps/other"
    made.put(path, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}})
    return made


@pytest.fixture
def r(tmp_path: Path, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> Reconciler:
    monkeypatch.setattr(InformerSet, "watch_kinds", lambda self, kinds: False)
    settings = Settings(str(tmp_path), "main", "test", "gangplan-system", tmp_path / "data")
    made = build_reconciler(settings, cluster.client(), "me")
    made.inventory = Inventory()
    plan_for(made, JOB)
    return made


def plan_for(r: Reconciler, job: Object) -> None:
    manifests = (Manifest(5, job, "", "sha256:a"),)
    r.planning.snapshot = Snapshot("c0ffee", True, plan={"gangs": [GANG]}, manifests=manifests)


def ask(r: Reconciler, requests: Requests) -> None:
    """As a command does, whose client has no fence."""
    RequestStore(Client(r.client.connect), "gangplan-system", "test").change(lambda _: requests)
    r.request_poller.poll_once()


def one_pass(r: Reconciler, *objects: Object) -> Pass:
    """The phases up to the diff."""
    assert r.inventory is not None
    held = {ref_of(item).key: item for item in objects}
    p = Pass(observe_pods(r, Observation(held, frozenset({"Job.batch", "Pod", "Node"}))), r.inventory)
    p.snapshot = r.planning.snapshot
    compute_changes(r, p)
    return p


def test_requests_survive_their_way_through_the_cluster(r: Reconciler, cluster: FakeCluster) -> None:
    store = RequestStore(cluster.client(), "gangplan-system", "test")
    assert store.read() == Requests()
    asked = with_retry(with_rerun(with_suspended(Requests(), "Queue"), REF.key, "sha256:a", 2), REF.key)
    store.change(lambda _: asked)
    store.change(lambda known: with_suspended(known, EVERYTHING))
    assert store.read() == with_suspended(asked, EVERYTHING)
    assert with_resumed(store.read(), EVERYTHING).suspended == frozenset()
    for text in ("[]", "{}", '{"version": 2, "suspended": [], "reruns": {}, "retries": {}}'):
        with pytest.raises(ValueError, match="requests"):
            Requests.from_json(text)


def test_an_error_is_no_resumption(r: Reconciler, cluster: FakeCluster) -> None:
    cluster.before = lambda method, path, body: error_answer(500)
    with pytest.raises(Retry):
        r.request_poller.current()
    cluster.before = lambda method, path, body: None
    ask(r, with_suspended(Requests(), EVERYTHING))
    cluster.before = lambda method, path, body: error_answer(500)
    r.request_poller.poll_once()
    assert r.request_poller.current().suspends(REF)
    observed = next(each for each in build_report(r, one_pass(r)).conditions if each.type == "Observed")
    assert (observed.status, "500" in observed.message) == (False, True), "it is told, and the last ones count"


@pytest.mark.parametrize("target", [EVERYTHING, "Job", "Job.batch", REF.key])
def test_what_is_suspended_is_neither_written_nor_started(r: Reconciler, target: str) -> None:
    assert [change.action for change in one_pass(r).changes] == ["create"]
    ask(r, with_suspended(Requests(), target))
    p = one_pass(r)
    assert p.changes == []
    assert [change.reason for change in p.held_changes] == [SUSPENDED]
    assert set(p.observation.restrictions.held_jobs) == {REF.key}
    ask(r, with_suspended(Requests(), "Queue"))
    assert [change.action for change in one_pass(r).changes] == ["create"]


def test_an_annotation_in_git_suspends_as_well(r: Reconciler) -> None:
    plan_for(r, {**JOB, "metadata": {**JOB["metadata"], "annotations": {SUSPEND_ANNOTATION: "true"}}})
    p = one_pass(r)
    assert (p.changes, p.suspended_keys) == ([], {REF.key})


def test_what_is_suspended_is_neither_pruned_nor_released(r: Reconciler) -> None:
    """What existed before gangplan was given back, and lost its fields, though it was to be left alone."""
    plan = PrunePlan((Change("prune", REF, live=JOB),), (Change("release", REF, live=JOB),))
    assert without_suspended(r, plan) == plan
    ask(r, with_suspended(Requests(), "Job"))
    held = without_suspended(r, plan)
    assert (held.changes, held.releases) == ((), ())
    assert [change.reason for change in held.held_changes] == [SUSPENDED, SUSPENDED]


def test_a_rerun_is_another_run_of_the_same_digest_and_happens_once(r: Reconciler) -> None:
    assert r.inventory is not None
    r.inventory.entries[REF.key] = InventoryEntry(REF)
    r.inventory.runs[REF.key] = FinishedRun(REF, "sha256:a", "Completed")
    assert one_pass(r).changes == []
    ask(r, with_rerun(Requests(), REF.key, "sha256:a", 2))
    (change,) = one_pass(r).changes
    assert change.action == "create"
    assert change.desired is not None
    assert change.desired.object["metadata"]["annotations"][DIGEST_ANNOTATION] == "sha256:a#2"
    r.inventory.runs[REF.key] = FinishedRun(REF, "sha256:a#2", "Completed")
    assert one_pass(r).changes == []
    ask(r, Requests())
    assert planned_runs(r).of(REF.key) == "sha256:a#2", "what an operator deletes runs nothing again"
    assert one_pass(r).changes == []


def test_a_rerun_of_another_specification_is_ignored(r: Reconciler) -> None:
    ask(r, with_rerun(Requests(), REF.key, "sha256:former", 2))
    assert planned_runs(r).of(REF.key) == "sha256:a"

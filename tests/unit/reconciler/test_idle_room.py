"""A job that cannot start now keeps no room from others: who waits behind it would wait next to idle nodes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from compiler.kubernetes import CLUSTER_LABEL, DIGEST_ANNOTATION, stopped_by
from compiler.repository.tree import Repository
from reconciler.cluster.lease import Lease
from reconciler.cluster.objects import Object
from reconciler.cluster.watch import Informer
from reconciler.git.mirror import BranchHead
from reconciler.objects.differ import UNFIXABLE
from reconciler.report.status import Report
from tests.builders.compiles import node
from tests.builders.fake_cluster import FakeCluster
from tests.builders.scripted_server import ScriptedAnswer, error_answer
from tests.builders.whole_passes import PODS, TREE, Passes, shown_at_once

EVENTS = "/api/v1/namespaces/default/events/"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups/"
_MARKS = {"annotations", "labels"}
JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs/"


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("reconciler.assembly.time.monotonic", made)
    return made


@pytest.fixture
def passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock) -> Passes:
    """Three nodes, and two jobs that need two each: the job `other` starts, and `train` waits for it."""
    monkeypatch.setattr(Informer, "start", shown_at_once)
    monkeypatch.setattr(Lease, "is_held", lambda _: True)
    return Passes(tmp_path)


def decisions(report: Report) -> dict[str, str]:
    return {gang.job.name: gang.decision for gang in report.gangs}


def reasons(report: Report, name: str) -> str:
    return next("; ".join(gang.reasons) for gang in report.gangs if gang.job.name == name)


def change(passes: Passes, parts: Object) -> None:
    """Write these parts of the job `other`."""
    path = JOBS + "other"
    job = passes.cluster.objects[path]
    passes.cluster.put(path, {**job, **{name: {**job.get(name, {}), **part} for name, part in parts.items()}})


def after(passes: Passes, clock: Clock, seconds: int) -> Report:
    """A pass each second."""
    for _ in range(seconds):
        clock.now += 1.0
        report = passes.run()
    return report


def test_a_job_that_the_server_refuses_to_create_keeps_no_room_until_it_is_created(
    passes: Passes, clock: Clock
) -> None:
    """Seen once: a job of a namespace that was not there kept its nodes, idle, from all others for ever."""
    passes.cluster.fail(error_answer(404, 'namespaces "default" not found'), JOBS + "other")
    assert decisions(after(passes, clock, 5)) == {"other": "start", "train": "wait"}, "it may be over in a moment"
    report = after(passes, clock, 20)
    assert decisions(report) == {"other": "wait", "train": "keep"}
    assert "refuses to create it, so it keeps no room" in reasons(report, "other")
    assert ["not found" in text for ref, text in report.held if ref.name == "other"] == [True]
    passes.cluster.recover()
    passes.cluster.put("/api/v1/nodes/gpu-3", node("gpu-3"))
    assert decisions(after(passes, clock, 60)) == {"other": "keep", "train": "keep"}


STOPS: dict[str, tuple[Object, Object, str]] = {
    "aborted": ({"status": {"state": {"phase": "Aborted"}}}, {"status": {"state": {"phase": "Restarting"}}}, "aborted"),
    "suspended": ({"spec": {"suspend": True}}, {"spec": {"suspend": False}}, "suspended in the cluster"),
}


@pytest.mark.parametrize(("stop", "resumption", "reason"), STOPS.values(), ids=STOPS.keys())
def test_a_job_that_somebody_stopped_keeps_no_room_until_it_is_resumed(
    passes: Passes, clock: Clock, stop: Object, resumption: Object, reason: str
) -> None:
    """Seen once: a Volcano Job that `vcctl job suspend` had aborted kept its idle nodes from the next job."""
    assert decisions(after(passes, clock, 5)) == {"other": "keep", "train": "wait"}
    change(passes, stop)
    for path in [path for path in passes.cluster.objects if path.startswith(f"{PODS}other-")]:
        del passes.cluster.objects[path]
    report = after(passes, clock, 5)
    assert decisions(report) == {"other": "wait", "train": "keep"}
    assert reason in reasons(report, "other")
    change(passes, resumption)
    report = after(passes, clock, 3)
    assert decisions(report) == {"other": "wait", "train": "keep"}
    assert reason not in reasons(report, "other"), "now it waits for room"
    passes.cluster.put("/api/v1/nodes/gpu-3", node("gpu-3"))
    assert decisions(after(passes, clock, 3))["other"] == "keep"


def test_a_gang_of_which_pods_are_refused_is_reported_and_keeps_no_room(passes: Passes, clock: Clock) -> None:
    """Seen once: a quota let three of four pods be created. The gang stayed gated, its nodes idle, and the status said
    that all was applied."""
    passes.run(2)
    refused = passes.cluster.objects.pop(f"{PODS}other-worker-1")
    assert decisions(after(passes, clock, 25)) == {"other": "start", "train": "wait"}
    report = after(passes, clock, 10)
    assert decisions(report) == {"other": "start", "train": "wait"}, "it may go on"
    assert ["has created 1 of 2 pods" in text for ref, text in report.held if ref.name == "other"] == [True]
    report = after(passes, clock, 40)
    assert decisions(report) == {"other": "wait", "train": "keep"}
    assert "keeps no room" in reasons(report, "other")
    passes.cluster.put(f"{PODS}other-worker-1", refused)
    passes.cluster.put("/api/v1/nodes/gpu-3", node("gpu-3"))
    assert decisions(after(passes, clock, 5)) == {"other": "keep", "train": "keep"}


def test_a_running_gang_whose_lost_pod_is_refused_is_reported_and_keeps_its_room(passes: Passes, clock: Clock) -> None:
    """Seen once: a quota refused it, the rest of the gang stood idle, and the status said that all was applied."""
    assert decisions(after(passes, clock, 5)) == {"other": "keep", "train": "wait"}
    refused = passes.cluster.objects.pop(f"{PODS}other-worker-1")
    report = after(passes, clock, 25)
    assert [text for ref, text in report.held if ref.name == "other"] == [], "it may be over in a moment"
    report = after(passes, clock, 60)
    assert ["has created 1 of 2 pods" in text for ref, text in report.held if ref.name == "other"] == [True]
    assert decisions(report) == {"other": "keep", "train": "wait"}
    passes.cluster.put(f"{PODS}other-worker-1", refused)
    assert [text for ref, text in after(passes, clock, 5).held if ref.name == "other"] == []


@pytest.mark.parametrize(
    ("phase", "cause"), [("Pending", "has not admitted its PodGroup"), ("Inqueue", "Events of the job name")]
)
def test_a_gang_without_pods_is_reported_with_its_cause(
    passes: Passes, clock: Clock, phase: str, cause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Passes, "_make_pods", lambda *_: None)
    after(passes, clock, 5)
    uid = passes.cluster.objects[JOBS + "other"]["metadata"]["uid"]
    group = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "status": {"phase": phase}}
    metadata = {"name": f"other-{uid}", "namespace": "default"}
    passes.cluster.put(f"{GROUPS}other-{uid}", {**group, "metadata": metadata})
    report = after(passes, clock, 40)
    assert [cause in text for ref, text in report.held if ref.name == "other"] == [True]
    assert decisions(report) == {"other": "start", "train": "wait"}, "nothing is refused for certain"


QUOTA = "exceeded quota: gpus, requested: requests.nvidia.com/gpu=8, used: requests.nvidia.com/gpu=0"
REFUSED = f'pods "other-worker-1" is forbidden: {QUOTA}'
VOLCANOS = (
    f"failed to create pod other-worker-1, err: &errors.StatusError{{v1.Status{{Message:{json.dumps(REFUSED)}}}}}"
)


def warning(passes: Passes, reason: str, message: str, time: str = "2026-11-28T07:00:00Z") -> None:
    """An Event of the job's controller."""
    metadata = {"name": f"other.{reason}", "namespace": "default"}
    about = {"uid": passes.cluster.objects[JOBS + "other"]["metadata"]["uid"]}
    event = {"apiVersion": "v1", "kind": "Event", "metadata": metadata, "type": "Warning", "lastTimestamp": time}
    made = {**event, "involvedObject": about, "reason": reason, "message": message}
    passes.cluster.put(f"{EVENTS}other.{reason}", made)


@pytest.mark.parametrize("message", [f"Error creating: {REFUSED}", f"Error creating pods: [{VOLCANOS}]"])
def test_a_gang_whose_pods_are_all_refused_keeps_no_room_and_is_reported_with_the_servers_message(
    passes: Passes, clock: Clock, monkeypatch: pytest.MonkeyPatch, message: str
) -> None:
    """Seen once: a full quota refused every pod. Other jobs waited a minute for the idle nodes, and the status named no
    quota."""
    monkeypatch.setattr(Passes, "_make_pods", lambda *_: None)
    after(passes, clock, 2)
    warning(passes, "FailedSync", "something else")
    assert decisions(after(passes, clock, 5)) == {"other": "start", "train": "wait"}
    warning(passes, "FailedCreate", message)
    report = after(passes, clock, 8)
    assert decisions(report) == {"other": "wait", "train": "start"}
    assert [text.count(QUOTA) for ref, text in report.held if ref.name == "other"] == [1]
    assert QUOTA in reasons(report, "other")
    assert "forbidden" not in reasons(report, "other"), "each pod has its own words"


def test_a_refusal_before_the_last_pod_was_created_says_nothing(passes: Passes, clock: Clock) -> None:
    passes.run(2)
    passes.cluster.objects.pop(f"{PODS}other-worker-1")
    warning(passes, "FailedCreate", REFUSED, "2025-01-01T00:00:00Z")
    assert decisions(after(passes, clock, 25)) == {"other": "start", "train": "wait"}
    warning(passes, "FailedCreate", REFUSED)
    assert decisions(after(passes, clock, 30)) == {"other": "wait", "train": "keep"}


def strip(monkeypatch: pytest.MonkeyPatch, name: str, mark: str) -> None:
    """A webhook removes this annotation or label at each write of the object from now on."""
    write = FakeCluster._write

    def stripped(self: FakeCluster, path: str, item: Object, is_dry: bool) -> ScriptedAnswer:
        if path.endswith(f"/{name}"):
            metadata = {key: dict(value) if key in _MARKS else value for key, value in item["metadata"].items()}
            for kind in _MARKS & metadata.keys():
                metadata[kind].pop(mark, None)
            item = {**item, "metadata": metadata}
        return write(self, path, item, is_dry)

    monkeypatch.setattr(FakeCluster, "_write", stripped)


def test_what_a_webhook_strips_is_named_and_is_not_applied(
    passes: Passes, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen once: the status said that all was applied."""
    strip(monkeypatch, "team", CLUSTER_LABEL)
    (applied,) = (each for each in after(passes, clock, 20).conditions if each.type == "Applied")
    assert not applied.status
    assert applied.message.startswith("Queue team: it was written, and the server keeps other values")
    assert applied.message.endswith("metadata.labels.gangplan.dev/cluster")


CONFIG_MAP = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: default}\ndata: {a: b}\n"


def test_an_object_that_a_webhook_hides_from_our_watch_is_not_fought_over(
    passes: Passes, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen once: without our label it looked as if it did not exist; it was written again and again, and the status
    named nobody and no field."""
    strip(monkeypatch, "settings", CLUSTER_LABEL)
    tree = Repository({**TREE.files, "jobs/settings.yaml": CONFIG_MAP})
    cast("Any", passes.parts.planning.branch.poller).head = BranchHead("c0ffee", tree)
    report = after(passes, clock, 20)
    assert [text for ref, text in report.held if ref.name == "settings"] == [
        f"{UNFIXABLE}: metadata.labels.{CLUSTER_LABEL}"
    ]
    assert not next(each for each in report.conditions if each.type == "Fighting").status
    assert len([path for _, path in passes.cluster.writes if path.endswith("/settings")]) <= 4


def test_a_job_that_does_not_keep_the_mark_of_its_run_keeps_no_room(
    passes: Passes, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen once: no gate of it was lifted, without a word, and its idle nodes were kept from others."""
    strip(monkeypatch, "other", DIGEST_ANNOTATION)
    report = after(passes, clock, 20)
    assert decisions(report) == {"other": "wait", "train": "keep"}
    assert "does not stay as written" in reasons(report, "other")
    assert decisions(after(passes, clock, 100)) == {"other": "wait", "train": "keep"}, "it is written again meanwhile"


@pytest.mark.parametrize("damage", [{"status": {"state": "x"}}, {"status": {"state": {"phase": []}}}, {"spec": 5}])
def test_a_damaged_job_is_not_stopped(damage: Object) -> None:
    assert stopped_by({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", **damage}) == ""

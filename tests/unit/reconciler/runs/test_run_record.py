"""What is told of a run: pod by pod as they go, the rest at its end, and never more than a row can hold."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from compiler.cluster_state.run_records import StartPromise, recorded_runs
from compiler.kubernetes import PROMISED_START_ANNOTATION
from reconciler.cli import connection
from reconciler.cli.status import status
from reconciler.cluster.objects import Object, Ref
from reconciler.inventory.store import FinishedRun, Inventory, InventoryEntry, InventoryStore
from reconciler.planning.past_runs import past_runs
from reconciler.report.status import Report, status_document
from reconciler.report.status_text import status_text
from reconciler.runs.run_record import (
    MAX_FAILURES,
    MAX_NODES,
    MAX_ROLES,
    RunRecord,
    final_record,
    record_line,
    record_row,
    record_text,
    with_pods,
)
from tests.builders.fake_cluster import FakeCluster

JOB: Object = {
    "metadata": {"name": "j", "creationTimestamp": "2025-12-31T00:00:00Z"},
    "status": {"retryCount": 2, "state": {"phase": "Failed", "lastTransitionTime": "2026-01-01T00:06:00Z"}},
}


def pod(name: str, minute: int, phase: str = "Running", code: int | None = None, role: str = "worker") -> Object:
    """A pod that was made at this minute, bound at once, and ended a minute later."""
    began, ended = (f"2026-01-01T00:{at:02}:00Z" for at in (minute, minute + 1))
    status: dict[str, object] = {"phase": phase, "startTime": began}
    status["conditions"] = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": began}]
    if code is not None:
        state = {"terminated": {"exitCode": code, "finishedAt": ended}}
        status["containerStatuses"] = [{"state": state}]
    metadata = {"name": name, "creationTimestamp": began, "labels": {"volcano.sh/task-spec": role}}
    return {"metadata": metadata, "spec": {"nodeName": f"on-{name}"}, "status": status}


def evicted(name: str, minute: int) -> Object:
    found, at = pod(name, minute), f"2026-01-01T00:{minute + 1:02}:00Z"
    cause = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "lastTransitionTime": at}
    found["status"]["conditions"].append(cause)
    return found


def test_a_record_keeps_what_the_job_was_told_of_its_start() -> None:
    told = StartPromise(0, 1767225600, 1767225660, 1767225720, 1767225660, share=80)  # from 00:00 to 00:02
    annotations = {PROMISED_START_ANNOTATION: json.dumps(told.as_data())}
    job = {**JOB, "metadata": {**JOB["metadata"], "annotations": annotations}}
    record = final_record({}, job, [pod("a", 0)])
    assert StartPromise.from_data(record["promise"]) == told
    assert record["submitted"] == "2025-12-31T00:00:00Z"
    row = {"job": "j", "phase": "Completed", **record}
    assert "started in its window, 2026-01-01T00:00:00Z to 2026-01-01T00:02:00Z" in record_line(row)
    assert "started after its window" in record_line({**row, "started": "2026-01-01T00:02:01Z"})
    assert "started before its window" in record_line({**row, "started": "2025-12-31T23:59:59Z"})
    spoilt = {**job, "metadata": {**job["metadata"], "annotations": {PROMISED_START_ANNOTATION: "soon"}}}
    assert not {"promise", "submitted"} & final_record({}, spoilt, []).keys()


def test_a_compile_is_told_of_runs_and_of_those_before_them() -> None:
    times = {"started": "2026-01-01T00:00:00Z", "ended": "2026-01-01T00:01:00Z"}
    earlier = {"started": "2025-01-01T00:00:00Z", "ended": "2025-01-01T00:02:00Z"}
    inventory = Inventory()
    assert past_runs("c", inventory.runs.values()) == []
    inventory.record_run(
        FinishedRun(Ref("batch/v1", "Job", "ns", "j"), "d", "Completed", details=times | {"former": [earlier]})
    )
    found = recorded_runs(past_runs("c", inventory.runs.values()))
    assert [(key, run.ended - run.started) for key, run in found] == [
        (("ns", "j", "Job"), 120),
        (("ns", "j", "Job"), 60),
    ]


def test_a_record_says_when_where_and_how_it_ended() -> None:
    pods = [pod(name, minute, "Failed", code) for name, minute, code in (("b", 1, 1), ("a", 0, 0))]
    bare = [{**item, "status": {**item["status"], "phase": "Running", "conditions": []}} for item in pods]
    assert final_record({}, JOB, bare) == {
        "started": "2026-01-01T00:00:00Z",
        "ended": "2026-01-01T00:06:00Z",
        "nodes": ["on-a", "on-b"],
        "retries": 2,
        "exitCodes": {"worker": {"0": 1, "1": 1}},
        "events": {"worker": {"created": [2, "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"], "bound": [2, "", ""]}},
    }
    assert final_record({}, {"metadata": {"name": "j"}}, []) == {}


def test_pods_that_are_gone_at_the_end_are_told_as_well() -> None:
    """Only those that were there at the end were: nodes and exit codes of what had been tried before were lost."""
    record: RunRecord = {}
    record = with_pods(record, [pod("a", 1, "Failed", 7)], "2026-01-01T00:03:00Z")
    record = with_pods(record, [evicted("b", 4), pod("c", 4)], "2026-01-01T00:06:00Z")
    stored = json.loads(json.dumps(record))
    found = final_record(stored, JOB, [pod("d", 8, "Succeeded", 0)])
    assert (found["started"], found["nodes"]) == ("2026-01-01T00:01:00Z", ["on-a", "on-b", "on-c", "on-d"])
    assert (found["retries"], found["evictions"], found["evictedBy"]) == (2, 1, {"EvictionByEvictionAPI": 1})
    assert found["exitCodes"] == {"worker": {"7": 1, "0": 1}}
    assert found["failures"] == [{"at": "2026-01-01T00:02:00Z", "role": "worker", "node": "on-a", "exitCode": 7}]
    events = {
        "created": (4, 1, 8),
        "bound": (4, 1, 8),
        "failed": (1, 2, 2),
        "evicted": (1, 5, 5),
        "deleted": (1, 6, 6),
        "ended": (1, 9, 9),
    }
    times = {name: [count, *(f"2026-01-01T00:0{at}:00Z" for at in span)] for name, (count, *span) in events.items()}
    assert found["events"]["worker"] == times


def test_a_record_stays_small_however_much_happens() -> None:
    record: RunRecord = {}
    for at in range(300):
        tried = [pod(f"{name}-{at}", at % 50, "Failed", at % 256, role=f"r{at % 40}") for name in "ab"]
        record = with_pods(record, tried, "2026-01-01T00:59:00Z")
    found = final_record(record, {"metadata": {}}, [])
    assert len(found["nodes"]) == MAX_NODES
    assert len(found["failures"]) == MAX_FAILURES
    assert len(found["events"]) == MAX_ROLES + 1
    assert sum(row["created"][0] for row in found["events"].values()) == 600
    assert len(json.dumps(found)) < 16 << 10


TRAIN = Ref("batch.volcano.sh/v1alpha1", "Job", "team", "train")
FIRST, LAST = "2026-01-01T00:01:00Z", "2026-01-01T00:09:00Z"
DETAILS = {
    "started": FIRST,
    "ended": LAST,
    "nodes": [f"n{at}" for at in range(6)],
    "retries": 2,
    "evictions": 1,
    "evictedBy": {"DeletionByTaintManager": 1},
    "exitCodes": {"worker": {"0": 1, "7": 2}},
    "failures": [{"at": FIRST, "role": "worker", "node": "n0", "exitCode": 7}],
    "events": {"worker": {"created": [4, FIRST, LAST], "evicted": [1, LAST, LAST], "bound": [4, "", ""]}},
    "former": [{"digest": "sha256:1", "phase": "Failed", "started": FIRST}],
}
RUN = FinishedRun(TRAIN, "sha256:2", "Completed", details=DETAILS)
LINE = (
    f"Completed  Job team/train: {FIRST} to {LAST}; retries 2; evictions 1 by DeletionByTaintManager (1); "
    "exit codes worker: 0 (1), 7 (2); nodes n0, n1, n2, n3 and 2 more"
)


def test_a_record_is_one_line_of_the_status_and_all_of_it_where_it_is_asked_for() -> None:
    assert record_line(record_row(RUN)) == LINE
    assert record_text(RUN).splitlines() == [
        LINE,
        "  sha256:2",
        f"  worker created: 4, {FIRST} to {LAST}",
        f"  worker evicted: 1, {LAST}",
        "  worker bound: 4",
        f"  failed: {FIRST}, worker, on n0, exit code 7",
        f"  before: Failed     sha256:1: {FIRST} to unknown",
    ]
    document = status_document(Report("c0ffee", "c0ffee", (), runs=(RUN,)), {}, "10:00")
    assert f"LAST FINISHED\n  {LINE}\n" in status_text(document)
    assert record_line(record_row(FinishedRun(TRAIN, "sha256:2", "Unknown"))).endswith(": unknown to unknown")


def test_status_shows_the_run_of_a_job_also_after_its_time_to_live(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster()
    inventory = Inventory()
    inventory.record_run(RUN)
    inventory.enter(InventoryEntry(Ref("v1", "ConfigMap", "team", "other"), "u"))
    InventoryStore(cluster.client(), "gangplan-system", "test").write(inventory)
    monkeypatch.setattr(connection, "open_client", lambda *_: cluster.client())

    def ask(*more: str) -> Result:
        return CliRunner().invoke(status, [*more, "--cluster", "test"])

    assert ask("team/train").output == record_text(RUN)
    assert json.loads(ask("team/train", "-o", "json").output)["exitCodes"] == DETAILS["exitCodes"]
    refused = ask("team/other")
    assert (refused.exit_code, refused.output.count("\n")) == (1, 1)
    assert "no run of team/other is over" in refused.output

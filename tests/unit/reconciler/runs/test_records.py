"""What `gangplan status` tells of a run that is over."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from reconciler.cli import commands, connection
from reconciler.cluster.objects import Ref
from reconciler.inventory.store import FinishedRun, Inventory, InventoryEntry, InventoryStore
from reconciler.report.status import Report, status_document, status_text
from reconciler.runs.run_record import record_line, record_row, record_text
from tests.builders.fake_cluster import FakeCluster

TRAIN = Ref("batch.volcano.sh/v1alpha1", "Job", "team", "train")
FIRST, LAST = "2026-01-01T00:01:00Z", "2026-01-01T00:09:00Z"
DETAILS = {
    "started": FIRST,
    "ended": LAST,
    "nodes": [f"n{at}" for at in range(6)],
    "retries": 2,
    "evictions": 1,
    "exitCodes": {"worker": {"0": 1, "7": 2}},
    "failures": [{"at": FIRST, "role": "worker", "node": "n0", "exitCode": 7}],
    "events": {"worker": {"created": [4, FIRST, LAST], "evicted": [1, LAST, LAST], "bound": [4, "", ""]}},
    "former": [{"digest": "sha256:1", "phase": "Failed", "started": FIRST}],
}
RUN = FinishedRun(TRAIN, "sha256:2", "Completed", details=DETAILS)
LINE = (
    f"Completed  Job team/train: {FIRST} to {LAST}; retries 2; evictions 1; exit codes worker: 0 (1), 7 (2); "
    "nodes n0, n1, n2, n3 and 2 more"
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
    assert f"last finished\n  {LINE}\n" in status_text(document)
    assert record_line(record_row(FinishedRun(TRAIN, "sha256:2", "Unknown"))).endswith(": unknown to unknown")


def test_status_shows_the_run_of_a_job_also_after_its_time_to_live(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster()
    inventory = Inventory()
    inventory.record_run(RUN)
    inventory.enter(InventoryEntry(Ref("v1", "ConfigMap", "team", "other"), "u"))
    InventoryStore(cluster.client(), "gangplan-system", "test").write(inventory)
    monkeypatch.setattr(connection, "check_kubeconfig", lambda *_: None)
    monkeypatch.setattr(connection, "Connector", lambda *_: lambda: cluster)

    def ask(*more: str) -> Result:
        return CliRunner().invoke(commands.status, [*more, "--cluster", "test"])

    assert ask("team/train").output == record_text(RUN)
    assert json.loads(ask("team/train", "-o", "json").output)["exitCodes"] == DETAILS["exitCodes"]
    refused = ask("team/other")
    assert (refused.exit_code, refused.output.count("\n")) == (1, 1)
    assert "no run of team/other is over" in refused.output

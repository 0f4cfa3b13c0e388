"""`gangplan status`: one job, and changes as they come."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from click.testing import CliRunner

from reconciler.changes.planned import PlannedGang
from reconciler.cli import connection
from reconciler.cli.status import status, watch_text
from reconciler.cluster.client import Retry
from reconciler.cluster.objects import Ref
from reconciler.inventory.store import Inventory, InventoryEntry, InventoryStore
from reconciler.report.status import PlanSummary, Report, StatusPublisher
from tests.builders.fake_cluster import FakeCluster

JOB = Ref("batch.volcano.sh/v1alpha1", "Job", "team", "train")
REPORT = Report(
    "c0ffee",
    "c0ffee",
    (),
    plan=PlanSummary("sha256:1"),
    gangs=(PlannedGang(JOB, "wait", queue="q", reasons=("GW101: full",)),),
)


def test_a_job_that_waits_and_never_ran_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster()
    StatusPublisher(cluster.client(), "gangplan-system", "test").publish(REPORT)
    InventoryStore(cluster.client(), "gangplan-system", "test").write(Inventory())
    monkeypatch.setattr(connection, "open_client", lambda *_: cluster.client())
    shown = CliRunner().invoke(status, ["team/train"])
    first, reason, since = shown.output.splitlines()[1:]
    assert (shown.exit_code, first, reason) == (0, "wait       team/train   Job    q", "  GW101: full")
    assert re.fullmatch(r"  since \S+Z   wait: GW101 .*queue.*", since)
    found = json.loads(CliRunner().invoke(status, ["team/train", "-o", "json"]).output)
    assert [row["codes"] for row in found["history"]] == [["GW101"]]
    assert found["gangs"][0]["reasons"] == ["GW101: full"]
    assert CliRunner().invoke(status, ["team/other"]).exit_code == 1
    assert "--watch is for text" in CliRunner().invoke(status, ["--watch", "-o", "json"]).output


def test_of_a_job_that_runs_its_evictions_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen once: two pods made room for another job, and the status of theirs said nothing of it."""
    cluster, inventory = FakeCluster(), Inventory()
    evicted = {"worker": {"evicted": [2, "2026-01-31T12:00:00Z", "2026-01-31T12:00:05Z"]}}
    record = {"events": evicted, "evictedBy": {"EvictionByEvictionAPI": 2}, "nodes": ["n-0"]}
    inventory.enter(InventoryEntry(JOB, "u", True, run="sha256:1", record=record))
    InventoryStore(cluster.client(), "gangplan-system", "test").write(inventory)
    StatusPublisher(cluster.client(), "gangplan-system", "test").publish(REPORT)
    monkeypatch.setattr(connection, "open_client", lambda *_: cluster.client())
    shown = CliRunner().invoke(status, ["team/train"]).output
    assert "to now; evictions 2 by EvictionByEvictionAPI (2); nodes n-0" in shown
    assert "worker evicted: 2, 2026-01-31T12:00:00Z to 2026-01-31T12:00:05Z" in shown
    found = json.loads(CliRunner().invoke(status, ["team/train", "-o", "json"]).output)
    assert (found["current"]["evictions"], found["gangs"][0]["decision"]) == (2, "wait")


def test_a_watch_prints_what_differs_and_outlives_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    def fails() -> str:
        raise Retry("the server is away")

    answers: list[Callable[[], str]] = [lambda: "one\n", fails, fails, lambda: "two\n"]

    def rest(_: float) -> None:
        if not answers:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        watch_text(lambda: answers.pop(0)(), "one\n", rest)
    assert capsys.readouterr().out.splitlines() == ["the server is away", "two"]

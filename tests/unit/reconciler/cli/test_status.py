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
from reconciler.inventory.store import Inventory, InventoryStore
from reconciler.report.status import Report, StatusPublisher
from tests.builders.fake_cluster import FakeCluster

JOB = Ref("batch.volcano.sh/v1alpha1", "Job", "team", "train")
REPORT = Report(
    "c0ffee", "c0ffee", (), digest="sha256:1", gangs=(PlannedGang(JOB, "wait", queue="q", reasons=("GW101: full",)),)
)


def test_a_job_that_waits_and_never_ran_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster()
    StatusPublisher(cluster.client(), "gangplan-system", "test").publish(REPORT)
    InventoryStore(cluster.client(), "gangplan-system", "test").write(Inventory())
    monkeypatch.setattr(connection, "check_kubeconfig", lambda *_: None)
    monkeypatch.setattr(connection, "Connector", lambda *_: lambda: cluster)
    shown = CliRunner().invoke(status, ["team/train"])
    first, reason, since = shown.output.splitlines()[1:]
    assert (shown.exit_code, first, reason) == (0, "wait       team/train   Job    q", "  GW101: full")
    assert re.fullmatch(r"  since \S+Z   wait: GW101 .*queue.*", since)
    found = json.loads(CliRunner().invoke(status, ["team/train", "-o", "json"]).output)
    assert [row["codes"] for row in found["history"]] == [["GW101"]]
    assert found["gangs"][0]["reasons"] == ["GW101: full"]
    assert CliRunner().invoke(status, ["team/other"]).exit_code == 1
    assert "--watch is for text" in CliRunner().invoke(status, ["--watch", "-o", "json"]).output


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

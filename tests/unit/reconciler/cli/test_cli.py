"""The `gangplan` command starts fast: it loads only what the command at hand needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from compiler.volcano.fairshare import STATE_CONFIG_MAP
from reconciler.changes.results import Condition
from reconciler.cli.commands import is_success, state_items
from reconciler.cluster.client import Forbidden
from reconciler.report.status import Report
from tests.builders.fake_cluster import FakeCluster
from tests.builders.scripted_server import error_answer

ROOT = Path(__file__).resolve().parents[4]
HEAVY = ("git", "kubernetes", "prometheus_client", "urllib3")


def test_reading_a_folder_loads_neither_git_nor_kubernetes(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from reconciler.cli import load_tree; "
        f"load_tree(Path({str(tmp_path)!r})); print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"


def test_once_succeeds_only_where_the_newest_commit_is_in_force() -> None:
    """A rewritten history that is held ended with 0."""

    def report(*conditions: tuple[str, bool]) -> Report:
        return Report("c0ffee", "c0ffee", tuple(Condition(name, status, "", "") for name, status in conditions))

    good = (("Fetched", True), ("Applied", True), ("HistoryRewritten", False), ("PruneHeld", True))
    assert is_success(report(*good))
    assert not is_success(report(*good, ("Compiled", False)))
    assert not is_success(report(("HistoryRewritten", True)))


def test_a_snapshot_holds_quotas_where_they_may_be_listed() -> None:
    cluster = FakeCluster()
    for kind in ("Pod", "ResourceQuota"):
        item = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "a", "namespace": "n"}}
        cluster.put(f"/api/v1/namespaces/n/{kind.lower()}s/a", item)

    def kinds(forbidden: str) -> list[str]:
        cluster.before = lambda method, path, body: error_answer(403) if forbidden in path else None
        return [item["kind"] for item in state_items(cluster.client())]

    assert kinds("nothing") == ["Pod", "ResourceQuota"]
    assert kinds("resourcequotas") == ["Pod"]
    with pytest.raises(Forbidden):
        kinds("pods")


def test_a_snapshot_holds_what_namespaces_used_where_it_may_be_read() -> None:
    cluster, (namespace, name) = FakeCluster(), STATE_CONFIG_MAP
    assert [*state_items(cluster.client())] == []
    item = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}}
    cluster.put(f"/api/v1/namespaces/{namespace}/configmaps/{name}", item)
    assert [found["kind"] for found in state_items(cluster.client())] == ["ConfigMap"]
    cluster.before = lambda method, path, body: error_answer(403) if "configmaps" in path else None
    assert [*state_items(cluster.client())] == []

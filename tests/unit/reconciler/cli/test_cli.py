"""The `gangplan` command starts fast: it loads only what the command at hand needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

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
    from reconciler.changes.results import Condition
    from reconciler.cli.commands import is_success
    from reconciler.report.status import Report

    def report(*conditions: tuple[str, bool]) -> Report:
        return Report("c0ffee", "c0ffee", tuple(Condition(name, status, "", "") for name, status in conditions))

    good = (("Fetched", True), ("Applied", True), ("HistoryRewritten", False), ("PruneHeld", True))
    assert is_success(report(*good))
    assert not is_success(report(*good, ("Compiled", False)))
    assert not is_success(report(("HistoryRewritten", True)))


def test_a_snapshot_holds_quotas_where_they_may_be_listed() -> None:
    from reconciler.cli.commands import state_items
    from reconciler.cluster.client import Client, Forbidden
    from reconciler.cluster.resources import Resource

    class Listing(Client):
        """One object of each kind that may be listed."""

        def __init__(self, forbidden: str) -> None:
            self.forbidden = forbidden

        def resource(self, api_version: str, kind: str) -> Resource:
            return Resource(api_version, kind, kind.lower(), False)

        def list(
            self, resource: Resource, namespace: str = "", selector: str = "", fields: str = ""
        ) -> tuple[list[Any], str]:
            if resource.kind == self.forbidden:
                raise Forbidden("no")
            return [{"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": "a"}}], "1"

    kinds = [item["kind"] for item in state_items(Listing(""))]
    assert kinds[-1] == "ResourceQuota"
    assert [item["kind"] for item in state_items(Listing("ResourceQuota"))] == kinds[:-1]
    with pytest.raises(Forbidden):
        list(state_items(Listing("Pod")))

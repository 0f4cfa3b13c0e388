"""`gangplan simulate --history`: commits and recorded runs, read as they lie in git and in ConfigMaps."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from compiler.cli.root import cli
from compiler.fields.times import parse_timestamp
from reconciler.cli import load_tree
from reconciler.cluster.objects import Ref
from reconciler.inventory.store import FinishedRun, Inventory, InventoryStore
from tests.builders.fake_cluster import FakeCluster
from tests.builders.git_source import Source
from tests.builders.repositories import FILES, JOB


@pytest.fixture
def repository(source: Source) -> Path:
    """Two commits, ten minutes apart: the second adds a job."""
    for number, files in enumerate((FILES, {"jobs/b.yaml": JOB.replace("NAME", "b").encode()})):
        for name, content in files.items():
            (source.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (source.folder / name).write_bytes(content)
        source.commit(parse_timestamp(f"2026-01-01T00:{number}0:00Z"))
    return source.folder


@pytest.fixture
def records(tmp_path: Path) -> Path:
    """A run of a, from 0:01 to 0:06, as `kubectl get configmaps` prints the inventory."""
    cluster, made = FakeCluster(), Inventory(commit="c0ffee")
    job = Ref("batch.volcano.sh/v1alpha1", "Job", "default", "a")
    details = {"started": "2026-01-01T00:01:00Z", "ended": "2026-01-01T00:06:00Z"}
    made.record_run(FinishedRun(job, "sha256:1", "Completed", details=details))
    InventoryStore(cluster.client(), "gangplan-system", "t").write(made)
    client = cluster.client()
    items, _ = client.list(client.resource("v1", "ConfigMap"))
    file = tmp_path / "records.json"
    file.write_text(json.dumps({"kind": "List", "items": items}))
    return file


def test_commits_and_recorded_runs_are_replayed(repository: Path, records: Path) -> None:
    arguments = ["simulate", "--history", "--repo", str(repository), "--records", str(records), "-o", "json"]
    ran = CliRunner().invoke(cli, [*arguments, "--policy", "easy"], obj=load_tree)
    assert ran.exit_code == 0, ran.output
    found = json.loads(ran.stdout)
    assert [(job["id"], job["submit"], job["finish"]) for job in found["jobs"]] == [
        ("Job default/a 1", 0, 300),
        ("Job default/b 1", 600, 900),
    ]
    assert "Run times by source: median of the namespace: 1, recorded runs: 1." in found["assumptions"][0]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--history"], "no job of the history has a known run time"),
        (["--history", "--records", "OTHER"], "no run of cluster t is recorded"),
        (["--history", "--records", "BROKEN"], "cannot read the records"),
        (["--history", "--records", "DEEP"], "cannot read the records"),
        (["--history", "--records", "NULL"], "cannot read the records"),
        (["--history", "BROKEN"], "pass a TRACE, or --history"),
        ([], "pass a TRACE, or --history"),
    ],
)
def test_what_cannot_be_replayed_is_said(repository: Path, tmp_path: Path, arguments: list[str], said: str) -> None:
    (tmp_path / "OTHER").write_text('{"items": []}')
    (tmp_path / "BROKEN").write_text("[]")
    (tmp_path / "DEEP").write_text("[" * 100_000)
    (tmp_path / "NULL").write_text('{"items": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": null}]}')
    named = [str(tmp_path / word) if word.isupper() else word for word in arguments]
    ran = CliRunner().invoke(cli, ["simulate", "--repo", str(repository), *named], obj=load_tree)
    assert ran.exit_code == 1
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr


def test_that_older_commits_were_not_cloned_is_said(repository: Path, records: Path, tmp_path: Path) -> None:
    subprocess.run(
        ["git", "clone", "--quiet", "--depth", "1", f"file://{repository}", str(tmp_path / "shallow")], check=True
    )
    arguments = ["simulate", "--history", "--records", str(records), "-o", "json", "--policy", "easy", "--repo"]
    for folder, is_said in ((repository, False), (tmp_path / "shallow", True)):
        ran = CliRunner().invoke(cli, [*arguments, str(folder)], obj=load_tree)
        said = [each for each in json.loads(ran.stdout)["assumptions"] if "The clone is shallow" in each]
        assert bool(said) is is_said

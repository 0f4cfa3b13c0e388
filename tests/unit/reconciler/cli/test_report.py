"""`gangplan report`: where the page goes, what the plan is compared with, and when the command fails."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from ruamel.yaml import YAML

from compiler.cli.root import cli
from reconciler.cli import connection, load_tree
from reconciler.cluster.objects import ref_of
from tests.builders.fake_cluster import FakeCluster
from tests.builders.repositories import FILES, JOB
from tests.builders.scripted_server import error_answer
from tests.e2e.stories.story import GitRepository

CASES = Path(__file__).parents[3] / "golden"


def run(folder: Path, *arguments: str) -> Result:
    done = CliRunner().invoke(cli, ["report", "--repo", str(folder), *arguments], obj=load_tree)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def embedded(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="plan">(.*?)</script>', page, re.DOTALL)
    assert found
    document: dict[str, Any] = json.loads(found[1])
    return document


def pods_before(page: dict[str, Any]) -> dict[str, Any]:
    found = {job["name"]: job.get("before", {} if job["decision"] == "start" else job["pods"]) for job in page["gangs"]}
    return {name: pods for name, pods in found.items() if pods}


@pytest.fixture
def repository(tmp_path: Path) -> GitRepository:
    """A repository with one commit."""
    made = GitRepository(tmp_path / "repo")
    for name, text in FILES.items():
        made.write_file(name, text.decode())
    made.commit()
    return made


def test_the_command_writes_a_file_or_prints(tmp_path: Path) -> None:
    repo, file = CASES / "deadlock/repo", tmp_path / "plan.html"
    written = run(repo, "-o", str(file))
    assert (written.exit_code, written.stdout) == (0, "")
    assert f"wrote {file}" in written.stderr
    assert run(repo).stdout == file.read_text()


def test_the_command_fails_as_plan_does(tmp_path: Path) -> None:
    repo, file = CASES / "hard-topology/repo", tmp_path / "plan.html"
    strict = ("--fail-on", "never-starts")
    plan = CliRunner().invoke(cli, ["plan", "--repo", str(repo), *strict])
    assert run(repo, "-o", str(file), *strict).exit_code == plan.exit_code
    assert file.is_file()
    nowhere = run(repo, "-o", str(tmp_path / "no" / "plan.html"))
    assert nowhere.exit_code == 1
    assert "No such file" in nowhere.stderr


def test_without_a_plan_no_page_is_written(tmp_path: Path) -> None:
    file = tmp_path / "plan.html"
    result = run(tmp_path, "-o", str(file))
    assert result.exit_code == 1
    assert "no page is written" in result.stderr
    assert not file.exists()


def test_a_revision_as_base_gives_the_changes_and_the_jobs_before(repository: GitRepository) -> None:
    folder = repository.folder
    former = next(name for name, text in FILES.items() if name.startswith("jobs/") and b"kind: Job" in text)
    (folder / former).unlink()
    (folder / "jobs" / "b.yaml").write_text(JOB.replace("NAME", "b"))
    document = embedded(run(folder, "--base", "HEAD").stdout)
    base = document["base"]
    assert base["name"].startswith("HEAD (")
    assert {(each["change"], each["verb"]) for each in base["changes"]} == {
        ("removed", "is removed"),
        ("starts", "starts"),
    }
    assert [job["decision"] for job in base["gone"]] == ["gone"]
    assert base["gone"][0]["before"]
    assert embedded(run(folder, "--base", "HEAD").stdout) == document


def test_a_rejected_change_has_no_page(repository: GitRepository) -> None:
    (repository.folder / "jobs" / "b.yaml").write_text(
        JOB.replace("NAME", "b").replace("replicas: 2", "replicas: many")
    )
    result = run(repository.folder, "--base", "HEAD")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "no page is written" in result.stderr
    unknown = run(repository.folder, "--base", "nowhere")
    assert unknown.exit_code == 1
    assert "names no commit" in unknown.stderr


def test_a_state_and_a_lock_as_base_are_what_runs_before() -> None:
    case = CASES / "preempt"
    state = str(case / "state.yaml")
    against = run(case / "repo", "--base", state).stdout
    assert against == run(case / "repo", "--state", state).stdout
    assert any("before" in job for job in embedded(against)["gangs"])
    lock = str(CASES / "deadlock/gangplan.lock")
    against = run(CASES / "deadlock/repo", "--base", lock).stdout
    assert against == run(CASES / "deadlock/repo", "--lock", lock).stdout
    assert embedded(against)["gangs"][0]["decision"] == "keep"


def test_a_living_cluster_is_what_runs_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same pods as in the state file; the time is another, so others may be evicted."""
    case, cluster = CASES / "preempt", FakeCluster()
    for item in YAML(typ="safe").load((case / "state.yaml").read_text())["items"]:
        cluster.put(cluster.client().path_of(ref_of(item)), item)
    monkeypatch.setattr(connection, "open_client", lambda *_: cluster.client())
    live = embedded(run(case / "repo", "--live").stdout)
    stored = embedded(run(case / "repo", "--state", str(case / "state.yaml")).stdout)
    assert pods_before(live) == pods_before(stored) != {}
    cluster.before = lambda method, path, body: time.sleep(20)
    assert "did not end within 0.2 s (--time-limit)" in run(case / "repo", "--live", "--time-limit", "0.2").stderr
    cluster.before = lambda method, path, body: error_answer(403) if "pods" in path else None
    assert "Error: " in run(case / "repo", "--live").stderr
    assert "name one" in run(case / "repo", "--live", "--state", str(case / "state.yaml")).stderr


def test_a_base_is_named_once() -> None:
    case = CASES / "preempt"
    state, lock = str(case / "state.yaml"), str(case / "gangplan.lock")
    assert "name one" in run(case / "repo", "--base", state, "--state", state).stderr
    assert "name one" in run(case / "repo", "--base", lock, "--lock", lock).stderr
    assert "does not go with" in run(case / "repo", "--base", "HEAD", "--lock", lock).stderr

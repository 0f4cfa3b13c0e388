"""The GitHub action's script, run as GitHub would run it, with a `gh` that notes what it is asked."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.builders.repositories import FILES, JOB
from tests.e2e.stories.story import GitRepository

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / ".github" / "actions"
ARTIFACT = "https://github.com/o/r/actions/runs/1/artifacts/2"
PINNED = re.compile(r"[\w./-]+@[0-9a-f]{40}")
pytestmark = pytest.mark.slow

FAKE_GH = """\
#!/bin/sh
echo "$@" >> "$REPORTS/gh.log"
case "$*" in *--paginate*) printf %b "$FOUND_COMMENT" ;; esac
"""


def run_action(tmp_path: Path, repository: GitRepository, **variables: str) -> tuple[int, str, str]:
    """Exit code, output and what gh was asked. As in action.yml: pages are uploaded, then the comment is written."""
    tools = tmp_path / "bin"
    tools.mkdir(exist_ok=True)
    (tools / "gh").write_text(FAKE_GH)
    (tools / "gangplan").write_text(f'#!/bin/sh\nexec {sys.executable} -m reconciler "$@"\n')
    for tool in tools.iterdir():
        tool.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{tools}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "GANGPLAN": str(tools / "gangplan"),
        "FOLDER": ".",
        "REPORTS": str(tmp_path),
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        "GITHUB_REPOSITORY": "o/r",
        "COMMENT": "true",
        "SARIF": "false",
        "TRACE": "",
        "TRACE_OPTIONS": "--policy easy",
        "FAIL_ON": "error",
        "PULL_REQUEST": "7",
        "BASE": "",
        "FOUND_COMMENT": "",
        **variables,
    }
    plan = [str(SCRIPTS / "plan.sh")]
    done = subprocess.run(plan, cwd=repository.folder, env=environment, capture_output=True, text=True, check=False)
    output, asked = tmp_path / "output", tmp_path / "gh.log"
    found = dict(line.split("=", 1) for line in output.read_text().splitlines()) if output.exists() else {}
    if "comparison" in found:
        address = ARTIFACT if "pages" in found else ""
        environment |= {"COMPARISON": found["comparison"], "ARTIFACT": address}
        subprocess.run([str(SCRIPTS / "comment.sh")], env=environment, check=True)
    return done.returncode, done.stdout + done.stderr, asked.read_text() if asked.exists() else ""


@pytest.fixture
def repository(tmp_path: Path) -> GitRepository:
    """Two commits: the second adds a job."""
    repository = GitRepository(tmp_path / "repo")
    for name, text in FILES.items():
        repository.write_file(name, text.decode())
    repository.commit()
    repository.write_file("jobs/b.yaml", JOB.replace("NAME", "b"))
    repository.commit()
    return repository


def test_the_comparison_becomes_summary_and_comment(tmp_path: Path, repository: GitRepository) -> None:
    target = repository.run_git("rev-parse", "HEAD~1")
    code, said, asked = run_action(tmp_path, repository, TARGET=target)
    assert code == 0, said
    mark, heading, *_ = (comment := (tmp_path / "gangplan-comment.md").read_text()).splitlines()
    assert (mark, heading) == ("<!-- gangplan diff -->", "### gangplan: what this change does")
    assert f"[Before and after as a page]({ARTIFACT})" in comment
    assert "1 job starts" in comment
    assert (tmp_path / "summary.md").read_text() == comment
    assert [file.name for file in (tmp_path / "gangplan-pages").iterdir()] == ["t.html"]
    assert '"version": "2.1.0"' in (tmp_path / "gangplan.sarif").read_text()
    assert "--method POST repos/o/r/issues/7/comments --field body=@" in asked
    code, said, asked = run_action(tmp_path, repository, TARGET=target, FOUND_COMMENT="41\\n42\\n")
    assert code == 0, said
    assert "--method PATCH repos/o/r/issues/comments/41 --field" in asked


def test_each_folder_has_a_comment_of_its_own(tmp_path: Path, repository: GitRepository) -> None:
    target = repository.run_git("rev-parse", "HEAD~1")
    (repository.folder / "team").mkdir()
    repository.run_git("mv", "cluster-specs", "jobs", "team")
    repository.commit()
    code, said, _ = run_action(tmp_path, repository, TARGET=target, FOLDER="team")
    assert code == 0, said
    mark, heading, *_ = (tmp_path / "gangplan-comment.md").read_text().splitlines()
    assert (mark, heading) == ("<!-- gangplan diff of team -->", "### gangplan: what this change does in `team`")


def test_what_others_merged_after_the_event_is_no_part_of_the_change(tmp_path: Path, repository: GitRepository) -> None:
    """GitHub's event names the target as it was; its merge has what came later as the first parent."""
    target = repository.run_git("rev-parse", "HEAD~1")
    repository.run_git("checkout", "--quiet", "-b", "change", target)
    repository.write_file("jobs/c.yaml", JOB.replace("NAME", "c"))
    repository.commit()
    repository.run_git("checkout", "--quiet", "-")
    repository.run_git("merge", "--quiet", "--no-edit", "change")
    merge = {"GITHUB_REF": "refs/pull/7/merge", "GITHUB_SHA": repository.run_git("rev-parse", "HEAD")}
    code, said, _ = run_action(tmp_path, repository, TARGET=target, **merge)
    assert code == 0, said
    comment = (tmp_path / "gangplan-comment.md").read_text()
    assert "default/c (new)" in comment
    assert "default/b" not in comment


def test_a_trace_adds_whose_waits_change_to_the_comment_and_a_page(tmp_path: Path, repository: GitRepository) -> None:
    (tmp_path / "trace.csv").write_text("\n".join(["id,submit,duration,devices", *(f"{n},{n},60,1" for n in range(9))]))
    target = repository.run_git("rev-parse", "HEAD~1")
    code, said, _ = run_action(tmp_path, repository, TARGET=target, TRACE=str(tmp_path / "trace.csv"))
    assert code == 0, said
    comment = (tmp_path / "gangplan-comment.md").read_text()
    assert comment.startswith("<!-- gangplan diff -->")
    assert "### Replay of trace.csv" in comment
    assert "The whole trace was replayed: the differences are exact." in comment
    assert "Better off: no queue\n" in comment
    assert sorted(file.name for file in (tmp_path / "gangplan-pages").iterdir()) == ["replay.html", "t.html"]


def test_an_error_fails_the_run_and_no_base_compares_nothing(tmp_path: Path, repository: GitRepository) -> None:
    repository.write_file("jobs/c.yaml", JOB.replace("NAME", "c").replace("replicas: 2", "replicas: many"))
    code, said, asked = run_action(tmp_path, repository, TARGET="")
    assert code == 1
    assert "::error file=" in said
    assert not asked


def test_a_rejected_commit_is_commented_on_without_a_page(tmp_path: Path, repository: GitRepository) -> None:
    target = repository.run_git("rev-parse", "HEAD~1")
    repository.write_file("jobs/c.yaml", JOB.replace("NAME", "c").replace("replicas: 2", "replicas: many"))
    code, _, asked = run_action(tmp_path, repository, TARGET=target)
    assert code == 1
    assert "the reconciler rejects this commit" in (comment := (tmp_path / "gangplan-comment.md").read_text())
    assert "page" not in comment
    assert "--method POST" in asked


def test_an_input_of_another_type_is_refused_before_anything_runs(tmp_path: Path, repository: GitRepository) -> None:
    code, said, asked = run_action(
        tmp_path, repository, COMMENT="yes", FAIL_ON="never", SARIF="", FOLDER="nowhere", TRACE="t"
    )
    assert code == 1
    assert [line.partition(" is ")[0] for line in said.splitlines()] == [
        "::error::folder",
        "::error::fail-on",
        "::error::comment",
        "::error::sarif",
        "::error::trace",
    ]
    assert not asked


@pytest.mark.parametrize(
    "file",
    ["action.yml", ".github/workflows/ci.yml", ".github/workflows/plan.yml", "compiler/cli/example/workflow.yaml"],
)
def test_actions_of_others_are_pinned_by_their_commit(file: str) -> None:
    text = (ROOT / file).read_text()
    used = re.findall(r"uses: (\S+)", text)
    others = [each for each in used if not each.startswith(("./", "OWNER/gangplan@"))]
    assert others
    assert [each for each in others if not PINNED.fullmatch(each)] == []


def test_the_action_runs_its_scripts_with_all_that_they_read() -> None:
    steps = YAML(typ="safe").load((ROOT / "action.yml").read_text())["runs"]["steps"]
    for script in ("plan.sh", "comment.sh"):
        (step,) = (step for step in steps if script in step.get("run", ""))
        head = (
            (SCRIPTS / script).read_text().partition("and GitHub's own variables")[0].rpartition("Set by action.yml: ")
        )
        assert set(re.findall(r"[A-Z_]{4,}", head[2])) <= step["env"].keys()
    workflow = YAML(typ="safe").load((ROOT / ".github" / "workflows" / "plan.yml").read_text())
    (job,) = workflow["jobs"].values()
    assert (ROOT / job["steps"][-1]["uses"] / "action.yml").is_file()

"""`gangplan diff` reads revisions from git, of a repository or of a folder in one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from compiler.cli import cli
from reconciler.cli import load_tree
from reconciler.git.commits import read_revision
from reconciler.git.process import GitError
from tests.builders.repositories import FILES, JOB
from tests.e2e.stories.story import GitRepository


@pytest.fixture(params=["", "infra/plan/"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[GitRepository, Path]:
    """A repository with one commit, and the folder in it that gangplan reads."""
    repository = GitRepository(tmp_path / "repo")
    for name, text in FILES.items():
        repository.write_file(request.param + name, text.decode())
    repository.commit()
    return repository, repository.folder / request.param


def run(folder: Path, *arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, ["diff", "--repo", str(folder), *arguments], obj=load_tree)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


def test_revisions_and_the_work_tree_are_compared(folder: tuple[GitRepository, Path]) -> None:
    repository, path = folder
    assert run(path, "HEAD") == (
        0,
        f"HEAD ({repository.run_git('rev-parse', 'HEAD')[:12]}) -> work tree\n\nCluster t: no changes\n",
    )
    (path / "jobs" / "b.yaml").write_text(JOB.replace("NAME", "b"))
    code, text = run(path, "HEAD", "--detailed-exitcode")
    assert code == 2
    assert "default/b (new)" in text
    repository.commit()
    code, text = run(path, "HEAD~1", "HEAD", "-o", "json")
    (cluster,) = json.loads(text)["clusters"]
    assert (code, [(job["change"], job["name"]) for job in cluster["jobs"]]) == (0, [("starts", "default/b")])
    assert run(path, "HEAD", "HEAD~1")[1].count("default/b in queue default: it is not in the new revision") == 1
    assert run(path, "HEAD", "HEAD", "--detailed-exitcode")[0] == 0


def test_a_new_error_fails(folder: tuple[GitRepository, Path]) -> None:
    _, path = folder
    (path / "jobs" / "b.yaml").write_text(JOB.replace("NAME", "b").replace("replicas: 2", "replicas: many"))
    code, text = run(path, "HEAD", "-o", "markdown")
    assert code == 1
    assert "New findings (1)" in text


def test_what_git_does_not_know_is_one_line(folder: tuple[GitRepository, Path], tmp_path: Path) -> None:
    _, path = folder
    code, text = run(path, "no-such-branch")
    assert code == 1
    assert "Traceback" not in text
    assert text == "Error: 'no-such-branch' names no commit of this repository\n"
    with pytest.raises(GitError, match="not a git repository"):
        read_revision(tmp_path, "HEAD")

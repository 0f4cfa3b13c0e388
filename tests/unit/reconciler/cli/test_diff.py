"""`gangplan diff` reads revisions from git, of a repository or of a folder in one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from compiler.cli.root import cli
from reconciler.cli import load_tree
from reconciler.git.commits import read_revision
from reconciler.git.process import GitError
from tests.builders.repositories import FILES, JOB
from tests.e2e.stories.story import GitRepository


@pytest.fixture
def repository(tmp_path: Path) -> GitRepository:
    return GitRepository(tmp_path / "repo")


@pytest.fixture(params=["", "infra/plan/"])
def path(request: pytest.FixtureRequest, repository: GitRepository) -> Path:
    """The folder of the repository that gangplan reads, with one commit."""
    folder: str = request.param
    for name, text in FILES.items():
        repository.write_file(folder + name, text.decode())
    repository.commit()
    return repository.folder / folder


def run(folder: Path, *arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, ["diff", "--repo", str(folder), *arguments], obj=load_tree)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


def test_revisions_and_the_work_tree_are_compared(repository: GitRepository, path: Path) -> None:
    assert run(path, "HEAD") == (
        0,
        f"HEAD ({repository.run_git('rev-parse', 'HEAD')[:12]}) -> working tree\n\nCluster t: no changes\n",
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


def test_a_time_limit_that_all_plans_together_miss_is_reported(path: Path) -> None:
    (path / "jobs" / "b.yaml").write_text(JOB.replace("NAME", "b"))
    code, text = run(path, "HEAD", "--time-limit", "0")
    assert (code, text.count("the time limit of 0 s is missed: ")) == (0, 1)
    assert "is missed" not in run(path, "HEAD", "--time-limit", "600")[1] + run(path, "HEAD")[1]


def test_a_new_error_fails(path: Path) -> None:
    (path / "jobs" / "b.yaml").write_text(JOB.replace("NAME", "b").replace("replicas: 2", "replicas: many"))
    code, text = run(path, "HEAD", "-o", "markdown")
    assert code == 1
    assert "1 error: the reconciler rejects this commit, nothing of it takes effect" in text
    assert "<details open><summary>Errors (1)</summary>" in text


def test_what_git_does_not_know_is_one_line(path: Path, tmp_path: Path) -> None:
    code, text = run(path, "no-such-branch")
    assert code == 1
    assert "Traceback" not in text
    assert text == "Error: 'no-such-branch' names no commit of this repository\n"
    with pytest.raises(GitError, match="not a git repository"):
        read_revision(tmp_path, "HEAD")


def test_the_base_is_by_default_where_the_branch_left_the_remote_s_default_branch(
    repository: GitRepository, path: Path, tmp_path: Path
) -> None:
    code, text = run(path)
    assert (code, text) == (1, "Error: this repository has no remote, so no BASE to compare with. Fix: name BASE\n")
    first = repository.run_git("rev-parse", "HEAD")
    repository.run_git("remote", "add", "origin", str(tmp_path / "nowhere"))
    code, text = run(path)
    assert code == 1
    assert "Fix: git remote set-head origin --auto, or name BASE" in text
    (path / "jobs" / "b.yaml").write_text(JOB.replace("NAME", "b"))
    repository.commit()
    repository.run_git("update-ref", "refs/remotes/origin/main", first)
    code, text = run(path)
    assert (code, text.partition("\n")[0]) == (0, f"{first[:12]} -> working tree")
    assert "default/b (new)" in text
    repository.run_git("update-ref", "refs/remotes/origin/trunk", "HEAD")
    repository.run_git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/trunk")
    assert "no changes" in run(path)[1]


def test_a_renamed_folder_holds_the_same_cluster(path: Path) -> None:
    (path / "cluster-specs" / "t").rename(path / "cluster-specs" / "a-new-name")
    text = run(path, "HEAD")[1]
    assert (text.count("\nCluster "), text.count("(new)")) == (1, 0)


@pytest.mark.parametrize("layout", ["rendered", "repository"])
def test_two_rendered_folders_are_compared_without_git(tmp_path: Path, layout: str) -> None:
    """Of folders without cluster-specs/ those of the repository count; its jobs/ do not."""
    cluster = tmp_path / "here" / "cluster-specs" / "t" / "all.yaml"
    cluster.parent.mkdir(parents=True)
    cluster.write_bytes(FILES["cluster-specs/t/all.yaml"])
    (tmp_path / "here" / "jobs").mkdir()
    (tmp_path / "here" / "jobs" / "ignored.yaml").write_text(JOB.replace("NAME", "ignored"))
    for side, names in (("base", ["a"]), ("target", ["a", "b"])):
        inside = tmp_path / "output" / side / ("jobs" if layout == "repository" else "")
        inside.mkdir(parents=True)
        if layout == "repository":
            (inside.parent / "cluster-specs" / "t").mkdir(parents=True)
            (inside.parent / "cluster-specs" / "t" / "all.yaml").write_bytes(FILES["cluster-specs/t/all.yaml"])
        for name in names:
            ending = "" if layout == "rendered" and name == "b" else ".yaml"
            (inside / f"app-{name}{ending}").write_text(JOB.replace("NAME", name))
    sides = [str(tmp_path / "output" / side) for side in ("base", "target")]
    code, text = run(tmp_path / "here", "--base-dir", sides[0], "--head-dir", sides[1], "-o", "json")
    document = json.loads(text)
    (cluster_entry,) = document["clusters"]
    assert (code, document["base"], document["head"]) == (0, *sides)
    assert [(job["change"], job["name"]) for job in cluster_entry["jobs"]] == [("starts", "default/b")]


@pytest.mark.parametrize(
    "arguments", [["--base-dir", "."], ["--head-dir", "."], ["main", "--base-dir", ".", "--head-dir", "."]]
)
def test_folders_come_in_pairs_and_without_revisions(tmp_path: Path, arguments: list[str]) -> None:
    code, text = run(tmp_path, *arguments)
    assert code == 1
    assert "--base-dir and --head-dir go together, and replace BASE and HEAD" in text


def test_a_level_chooses_what_fails_and_the_old_word_is_refused(path: Path) -> None:
    (path / "jobs" / "b.yaml").write_text(JOB.replace("NAME", "b").replace("cpu: 4", "cpu: 40"))
    assert run(path, "HEAD")[0] == 0
    assert run(path, "HEAD", "--fail-on", "never-starts")[0] == 1
    code, text = run(path, "HEAD", "--fail-on", "never")
    assert code == 1
    assert "'never' is now 'no-plan'; 'never-starts' is for jobs that can never start" in text


def test_a_job_whose_error_is_fixed_is_not_deleted(repository: GitRepository, path: Path) -> None:
    good = JOB.replace("NAME", "b")
    repository.write_file(
        (path / "jobs/b.yaml").relative_to(repository.folder).as_posix(), f"{good}\n  queue: nowhere\n"
    )
    repository.commit()
    (path / "jobs" / "b.yaml").write_text(good)
    text = run(path, "HEAD")[1]
    assert "1 error: the base was rejected" in text
    assert "default/b (new) in queue default: it is new" in text
    assert "deleted" not in text


def test_a_finding_names_its_object_once(path: Path) -> None:
    (first,) = (path / "cluster-specs").iterdir()
    second = path / "cluster-specs" / "second"
    second.mkdir()
    for file in first.iterdir():
        (second / file.name).write_bytes(file.read_bytes())
    text = run(path, "HEAD")[1]
    assert "error GP128 Job a could run in clusters second, t." in text


def test_sarif_is_for_code_scanning(repository: GitRepository, path: Path) -> None:
    (path / "jobs" / "b.yaml").write_text(JOB.replace("NAME", "b").replace("cpu: 4", "cpu: 40"))
    results = json.loads(run(path, "HEAD", "-o", "sarif")[1])["runs"][0]["results"]
    assert {each["baselineState"] for each in results} == {"new"}
    assert any(each["message"]["text"].startswith("default/b can never start: ") for each in results)
    files = {each["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for each in results}
    assert files == {(path / "jobs" / "b.yaml").relative_to(repository.folder).as_posix()}

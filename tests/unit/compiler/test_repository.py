"""Which files of a folder are read, and what stands for a kustomization."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from compiler.diagnostics.diagnostic import Position
from compiler.pipeline import compile_repository
from compiler.reading import read_specs
from compiler.repository.kustomize import BUILD_FAILED, BUILT_MARK
from compiler.repository.paths import PathRules
from compiler.repository.tree import Repository, find_root
from compiler.views.text import plan_text
from reconciler.git.commits import read_revision
from tests.builders.repositories import FILES, JOB

OBJECT = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME}\n"
KUSTOMIZE = """\
#!/bin/sh
# Stands for kustomize: prints what is in the folder, and fails where the kustomization is of another name.
[ "$1" = build ] || exit 3
[ -e "$2/broken.yaml" ] && { echo "Error: no such thing in $2/kustomization.yaml" >&2; exit 1; }
echo "apiVersion: batch.volcano.sh/v1alpha1"
echo "kind: Job"
echo "metadata: {name: built}"
"""


def files_of(folder: Path, texts: dict[str, str]) -> Path:
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def kustomize(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files_of(tmp_path / "bin", {"kustomize": KUSTOMIZE})
    (tmp_path / "bin" / "kustomize").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")


def committed(folder: Path) -> Repository:
    for command in (
        ["init", "--quiet"],
        ["add", "--all"],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", "all"],
    ):
        subprocess.run(["git", *command], cwd=folder, check=True)
    return read_revision(folder, "HEAD")[1]


def test_a_folder_and_its_commit_are_read_alike(tmp_path: Path) -> None:
    rules = "# comment\nold/\n*.bak.yaml\n!jobs/keep.bak.yaml\n"
    names = ("jobs/a.YAML", "jobs/b.yml", "jobs/c.json", "jobs/old/d.yaml", "jobs/e.bak.yaml", "jobs/keep.bak.yaml")
    others = ("jobs/.hidden/f.yaml", "jobs/read me.txt", "jobs/mit Ümlaut und Leerzeichen.yaml", "docs/g.yaml")
    texts = {name: OBJECT.replace("NAME", "x") for name in (*names, *others)}
    folder = files_of(tmp_path, {**texts, ".gangplanignore": rules, "gangplan.toml": "[ignore]\n"})
    (folder / "jobs" / "link.yaml").symlink_to("/etc/passwd")
    (folder / "jobs" / "old" / "link.yaml").symlink_to("/etc/passwd")
    tree = Repository.from_directory(folder)
    assert tree.manifests() == (
        "jobs/a.YAML",
        "jobs/b.yml",
        "jobs/c.json",
        "jobs/keep.bak.yaml",
        "jobs/mit Ümlaut und Leerzeichen.yaml",
    )
    assert [(found.code, found.position.file) for found in tree.problems] == [("GP119", "jobs/link.yaml")]
    commit = committed(folder)
    assert commit.files == tree.files
    assert commit.problems == tree.problems


def test_a_submodule_is_said_and_not_read(tmp_path: Path) -> None:
    folder = files_of(
        tmp_path, {"jobs/module/.git": "gitdir: ../x", "jobs/module/a.yaml": OBJECT, "jobs/b.yaml": OBJECT}
    )
    tree = Repository.from_directory(folder)
    assert tree.manifests() == ("jobs/b.yaml",)
    assert [(found.code, found.position.file) for found in tree.problems] == [("GP130", "jobs/module")]


def test_a_pattern_that_is_none_is_said_and_the_others_hold() -> None:
    rules = PathRules(b"jobs/a.yaml\n!\n")
    assert rules.is_ignored("jobs/a.yaml")
    assert [(found.code, found.position.line) for found in rules.problems] == [("GP131", 2)]


def test_a_kustomization_is_built_and_stands_for_its_folder(tmp_path: Path, kustomize: None) -> None:
    overlay = "resources: [../base]\nnamePrefix: x-\n"
    texts = {
        "jobs/app/base/kustomization.yaml": "resources: [job.yaml]\n",
        "jobs/app/base/job.yaml": OBJECT,
        "jobs/app/prod/kustomization.yaml": overlay,
        "jobs/part/kustomization.yaml": "kind: Component\n",
        "jobs/plain.yaml": OBJECT.replace("NAME", "plain"),
    }
    tree = Repository.from_directory(files_of(tmp_path / "repo", texts))
    assert tree.manifests() == ("jobs/app/prod/kustomization.yaml", "jobs/plain.yaml")
    assert tree.files["jobs/app/prod/kustomization.yaml"].startswith(BUILT_MARK)
    assert committed(tmp_path / "repo").files == tree.files
    (found,) = (one for one in read_specs(tree).diagnostics if one.severity == "error")
    assert (found.position.file, found.position.line) == ("jobs/app/prod/kustomization.yaml", 1)
    assert found.message.startswith("Job built: spec is missing")


def test_a_kustomization_may_use_files_of_any_kind(tmp_path: Path, kustomize: None) -> None:
    """Seen once: a configMapGenerator of a script could not be built."""
    needs = '[ -e "$2/train.py" ] || { echo "no script" >&2; exit 1; }\necho "kind: Job"\n'
    (tmp_path / "bin" / "kustomize").write_text(f"#!/bin/sh\n{needs}")
    texts = {"jobs/app/kustomization.yaml": "resources: []\n", "jobs/app/train.py": "1", "jobs/other.py": "2"}
    repo = files_of(tmp_path / "repo", texts)
    tree = Repository.from_directory(repo)
    assert tree.problems == ()
    assert [*tree.files] == ["jobs/app/kustomization.yaml"]
    assert committed(repo).files == tree.files


def test_what_kustomize_refuses_is_an_error_with_its_words(tmp_path: Path, kustomize: None) -> None:
    texts = {"jobs/app/kustomization.yaml": "resources: []\n", "jobs/app/broken.yaml": OBJECT}
    (found,) = Repository.from_directory(files_of(tmp_path / "repo", texts)).problems
    assert (found.code, found.severity, found.position.file) == ("GP134", "error", "jobs/app/kustomization.yaml")
    assert found.message.endswith("Error: no such thing in jobs/app/kustomization.yaml")


def test_a_message_has_no_time_of_kubectls_log(tmp_path: Path, kustomize: None) -> None:
    """Seen once: the same error was another one in each run, so that a comparison called it new."""
    logged = """echo 'E1128 09:53:08.4 31 run.go:72] "command failed" err="no \\"such\\" thing"' >&2; exit 1"""
    (tmp_path / "bin" / "kustomize").write_text(f"#!/bin/sh\n{logged}\n")
    texts = {"jobs/app/kustomization.yaml": "resources: []\n"}
    (found,) = Repository.from_directory(files_of(tmp_path / "repo", texts)).problems
    assert found.message == 'the kustomization cannot be built: no "such" thing'


@pytest.mark.parametrize(("folder", "cause"), [("cluster-specs/t", "Kustomization cluster-specs/t"), ("jobs/app", "")])
def test_a_queue_of_a_kustomization_that_is_not_built_is_not_said_to_be_missing(folder: str, cause: str) -> None:
    at = Position(f"{folder}/kustomization.yaml", 1, 1)
    problem = BUILD_FAILED.diagnostic(at, "broken", "correct it", object=f"Kustomization {folder}")
    job = JOB.replace("NAME", "a").replace("spec:", "spec:\n  queue: research", 1).encode()
    found = read_specs(Repository({**FILES, "jobs/a.yaml": job}, problems=(problem,))).diagnostics
    assert [each.cause for each in found if each.code == "GP302"] == [cause]


def test_nodes_of_a_kustomization_that_is_not_built_are_not_said_to_be_missing() -> None:
    at = Position("cluster-specs/c/kustomization.yaml", 1, 1)
    problem = BUILD_FAILED.diagnostic(at, "broken", "correct it", object="Kustomization cluster-specs/c")
    files = {"jobs/a.yaml": JOB.replace("NAME", "a").encode()}
    found = read_specs(Repository(files, problems=(problem,))).diagnostics
    assert [each.cause for each in found if each.code == "GP355"] == ["Kustomization cluster-specs/c"]


def test_a_cluster_whose_kustomization_is_not_built_has_its_name_and_nothing_that_never_starts(
    tmp_path: Path, kustomize: None
) -> None:
    """Seen once: the plan of cluster '' had jobs that can never start, since it had no nodes."""
    texts = {"cluster-specs/c/kustomization.yaml": "resources: []\n", "cluster-specs/c/broken.yaml": OBJECT}
    files = files_of(tmp_path / "repo", {**texts, "jobs/a.yaml": JOB.replace("NAME", "a")})
    outcome = compile_repository(Repository.from_directory(files))
    assert outcome.specs.cluster.name == "c"
    assert [(found.action, found.never) for found in outcome.decisions] == [("wait", False)]
    assert plan_text(outcome).endswith("Parts of the cluster are not planned for the errors in cluster-specs.\n")


def test_without_kustomize_it_is_named_and_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    texts = {"jobs/app/kustomization.yaml": "resources: [a.yaml]\n", "jobs/app/a.yaml": OBJECT}
    tree = Repository.from_directory(files_of(tmp_path, texts))
    assert tree.manifests() == ()
    assert [(found.code, found.severity) for found in tree.problems] == [("GP133", "warning")]


def test_the_repository_is_the_folder_around_that_holds_cluster_specs(tmp_path: Path) -> None:
    (tmp_path / "team" / "cluster-specs" / "c").mkdir(parents=True)
    (tmp_path / "team" / "jobs" / "deep" / "jobs").mkdir(parents=True)
    assert find_root(tmp_path / "team" / "jobs" / "deep") == tmp_path / "team"
    (tmp_path / "team" / "jobs" / "deep" / ".git").mkdir()
    assert find_root(tmp_path / "team" / "jobs" / "deep") == tmp_path / "team" / "jobs" / "deep", "another repository"

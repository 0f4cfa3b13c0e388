"""`check --fix`, `check --diff` and `explain --patch`: what is written, what git takes, and what is refused."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from compiler.cli.check import write_files
from tests.builders.beside import beside
from tests.unit.compiler.cli.test_commands import run

CASES = beside(__file__)
CLUSTER = CASES["cluster"]
JOB = CASES["job"]
FIXED = JOB.replace('minAvailabel: "2"', "minAvailable: 2")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository below the top of a git repository, with files whose names git quotes."""
    root = tmp_path / "team"
    for name, text in {"cluster-specs/c/all.yaml": CLUSTER, "jobs/a é.yaml": JOB}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text.encode())
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    return root


def git_apply(folder: Path, patch: bytes) -> None:
    subprocess.run(["git", "apply", "--whitespace=nowarn", "-"], input=patch, cwd=folder, check=True)


def test_fixes_are_made_until_none_is_left_and_the_diff_of_them_is_the_same(repo: Path) -> None:
    job, before = repo / "jobs" / "a é.yaml", CLUSTER.encode()
    job.write_bytes(JOB.replace("\n", "\r\n").encode())
    shown = run("check", "--repo", str(repo), "--diff", "--no-cache")
    assert (shown.exit_code, shown.stderr) == (1, "3 findings to fix in 2 files\n")
    assert (repo / "cluster-specs" / "c" / "all.yaml").read_bytes() == before
    job.chmod(0o640)
    done = run("check", "--repo", str(repo), "--fix", "--no-cache")
    assert (done.exit_code, done.stdout) == (0, "")
    fixed = "fixed GP202: spec.minAvailabel is not a field of this kind. Fix: did you mean 'minAvailable'?"
    assert fixed in done.stderr
    after = {path: path.read_bytes() for path in (job, repo / "cluster-specs" / "c" / "all.yaml")}
    assert after[job] == FIXED.replace("\n", "\r\n").encode()
    assert job.stat().st_mode & 0o777 == 0o640
    job.write_bytes(JOB.replace("\n", "\r\n").encode())
    (repo / "cluster-specs" / "c" / "all.yaml").write_bytes(before)
    git_apply(repo.parent, shown.stdout_bytes)
    assert {path: path.read_bytes() for path in after} == after


def test_only_findings_of_the_named_files_are_fixed(repo: Path) -> None:
    run("check", "--repo", str(repo), "--fix", "--no-cache", str(repo / "cluster-specs"))
    assert (repo / "jobs" / "a é.yaml").read_text() == JOB


def test_stdin_is_not_fixed(repo: Path) -> None:
    assert "- is stdin" in run("check", "--repo", str(repo), "--fix", "-").stderr


def test_a_file_that_is_read_only_or_was_edited_meanwhile_is_left_alone(repo: Path) -> None:
    name = "jobs/a é.yaml"
    with pytest.raises(Exception, match="edited meanwhile"):
        write_files(repo, {name: b"other"}, {name: b"new"})
    if os.getuid() != 0:
        (repo / name).chmod(0o400)
        with pytest.raises(Exception, match="is not changed: Permission denied"):
            write_files(repo, {name: JOB.encode()}, {name: b"new"})
    assert (repo / name).read_text() == JOB
    assert sorted(path.name for path in (repo / "jobs").iterdir()) == ["a é.yaml"]


@pytest.mark.parametrize("form", ["json", "sarif"])
def test_machines_get_the_fix_as_a_text_edit(repo: Path, form: str) -> None:
    said = json.loads(run("check", "--repo", str(repo), "-o", form, "--no-cache").stdout)
    if form == "json":
        fixes = {each["code"]: each["fix"] for each in said["diagnostics"] if each["line"] == 6}
        assert fixes["GP202"] == [
            {"file": "jobs/a é.yaml", "line": 6, "column": 3, "endLine": 6, "endColumn": 15, "text": "minAvailable"}
        ]
        return
    (found,) = (each for each in said["runs"][0]["results"] if "minAvailabel" in each["message"]["text"])
    ((change,),) = (fix["artifactChanges"] for fix in found["fixes"])
    assert change == {
        "artifactLocation": {"uri": "team/jobs/a%20%C3%A9.yaml"},
        "replacements": [
            {
                "deletedRegion": {"startLine": 6, "startColumn": 3, "endLine": 6, "endColumn": 15},
                "insertedContent": {"text": "minAvailable"},
            }
        ],
    }


def test_git_takes_the_patch_of_a_repair_and_the_job_starts(repo: Path) -> None:
    run("check", "--repo", str(repo), "--fix", "--no-cache")
    every = run("explain", "--repo", str(repo), "a", "--patch").stdout
    assert [line.split()[4] for line in every.splitlines() if line.startswith("# ")] == ["GR105", "GR101"]
    other = run("explain", "--repo", str(repo), "a", "--repair", "3")
    assert other.stderr.endswith("no such repair: 3. Fix: choose one of 1, 2, GR105, GR101\n")
    git_apply(repo.parent, run("explain", "--repo", str(repo), "a", "--repair", "GR101").stdout_bytes)
    assert "capability: {nvidia.com/gpu: 16}" in (repo / "cluster-specs" / "c" / "all.yaml").read_text()
    assert "Job t/a starts" in run("explain", "--repo", str(repo), "a").stdout
    none = run("explain", "--repo", str(repo), "a", "--patch")
    assert (none.exit_code, none.stdout) == (1, "")
    assert none.stderr.endswith("t/a has no repairs; see gangplan explain without --patch\n")

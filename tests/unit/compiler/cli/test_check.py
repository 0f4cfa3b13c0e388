"""gangplan check, schema and init, as a user calls them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from compiler.cli import cli

ROOT = Path(__file__).parents[4]


@pytest.fixture(autouse=True)
def _outside_of_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    assert run("init", tmp_path).exit_code == 0
    return tmp_path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments], catch_exceptions=False)


def breach(repo: Path, old: str = "queue: research", new: str = "queue: reserch") -> None:
    job = repo / "jobs" / "research" / "pretrain.yaml"
    text = job.read_text()
    assert old in text
    job.write_text(text.replace(old, new))


def test_what_init_writes_has_no_problem_at_all(repo: Path) -> None:
    result = run("check", "--repo", repo, "--strict")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "no problem found in 3 files\n")


def test_init_overwrites_nothing(repo: Path) -> None:
    breach(repo)
    before = {path: path.read_bytes() for path in repo.rglob("*.yaml")}
    result = run("init", repo)
    assert result.exit_code == 1
    assert "exists already; nothing was written" in result.stderr
    assert {path: path.read_bytes() for path in repo.rglob("*.yaml")} == before


def test_an_error_is_one_line_with_its_source_and_exit_code_1(repo: Path) -> None:
    breach(repo)
    result = run("check", "--repo", repo)
    assert result.exit_code == 1
    assert result.stdout == (
        "jobs/research/pretrain.yaml:10:3: error GP302: there is no queue 'reserch'. Did you mean 'research'?\n"
        "    10 |   queue: reserch\n"
        "       |   ^\n"
    )
    assert result.stderr == "1 error in 3 files\n"


def test_warnings_fail_only_a_strict_check(repo: Path) -> None:
    breach(repo, "      spec:\n", "      spec:\n        nodeName: gpu-00\n")
    assert run("check", "--repo", repo).exit_code == 0
    assert run("check", "--repo", repo, "--strict").exit_code == 1


def test_a_single_path_may_be_the_repository(repo: Path) -> None:
    breach(repo)
    assert run("check", repo).stdout == run("check", "--repo", repo).stdout


def test_paths_choose_whose_problems_are_told(repo: Path) -> None:
    breach(repo)
    assert run("check", "--repo", repo, repo / "cluster-specs").exit_code == 0
    assert run("check", "--repo", repo, repo / "jobs" / "research").exit_code == 1
    assert run("check", "--repo", repo, repo / "jobs" / "research" / "pretrain.yaml").exit_code == 1


@pytest.mark.parametrize("path", ["/", "nowhere.yaml"])
def test_paths_outside_the_repository_are_refused(repo: Path, path: str) -> None:
    result = run("check", "--repo", repo, path)
    assert result.exit_code == 1
    assert "Usage:" in result.stderr


def test_json_for_machines(repo: Path) -> None:
    breach(repo)
    result = run("check", "--repo", repo, "-o", "json")
    (row,) = json.loads(result.stdout)["diagnostics"]
    assert (row["code"], row["file"], row["line"], row["column"], row["object"]) == (
        "GP302",
        "jobs/research/pretrain.yaml",
        10,
        3,
        "Job research/pretrain",
    )
    assert (result.exit_code, result.stderr) == (1, "")


def test_github_s_format_is_chosen_in_its_ci(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    breach(repo)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert run("check", "--repo", repo).stdout.startswith(
        "::error file=jobs/research/pretrain.yaml,line=10,col=3,title=GP302::"
    )
    assert run("check", "--repo", repo, "--format", "text").stdout.startswith("jobs/research")


def test_a_mistyped_flag_exits_1(repo: Path) -> None:
    assert run("check", "--repo", repo, "--strickt").exit_code == 1
    assert run("check", "--repo", repo, "-o", "json", "--format", "sarif").exit_code == 1


def test_an_empty_folder_is_an_error_that_names_init(tmp_path: Path) -> None:
    result = run("check", "--repo", tmp_path)
    assert result.exit_code == 1
    assert "GP124" in result.stdout
    assert "gangplan init" in result.stdout


def test_every_cluster_is_checked_and_shared_problems_are_told_once(repo: Path) -> None:
    (repo / "cluster-specs" / "second").mkdir()
    for file in (repo / "cluster-specs" / "example").iterdir():
        (repo / "cluster-specs" / "second" / file.name).write_text(
            file.read_text().replace("name: example", "name: second")
        )
    assert run("check", "--repo", repo).exit_code == 0
    breach(repo)
    assert run("check", "--repo", repo).stdout.count("GP302") == 1
    assert run("check", "--repo", repo, "--cluster", "second").stdout.count("GP302") == 1
    assert run("check", "--repo", repo, "--cluster", "third").stdout.count("GP126") == 1


def test_check_of_the_living_example_has_no_error() -> None:
    result = run("check", "--repo", ROOT, "--format", "text")
    assert result.exit_code == 0, result.stdout


def test_schema_lists_kinds_and_prints_one() -> None:
    names = run("schema").stdout.split()
    assert {"NodePool", "Queue", "Job.batch", "Job.batch.volcano.sh"} <= set(names)
    for name in names:
        made = json.loads(run("schema", name).stdout)
        assert made["$schema"] == "https://json-schema.org/draft/2020-12/schema"
        assert {"apiVersion", "kind", "metadata"} <= set(made["properties"])
    assert json.loads(run("schema", "nodepool").stdout)["properties"]["kind"] == {"const": "NodePool"}
    wrong = run("schema", "NodePol")
    assert (wrong.exit_code, "did you mean 'NodePool'?" in wrong.stderr) == (1, True)


def test_help_imports_no_heavy_library() -> None:
    code = (
        "import sys; from click.testing import CliRunner; from compiler.cli import cli; "
        "assert CliRunner().invoke(cli, ['--help']).exit_code == 0; "
        "print([name for name in ('pydantic', 'pulp', 'highspy', 'kubernetes', 'ruamel.yaml') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout == "[]\n"

"""Defaults of options: a variable, and [defaults] in gangplan.toml."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from compiler.cli.root import cli

CASE = Path(__file__).parents[4] / "tests/golden/deadlock/repo"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository, which is the working folder."""
    shutil.copytree(CASE, tmp_path / "repo")
    monkeypatch.chdir(tmp_path / "repo")
    return tmp_path / "repo"


def configure(folder: Path, text: str) -> None:
    (folder / "gangplan.toml").write_text(text)


def run(*arguments: str, **variables: str) -> Result:
    return CliRunner().invoke(cli, list(arguments), env=variables)


def is_json(done: Result) -> bool:
    assert done.exit_code == 0, done.output
    return done.stdout.startswith("{") and bool(json.loads(done.stdout))


def test_the_file_gives_defaults_to_each_command_that_has_the_option(folder: Path) -> None:
    configure(folder, '[defaults]\noutput = "text"\n[defaults.check]\noutput = "json"\n')
    assert is_json(run("check"))
    assert not is_json(run("plan", "--summary"))
    assert run("check", "-o", "json").stdout == run("check", "--repo", str(folder)).stdout


def test_the_option_wins_over_the_variable_and_that_over_the_file(folder: Path) -> None:
    configure(folder, '[defaults]\noutput = "sarif"\n')
    assert is_json(run("check", GANGPLAN_CHECK_OUTPUT="json"))
    assert not is_json(run("check", "-o", "text", GANGPLAN_CHECK_OUTPUT="json"))


def test_a_variable_names_the_repository_for_all_commands(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    assert is_json(run("plan", "-o", "json", GANGPLAN_REPO=str(folder)))


def test_a_repository_that_is_named_has_its_own_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configure(folder, '[defaults.check]\noutput = "json"\n')
    other = folder.parent / "other"
    other.mkdir()
    configure(other, '[defaults.check]\noutput = "junit"\n')
    monkeypatch.chdir(other)
    assert is_json(run("check", "--repo", str(folder)))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("outptu = 1", "check has no option outptu. Fix: use one of cache, cluster, format, output, strict"),
        ('repo = "/"', "repo may not be set in a file"),
    ],
)
def test_what_a_file_may_not_set_is_an_error(folder: Path, text: str, said: str) -> None:
    configure(folder, f"[defaults.check]\n{text}\n")
    done = run("check")
    assert done.exit_code == 1
    assert said in done.stderr


def test_a_program_is_not_taken_from_a_strangers_file(folder: Path) -> None:
    configure(folder, '[defaults.plan]\nexecutor = "dask://203.0.113.1:8786"\n')
    assert "executor may not be set in a file. Fix: use --executor or GANGPLAN_PLAN_EXECUTOR" in run("plan").stderr

"""Pages of docs/ do what they say: each `sh` block runs as written in a first repository, and the `text` block behind
it is part of what that prints. A `console` block needs what a test does not have."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.builders.pages import DOCS, command_environment, pieces
from tests.e2e.stories.story import GitRepository

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return command_environment(tmp_path_factory.mktemp("bin"))


def run(commands: str, folder: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(
        ["sh", "-ec", commands], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "page",
    [
        "SKILL.md",
        "reference/outputs.md",
        "tasks/write-a-job.md",
        "tasks/debug-a-waiting-job.md",
        "tasks/add-a-job-kind.md",
    ],
)
def test_each_command_runs_as_written(page: str, environment: dict[str, str], tmp_path: Path) -> None:
    """In a clone, since `gangplan diff` compares with the default branch of a remote."""
    remote = GitRepository(tmp_path / "remote")
    run("gangplan init .", remote.folder, environment)
    remote.commit()
    subprocess.run(["git", "clone", "--quiet", remote.folder, tmp_path / "clone"], check=True)
    found = [piece.commands for piece in pieces(page)]
    assert found
    for commands in found:
        assert run(commands, tmp_path / "clone", environment), commands


def test_the_quick_start_prints_what_it_shows(environment: dict[str, str], tmp_path: Path) -> None:
    repository = GitRepository(tmp_path / "repository")
    shown = 0
    for commands, text, _ in pieces("quick-start.md"):
        printed = run(commands, repository.folder, environment)
        assert text in printed
        shown += bool(text)
    assert shown >= 3


def test_the_skill_is_short() -> None:
    assert len((DOCS / "SKILL.md").read_text().splitlines()) <= 60

"""docs/SKILL.md: each command that it gives to an assistant runs as written in a first repository."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.stories.story import GitRepository

ROOT = Path(__file__).parents[2]
SKILL = (ROOT / "docs" / "SKILL.md").read_text()
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", SKILL, re.DOTALL) for line in block.splitlines()]


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone, since `gangplan diff` compares with the default branch of a remote."""
    folder = tmp_path_factory.mktemp("skill")
    remote = GitRepository(folder / "remote")
    run("gangplan init .", remote.folder)
    remote.commit()
    subprocess.run(["git", "clone", "--quiet", remote.folder, folder / "clone"], check=True)
    return folder / "clone"


def run(command: str, folder: Path) -> str:
    program, *arguments = command.split()
    assert program == "gangplan"
    line = [sys.executable, "-m", "reconciler", *arguments]
    done = subprocess.run(
        line,
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_each_command_runs_as_written(clone: Path) -> None:
    assert len(COMMANDS) >= 6
    for command in COMMANDS:
        assert run(command, clone), command


def test_the_skill_is_short() -> None:
    assert len(SKILL.splitlines()) <= 60

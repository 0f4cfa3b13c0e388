"""A repository that a user commits to."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


class Source:
    """A repository that a user commits to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *arguments: str, when: int = 1_700_000_000) -> str:
        stamp = f"{when} +0000"
        environment = {
            **os.environ,
            "GIT_AUTHOR_DATE": stamp,
            "GIT_COMMITTER_DATE": stamp,
            "GIT_CONFIG_GLOBAL": "/dev/null",
        }
        command = ["git", "-c", "user.name=tester", "-c", "user.email=tester@example.com", *arguments]
        return subprocess.run(
            command, cwd=self.folder, env=environment, check=True, capture_output=True, text=True
        ).stdout.strip()

    def make_tree(self, *rows: str) -> str:
        """Write a tree object of rows as `git ls-tree` prints them; its id."""
        made = subprocess.run(
            ["git", "mktree"], cwd=self.folder, input="\n".join(rows), check=True, capture_output=True, text=True
        )
        return made.stdout.strip()

    def commit(self, when: int = 1_700_000_000, **files: str) -> str:
        """Keyword names are paths below jobs/, without the suffix."""
        for name, text in files.items():
            path = self.folder / "jobs" / f"{name}.yaml"
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", "change", when=when)
        return self.git("rev-parse", "HEAD")

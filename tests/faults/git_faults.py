"""A git repository that misbehaves: each fault is at work around one action of the story, and is undone after it."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tests.e2e.stories.story import GitRepository

GitFault = Callable[[GitRepository, float], contextlib.AbstractContextManager[None]]
HUGE_BYTES = 70 << 20


def head_of(repository: GitRepository) -> str:
    return repository.run_git("rev-parse", "HEAD")


@contextlib.contextmanager
def force_push(repository: GitRepository, seconds: float) -> Iterator[None]:
    """For a while the branch is a commit without a past, in which later jobs are missing; then the old one again."""
    old = head_of(repository)
    first = repository.run_git("rev-list", "--max-parents=0", "HEAD")
    another = repository.run_git("commit-tree", "-m", f"another past than {old}", f"{first}^{{tree}}")
    repository.run_git("update-ref", "refs/heads/main", another)
    time.sleep(seconds)
    repository.run_git("update-ref", "refs/heads/main", old)
    yield


@contextlib.contextmanager
def empty_tree(repository: GitRepository, seconds: float) -> Iterator[None]:
    """A commit that holds nothing, then its revert."""
    repository.run_git("rm", "-r", "--quiet", "--", "jobs", "cluster-specs")
    repository.commit("remove everything")
    time.sleep(seconds)
    repository.run_git("revert", "--no-edit", "HEAD")
    yield


@contextlib.contextmanager
def huge_blob(repository: GitRepository, seconds: float) -> Iterator[None]:
    """A commit with a file far beyond every limit, then its revert."""
    file = repository.folder / "jobs" / "huge.yaml"
    with file.open("wb") as output:
        output.truncate(HUGE_BYTES)
    repository.commit("a huge file")
    time.sleep(seconds)
    repository.run_git("revert", "--no-edit", "HEAD")
    yield


@contextlib.contextmanager
def decoy_refs(repository: GitRepository, seconds: float) -> Iterator[None]:
    """Branches and a tag whose names end like the branch's, at the commit before the story's next one."""
    del seconds
    for name in ("refs/heads/a/refs/heads/main", "refs/heads/refs/heads/main", "refs/tags/main", "refs/heads/a/main"):
        repository.run_git("update-ref", name, head_of(repository))
    yield


@contextlib.contextmanager
def corrupt_object(repository: GitRepository, seconds: float) -> Iterator[None]:
    """The newest commit's tree cannot be read for a while; it is whole again afterwards."""
    main = head_of(repository)
    repository.run_git("checkout", "--quiet", "--detach")
    (repository.folder / "note.txt").write_text(str(time.monotonic()))
    broken = repository.commit("a note")
    tree = repository.run_git("rev-parse", f"{broken}^{{tree}}")
    file = repository.folder / ".git" / "objects" / tree[:2] / tree[2:]
    whole = file.read_bytes()
    file.chmod(file.stat().st_mode | stat.S_IWUSR)
    file.write_bytes(whole[: len(whole) // 2] + b"?" * 20)
    repository.run_git("update-ref", "refs/heads/main", broken, main)
    time.sleep(seconds)
    file.write_bytes(whole)
    repository.run_git("checkout", "--quiet", "--force", "main")
    yield


FAULTS: Mapping[str, GitFault] = {
    "force-push": force_push,
    "empty tree": empty_tree,
    "huge blob": huge_blob,
    "decoy refs": decoy_refs,
    "corrupt object": corrupt_object,
}


class SlowGit:
    """A `git` for the reconciler's PATH whose words to a remote hang while `hanging()` lasts, as with a server that
    answers a byte a minute."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._flag = folder, folder / "hangs"
        folder.mkdir(parents=True)
        real = shutil.which("git")
        script = folder / "git"
        script.write_text(
            f'#!/bin/sh\ncase " $* " in *" ls-remote "*|*" fetch "*)\n'
            f'    while [ -e "{self._flag}" ]; do sleep 0.1; done ;;\nesac\nexec "{real}" "$@"\n'
        )
        script.chmod(0o755)

    @property
    def environment(self) -> dict[str, str]:
        return {"PATH": f"{self.folder}{os.pathsep}{os.environ['PATH']}"}

    @contextlib.contextmanager
    def hanging(self) -> Iterator[None]:
        self._flag.touch()
        try:
            yield
        finally:
            self._flag.unlink()

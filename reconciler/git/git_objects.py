"""A bare clone through GitPython's objects: commits, trees and blobs, and its `Git` for commands.

GitPython runs git through `HardenedGit`, so each of its processes has our environment, configuration, process group and
time limit. Its own `Git.execute` passes the whole environment on, and its time limit finds the children of git with
pgrep or ps, which the image of the reconciler lacks.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from git import Blob, Commit, Git, GitCommandError, Repo, Tree
from git.db import GitCmdObjectDB
from git.objects.base import IndexObject
from reconciler.git.process import (
    BARE,
    GIT_CONFIG,
    NO_LIMIT,
    CommandFailed,
    GitError,
    kill_group,
    local_environment,
    redact,
    run_git,
    start_git,
)

COMMIT_LIMIT = 1 << 20
"""Bytes of a commit: GitPython loads it whole, message included."""
TREE_LIMIT = 8 << 20
"""Bytes of one folder's tree object, which GitPython loads whole; more than 100,000 entries."""
ENTRIES_LIMIT = 200_000
"""Files in all folders together; nested trees that share their contents can name any number."""


class _CommandFailed(CommandFailed, GitCommandError):  # type: ignore[misc]  # its status may be anything
    """A command that failed, as GitPython knows it."""

    def __init__(self, error: CommandFailed) -> None:
        GitCommandError.__init__(self, ["git", error.name], error.status, error.errors_text)
        self.name, self.errors_text, self.summary = error.name, error.errors_text, str(error)

    def __str__(self) -> str:
        return self.summary


class HardenedGit(Git):
    """GitPython's command runner over `reconciler.git.process`, used alike: `git.rev_parse("--verify", name)`."""

    def __init__(
        self,
        directory: Path,
        environment: Mapping[str, str],
        timeout: float,
        size_limit: int = NO_LIMIT,
        config: Sequence[str] = (),
    ) -> None:
        super().__init__(directory)
        self._directory, self._timeout, self._size_limit = directory, timeout, size_limit
        self._process_environment = {**environment, **BARE}
        self._children: list[subprocess.Popen[bytes]] = []
        self._are_killed = False
        self.set_persistent_git_options(c=[*GIT_CONFIG, *config])

    def execute(self, command: Any, *args: Any, **options: Any) -> Any:
        """Run `command`, or with `as_process` start it. Its output as text without the last line feed."""
        if options.get("as_process"):
            child = start_git(self._directory, command, self._process_environment, bool(options.get("istream")))
            self._children.append(child)
            if self._are_killed:
                kill_group(child)
            return self.AutoInterrupt(child, command)
        try:
            output = run_git(self._directory, command, self._process_environment, self._timeout, self._size_limit)
        except CommandFailed as error:
            raise _CommandFailed(error) from error
        return output.decode("utf-8", "surrogateescape").removesuffix("\n")

    def kill_children(self) -> None:
        self._are_killed = True
        for child in self._children:
            if child.poll() is None:
                kill_group(child)

    def check_alive(self) -> None:
        """Raise GitError when the children were killed: data read from them since is invalid."""
        if self._are_killed:
            raise GitError(f"reading the clone did not end within {self._timeout:g} s")


@contextmanager
def open_clone(directory: Path, timeout: float) -> Iterator[Repo]:
    """Open the bare clone for reading within `timeout` seconds. Raises GitError for any failure within."""
    git = HardenedGit(directory, local_environment(), timeout)
    watchdog = threading.Timer(timeout, git.kill_children)
    watchdog.daemon = True
    watchdog.start()
    repo = None
    try:
        repo = Repo(directory, expand_vars=False)
        repo.git, repo.odb = git, GitCmdObjectDB(directory / "objects", git)
        yield repo
        git.check_alive()
    except GitError:
        raise
    except Exception as error:  # GitPython's parser raises anything for a malformed object
        git.check_alive()
        raise GitError(redact(str(error))) from error
    finally:
        watchdog.cancel()
        git.clear_cache()
        if repo is not None:
            repo.close()


def find_commit(repo: Repo, sha: str) -> Commit | None:
    """Return the commit with this id; None where the clone has none."""
    binary = bytes.fromhex(sha)
    try:
        info = repo.odb.info(binary)
    except ValueError:
        repo.git.check_alive()
        return None
    if info.type != b"commit":
        return None
    if info.size > COMMIT_LIMIT:
        raise GitError(f"commit {sha} has {info.size} bytes, the limit is {COMMIT_LIMIT}")
    return Commit(repo, binary)


def files_below(root: Tree, folders: Sequence[str], limit: int = ENTRIES_LIMIT) -> Iterator[IndexObject]:
    """Blobs (symbolic links too) and submodules in `folders` of `root`, depth first in git's order. Raises GitError
    where there are more than the limit."""
    pending = [entry for entry in reversed(list(_entries(root))) if entry.name in folders]
    count = 0
    while pending:
        entry = pending.pop()
        if isinstance(entry, Tree):
            pending += reversed(list(_entries(entry)))
            continue
        count += 1
        if count > limit:
            raise GitError(f"the repository holds more than {limit} files")
        yield entry


def _entries(tree: Tree) -> Iterator[IndexObject]:
    if tree.size > TREE_LIMIT:
        raise GitError(f"folder {tree.path or '/'} has a list of {tree.size} bytes, the limit is {TREE_LIMIT}")
    return iter(tree)


def missing_objects(repo: Repo, sha: str, folders: Sequence[str]) -> frozenset[str]:
    """Ids of objects in `folders` of a commit that the clone lacks: the server left them out for their size."""
    listing = repo.git.rev_list("--objects", "--missing=print", "-1", sha, "--", *folders)
    return frozenset(line[1:] for line in listing.splitlines() if line.startswith("?"))


def read_blob(blob: Blob) -> bytes:
    """Return the contents. The caller has looked at `blob.size`: they are held in memory."""
    data: bytes = blob.data_stream.read()
    if len(data) != blob.size:
        raise GitError(f"object {blob.hexsha} is cut off")
    return data

"""History: the date of the newest commit that added each path.

Read with one `git log`. GitPython compares commits one by one, in Python or with a process each, which takes a hundred
times as long (docs/develop/decisions/0014-gitpython.md).
"""

from __future__ import annotations

from pathlib import Path

from compiler.repository.paths import ROOT_FOLDERS
from reconciler.git.process import GitError, read_git

WORK_TREE_TIMEOUT = 30.0
_LOG_COMMAND = ("log", "-z", "--format=%x01%ct", "--name-only", "--diff-filter=A", "--no-renames")


def commit_dates(clone: Path, commit: str, timeout: float, folder: str = "") -> dict[str, int]:
    """Path below `folder` -> seconds since the epoch, of all that commits up to this one added. Raises GitError."""
    paths = (folder + name for name in ROOT_FOLDERS)
    log = read_git(clone, *_LOG_COMMAND, "--end-of-options", commit, "--", *paths, timeout=timeout)
    return {path.removeprefix(folder): date for path, date in _parse_log(log).items()}


def commits_of(folder: Path) -> list[tuple[str, int]]:
    """Return the commits that changed jobs or clusters of a work tree, along first parents, the oldest first: (id,
    seconds since the epoch). Raises GitError."""
    command = ("log", "--first-parent", "--reverse", "--format=%H %ct", "HEAD", "--", *ROOT_FOLDERS)
    lines = read_git(folder, *command, timeout=WORK_TREE_TIMEOUT, more={}).decode().splitlines()
    return [(commit, int(at)) for commit, _, at in (line.partition(" ") for line in lines)]


def is_shallow(folder: Path) -> bool:
    """Return whether older commits of a work tree were not cloned. Raises GitError."""
    command = ("rev-parse", "--is-shallow-repository")
    return read_git(folder, *command, timeout=WORK_TREE_TIMEOUT, more={}).strip() == b"true"


def work_tree_dates(folder: Path) -> dict[str, int]:
    """Return the same for a work tree of the user's own, paths below `folder`; empty without git or without history."""
    command = (*_LOG_COMMAND, "--relative", "HEAD", "--", *ROOT_FOLDERS)
    try:
        return _parse_log(read_git(folder, *command, timeout=WORK_TREE_TIMEOUT, more={}))
    except (GitError, OSError):
        return {}


def _parse_log(log: bytes) -> dict[str, int]:
    """Return the newest commit that added each path, from a log that begins with the newest commit."""
    dates: dict[str, int] = {}
    date = 0
    for piece in log.split(b"\0"):
        text = piece.lstrip(b"\n")
        if text.startswith(b"\x01"):
            stamp, _, text = text[1:].partition(b"\n")
            date = int(stamp)
        if text:
            dates.setdefault(text.decode("utf-8", "surrogateescape"), date)
    return dates

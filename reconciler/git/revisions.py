"""Revisions of a work tree of the user's own, read from git's objects."""

from __future__ import annotations

from pathlib import Path

from compiler.repository import Repository
from reconciler.git.mirror import read_commit
from reconciler.git.process import GitError, git_command, local_environment, redact, run_git

TIMEOUT = 60.0
_TRUSTED = ("-c", "safe.directory=*")
"""The user names the folder; in a CI's container it often belongs to another user, and git is only read."""


def read_revision(folder: Path, revision: str) -> tuple[str, Repository]:
    """The commit that `revision` names, and its files below `folder`. Raises GitError where there is no such commit,
    or no git repository."""
    _rev_parse(folder, "--git-dir")
    try:
        commit = _rev_parse(folder, "--verify", "--end-of-options", f"{revision}^{{commit}}")
    except GitError as error:
        raise GitError(f"{revision!r} names no commit of this repository") from error
    clone = Path(_rev_parse(folder, "--path-format=absolute", "--git-common-dir"))
    return commit, read_commit(clone, commit, TIMEOUT, _rev_parse(folder, "--show-prefix"))


def _rev_parse(folder: Path, *arguments: str) -> str:
    try:
        code, output, errors = run_git(
            folder, git_command(*_TRUSTED, "rev-parse", *arguments), local_environment(), TIMEOUT
        )
    except OSError as error:
        raise GitError(f"git cannot be run: {error.strerror}") from error
    if code != 0:
        raise GitError(redact(errors.decode("utf-8", "replace")).strip() or f"git rev-parse failed ({code})")
    return output.decode("utf-8", "surrogateescape").rstrip("\n")

"""Commits as the files that gangplan reads, of the reconciler's clone and of a repository of the user's own.

Repositories are input from strangers: symbolic links and submodules are refused by name, and sizes are capped before
anything is read.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from compiler.diagnostics.diagnostic import Diagnostic
from compiler.repository.paths import (
    IGNORE_FILE,
    KUSTOMIZATION_NAMES,
    ROOT_FILES,
    ROOT_FOLDERS,
    PathRules,
    file_name_diagnostic,
    is_manifest,
    is_suspicious_link,
    submodule_diagnostic,
    symlink_diagnostic,
)
from compiler.repository.tree import MAX_FILE_BYTES, Repository
from reconciler.git.history import commit_dates
from reconciler.git.process import CommandFailed, GitError, TooLarge, read_git

REPOSITORY_LIMIT = 64 << 20
FILES_LIMIT = 20_000
ENTRIES_LIMIT = 200_000
"""Files in all folders together."""
_TOO_MANY = f"the repository holds more than {ENTRIES_LIMIT} files"
REVISION_TIMEOUT = 60.0
SHA_PATTERN = re.compile(r"[0-9a-f]{40}")


class _Entry(NamedTuple):
    """A file, symbolic link or submodule of a commit, its path below the folder that is read."""

    mode: str
    sha: str
    path: str

    @property
    def is_top_file(self) -> bool:
        return self.path in ROOT_FILES and self.mode not in (_LINK, _SUBMODULE)


_LINK, _SUBMODULE = "120000", "160000"


def read_commit(clone: Path, commit: str, timeout: float, folder: str = "") -> Repository:
    """Return the files of `folder` ("" or ending in "/") that gangplan reads, dated by the commits that brought
    them."""
    if not has_commit(clone, commit, timeout):
        raise GitError(f"commit {commit} is not in the clone")
    names = [folder + name for name in (*ROOT_FILES, *ROOT_FOLDERS)]
    entries = _entries(clone, commit, timeout, folder, names)
    tops = {entry.path: entry for entry in entries if entry.is_top_file}
    missing = _missing_objects(clone, commit, timeout, names)
    top_files = _read_files(clone, timeout, [tops[name] for name in ROOT_FILES if name in tops], missing)
    rules = PathRules(top_files.get(IGNORE_FILE, b""))
    chosen, refused = _readable([entry for entry in entries if entry.path not in ROOT_FILES], rules)
    files = _read_files(clone, timeout, sorted(chosen, key=lambda entry: entry.path), missing)
    problems = (*rules.problems, *refused)
    return Repository.of_files({**top_files, **files}, problems, commit_dates(clone, commit, timeout, folder))


def has_commit(clone: Path, sha: str, timeout: float) -> bool:
    """Return whether the clone has a commit of this id."""
    try:
        read_git(clone, "rev-parse", "--verify", "--quiet", f"{checked_sha(sha)}^{{commit}}", timeout=timeout)
    except CommandFailed as error:
        if error.status != 1:
            raise
        return False
    return True


def _entries(clone: Path, commit: str, timeout: float, folder: str, names: Sequence[str]) -> list[_Entry]:
    """Files (symbolic links too) and submodules of these names and below them, in git's order. Raises GitError where
    there are more than the limit: nested folders that share their contents can name any number."""
    try:
        listing = read_git(clone, "ls-tree", "-r", "-z", "--full-tree", commit, "--", *names, timeout=timeout)
    except TooLarge as error:
        raise GitError(_TOO_MANY) from error
    if listing.count(b"\0") > ENTRIES_LIMIT:
        raise GitError(_TOO_MANY)
    rows = (row.partition("\t") for row in listing.decode("utf-8", "surrogateescape").split("\0") if row)
    return [_Entry(about.split()[0], about.split()[2], path.removeprefix(folder)) for about, _, path in rows]


def _missing_objects(clone: Path, commit: str, timeout: float, names: Sequence[str]) -> frozenset[str]:
    """Ids of objects of these names that the clone lacks: the server left them out for their size."""
    command = ("rev-list", "--objects", "--missing=print", "-1", commit, "--", *names)
    lines = read_git(clone, *command, timeout=timeout).decode("utf-8", "replace").splitlines()
    return frozenset(line[1:] for line in lines if line.startswith("?"))


def _readable(entries: Sequence[_Entry], rules: PathRules) -> tuple[list[_Entry], list[Diagnostic]]:
    """Return the files to read, and a diagnostic for each entry refused by its name or mode."""
    chosen: list[_Entry] = []
    refused: list[Diagnostic] = []
    names = (entry.path for entry in entries if posixpath.basename(entry.path) in KUSTOMIZATION_NAMES)
    built = tuple(f"{posixpath.dirname(name)}/" for name in names)
    for entry in entries:
        if rules.is_ignored(entry.path, is_folder=entry.mode == _SUBMODULE):
            continue
        if entry.mode == _SUBMODULE:
            refused.append(submodule_diagnostic(entry.path))
        elif entry.mode == _LINK:
            refused += [symlink_diagnostic(entry.path)] if is_suspicious_link(entry.path) else []
        elif not is_manifest(entry.path) and (not entry.path.startswith(built) or file_name_diagnostic(entry.path)):
            continue
        elif problem := file_name_diagnostic(entry.path):
            refused.append(problem)
        else:
            chosen.append(entry)
    if len(chosen) > FILES_LIMIT:
        raise GitError(f"the repository holds {len(chosen)} files, the limit is {FILES_LIMIT}")
    return chosen, refused


def _read_files(clone: Path, timeout: float, entries: Sequence[_Entry], missing: frozenset[str]) -> dict[str, bytes]:
    """path -> contents; of a file above the limit only that it is too long. missing: ids of those not even fetched."""
    ids = [*dict.fromkeys(entry.sha for entry in entries if entry.sha not in missing)]
    answers = _ask(clone, timeout, "--batch-check=%(objectsize)", ids).decode("utf-8", "replace").splitlines()
    if faults := [answer for answer in answers if not answer.isdigit()]:
        raise GitError(f"git cat-file: {faults[0]}")
    sizes = {sha: int(size) for sha, size in zip(ids, answers, strict=True) if int(size) <= MAX_FILE_BYTES}
    if (total := sum(sizes.values())) > REPOSITORY_LIMIT:
        raise GitError(f"the repository's files have {total} bytes, the limit is {REPOSITORY_LIMIT}")
    contents, text, end = dict[str, bytes](), _ask(clone, timeout, "--batch=", [*sizes]), 0
    for sha, size in sizes.items():
        start, end = end + 1, end + size + 2  # a line feed before and after each
        contents[sha] = text[start : end - 1]
    if end != len(text):
        raise GitError("git cat-file: an object is cut off")
    too_long = b" " * (MAX_FILE_BYTES + 1)
    return {entry.path: contents.get(entry.sha, too_long) for entry in entries}


def _ask(clone: Path, timeout: float, form: str, ids: Sequence[str]) -> bytes:
    """Return what `git cat-file` prints of these objects, in their order."""
    given = "".join(f"{sha}\n" for sha in ids).encode()
    return read_git(clone, "cat-file", form, timeout=timeout, given=given) if ids else b""


def checked_sha(text: str) -> str:
    if not SHA_PATTERN.fullmatch(text):
        raise GitError(f"{text[:80]!r} is not an object id")
    return text


def read_revision(folder: Path, revision: str) -> tuple[str, Repository]:
    """Return the commit that `revision` names in a repository of the user's own, and its files below `folder`. Raises
    GitError for no such commit, or no git repository."""
    _rev_parse(folder, "--git-dir")
    try:
        commit = _rev_parse(folder, "--verify", "--end-of-options", f"{revision}^{{commit}}")
    except CommandFailed as error:
        raise GitError(f"{revision!r} names no commit of this repository") from error
    clone = Path(_rev_parse(folder, "--path-format=absolute", "--git-common-dir"))
    return commit, read_commit(clone, commit, REVISION_TIMEOUT, _rev_parse(folder, "--show-prefix"))


def default_base(folder: Path) -> str:
    """Return the commit from which this branch left the default branch of its remote. Raises GitError where that is
    unknown."""
    branch = _default_branch(folder)
    try:
        return _read(folder, "merge-base", branch, "HEAD")
    except CommandFailed as error:
        message = f"HEAD and {branch} have no common commit here. Fix: fetch the whole history, or name BASE"
        raise GitError(message) from error


def _default_branch(folder: Path) -> str:
    """Return a remote's default branch as git knows it, of `origin` where there are several; else its main or
    master."""
    remotes = _read(folder, "remote").split()
    remote = "origin" if "origin" in remotes else next(iter(remotes), "")
    if not remote:
        raise GitError("this repository has no remote, so no BASE to compare with. Fix: name BASE")
    for branch in ("HEAD", "main", "master"):
        name = f"refs/remotes/{remote}/{branch}"
        with suppress(CommandFailed):
            return _rev_parse(folder, "--verify", "--quiet", f"{name}^{{commit}}") and name
    fix = f"git remote set-head {remote} --auto, or name BASE"
    raise GitError(f"the default branch of {remote} is not known here. Fix: {fix}")


def _rev_parse(folder: Path, *arguments: str) -> str:
    return _read(folder, "rev-parse", *arguments)


def _read(folder: Path, *arguments: str) -> str:
    """Return git's output. The user names the folder, which in a CI's container often belongs to another user; git is
    only read."""
    try:
        output = read_git(folder, "-c", "safe.directory=*", *arguments, timeout=REVISION_TIMEOUT, more={})
    except OSError as error:
        raise GitError(f"git cannot be run: {error.strerror}") from error
    return output.decode("utf-8", "surrogateescape").rstrip("\n")

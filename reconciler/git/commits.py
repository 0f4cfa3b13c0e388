"""Commits as the files that gangplan reads, of the reconciler's clone and of a repository of the user's own.

Repositories are input from strangers: symbolic links and submodules are refused by name, and sizes are capped before
anything is read.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from compiler.diagnostics.diagnostic import Diagnostic
from compiler.repository.paths import (
    IGNORE_FILE,
    KUSTOMIZATION_NAMES,
    ROOT_FILES,
    ROOT_FOLDERS,
    PathRules,
    file_name_diagnostic,
    is_read,
    is_suspicious_link,
    submodule_diagnostic,
    symlink_diagnostic,
)
from compiler.repository.tree import MAX_FILE_BYTES, Repository
from git import Blob, Commit, Submodule
from git.objects.base import IndexObject
from reconciler.git.git_objects import files_below, find_commit, missing_objects, open_clone, read_blob
from reconciler.git.history import commit_dates
from reconciler.git.process import CommandFailed, GitError, read_git

REPOSITORY_LIMIT = 64 << 20
FILES_LIMIT = 20_000
REVISION_TIMEOUT = 60.0
SHA_PATTERN = re.compile(r"[0-9a-f]{40}")


def read_commit(clone: Path, commit: str, timeout: float, folder: str = "") -> Repository:
    """Return the files of `folder` ("" or ending in "/") that gangplan reads, dated by the commits that brought
    them."""
    with open_clone(clone, timeout) as repo:
        found = find_commit(repo, checked_sha(commit))
        if found is None:
            raise GitError(f"commit {commit} is not in the clone")
        missing = missing_objects(repo, found.hexsha, [folder + name for name in (*ROOT_FILES, *ROOT_FOLDERS)])
        top_files = _read_files(_top_blobs(found, folder), missing)
        rules = PathRules(top_files.get(IGNORE_FILE, b""))
        blobs, refused = _readable_blobs(found, folder, rules)
        files = _read_files(blobs, missing)
    problems = (*rules.problems, *refused)
    return Repository.of_files({**top_files, **files}, problems, commit_dates(clone, commit, timeout, folder))


def _entries_below(commit: Commit, folder: str, names: Sequence[str]) -> Iterator[IndexObject]:
    """Yield blobs and submodules of these names in a folder of the commit; none where it lacks the folder."""
    try:
        root = commit.tree.join(folder.rstrip("/")) if folder else commit.tree
    except KeyError:
        return iter(())
    return files_below(root, names)


def _top_blobs(commit: Commit, folder: str) -> dict[str, Blob]:
    blobs = (entry for entry in _entries_below(commit, folder, ROOT_FILES) if isinstance(entry, Blob))
    plain = {str(blob.path).removeprefix(folder): blob for blob in blobs if blob.mode != Blob.link_mode}
    return {name: plain[name] for name in ROOT_FILES if name in plain}


def _readable_blobs(commit: Commit, folder: str, rules: PathRules) -> tuple[dict[str, Blob], list[Diagnostic]]:
    """Return path -> blob, and a diagnostic for each entry refused by its name or mode."""
    blobs: dict[str, Blob] = {}
    refused: list[Diagnostic] = []
    entries = {str(entry.path).removeprefix(folder): entry for entry in _entries_below(commit, folder, ROOT_FOLDERS)}
    built = tuple(f"{posixpath.dirname(path)}/" for path in entries if posixpath.basename(path) in KUSTOMIZATION_NAMES)
    for path, entry in entries.items():
        if rules.is_ignored(path, is_folder=isinstance(entry, Submodule)):
            continue
        if isinstance(entry, Submodule):
            refused.append(submodule_diagnostic(path))
        elif entry.mode == Blob.link_mode:
            refused += [symlink_diagnostic(path)] if is_suspicious_link(path) else []
        elif not is_read(path, is_built=path.startswith(built)):
            continue
        elif problem := file_name_diagnostic(path):
            refused.append(problem)
        elif isinstance(entry, Blob):
            blobs[path] = entry
    if len(blobs) > FILES_LIMIT:
        raise GitError(f"the repository holds {len(blobs)} files, the limit is {FILES_LIMIT}")
    return blobs, refused


def _read_files(blobs: dict[str, Blob], missing: frozenset[str]) -> dict[str, bytes]:
    """path -> contents; of a file above the limit only that it is too long. missing: ids of those not even fetched."""
    distinct = {blob.binsha: blob for blob in blobs.values() if blob.hexsha not in missing}
    small = [blob for blob in distinct.values() if blob.size <= MAX_FILE_BYTES]
    if (total := sum(blob.size for blob in small)) > REPOSITORY_LIMIT:
        raise GitError(f"the repository's files have {total} bytes, the limit is {REPOSITORY_LIMIT}")
    contents = {blob.binsha: read_blob(blob) for blob in small}
    too_long = b" " * (MAX_FILE_BYTES + 1)
    return {path: contents.get(blob.binsha, too_long) for path, blob in sorted(blobs.items())}


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

"""A bare clone of one branch, read without ever making a work tree.

Repositories are input from strangers: only https and ssh may be spoken (and plain paths when the operator names one),
symbolic links and submodules are refused by name, and sizes are capped before anything is read. What a tree or commit
holds never changes, so caches are keyed by object id and never by a branch.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from compiler.diagnostics import Diagnostic, Position
from compiler.repository import (
    FILE_SUFFIXES,
    MAX_FILE_BYTES,
    SUBMODULE,
    Repository,
    file_name_diagnostic,
    printable_name,
    symlink_diagnostic,
)
from git import Blob, Commit, GitCommandError, Submodule
from reconciler.git.history import ROOT_FOLDERS, commit_dates
from reconciler.git.objects import HardenedGit, files_below, find_commit, open_clone, read_blob
from reconciler.git.process import GitError, local_environment, network_environment, redact

REPOSITORY_LIMIT = 64 << 20
FILES_LIMIT = 20_000
HEAD_REF, INCOMING_REF = "refs/gangplan/head", "refs/gangplan/incoming"

_URL_PATTERN = re.compile(r"(https|ssh)://[^\s]+")
_SCP_PATTERN = re.compile(r"[A-Za-z0-9._-]+@[A-Za-z0-9.-]+:[^\s-][^\s]*")
_BRANCH_PATTERN = re.compile(r"(?!-)(?!.*\.\.)(?!.*@\{)[A-Za-z0-9._/+@-]+(?<!\.lock)(?<![./])")
_SHA_PATTERN = re.compile(r"[0-9a-f]{40}")


class UnsafeError(GitError):
    """An address or a branch name that git is never given."""


@dataclass(slots=True)
class Mirror:
    """A bare clone of one branch in `directory`. Methods raise GitError, and OSError where there is no git.

    auth: a folder laid out as Kubernetes lays out its git secrets: `username` and `password`, or `ssh-privatekey` and
    `known_hosts`. timeout: seconds for each command, and for reading a tree.
    """

    url: str
    branch: str
    directory: Path
    auth: Path | None = None
    timeout: float = 120.0
    _trees: dict[str, Repository] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not _BRANCH_PATTERN.fullmatch(self.branch):
            raise UnsafeError(f"branch {self.branch!r} is not a name that git may be given")
        local = Path(self.url)
        if _URL_PATTERN.fullmatch(self.url) or _SCP_PATTERN.fullmatch(self.url):
            return
        if "://" in self.url or "::" in self.url or not local.is_dir():
            raise UnsafeError(
                f"repository {redact(self.url)!r} is neither an https or ssh address nor a folder of this machine"
            )
        self.url = str(local.resolve())

    @property
    def is_local(self) -> bool:
        return self.url.startswith("/")

    def fetch(self) -> str:
        """Bring the branch here; its commit. The fetch goes into a ref of its own, and the head moves only once the
        commit is whole."""
        self._prepare_clone()
        announced = self._announced_commit()
        with self._local_git() as git:
            if git.for_each_ref("--format=%(objectname)", HEAD_REF) == announced:
                return announced
        with self._network_git() as git:
            options = ("--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head")
            git.fetch(*options, "--end-of-options", self.url, f"+refs/heads/{self.branch}:{INCOMING_REF}")
        with self._local_git() as git:
            commit = str(git.rev_parse("--verify", "--end-of-options", f"{INCOMING_REF}^{{commit}}"))
            git.rev_list("--objects", "--quiet", "-1", "--end-of-options", commit)
            git.update_ref(HEAD_REF, commit)
        return commit

    def is_ancestor(self, old: str, new: str) -> bool:
        """Whether `old` is `new` or one of its ancestors. False as well when `old` is not in the clone: a rewritten
        history looks like that."""
        if old == new:
            return True
        with open_clone(self.directory, self.timeout) as repo:
            before = find_commit(repo, _checked_sha(old))
            after = find_commit(repo, _checked_sha(new))
            return before is not None and after is not None and repo.is_ancestor(before, after)

    def read_tree(self, commit: str) -> Repository:
        """The files below cluster-specs/ and jobs/ at `commit`, each with the date of the commit that brought it."""
        known = self._trees.get(commit)
        if known is None:
            with open_clone(self.directory, self.timeout) as repo:
                found = find_commit(repo, _checked_sha(commit))
                if found is None:
                    raise GitError(f"commit {commit} is not in the clone")
                blobs, refused = _readable_blobs(found)
                files = _read_files(blobs)
            known = Repository(files, commit_dates(self.directory, commit, self.timeout), tuple(refused))
            self._trees = {commit: known}
        return known

    def _prepare_clone(self) -> None:
        """Make the clone, or take away the locks that a killed git left (the caller owns the folder alone)."""
        if not (self.directory / "HEAD").exists():
            shutil.rmtree(self.directory, ignore_errors=True)
            self.directory.mkdir(parents=True)
            with self._local_git() as git:
                git.init("--quiet", "--bare", "--template=", ".")
        for pattern in ("*.lock", "refs/**/*.lock", "objects/**/*.lock"):
            for lock in self.directory.glob(pattern):
                lock.unlink(missing_ok=True)

    def _announced_commit(self) -> str:
        with self._network_git() as git:
            line = str(git.ls_remote("--end-of-options", self.url, f"refs/heads/{self.branch}"))
        if not line.strip():
            raise GitError(f"{redact(self.url)} has no branch {self.branch}")
        return _checked_sha(line.split()[0])

    @contextmanager
    def _local_git(self) -> Iterator[HardenedGit]:
        with _git_errors():
            yield HardenedGit(self.directory, local_environment(), self.timeout)

    @contextmanager
    def _network_git(self) -> Iterator[HardenedGit]:
        environment = network_environment("file" if self.is_local else "https:ssh", self.auth)
        with _git_errors():
            yield HardenedGit(self.directory, environment, self.timeout)


@contextmanager
def _git_errors() -> Iterator[None]:
    """GitPython's errors of a command as GitError."""
    try:
        yield
    except GitCommandError as error:
        raise GitError(str(error)) from error


def _readable_blobs(commit: Commit) -> tuple[dict[str, Blob], list[Diagnostic]]:
    """path -> blob, and what is refused by its name or mode."""
    blobs: dict[str, Blob] = {}
    refused: list[Diagnostic] = []
    for entry in files_below(commit.tree, ROOT_FOLDERS):
        path = str(entry.path)
        if isinstance(entry, Submodule):
            position = Position(printable_name(path), 1, 1)
            refused.append(
                SUBMODULE.diagnostic(position, "submodules are not read", "put the files into this repository")
            )
        elif entry.mode == Blob.link_mode:
            refused.append(symlink_diagnostic(path))
        elif not path.lower().endswith(FILE_SUFFIXES):
            continue
        elif problem := file_name_diagnostic(path):
            refused.append(problem)
        elif isinstance(entry, Blob):
            blobs[path] = entry
    if len(blobs) > FILES_LIMIT:
        raise GitError(f"the repository holds {len(blobs)} files, the limit is {FILES_LIMIT}")
    return blobs, refused


def _read_files(blobs: dict[str, Blob]) -> dict[str, bytes]:
    """path -> contents. Sizes are asked first: a file above the limit is never loaded, the parser only learns that it
    is too long."""
    distinct = {blob.binsha: blob for blob in blobs.values()}
    small = [blob for blob in distinct.values() if blob.size <= MAX_FILE_BYTES]
    if (total := sum(blob.size for blob in small)) > REPOSITORY_LIMIT:
        raise GitError(f"the repository's files have {total} bytes, the limit is {REPOSITORY_LIMIT}")
    contents = {blob.binsha: read_blob(blob) for blob in small}
    too_long = b" " * (MAX_FILE_BYTES + 1)
    return {path: contents.get(blob.binsha, too_long) for path, blob in sorted(blobs.items())}


def _checked_sha(text: str) -> str:
    if not _SHA_PATTERN.fullmatch(text):
        raise GitError(f"{text[:80]!r} is not an object id")
    return text

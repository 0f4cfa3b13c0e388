"""A bare clone of one branch, read without ever making a work tree.

Repositories are input from strangers: only https and ssh may be spoken (and plain paths when the operator names one),
symbolic links and submodules are refused by name, and sizes are capped before anything is read. Where the server can
filter, a file above the limit is not fetched at all. What a tree or commit holds never changes, so caches are keyed by
object id and never by a branch.
"""

from __future__ import annotations

import re
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path

from compiler.diagnostics import Diagnostic
from compiler.repository import MAX_FILE_BYTES, Repository
from compiler.repository.paths import (
    IGNORE_FILE,
    ROOT_FILES,
    ROOT_FOLDERS,
    PathRules,
    file_name_diagnostic,
    is_manifest,
    is_suspicious_link,
    submodule_diagnostic,
    symlink_diagnostic,
)
from git import Blob, Commit, Submodule, Tree
from reconciler.git.access import hint, network_environment
from reconciler.git.history import commit_dates
from reconciler.git.housekeeping import Housekeeping, clone_size, largest_leftover, remove_leftovers
from reconciler.git.objects import (
    CommandFailed,
    HardenedGit,
    files_below,
    find_commit,
    missing_objects,
    open_clone,
    read_blob,
)
from reconciler.git.process import GitError, TooLarge, TooSlow, local_environment, redact
from reconciler.git.signatures import check_signature
from reconciler.timings import TIMINGS, GitTimings

REPOSITORY_LIMIT = 64 << 20
FILES_LIMIT = 20_000
HEAD_REF, INCOMING_REF = "refs/gangplan/head", "refs/gangplan/incoming"
REMOTE = "origin"

_URL_PATTERN = re.compile(r"https://[^\s@/][^\s@]*|ssh://([A-Za-z0-9._-]+@)?[^\s@:/-][^\s@]*")
_SCP_PATTERN = re.compile(r"[A-Za-z0-9._-]+@[A-Za-z0-9.-]+:[^\s-][^\s]*")
_BRANCH_PATTERN = re.compile(r"(?!-)(?!.*\.\.)(?!.*@\{)[A-Za-z0-9._/+@-]+(?<!\.lock)(?<![./])")
_SHA_PATTERN = re.compile(r"[0-9a-f]{40}")


_FAULT_PATTERN = re.compile(r"[A-Za-z]+")

FETCH_OPTIONS = ("--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head")
FILTER = f"--filter=blob:limit={MAX_FILE_BYTES + 1}"
FIRST_DEEPENING, DEEPENING_FACTOR = 64, 4
"""Commits that are asked for first where a clone comes in steps, and how much more each time that it went well."""


class UnsafeError(GitError):
    """An address or a branch name that git is never given."""


class Unfinished(GitError):
    """A first clone that comes in steps and goes on with the next fetch."""


@dataclass(slots=True)
class Mirror:
    """A bare clone of one branch in `directory`. Methods raise GitError, and OSError where there is no git.

    auth: the folder of a Secret, as in `reconciler.git.access`. timeout: seconds for each command, and for reading a
    tree. size_limit: bytes of one fetch, and of the clone. trusted_keys: a folder as in `reconciler.git.signatures`, by
    whose keys the head must be signed. ignored_faults: what git's fsck calls faults of old histories that are taken.
    """

    url: str
    branch: str
    directory: Path
    auth: Path | None = None
    timeout: float = 120.0
    size_limit: int = 512 << 20
    trusted_keys: Path | None = None
    ignored_faults: tuple[str, ...] = ()
    timings: GitTimings = TIMINGS.git
    _trees: dict[str, Repository] = field(default_factory=dict)
    _deepening: int = FIRST_DEEPENING
    _housekeeping: Housekeeping = field(init=False)

    def __post_init__(self) -> None:
        self._housekeeping = Housekeeping(self.timings)
        if not _BRANCH_PATTERN.fullmatch(self.branch):
            raise UnsafeError(f"branch {self.branch!r} is not a name that git may be given")
        if faults := [fault for fault in self.ignored_faults if not _FAULT_PATTERN.fullmatch(fault)]:
            raise UnsafeError(f"{faults[0]!r} is not the name of a fault as git's fsck prints it")
        local = Path(self.url)
        if _URL_PATTERN.fullmatch(self.url) or _SCP_PATTERN.fullmatch(self.url):
            return
        if "://" in self.url and "@" in self.url:
            raise UnsafeError(
                "the repository's address holds a user name or password: put them into a Secret and give --git-auth "
                "(an @ in the path is written %40)"
            )
        was_there = local.is_absolute() and self.directory.exists()  # a mount that is late is no reason not to start
        if "://" in self.url or "::" in self.url or not (local.is_dir() or was_there):
            raise UnsafeError(
                f"repository {self.url!r} is neither an https or ssh address nor a folder of this machine"
            )
        self.url = str(local.resolve())

    @property
    def is_local(self) -> bool:
        return self.url.startswith("/")

    def fetch(self) -> str:
        """Bring the branch here; its commit. The fetch goes into a ref of its own, and the head moves only once the
        commit is whole and, where that is asked for, signed."""
        self._prepare_clone()
        if self._is_shallow or not self._fetch_everything():
            self._fetch_in_steps()
        git = self._local_git()
        commit = str(git.rev_parse("--verify", "--end-of-options", f"{INCOMING_REF}^{{commit}}"))
        if git.for_each_ref("--format=%(objectname)", HEAD_REF) == commit:
            return commit
        self._check_completeness(commit)
        if self.trusted_keys is not None:
            check_signature(self.directory, commit, self.trusted_keys, self.timeout)
        git.update_ref(HEAD_REF, commit)
        self._housekeeping.collect_garbage(self.directory, self.size_limit)
        return commit

    def _fetch_everything(self) -> bool:
        """Fetch all that is new. False where a first clone is too much for one fetch."""
        try:
            self._fetch_branch()
        except (TooSlow, TooLarge):
            if self._local_git().for_each_ref(HEAD_REF):
                raise
            return False
        return True

    def _fetch_in_steps(self) -> None:
        """Fetch the newest commit, then ever more of the history. Each step that ends is kept, here and by a later
        process; one that fails makes the next smaller."""
        give_up_at = time.monotonic() + self.timeout
        if not self._local_git().for_each_ref(INCOMING_REF):
            self._fetch_branch("--depth=1")
        while self._is_shallow:
            if time.monotonic() > give_up_at:
                raise Unfinished(f"the first clone goes on: {self._commit_count()} commits are here")
            try:
                self._fetch_branch(f"--deepen={self._deepening}")
            except (TooSlow, TooLarge):
                self._deepening = max(1, self._deepening // DEEPENING_FACTOR)
                raise
            self._deepening *= DEEPENING_FACTOR

    @property
    def _is_shallow(self) -> bool:
        return (self.directory / "shallow").exists()

    def _commit_count(self) -> int:
        return int(self._local_git().rev_list("--count", INCOMING_REF))

    def _fetch_branch(self, *options: str) -> None:
        if (size := clone_size(self.directory)) > self.size_limit:
            raise TooLarge(f"the clone has {size >> 20} MiB, the limit is {self.size_limit >> 20}")
        reference = f"+refs/heads/{self.branch}:{INCOMING_REF}"
        # git 2.39 cannot ignore single faults in what comes through a filter
        chosen = "--no-filter" if self.ignored_faults else FILTER
        try:
            self._network_git().fetch(*FETCH_OPTIONS, chosen, *options, "--end-of-options", REMOTE, reference)
        except CommandFailed as error:
            if largest_leftover(self.directory) >= self.size_limit:
                raise TooLarge(f"git fetch was stopped: it brings more than {self.size_limit >> 20} MiB") from error
            if f"couldn't find remote ref refs/heads/{self.branch}" in str(error):
                doubt = "" if self.is_local else ", or there is no git server (a page to log in, say)"
                raise GitError(f"{redact(self.url)} has no branch {self.branch}{doubt}") from error
            raise GitError(f"{error}{hint(str(error))}") from error

    def _check_completeness(self, commit: str) -> None:
        """A clone in which the commit is not whole is broken, and made anew by the next fetch."""
        try:
            options = ("--objects", "--quiet", "--missing=allow-promisor", "-1")
            self._local_git().rev_list(*options, "--end-of-options", commit)
        except CommandFailed as error:
            shutil.rmtree(self.directory, ignore_errors=True)
            raise GitError(f"the clone is damaged and will be made anew: {error}") from error

    def is_ancestor(self, old: str, new: str) -> bool:
        """Whether `old` is `new` or one of its ancestors. False as well when `old` is not in the clone, or no id at
        all: a rewritten history, and an inventory that another client wrote into, look like that."""
        if old == new:
            return True
        if not _SHA_PATTERN.fullmatch(old):
            return False
        with open_clone(self.directory, self.timeout) as repo:
            before = find_commit(repo, old)
            after = find_commit(repo, _checked_sha(new))
            return before is not None and after is not None and repo.is_ancestor(before, after)

    def is_parent(self, old: str, new: str) -> bool:
        """Whether `old` is a parent of `new`, by the full ids."""
        with open_clone(self.directory, self.timeout) as repo:
            commit = find_commit(repo, _checked_sha(new))
            return commit is not None and any(parent.hexsha == old for parent in commit.parents)

    def read_tree(self, commit: str) -> Repository:
        """The files below cluster-specs/ and jobs/ at `commit`, each with the date of the commit that brought it."""
        known = self._trees.get(commit)
        if known is None:
            known = read_commit(self.directory, commit, self.timeout)
            self._trees = {commit: known}
        return known

    def _prepare_clone(self) -> None:
        """Make the clone, or take away what a killed git left (the caller owns the folder alone)."""
        if not (self.directory / "HEAD").exists():
            shutil.rmtree(self.directory, ignore_errors=True)
            self.directory.mkdir(parents=True)
            self._local_git().init("--quiet", "--bare", "--template=", ".")
        remove_leftovers(self.directory)

    def _local_git(self) -> HardenedGit:
        return HardenedGit(self.directory, local_environment(), self.timeout)

    def _network_git(self) -> HardenedGit:
        environment = network_environment("file" if self.is_local else "https:ssh", self.auth)
        config = [f"remote.{REMOTE}.url={self.url}", *(f"fetch.fsck.{name}=ignore" for name in self.ignored_faults)]
        return HardenedGit(self.directory, environment, self.timeout, self.size_limit, config)


def read_commit(clone: Path, commit: str, timeout: float, folder: str = "") -> Repository:
    """The files of `folder` ("" or ending in "/") at `commit` that gangplan reads, each with the date of the commit
    that brought it. Raises GitError."""
    with open_clone(clone, timeout) as repo:
        found = find_commit(repo, _checked_sha(commit))
        if found is None:
            raise GitError(f"commit {commit} is not in the clone")
        missing = missing_objects(repo, found.hexsha, [folder + name for name in (*ROOT_FILES, *ROOT_FOLDERS)])
        top_files = _read_files(_root_blobs(found, folder), missing)
        rules = PathRules(top_files.get(IGNORE_FILE, b""))
        blobs, refused = _readable_blobs(found, folder, rules)
        files = _read_files(blobs, missing)
    problems = (*rules.problems, *refused)
    return Repository.of_files({**top_files, **files}, problems, commit_dates(clone, commit, timeout, folder))


def _root_of(commit: Commit, folder: str) -> Tree | None:
    """The tree of a folder; None where the folder came later."""
    try:
        return commit.tree.join(folder.rstrip("/")) if folder else commit.tree
    except KeyError:
        return None


def _root_blobs(commit: Commit, folder: str) -> dict[str, Blob]:
    root = _root_of(commit, folder)
    entries = [] if root is None else [entry for entry in files_below(root, ROOT_FILES) if entry.name in ROOT_FILES]
    blobs = (entry for entry in entries if isinstance(entry, Blob))
    return {blob.name: blob for blob in blobs if blob.mode != Blob.link_mode}


def _readable_blobs(commit: Commit, folder: str, rules: PathRules) -> tuple[dict[str, Blob], list[Diagnostic]]:
    """path -> blob, and what is refused by its name or mode."""
    blobs: dict[str, Blob] = {}
    refused: list[Diagnostic] = []
    root = _root_of(commit, folder)
    for entry in () if root is None else files_below(root, ROOT_FOLDERS):
        path = str(entry.path).removeprefix(folder)
        if rules.is_ignored(path, is_folder=isinstance(entry, Submodule)):
            continue
        if isinstance(entry, Submodule):
            refused.append(submodule_diagnostic(path))
        elif entry.mode == Blob.link_mode:
            refused += [symlink_diagnostic(path)] if is_suspicious_link(path) else []
        elif not is_manifest(path):
            continue
        elif problem := file_name_diagnostic(path):
            refused.append(problem)
        elif isinstance(entry, Blob):
            blobs[path] = entry
    if len(blobs) > FILES_LIMIT:
        raise GitError(f"the repository holds {len(blobs)} files, the limit is {FILES_LIMIT}")
    return blobs, refused


def _read_files(blobs: dict[str, Blob], missing: frozenset[str]) -> dict[str, bytes]:
    """path -> contents. Sizes are asked first: a file above the limit is never loaded, the parser only learns that it
    is too long. missing: ids of those that were not even fetched."""
    distinct = {blob.binsha: blob for blob in blobs.values() if blob.hexsha not in missing}
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

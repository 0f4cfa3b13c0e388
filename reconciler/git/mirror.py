"""A bare clone of one branch, read without a work tree, and fetched repeatedly by a thread.

Repositories are input from strangers: only https and ssh are allowed (and plain paths when the operator names one), and
sizes are capped. Where the server can filter, a file above the limit is not fetched at all. The contents of a commit
never change, so caches are keyed by object id and never by a branch.
"""

from __future__ import annotations

import logging
import random
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path

from compiler.repository.tree import MAX_FILE_BYTES, Repository
from reconciler.git.access import hint, network_environment
from reconciler.git.commits import SHA_PATTERN, checked_sha, read_commit
from reconciler.git.git_objects import HardenedGit, find_commit, open_clone
from reconciler.git.process import (
    BARE,
    CommandFailed,
    GitError,
    TooLarge,
    TooSlow,
    local_environment,
    read_git,
    redact,
    run_git,
)
from reconciler.threads.heartbeat import Heartbeat, start_thread
from reconciler.threads.rest import doubled
from reconciler.timings import TIMINGS, GitTimings

log = logging.getLogger(__name__)

HEAD_REF, INCOMING_REF = "refs/gangplan/head", "refs/gangplan/incoming"
REMOTE = "origin"
_URL_PATTERN = re.compile(r"https://[^\s@/][^\s@]*|ssh://([A-Za-z0-9._-]+@)?[^\s@:/-][^\s@]*")
_SCP_PATTERN = re.compile(r"[A-Za-z0-9._-]+@[A-Za-z0-9.-]+:[^\s-][^\s]*")
_BRANCH_PATTERN = re.compile(r"(?!-)(?!.*\.\.)(?!.*@\{)[A-Za-z0-9._/+@-]+(?<!\.lock)(?<![./])")
_FAULT_PATTERN = re.compile(r"[A-Za-z]+")

FETCH_OPTIONS = ("--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head")
FILTER = f"--filter=blob:limit={MAX_FILE_BYTES + 1}"
FIRST_DEEPENING, DEEPENING_FACTOR = 64, 4
"""Commits of the first step of a clone in steps, and the factor after each successful step."""
_LEFTOVERS = (
    *("*.lock", "refs/**/*.lock", "objects/**/*.lock"),
    *("objects/pack/tmp_*", "objects/pack/.tmp-*", "objects/tmp_*", "objects/??/tmp_*"),
)
"""Locks and half-written packs of a git that was killed."""


def check_whole(git: HardenedGit, commit: str) -> None:
    """Raise CommandFailed unless the commit is here with all of its files, but those that were too large."""
    git.rev_list("--objects", "--quiet", "--missing=allow-promisor", "-1", "--end-of-options", commit)


class UnsafeError(GitError):
    """An address or a branch name that git is never given."""


class Unfinished(GitError):
    """A first clone in steps, which the next fetch continues."""


@dataclass(slots=True)
class Mirror:
    """A bare clone of one branch in `directory`.

    Methods raise GitError, and OSError where there is no git. auth: the folder of a Secret, as in
    `reconciler.git.access`. timeout: seconds for each command, and for reading a tree. size_limit: bytes of one fetch,
    and of the clone. trusted_keys: a folder as in `reconciler.git.mirror`, by whose keys the head must be signed.
    ignored_faults: faults of old histories, as git's fsck names them, that are accepted.
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
    _descent: tuple[str, str] = "", ""
    _deepening: int = FIRST_DEEPENING
    _garbage_due_at: float = 0.0

    def __post_init__(self) -> None:
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
        was_there = local.is_absolute() and self.directory.exists()  # a late mount must not prevent the start
        if "://" in self.url or "::" in self.url or not (local.is_dir() or was_there):
            raise UnsafeError(
                f"repository {self.url!r} is neither an https or ssh address nor a folder of this machine"
            )
        self.url = str(local.resolve())

    @property
    def is_local(self) -> bool:
        return self.url.startswith("/")

    def fetch(self) -> str:
        """Bring the branch here; its commit. The head moves only once that is whole and, where asked for, signed."""
        self._prepare_clone()
        with self._given_up_if_damaged():
            return self._fetch()

    def _fetch(self) -> str:
        if self._is_shallow or not self._fetch_everything():
            self._fetch_in_steps()
        git = self._local_git()
        commit = str(git.rev_parse("--verify", "--end-of-options", f"{INCOMING_REF}^{{commit}}"))
        if git.for_each_ref("--format=%(objectname)", HEAD_REF) == commit:
            return commit
        check_whole(git, commit)
        if self.trusted_keys is not None:
            check_signature(self.directory, commit, self.trusted_keys, self.timeout)
        git.update_ref(HEAD_REF, commit)
        self._collect_garbage()
        return commit

    @contextmanager
    def _given_up_if_damaged(self) -> Iterator[None]:
        """Delete the clone where git fails and cannot read what is here, as after a crash of the machine."""
        try:
            yield
        except (TooLarge, TooSlow, Unfinished):
            raise
        except GitError as error:
            if self._is_sound():
                raise
            shutil.rmtree(self.directory, ignore_errors=True)
            raise GitError(f"the clone is damaged and will be recreated: {error}") from error

    def _is_sound(self) -> bool:
        """Return whether git can read each ref, and all of its commit. It ignores a ref that was cut off."""
        git = self._local_git()
        try:
            names = str(git.for_each_ref("--format=%(refname)")).split()
            for name in {*names, *(ref for ref in (HEAD_REF, INCOMING_REF) if (self.directory / ref).is_file())}:
                check_whole(git, str(git.rev_parse("--verify", "--end-of-options", f"{name}^{{commit}}")))
        except CommandFailed:
            return False
        return True

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
        """Fetch the newest commit, then ever more of the history. A step that ends is kept, one that fails shrinks."""
        give_up_at = time.monotonic() + self.timeout
        if not self._local_git().for_each_ref(INCOMING_REF):
            self._fetch_branch("--depth=1")
        while self._is_shallow:
            if time.monotonic() > give_up_at:
                count = self._local_git().rev_list("--count", INCOMING_REF)
                raise Unfinished(f"the first clone goes on: {count} commits are here")
            try:
                self._fetch_branch(f"--deepen={self._deepening}")
            except (TooSlow, TooLarge):
                self._deepening = max(1, self._deepening // DEEPENING_FACTOR)
                raise
            self._deepening *= DEEPENING_FACTOR

    @property
    def _is_shallow(self) -> bool:
        return (self.directory / "shallow").exists()

    def _fetch_branch(self, *options: str) -> None:
        if (size := sum(self._sizes("*.pack"))) > self.size_limit:
            raise TooLarge(f"the clone has {size >> 20} MiB, the limit is {self.size_limit >> 20}")
        reference = f"+refs/heads/{self.branch}:{INCOMING_REF}"
        # git 2.39 cannot ignore single faults in a filtered fetch
        chosen = "--no-filter" if self.ignored_faults else FILTER
        try:
            self._network_git().fetch(*FETCH_OPTIONS, chosen, *options, "--end-of-options", REMOTE, reference)
        except CommandFailed as error:
            if max(self._sizes("tmp_*"), default=0) >= self.size_limit:
                raise TooLarge(f"git fetch was stopped: it brings more than {self.size_limit >> 20} MiB") from error
            if f"couldn't find remote ref refs/heads/{self.branch}" in str(error):
                doubt = "" if self.is_local else ", or there is no git server (a page to log in, say)"
                raise GitError(f"{redact(self.url)} has no branch {self.branch}{doubt}") from error
            raise GitError(f"{error}{hint(str(error))}") from error

    def is_ancestor(self, old: str, new: str) -> bool:
        """Return whether `old` is `new` or one of its ancestors. False as well when `old` is not in the clone, or no id
        at all: a rewritten history, and an inventory that another client wrote into, look like that."""
        if old == new or self._descent == (old, new):
            return True
        if not SHA_PATTERN.fullmatch(old):
            return False
        with open_clone(self.directory, self.timeout) as repo:
            before = find_commit(repo, old)
            after = find_commit(repo, checked_sha(new))
            if before is None or after is None or not repo.is_ancestor(before, after):
                return False
        self._descent = old, new  # for good, and asked in each pass until the new commit is in force
        return True

    def read_tree(self, commit: str) -> Repository:
        """Return the files below cluster-specs/ and jobs/ at `commit`, each with the date of the commit that brought
        it."""
        known = self._trees.get(commit)
        if known is None:
            with self._given_up_if_damaged():
                known = read_commit(self.directory, commit, self.timeout)
            self._trees = {commit: known}
        return known

    def _prepare_clone(self) -> None:
        """Make the clone, or take away what a killed git left (the caller owns the folder alone)."""
        if not (self.directory / "HEAD").exists():
            shutil.rmtree(self.directory, ignore_errors=True)
            self.directory.mkdir(parents=True)
            self._local_git().init("--quiet", "--bare", "--template=", ".")
        for path in (path for pattern in _LEFTOVERS for path in self.directory.glob(pattern)):
            if path.is_file():
                path.unlink(missing_ok=True)

    def _sizes(self, names: str) -> list[int]:
        """Return the bytes of each of these packs."""
        return [path.stat().st_size for path in self.directory.glob(f"objects/pack/{names}")]

    def _collect_garbage(self) -> None:
        """Join the packs and drop what no ref reaches, where there are many. A failure is logged, no more."""
        packs, now = len(self._sizes("*.pack")), time.monotonic()
        if packs <= self.timings.packs or now < self._garbage_due_at:
            return
        self._garbage_due_at = now + self.timings.gc_pause
        command, limit = ("gc", "--quiet", "--prune=now"), self.timings.gc_limit
        try:
            read_git(self.directory, *command, timeout=limit, size_limit=self.size_limit)
        except GitError as error:
            log.warning("the clone was not packed again", extra={"packs": packs, "reason": str(error)[:300]})

    def _local_git(self) -> HardenedGit:
        return HardenedGit(self.directory, local_environment(), self.timeout)

    def _network_git(self) -> HardenedGit:
        environment = network_environment("file" if self.is_local else "https:ssh", self.auth)
        config = [f"remote.{REMOTE}.url={self.url}", *(f"fetch.fsck.{name}=ignore" for name in self.ignored_faults)]
        return HardenedGit(self.directory, environment, self.timeout, self.size_limit, config)


ALLOWED_SIGNERS = "allowed_signers"
"""The file of ssh keys, as ssh-keygen(1) has it; OpenPGP keys are in files next to it that end in .asc or .gpg."""


class Untrusted(GitError):
    """A commit without a signature by a trusted key."""


def check_signature(clone: Path, commit: str, trusted_keys: Path, timeout: float) -> None:
    """Raise Untrusted unless `commit` is signed by a key of the folder `trusted_keys`."""
    with tempfile.TemporaryDirectory(prefix="gangplan-keys-") as home:
        more = {**BARE, "GNUPGHOME": home}
        if keys := sorted(path for path in trusted_keys.iterdir() if path.suffix in (".asc", ".gpg")):
            command = ("gpg", "--batch", "--quiet", "--no-autostart", "--import", *map(str, keys))
            try:
                run_git(clone, command, {**local_environment(), **more}, timeout)
            except CommandFailed as error:
                raise GitError(f"the keys in {trusted_keys} cannot be read: {_last_line(error)}") from error
        signers = f"gpg.ssh.allowedSignersFile={trusted_keys / ALLOWED_SIGNERS}"
        try:
            read_git(clone, "-c", signers, "verify-commit", "--end-of-options", commit, timeout=timeout, more=more)
        except CommandFailed as error:
            reason = _last_line(error) or "none at all"
            raise Untrusted(f"commit {commit} has no signature by a trusted key: {reason}") from error


def _last_line(error: CommandFailed) -> str:
    return error.errors_text.rpartition("; ")[2][:300]


@dataclass(frozen=True, slots=True)
class BranchHead:
    """The branch as last fetched. problem: why it could not be fetched; the others are then of the last success."""

    commit: str = ""
    tree: Repository | None = None
    problem: str = ""


class GitPoller:
    """Fetches the branch repeatedly; `wake` is called when the head or the problem changes. on_poll: called after each
    fetch with whether it succeeded, and its duration in seconds. fetched_at: when the last fetch that succeeded began,
    on the monotonic clock."""

    def __init__(
        self,
        mirror: Mirror,
        interval: float,
        wake: Callable[[], None],
        on_poll: Callable[[bool, float], None] = lambda good, seconds: None,
        timings: GitTimings = TIMINGS.git,
    ) -> None:
        self.mirror, self.interval, self.wake, self.on_poll = mirror, interval, wake, on_poll
        self.timings = timings
        self.head = BranchHead(problem="the first fetch has not ended")
        self.failures, self.fetched_at = 0, -inf
        self._began_at, self._must_wake = inf, False
        self.first_poll = threading.Event()
        self.heartbeat = Heartbeat("git", interval * timings.jitter[1] + timings.longest_pause + timings.poll_limit)
        self._stop, self._poked = threading.Event(), threading.Event()
        self._random = random.Random()  # noqa: S311 (spreads load; nothing secret)

    def start(self) -> None:
        start_thread(self._poll, self._stop, self.heartbeat)

    def stop(self) -> None:
        self._stop.set()
        self._poked.set()

    def poke(self) -> None:
        """Fetch soon, and wake afterwards in any case. However often this is called, one fetch follows the one under
        way."""
        self._poked.set()

    def head_now(self) -> BranchHead:
        """Return the head; a fetch that does not end is its problem before git gives up."""
        is_slow = not self.head.problem and time.monotonic() >= self.slow_at()
        return replace(self.head, problem=f"a fetch has not ended in {self.timings.slow:g} s") if is_slow else self.head

    def slow_at(self) -> float:
        """Return when the fetch under way counts as slow, on the monotonic clock; infinity while there is none."""
        return self._began_at + self.timings.slow

    def poll_once(self) -> None:
        """Fetch the branch, and read its tree where the commit is new."""
        before, began_at = self.head, time.monotonic()
        self._began_at = began_at
        try:
            commit = self.mirror.fetch()
            if commit != before.commit or before.problem:
                self.head = BranchHead(commit, self.mirror.read_tree(commit))
            self.failures, self.fetched_at = 0, began_at
        except Unfinished as error:
            self.head = replace(before, problem=str(error))
            self.poke()
        except Exception as error:
            self.failures += 1
            is_expected = isinstance(error, (GitError, OSError))
            if not is_expected:
                self.heartbeat.record_error(error)
            self.head = replace(before, problem=str(error) if is_expected else f"{type(error).__name__}: {error}")
        was_slow = time.monotonic() >= self.slow_at()
        self._began_at = inf
        self.on_poll(not self.head.problem, time.monotonic() - began_at)
        self.first_poll.set()
        if self.head != before or was_slow or self._must_wake:
            self._must_wake = False
            self.wake()

    def pause(self) -> float:
        """Return seconds until the next fetch: the interval, doubled with each failure, and a little by chance."""
        longest = max(self.timings.longest_pause, self.interval)
        return doubled(self.interval, self.failures, longest) * self._random.uniform(*self.timings.jitter)

    def _poll(self) -> float:
        """Fetch, then wait for the next time or a poke, whichever is first."""
        began_at = time.monotonic()
        self.poll_once()
        if not self._poked.wait(self.pause()):
            return 0.0
        self._poked.clear()
        self._must_wake = True
        return max(0.0, began_at + self.timings.least_spacing - time.monotonic())

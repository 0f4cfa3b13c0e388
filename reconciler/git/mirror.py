"""Git, read without ever making a work tree: a bare clone, driven through the git binary.

Repositories are input from strangers, so: fixed argument lists and no shell; the user's and the system's git
configuration are not read; hooks, replacement objects, prompts and redirects are off; only https and ssh may be spoken
(and plain paths when the operator names one); symlinks and submodules are refused by name; sizes are capped before
anything is read. Each command runs in its own process group with a time limit. What a tree or commit holds never
changes, so caches are keyed by object id and never by a branch.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from compiler.diagnostics import Diagnostic, Position
from compiler.repository import (
    CLUSTERS_FOLDER,
    FILE_SUFFIXES,
    JOBS_FOLDER,
    SUBMODULE,
    Repository,
    file_name_diagnostic,
    printable_name,
    symlink_diagnostic,
)
from compiler.syntax.parse import MAX_FILE_BYTES

REPOSITORY_LIMIT = 64 << 20
FILES_LIMIT = 20_000
ROOT_FOLDERS = (CLUSTERS_FOLDER, JOBS_FOLDER)

_GIT_CONFIG = (
    "core.hooksPath=/dev/null",
    "core.symlinks=false",
    "transfer.fsckObjects=true",
    "protocol.ext.allow=never",
    "gc.auto=0",
    "maintenance.auto=false",
    "http.followRedirects=false",
    "http.lowSpeedLimit=1000",
    "http.lowSpeedTime=30",
)
_LOG_COMMAND = ("log", "-z", "--format=%x01%ct", "--name-only", "--diff-filter=A", "--no-renames")
_CREDENTIALS_PATTERN = re.compile(r"(?<=://)[^/@\s]+@")
_URL_PATTERN = re.compile(r"(https|ssh)://[^\s]+")
_SCP_PATTERN = re.compile(r"[A-Za-z0-9._-]+@[A-Za-z0-9.-]+:[^\s-][^\s]*")
_BRANCH_PATTERN = re.compile(r"(?!-)(?!.*\.\.)(?!.*@\{)[A-Za-z0-9._/+@-]+(?<!\.lock)(?<![./])")
_SHA_PATTERN = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")


class GitError(Exception):
    """Git did not do what was asked. The message holds no credentials."""


class UnsafeError(GitError):
    """The address or the branch is of a form that is never handed to git."""


@dataclass(slots=True)
class Mirror:
    """A bare clone of one branch in `directory`.

    auth: a folder laid out as Kubernetes lays out its git secrets: `username` and `password`, or `ssh-privatekey` and
    `known_hosts`. Methods raise GitError.
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
        """Bring the branch here and return its commit. The fetch goes into a ref of its own, moved only once the commit
        is whole."""
        self._prepare_clone()
        announced = self._remote_commit()
        if (
            self._run_git("rev-parse", "--verify", "--quiet", "refs/gangplan/head", ok=(0, 1)).decode().strip()
            == announced
        ):
            return announced
        self._run_git(
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-recurse-submodules",
            "--no-write-fetch-head",
            "--end-of-options",
            self.url,
            f"+refs/heads/{self.branch}:refs/gangplan/incoming",
            network=True,
        )
        commit = (
            self._run_git("rev-parse", "--verify", "--end-of-options", "refs/gangplan/incoming^{commit}")
            .decode()
            .strip()
        )
        self._run_git("rev-list", "--objects", "--quiet", "-1", "--end-of-options", commit)
        self._run_git("update-ref", "refs/gangplan/head", commit)
        return commit

    def pin_commit(self, commit: str) -> None:
        """Hold on to the applied commit, also when the branch moves away from it."""
        self._run_git("update-ref", "refs/gangplan/applied", _checked_sha(commit))

    def has_commit(self, commit: str) -> bool:
        return bool(self._run_git("cat-file", "-t", _checked_sha(commit), ok=(0, 128)).strip() == b"commit")

    def is_ancestor(self, old: str, new: str) -> bool:
        """Whether `old` is `new` or one of its ancestors. False as well when `old` is not known here: a rewritten
        history looks so."""
        if old == new:
            return True
        if not self.has_commit(old):
            return False
        return self._exit_code("merge-base", "--is-ancestor", _checked_sha(old), _checked_sha(new)) == 0

    def read_tree(self, commit: str) -> Repository:
        """The files below cluster-specs/ and jobs/ at `commit`, each with the date of the commit that brought it."""
        known = self._trees.get(commit)
        if known is None:
            tree = (
                self._run_git("rev-parse", "--verify", "--end-of-options", f"{_checked_sha(commit)}^{{tree}}")
                .decode()
                .strip()
            )
            blobs, refused = self._list_blobs(tree)
            log = self._run_git(*_LOG_COMMAND, "--end-of-options", _checked_sha(commit), "--", *ROOT_FOLDERS)
            known = Repository(self._read_blobs(blobs), _parse_commit_dates(log), tuple(refused))
            self._trees = {commit: known}
        return known

    def _prepare_clone(self) -> None:
        """Make the clone, or take away the locks that a killed git left (the caller owns the folder alone)."""
        if not (self.directory / "HEAD").exists():
            shutil.rmtree(self.directory, ignore_errors=True)
            self.directory.mkdir(parents=True)
            self._run_git("init", "--quiet", "--bare", "--template=", ".")
        for lock in (
            *self.directory.glob("*.lock"),
            *self.directory.glob("refs/**/*.lock"),
            *self.directory.glob("objects/**/*.lock"),
        ):
            lock.unlink(missing_ok=True)

    def _remote_commit(self) -> str:
        line = self._run_git(
            "ls-remote", "--end-of-options", self.url, f"refs/heads/{self.branch}", network=True
        ).decode()
        if not line.strip():
            raise GitError(f"{redact(self.url)} has no branch {self.branch}")
        return _checked_sha(line.split()[0])

    def _list_blobs(self, tree: str) -> tuple[dict[str, str], list[Diagnostic]]:
        """path -> blob id, and what is refused by its name or mode."""
        blobs: dict[str, str] = {}
        refused: list[Diagnostic] = []
        for record in self._run_git(
            "ls-tree", "-r", "-z", "--full-tree", "--end-of-options", tree, *ROOT_FOLDERS
        ).split(b"\0"):
            if not record:
                continue
            head, _, name = record.partition(b"\t")
            mode, _, blob = head.decode().split(" ")
            path = name.decode("utf-8", "surrogateescape")
            if mode == "160000":
                place = Position(printable_name(path), 1, 1)
                refused.append(
                    SUBMODULE.diagnostic(place, "submodules are not read", "put the files into this repository")
                )
            elif mode == "120000":
                refused.append(symlink_diagnostic(path))
            elif not path.lower().endswith(FILE_SUFFIXES):
                continue
            elif problem := file_name_diagnostic(path):
                refused.append(problem)
            else:
                blobs[path] = blob
        if len(blobs) > FILES_LIMIT:
            raise GitError(f"the repository holds {len(blobs)} files, the limit is {FILES_LIMIT}")
        return blobs, refused

    def _read_blobs(self, blobs: dict[str, str]) -> dict[str, bytes]:
        """path -> bytes. Sizes are asked first: a file above the limit is never loaded, the parser only gets to see
        that it is too long."""
        ids = sorted(set(blobs.values()))
        sizes = {}
        for line in (
            self._run_git("cat-file", "--batch-check", feed="".join(f"{i}\n" for i in ids).encode())
            .decode()
            .splitlines()
        ):
            parts = line.split()
            if len(parts) != 3 or parts[1] != "blob":
                raise GitError(f"object {parts[0]} is missing from the clone")
            sizes[parts[0]] = int(parts[2])
        wanted = [i for i in ids if sizes[i] <= MAX_FILE_BYTES]
        if (total := sum(sizes[i] for i in wanted)) > REPOSITORY_LIMIT:
            raise GitError(f"the repository's files have {total} bytes, the limit is {REPOSITORY_LIMIT}")
        data = dict(_batch_blobs(self._run_git("cat-file", "--batch", feed="".join(f"{i}\n" for i in wanted).encode())))
        return {path: data.get(blob, b" " * (MAX_FILE_BYTES + 1)) for path, blob in sorted(blobs.items())}

    def _run_git(self, *arguments: str, feed: bytes = b"", ok: Sequence[int] = (0,), network: bool = False) -> bytes:
        code, out, err = self._execute_git(arguments, feed, network)
        if code not in ok:
            raise GitError(
                f"git {arguments[0]} failed ({code}): {redact(err.decode('utf-8', 'replace')).strip() or 'no message'}"
            )
        return out if code == 0 else b""

    def _exit_code(self, *arguments: str) -> int:
        return self._execute_git(arguments, b"", network=False)[0]

    def _execute_git(self, arguments: Sequence[str], feed: bytes, network: bool) -> tuple[int, bytes, bytes]:
        return _run_git_process(self.directory, arguments, self._environment(network), feed, self.timeout)

    def _environment(self, network: bool) -> dict[str, str]:
        allowed = ("file" if self.is_local else "https:ssh") if network else "none"
        environment = {**_base_environment(), "GIT_DIR": ".", "GIT_ALLOW_PROTOCOL": allowed}
        for proxy in ("HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy", "SSL_CERT_FILE", "GIT_SSL_CAINFO"):
            if proxy in os.environ:
                environment[proxy] = os.environ[proxy]
        known, key = "/dev/null", ""
        if self.auth is not None:
            known = str(self.auth / "known_hosts")
            key = f" -o IdentitiesOnly=yes -i {self.auth / 'ssh-privatekey'}"
            environment |= {
                "GIT_ASKPASS": str(Path(__file__).with_name("askpass.sh")),
                "GANGPLAN_GIT_AUTH": str(self.auth),
            }
        environment["GIT_SSH_COMMAND"] = (
            f"ssh -F none -o BatchMode=yes -o StrictHostKeyChecking=yes -o UserKnownHostsFile={known}{key}"
        )
        return environment


def dates_of(folder: Path) -> dict[str, int]:
    """Path inside `folder` -> date of the commit that brought it, for a work tree of the user's own; empty where there
    is no git history."""
    environment = {**_base_environment(), "GIT_ALLOW_PROTOCOL": "none"}
    try:
        code, out, _ = _run_git_process(
            folder, [*_LOG_COMMAND, "--relative", "HEAD", "--", *ROOT_FOLDERS], environment, b"", 30.0
        )
    except (GitError, OSError):
        return {}
    return _parse_commit_dates(out) if code == 0 else {}


def _run_git_process(
    folder: Path, arguments: Sequence[str], environment: Mapping[str, str], feed: bytes, timeout: float
) -> tuple[int, bytes, bytes]:
    """Run git in a process group of its own; exit code, output, errors. Raises GitError when it does not end in time."""
    process = subprocess.Popen(
        ["git", *(piece for entry in _GIT_CONFIG for piece in ("-c", entry)), *arguments],
        cwd=folder,
        env=dict(environment),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(feed, timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise GitError(f"git {arguments[0]} did not end within {timeout:g} s") from None
    return process.returncode, out, err


def _base_environment() -> dict[str, str]:
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": "/nonexistent",
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_LFS_SKIP_SMUDGE": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
    }


def _parse_commit_dates(log: bytes) -> dict[str, int]:
    """The newest commit that added each path, from a history told from the newest commit back."""
    dates: dict[str, int] = {}
    when = 0
    for piece in log.split(b"\0"):
        text = piece.lstrip(b"\n")
        if text.startswith(b"\x01"):
            stamp, _, text = text[1:].partition(b"\n")
            when = int(stamp)
        if text:
            dates.setdefault(text.decode("utf-8", "surrogateescape"), when)
    return dates


def redact(text: str) -> str:
    """`text` without the user and password of any address in it."""
    return _CREDENTIALS_PATTERN.sub("", text)


def _checked_sha(text: str) -> str:
    if not _SHA_PATTERN.fullmatch(text):
        raise GitError(f"{text[:80]!r} is not an object id")
    return text


def _batch_blobs(out: bytes) -> Iterator[tuple[str, bytes]]:
    """The answer of `cat-file --batch`: "<id> blob <size>\\n<bytes>\\n", again and again."""
    at = 0
    while at < len(out):
        end = out.index(b"\n", at)
        blob, _, size = out[at:end].decode().split(" ")
        yield blob, out[end + 1 : end + 1 + int(size)]
        at = end + 2 + int(size)

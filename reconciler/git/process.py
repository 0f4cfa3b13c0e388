"""One git process: fixed configuration, an environment of its own, a process group and a time limit.

Everything that runs git runs it through this module. No shell, no hooks, no prompts, no redirects, no replacement
objects; neither the user's nor the system's configuration, and none of the variables by which git could be steered
(GIT_DIR in a hook, GIT_SSH, GIT_CONFIG_COUNT).
"""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

GIT_CONFIG = (
    "core.hooksPath=/dev/null",
    "core.symlinks=false",
    "transfer.fsckObjects=true",
    "protocol.ext.allow=never",
    "gc.auto=0",
    "maintenance.auto=false",
    "http.followRedirects=false",
    "http.lowSpeedLimit=1000",
    "http.lowSpeedTime=30",
    "fetch.unpackLimit=1",  # each fetch is one pack, so that a limit on the size of a file is one on the fetch
    "pack.threads=1",
    "pack.windowMemory=64m",
)
CHUNK = ERRORS_LIMIT = 64 << 10
"""Bytes read at once, and kept of a command's error output."""
OUTPUT_LIMIT = 128 << 20
"""Bytes of a command's output: the files of a repository, and room for their names."""
MEMORY_LIMIT = 2 << 30
"""Bytes of memory for each process of a command that speaks to a remote, which may name branches without end."""
NO_LIMIT = resource.RLIM_INFINITY
BARE = {"GIT_DIR": "."}
"""The environment of a command in a bare clone."""
_CREDENTIALS_PATTERN = re.compile(r"(?<=://)\S*@")
"""Up to the last `@` of the word: a password may hold `@` and `/`. Of a path with `@` more than necessary is
removed."""


class GitError(Exception):
    """Git did not do what was asked. The message holds no credentials."""


class TooLarge(GitError):
    """The remote has more than may be fetched."""


class TooSlow(GitError):
    """Git was stopped because it did not end in time."""


class CommandFailed(GitError):
    """A command that exited with an error. errors_text: its lines except warnings."""

    def __init__(self, name: str, status: int, errors: bytes) -> None:
        lines = redact(errors.decode("utf-8", "replace")).splitlines()
        kept = (line.strip() for line in lines if not line.startswith("warning: "))
        self.name, self.status, self.errors_text = name, status, "; ".join(filter(None, kept))
        super().__init__(f"git {name} failed ({status}): {self.errors_text or 'no message'}")


def redact(text: str) -> str:
    """`text` without the user and password of any address in it."""
    return _CREDENTIALS_PATTERN.sub("", text)


def local_environment() -> dict[str, str]:
    """Return the environment of a command that reads objects: no protocol may be spoken, so nothing is fetched
    lazily."""
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
        "GIT_ALLOW_PROTOCOL": "none",
    }


def read_git(
    directory: Path,
    *arguments: str,
    timeout: float,
    more: Mapping[str, str] = BARE,
    config: Sequence[str] = (),
    **limits: Any,
) -> bytes:
    """Return the output of a git command, which speaks to nobody unless `more`, added to its environment, lets it.
    config: added to ours. limits: as of `run_git`. Raises GitError."""
    settings = [word for entry in (*GIT_CONFIG, *config) for word in ("-c", entry)]
    return run_git(directory, ["git", *settings, *arguments], {**local_environment(), **more}, timeout, **limits)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill git and its children (ssh, git-remote-https), which would keep the pipes open."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def run_git(
    directory: Path,
    command: Sequence[str],
    environment: Mapping[str, str],
    timeout: float,
    size_limit: int = NO_LIMIT,
    given: bytes = b"",
) -> bytes:
    """Return the output of `command`, which reads `given` and writes no file (pack) beyond `size_limit` bytes. In a
    process group of its own. Raises OSError if git is not installed, TooSlow after `timeout` seconds, TooLarge for more
    output than we hold, and CommandFailed with the end of its errors: a remote may print without end."""
    process = subprocess.Popen(
        list(command),
        cwd=directory,
        env=dict(environment),
        stdin=subprocess.PIPE if given else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    if size_limit != NO_LIMIT:
        _limit_sizes(process.pid, size_limit)
    name, errors, late = subcommand_of(command), list[bytes](), threading.Event()

    def stop() -> None:
        late.set()
        kill_group(process)

    assert process.stdout is not None  # noqa: S101
    reader = threading.Thread(target=_read_end, args=(process.stderr, errors), name="git-errors", daemon=True)
    writer = threading.Thread(target=_write_all, args=(process.stdin, given), name="git-input", daemon=True)
    watchdog = threading.Timer(timeout, stop)
    watchdog.daemon = True
    for thread in (reader, watchdog, *((writer,) if given else ())):
        thread.start()
    try:
        output = bytearray()
        with process.stdout as stream:
            while len(output) <= OUTPUT_LIMIT and (chunk := stream.read(CHUNK)):
                output += chunk
        if is_too_large := len(output) > OUTPUT_LIMIT:
            kill_group(process)
        process.wait()
    finally:
        watchdog.cancel()
        reader.join(timeout)
    if late.is_set():
        raise TooSlow(f"git {name} did not end within {timeout:g} s")
    if is_too_large:
        raise TooLarge(f"git {name} prints more than {OUTPUT_LIMIT >> 20} MiB")
    if process.returncode != 0:
        raise CommandFailed(name, process.returncode, b"".join(errors))
    return bytes(output)


def _write_all(stream: IO[bytes], given: bytes) -> None:
    with suppress(BrokenPipeError), stream:
        stream.write(given)


def _read_end(stream: IO[bytes], found: list[bytes]) -> None:
    """Read all of the stream, and keep its last bytes in `found`."""
    with stream:
        last = b""
        while chunk := stream.read(ERRORS_LIMIT):
            last = (last + chunk)[-ERRORS_LIMIT:]
        found.append(last)


def _limit_sizes(pid: int, file_size: int) -> None:
    """Limit files and memory of a process that runs already: its children, which write the pack, are started later."""
    with suppress(ProcessLookupError):
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (file_size, file_size))
        resource.prlimit(pid, resource.RLIMIT_DATA, (MEMORY_LIMIT, MEMORY_LIMIT))


def subcommand_of(command: Sequence[str]) -> str:
    """`fetch` of `git -c a=b fetch ...`."""
    at = 1
    while command[at] == "-c":
        at += 2
    return command[at]

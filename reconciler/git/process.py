"""One git process: fixed configuration, an environment of its own, a process group and a time limit.

Everything that runs git runs it through this module, GitPython included (`reconciler.git.git_objects`). No shell, no
hooks, no prompts, no redirects, no replacement objects; neither the user's nor the system's configuration, and none of
the variables by which git could be steered (GIT_DIR in a hook, GIT_SSH, GIT_CONFIG_COUNT).
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
from typing import IO

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
ERRORS_LIMIT = 64 << 10
"""Bytes kept of a command's error output."""
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
    directory: Path, *arguments: str, timeout: float, more: Mapping[str, str] = BARE, size_limit: int = NO_LIMIT
) -> bytes:
    """Return the output of a git command that speaks to nobody. more: added to its environment. Raises GitError."""
    settings = [word for entry in GIT_CONFIG for word in ("-c", entry)]
    command, environment = ["git", *settings, *arguments], {**local_environment(), **more}
    return run_git(directory, command, environment, timeout, size_limit)


def start_git(
    directory: Path, command: Sequence[str], environment: Mapping[str, str], has_input: bool = False
) -> subprocess.Popen[bytes]:
    """Start `command` in a process group of its own. Raises OSError if git is not installed."""
    return subprocess.Popen(
        list(command),
        cwd=directory,
        env=dict(environment),
        stdin=subprocess.PIPE if has_input else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill git and its children (ssh, git-remote-https), which would keep the pipes open."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def run_git(
    directory: Path, command: Sequence[str], environment: Mapping[str, str], timeout: float, size_limit: int = NO_LIMIT
) -> bytes:
    """Return the output of `command`, which writes no file (pack) beyond `size_limit` bytes. Raises TooSlow after
    `timeout` seconds, and CommandFailed with the end of its errors: a remote may print without end."""
    process = start_git(directory, command, environment)
    if size_limit != NO_LIMIT:
        _limit_sizes(process.pid, size_limit)
    # communicate() reads no pipe that the process object does not show.
    stream, process.stderr = process.stderr, None
    assert stream is not None  # noqa: S101
    errors: list[bytes] = []
    reader = threading.Thread(target=_read_end, args=(stream, errors), name="git-errors", daemon=True)
    reader.start()
    try:
        output, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        kill_group(process)
        process.communicate()
        raise TooSlow(f"git {subcommand_of(command)} did not end within {timeout:g} s") from None
    finally:
        reader.join(timeout)
    if process.returncode != 0:
        raise CommandFailed(subcommand_of(command), process.returncode, b"".join(errors))
    return output


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

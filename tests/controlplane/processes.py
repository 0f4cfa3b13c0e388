"""Child processes that never outlive their owner."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

# What the guard runs: it reads "+PID" and "-PID" lines and, when its owner is gone (end of file), kills the groups that
# are left and takes away the temporary folder, if it was given one. prctl(PR_SET_PDEATHSIG) would do it without a
# process, but it fires when the *thread* that forked ends.
_GUARD = """
import os, shutil, signal, sys
alive = set()
for line in sys.stdin:
    (alive.add if line[0] == "+" else alive.discard)(int(line[1:]))
for pid in alive:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
for folder in sys.argv[1:]:
    shutil.rmtree(folder, ignore_errors=True)
"""


class ProcessGuard:
    """Kills what it was told of when this process is gone, even by SIGKILL, and deletes the temporary folders that it
    was given."""

    def __init__(self, *temporary: Path) -> None:
        command = [sys.executable, "-I", "-S", "-c", _GUARD, *map(str, temporary)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, text=True, start_new_session=True)

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def add_process(self, pid: int) -> None:
        self._write(f"+{pid}")

    def remove_process(self, pid: int) -> None:
        self._write(f"-{pid}")

    def close(self) -> None:
        """End the guard; it does its work on the way."""
        self._process.communicate()


class Process:
    """One component: its command, its log, and the running child if any."""

    def __init__(self, name: str, command: Sequence[str], log: Path, environment: Mapping[str, str]) -> None:
        self.name = name
        self.command = list(command)
        self.log = log
        self.environment = dict(environment)
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The pid while it runs."""
        return self._child.pid if self._child is not None and self._child.poll() is None else None

    @property
    def exit_code(self) -> int | None:
        """The exit code when it ended by itself; None while it runs or was stopped by us."""
        return self._child.poll() if self._child is not None else None

    def start(self, guard: ProcessGuard | None) -> None:
        """Start it in a process group of its own, so that Ctrl-C at the terminal reaches only us; the log is appended
        to. Not in a session of its own: Linux schedules sessions against one another (autogroup), and a kernel whose
        log told of it (6.18) let single ones wait for a processor for up to a minute."""
        if self.pid is not None:
            raise RuntimeError(f"{self.name} runs already")
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self.environment,
                cwd=self.log.parent,
                process_group=0,
            )
        if guard is not None:
            guard.add_process(self._child.pid)

    def kill(self, guard: ProcessGuard | None) -> None:
        """End it at once, with its whole group."""
        child, self._child = self._child, None
        if child is None:
            return
        if child.poll() is None:  # else its pid may be another's by now
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        if guard is not None:
            guard.remove_process(child.pid)

    def end(self, guard: ProcessGuard | None) -> None:
        """Let it end by itself: what it has written is whole then."""
        if self._child is not None:
            self._child.terminate()
            self._child.wait()
        self.kill(guard)

    def tail(self, lines: int | None = 15) -> str:
        """The last lines of its log, or all of it."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return text if lines is None else "\n".join(text.splitlines()[-lines:])


_claims: list[int] = []
"""Files of the ports that this process has been given, locked until it ends."""


def free_ports(count: int) -> list[int]:
    """Free loopback ports below the range that the kernel takes for outgoing connections, which etcd's clients use by
    the dozen. No other process is given one of them while this one lives: several control planes start at a time, and
    some seconds pass until a component listens."""
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    found: list[int] = []
    while len(found) < count:
        port = random.SystemRandom().randrange(min(20000, lowest - 5000), lowest)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            _claims.append(_claim(port))
            found.append(port)
    return found


def _claim(port: int) -> int:
    """Lock the port among the processes of this machine, and return the descriptor that holds the lock until the end
    of the process. Raises OSError where another process, or this one, has it."""
    folder = Path(tempfile.gettempdir()) / "gangplan-ports"
    folder.mkdir(exist_ok=True)
    claim = os.open(folder / str(port), os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(claim)
        raise
    return claim

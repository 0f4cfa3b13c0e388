"""The reconciler as a process that can be killed, stopped, woken, told another time and deprived of its disk."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.builders.processes import child_processes
from tests.e2e.stories.story import ROOT, SUBJECT

NO_LIMIT = resource.RLIM_INFINITY


class ReconcilerUnderTest:
    """`gangplan reconcile` for cluster "test". Its log goes through a pipe, so that a full disk does not silence it."""

    def __init__(
        self,
        repository: str | Path,
        kubeconfig: Path,
        folder: Path,
        *options: str,
        numbers: Mapping[str, Mapping[str, object]] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.clock_file = folder, folder / "clock"
        settings = {"clock": str(self.clock_file), "root": str(SUBJECT), "numbers": numbers or {}}
        python = SUBJECT / ".venv" / "bin" / "python"
        self.command = [
            str(python if python.exists() else sys.executable),
            str(ROOT / "tests" / "faults" / "launch.py"),
            json.dumps(settings),
            "reconcile",
            *("--repo", str(repository), "--cluster", "test", "--data", str(folder / "data")),
            *("--kubeconfig", str(kubeconfig), "--poll", "0.3"),
            *options,
        ]
        self.environment = {**os.environ, "PYTHONPATH": str(SUBJECT), **(environment or {})}
        self.process: subprocess.Popen[bytes] | None = None
        self.lines: list[str] = []
        self._reader: threading.Thread | None = None
        self._was_ended = False

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        if error is not None:
            error.add_note("the end of the reconciler's log:\n" + "\n".join(self.lines[-40:])[-6000:])

    def start(self) -> Self:
        self._was_ended = False
        self.process = subprocess.Popen(
            self.command,
            cwd=SUBJECT,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        self._reader = threading.Thread(target=self._read_log, args=(self.process,), daemon=True)
        self._reader.start()
        return self

    def _read_log(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stderr is not None
        with process.stderr:
            for line in process.stderr:
                self.lines.append(line.decode(errors="replace").rstrip())

    @property
    def is_alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def has_ended(self) -> bool:
        """Whether it is over although nothing here ended it."""
        return self.process is not None and not self._was_ended and self.process.poll() is not None

    def log_lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines if line.startswith("{")]

    # --- what is done to it

    def kill(self) -> None:
        """SIGKILL, also to one that is stopped, and to a compile that it runs."""
        if self.process is None:
            return
        self._was_ended = True
        children = child_processes(self.process.pid) if self.is_alive else ()
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait(60)
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        if self._reader is not None:
            self._reader.join(10)

    def restart(self) -> None:
        self.kill()
        self.start()

    def terminate(self, timeout: float = 60) -> int:
        """SIGTERM, and wait for its end; the exit code."""
        self._was_ended = True
        self.send(signal.SIGTERM)
        assert self.process is not None
        return self.process.wait(timeout)

    def send(self, number: int) -> None:
        if self.process is not None and self.is_alive:
            self.process.send_signal(number)

    def stop(self) -> None:
        """SIGSTOP, and wait until it stands."""
        self.send(signal.SIGSTOP)
        assert self.process is not None
        while _state(self.process.pid) not in "TZX":
            time.sleep(0.005)

    def wake(self) -> None:
        self.send(signal.SIGCONT)

    def set_clock(self, seconds: float) -> None:
        """Let its wall clock be off by so much."""
        aside = self.clock_file.with_suffix(".new")
        aside.write_text(str(seconds))
        aside.replace(self.clock_file)

    def fill_disk(self) -> None:
        """From now on no file of it may grow, nor one of the processes that it starts."""
        assert self.process is not None
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (0, NO_LIMIT))

    def free_disk(self) -> None:
        assert self.process is not None
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (NO_LIMIT, NO_LIMIT))


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "X"

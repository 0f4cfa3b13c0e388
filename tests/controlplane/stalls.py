"""Whether this machine let the components of a cluster run: what the report of a failed test needs to tell a machine
that stood still from a program that did."""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

PERIOD: Final = 5.0
"""Seconds between two looks."""
LONG: Final = 5.0
"""More seconds than a thread waits for a processor between two looks, unless it got none at all."""
_KEPT: Final = 40
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_OF_THE_KERNEL: Final = re.compile(rb"stuck for|stalls? on|starved|lockup|blocked for more|hung=|out of memory", re.I)


class Times(NamedTuple):
    """Of one thread, in seconds: how long it ran, and how long it waited for a processor."""

    ran: float
    waited: float


class StallWatch:
    """Looks at the threads of processes every few seconds, and notes each that waited long for a processor.

    pids: name -> pid of those that run now. proc: where the kernel says so.
    """

    def __init__(self, pids: Callable[[], Mapping[str, int]], proc: Path = Path("/proc")) -> None:
        self._pids, self._proc = pids, proc
        self._seen: dict[tuple[str, str], Times] = {}
        self._looked = self._began = time.monotonic()
        self._stolen = self._stolen_seconds()
        self._notes: deque[str] = deque(maxlen=_KEPT)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stalls", daemon=True)

    @property
    def notes(self) -> list[str]:
        """What was noted, with the time of day."""
        return list(self._notes)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()

    def look(self, now: float) -> None:
        """Note what happened since the last look. now: on the monotonic clock."""
        late, self._looked = now - self._looked - PERIOD, now
        if late > LONG:
            self._note(f"this thread of the test's process looked {late:.1f} s late")
        stolen, before = self._stolen_seconds(), self._stolen
        self._stolen = stolen
        if stolen - before > LONG:
            self._note(f"the host took {stolen - before:.1f} s of the processors")
        seen: dict[tuple[str, str], Times] = {}
        for name, pid in self._pids().items():
            mine = self._threads(name, pid)
            seen |= mine
            gained = [_since(times, self._seen.get(key)) for key, times in mine.items()]
            longest = max((each.waited for each in gained), default=0.0)
            if longest > LONG:
                ran = sum(each.ran for each in gained)
                self._note(f"a thread of {name} waited {longest:.1f} s for a processor; its threads ran {ran:.1f} s")
        self._seen = seen

    def report(self) -> str:
        """The notes, and what the kernel says of waiting and of itself."""
        self.look(time.monotonic())
        lines = self.notes or ["no component waited long for a processor"]
        for name in ("cpu", "io", "memory"):
            with contextlib.suppress(OSError):
                lines += [f"{name}: {line}" for line in self._text(f"pressure/{name}").splitlines()]
        with contextlib.suppress(OSError):
            lines.append(f"load: {self._text('loadavg').strip()}")
        return "\n".join([*lines, *kernel_complaints(self._began)])

    def _run(self) -> None:
        while not self._ended.wait(PERIOD):
            self.look(time.monotonic())

    def _note(self, text: str) -> None:
        self._notes.append(f"{time.strftime('%H:%M:%S')} {text}")

    def _threads(self, name: str, pid: int) -> dict[tuple[str, str], Times]:
        found = {}
        with contextlib.suppress(OSError):  # it ends
            for thread in os.listdir(self._proc / str(pid) / "task"):
                ran, waited, _ = self._text(f"{pid}/task/{thread}/schedstat").split()
                found[name, thread] = Times(int(ran) / 1e9, int(waited) / 1e9)
        return found

    def _stolen_seconds(self) -> float:
        with contextlib.suppress(OSError, IndexError):
            return int(self._text("stat").split(maxsplit=9)[8]) / _TICKS
        return 0.0

    def _text(self, path: str) -> str:
        return (self._proc / path).read_text()


def _since(times: Times, before: Times | None) -> Times:
    """What a thread added; of a new one nothing is known but what it did so far."""
    return times if before is None else Times(times.ran - before.ran, times.waited - before.waited)


def kernel_complaints(since: float) -> list[str]:
    """Lines of the kernel's log on what stood still, where it may be read. since: on the monotonic clock."""
    found = []
    with contextlib.suppress(OSError):
        log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        try:
            while True:  # until nothing more is there: BlockingIOError
                head, _, said = os.read(log, 8192).partition(b";")
                if int(head.split(b",")[2]) / 1e6 >= since and _OF_THE_KERNEL.search(said):
                    found.append(f"kernel: {said.splitlines()[0].decode(errors='replace')}")
        finally:
            os.close(log)
    return found

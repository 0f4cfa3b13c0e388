"""How long the bed waited for a core: what a busy machine takes of the time is not the reconciler's."""

from __future__ import annotations

import bisect
import contextlib
import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

LOOK_PAUSE = 0.5


class ThreadTimes(NamedTuple):
    """Seconds since a thread began in which it has run, and has waited for a core. A wait is counted when it is over.
    wants_core: whether it runs or waits now."""

    ran: float
    waited: float
    wants_core: bool


class Starvation:
    """Looks again and again at the threads of some processes, and sums up the time in which one of them waited for a
    core. read_times: thread -> its times."""

    def __init__(
        self, read_times: Callable[[], Mapping[str, ThreadTimes]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._read_times, self._clock = read_times, clock
        self._known = read_times()
        self._moments, self._sums = [clock()], [0.0]
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="starvation", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(LOOK_PAUSE):
            self.look()

    def look(self) -> None:
        """Add what was waited since the last look."""
        times, now = self._read_times(), self._clock()
        since = now - self._moments[-1]
        waits = (self._wait_of(thread, seen, since) for thread, seen in times.items())
        self._sums.append(self._sums[-1] + max(waits, default=0.0))
        self._moments.append(now)
        self._known = times

    def _wait_of(self, thread: str, seen: ThreadTimes, since: float) -> float:
        """What the thread has waited within the seconds since the last look."""
        before = self._known.get(thread, ThreadTimes(0.0, 0.0, wants_core=False))
        waits_still = seen.wants_core and before.wants_core and seen.ran == before.ran
        return since if waits_still else min(seen.waited - before.waited, since)

    def seconds(self, since: float, until: float) -> float:
        """How much of this time was waited."""
        first, last = (max(0, bisect.bisect_right(self._moments, at) - 1) for at in (since, until))
        return min(self._sums[last] - self._sums[first], max(0.0, until - since))


def times_of(root: int) -> dict[str, ThreadTimes]:
    """Thread of this process, or of what it started, -> its times."""
    found: dict[str, ThreadTimes] = {}
    left = [root]
    while left:
        tasks = f"/proc/{left.pop()}/task"
        for thread in (f"{tasks}/{number}" for number in _names_in(tasks)):
            with contextlib.suppress(OSError, ValueError):  # it has ended, before or while it is read
                ran, waited, _ = _content(f"{thread}/schedstat").split()
                state = _content(f"{thread}/stat").rpartition(b") ")[2][:1]
                found[thread] = ThreadTimes(int(ran) / 1e9, int(waited) / 1e9, state == b"R")
                left += map(int, _content(f"{thread}/children").split())
    return found


def _content(path: str) -> bytes:
    """The content of a file of the kernel, without `pathlib`: there are three of each of hundreds of threads, twice a
    second, and it would take a third of the time of the tests' process."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, 1 << 16)
    finally:
        os.close(descriptor)


def _names_in(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []

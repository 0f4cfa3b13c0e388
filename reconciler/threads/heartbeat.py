"""Supervision of threads: each shows that it still runs, and no exception stops one."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from reconciler.timings import TIMINGS

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Heartbeat:
    """The sign of life of one thread.

    limit: seconds within which it beats while all is well, however slowly the API server or git answers. errors: how
    many unexpected exceptions the thread has survived. last_beat: None before the first, and while it rests.
    error_pause: seconds for which it rests after such an exception.
    """

    name: str
    limit: float
    clock: Callable[[], float] = time.monotonic
    errors: int = 0
    last_beat: float | None = None
    error_pause: float = TIMINGS.loop.error_pause

    def beat(self) -> None:
        self.last_beat = self.clock()

    def rest(self) -> None:
        """Give no sign until the next beat: there is nothing to do."""
        self.last_beat = None

    def seconds_late(self) -> float:
        """Return seconds by which the sign is overdue; 0 while it is not, or the thread has nothing to do."""
        last = self.last_beat  # its thread may set another meanwhile
        return 0.0 if last is None else max(0.0, self.clock() - last - self.limit)

    def record_error(self, error: BaseException) -> None:
        """Count and log an unexpected exception."""
        self.errors += 1
        log.error("an unexpected error was survived", exc_info=error, extra={"heartbeat": self.name})


@dataclass(slots=True)
class LoopPulse:
    """last_good_pass: when a pass ended well, on the clock. others: heartbeats of threads that belong to no part."""

    heartbeat: Heartbeat
    last_good_pass: float = 0.0
    others: list[Heartbeat] = field(default_factory=list)

    def watch_over(self, *heartbeats: Heartbeat) -> None:
        """Count these heartbeats with those of the parts."""
        self.others += heartbeats

    def record_good_pass(self) -> None:
        self.last_good_pass = time.monotonic()


def repeat_step(step: Callable[[], float], stop: threading.Event, heartbeat: Heartbeat) -> None:
    """Repeat `step` until `stop`, each time after as many seconds as it returned. No exception ends that."""
    while not stop.is_set():
        heartbeat.beat()
        try:
            pause = step()
        except Exception as error:
            heartbeat.record_error(error)
            pause = heartbeat.error_pause
        stop.wait(pause)


def start_thread(step: Callable[[], float], stop: threading.Event, heartbeat: Heartbeat) -> threading.Thread:
    """Start a thread, named as its heartbeat, that repeats the step."""
    thread = threading.Thread(target=repeat_step, args=(step, stop, heartbeat), name=heartbeat.name, daemon=True)
    thread.start()
    return thread

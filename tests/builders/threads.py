"""A machine that lets no thread be started for a moment, and a loop that leaves writes soon."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from reconciler.timings import LoopTimings, Timings, WriteTimings

HASTY_WRITES = WriteTimings(patience=0.2)


def skip_error_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let threads go on at once after an exception that they did not expect."""
    monkeypatch.setattr("reconciler.threads.heartbeat.TIMINGS", Timings(loop=LoopTimings(error_pause=0.0)))


@contextmanager
def no_new_thread() -> Iterator[None]:
    """Meanwhile starting a thread fails, as at the limit of processes."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        yield

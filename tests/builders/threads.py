"""A machine that lets no thread be started for a moment, a loop that leaves writes soon, and a lease that is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from reconciler.cluster.client import LostLease
from reconciler.cluster.write_threads import WriteThreads
from reconciler.timings import WriteTimings

HASTY_WRITES = WriteTimings(patience=0.2)


@contextmanager
def no_new_thread() -> Iterator[None]:
    """Meanwhile starting a thread fails, as at the limit of processes."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        yield


def wait_for_answers(threads: WriteThreads) -> None:
    """Wait until no write that was left is under way."""
    while not all(call.answer.done() for call in threads._left.values()):
        time.sleep(0.001)


def lose_lease() -> None:
    """A fence that is closed."""
    raise LostLease("another replica holds the lease")

"""A machine that lets no thread be started for a moment, and a loop that leaves writes soon."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

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

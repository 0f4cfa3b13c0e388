"""Progress on stderr, where that is a terminal: the present step, and its seconds."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

FIRST_AFTER = 1.0
"""Seconds of silence: most commands end before."""


@contextmanager
def progress(text: str) -> Iterator[None]:
    """Show `text` and the seconds so far until the block ends, then take it away."""
    if not sys.stderr.isatty():
        yield
        return
    ended = threading.Event()
    shown = threading.Thread(target=_show, args=(text, ended), daemon=True)
    shown.start()
    try:
        yield
    finally:
        ended.set()
        shown.join()


def _show(text: str, ended: threading.Event) -> None:
    seconds = FIRST_AFTER
    while not ended.wait(FIRST_AFTER):
        sys.stderr.write(f"\r{text} {seconds:.0f} s")
        sys.stderr.flush()
        seconds += FIRST_AFTER
    if seconds > FIRST_AFTER:
        sys.stderr.write("\r\033[K")
        sys.stderr.flush()

"""Processes that a test looks at from outside."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from pathlib import Path

from reconciler.cli.sandbox import start_time


def is_alive(pid: int) -> bool:
    """Whether a process is there and no zombie whose parent has not asked about it."""
    return start_time(pid) != ""


def ends(pid: int, seconds: float = 30.0) -> bool:
    """Whether a process is gone within so many seconds: the kernel ends a killed one a moment after the kill."""
    deadline = time.monotonic() + seconds
    while is_alive(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def child_processes(pid: int) -> Sequence[int]:
    found: list[int] = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, file.read_text().split())
    return found

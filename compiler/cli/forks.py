"""Work distributed to as many forks of this process as there are cores, with the same results as in one."""

from __future__ import annotations

import marshal
import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

LEAST_ITEMS = 100
"""With fewer another process costs more than it gains."""
MOST_PROCESSES = 4


def process_count(items: int) -> int:
    """Among how many processes, this one included, so many items are to be divided."""
    if items < LEAST_ITEMS or not sys.platform.startswith("linux"):
        return 1
    return min(len(os.sched_getaffinity(0)), MOST_PROCESSES)


def in_forks(processes: int, work: Callable[[int], Any], own: Callable[[], T]) -> tuple[T, list[Any]]:
    """Return the result of `own`, and the results of `work`, as plain data, for 1, 2, ... in a fork each, except failed
    ones."""
    forks = [_start(work, number) for number in range(1, processes)]
    done = own()
    return done, [answer for process, pipe in forks for answer in _answer(process, pipe)]


def _start(work: Callable[[int], Any], number: int) -> tuple[int, int]:
    """(process, pipe) of a fork that does the work."""
    pipe, end = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    process = os.fork()
    if process:
        os.close(end)
        return process, pipe
    code = 1
    try:
        os.close(pipe)
        found = work(number)
        with os.fdopen(end, "wb") as out:
            marshal.dump(found, out)
        code = 0
    finally:
        os._exit(code)


def _answer(process: int, pipe: int) -> list[Any]:
    with os.fdopen(pipe, "rb") as out:
        content = out.read()
    _, status = os.waitpid(process, 0)
    return [] if status else [marshal.loads(content)]  # noqa: S302  # of a fork of this process

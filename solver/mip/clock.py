"""The clock, the last safety: when work must end, and whether that changed anything.

Limits of work are deterministic and normally strike first; what the clock cuts off is noted (`watch_time_limit`), since
the same input may then give another plan on another day.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

LATE_WORK = 200_000
"""Some tenths of a second of counting."""


class OutOfTimeError(Exception):
    """The time is over, and the work that is done late."""


@dataclass(slots=True)
class _Limit:
    deadline: float
    late_work: int = 0

    def spend(self, work: int) -> None:
        self.late_work -= work


@dataclass(slots=True)
class TimeLimitWatch:
    """hit_time_limit: whether the clock cut anything off."""

    hit_time_limit: bool = False

    def record(self) -> None:
        """Note that the clock has cut something off."""
        self.hit_time_limit = True


_WATCHES: ContextVar[tuple[TimeLimitWatch, ...]] = ContextVar("watches", default=())
_LIMIT: ContextVar[_Limit] = ContextVar("limit", default=_Limit(math.inf))  # noqa: B039  # never reached, never changed


@contextmanager
def watch_time_limit() -> Iterator[TimeLimitWatch]:
    """Notes whether the clock cuts off anything inside. A limit of nodes is no clock: it is the same every time."""
    watch = TimeLimitWatch()
    token = _WATCHES.set((*_WATCHES.get(), watch))
    try:
        yield watch
    finally:
        _WATCHES.reset(token)


def record_time_limit() -> None:
    """Note that the clock has cut something off."""
    for watch in _WATCHES.get():
        watch.record()


@contextmanager
def limit_time(seconds: float, late_work: int = 0) -> Iterator[None]:
    """What is inside ends so many seconds from now, or when what is around it must. late_work: done even then, in nodes
    or variables looked at; counting, greedies and presolving prove much in little time."""
    token = _LIMIT.set(_Limit(min(_LIMIT.get().deadline, time.monotonic() + max(0.0, seconds)), late_work))
    try:
        yield
    finally:
        _LIMIT.reset(token)


def seconds_left() -> float:
    """Seconds until the limit; infinity without one."""
    return max(0.0, _LIMIT.get().deadline - time.monotonic())


def is_out_of_time() -> bool:
    """Whether the limit has come. Noted, since work is left out by all that ask."""
    if seconds_left():
        return False
    record_time_limit()
    return True


def may_work(work: int) -> bool:
    """Whether there is time left, or work that is done late. Noted, where not."""
    limit = _LIMIT.get()
    if time.monotonic() < limit.deadline:
        return True
    limit.spend(work)
    if limit.late_work <= 0:
        record_time_limit()
    return limit.late_work > 0


def require_time(work: int) -> None:
    """Raises OutOfTimeError where there is no time for this work."""
    if not may_work(work):
        raise OutOfTimeError

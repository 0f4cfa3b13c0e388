"""The clock, the last safety: when work must end, and whether that changed anything.

Limits of work are deterministic and normally strike first; what the clock cuts off is noted, since the same input may
then give another plan on another day.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

LATE_WORK = 200_000
"""Some tenths of a second of counting."""


class OutOfTimeError(Exception):
    """The time is over, and the work that is done late."""


@dataclass(slots=True, eq=False)
class Clock:
    """deadline: when work stops, by `time.monotonic`. late_work: done even then, in nodes or variables; counting,
    greedies and presolving prove much in little time. around: a clock that strikes whenever this one does. has_struck:
    whether it cut anything off. A limit of nodes is not a clock: it is the same every time."""

    deadline: float = math.inf
    late_work: int = 0
    around: Clock | None = None
    has_struck: bool = False

    def within(self, seconds: float, late_work: int = 0) -> Clock:
        """Return a clock for work that ends so many seconds from now, or when this one's must."""
        return Clock(min(self.deadline, time.monotonic() + max(0.0, seconds)), late_work, self)

    def seconds_left(self) -> float:
        """Return seconds until the limit; infinity without one."""
        return max(0.0, self.deadline - time.monotonic())

    def strike(self) -> None:
        """Note that the clock has cut something off."""
        self.has_struck = True
        if self.around is not None:
            self.around.strike()

    def is_over(self) -> bool:
        """Return whether the limit is reached. Noted, since work is left out by all that ask."""
        if self.seconds_left():
            return False
        self.strike()
        return True

    def may_work(self, work: int) -> bool:
        """Return whether there is time left, or work that is done late. Noted, where not."""
        if self.seconds_left():
            return True
        self.late_work -= work
        if self.late_work <= 0:
            self.strike()
        return self.late_work > 0

    def require_time(self, work: int) -> None:
        """Raises OutOfTimeError where there is not a time for this work."""
        if not self.may_work(work):
            raise OutOfTimeError

    def __reduce__(self) -> tuple[object, ...]:
        """In another process it ends at the same time, and has late work of its own."""
        return _sent_clock, (time.time() + self.seconds_left(),)


def _sent_clock(ends_at: float) -> Clock:
    """Return the clock of a worker process. ends_at: in seconds since the epoch."""
    return Clock().within(ends_at - time.time(), LATE_WORK)

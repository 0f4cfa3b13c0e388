"""One future: when waiting jobs start if every run takes its drawn time.

The cluster is one pool of devices with EASY backfilling (`solver.timeline.reservation`): jobs start in order; the first
that does not fit has the room of the moment at which it will fit, and others pass if they do not delay it. Later
arrivals are unknown. Places, queues' limits and evictions are left out; the windows compensate for the error
(`solver.forecast.windows`).
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass

End = tuple[int, int]
"""(when a run ends, devices that it gives back)."""


@dataclass(frozen=True, slots=True)
class Pool:
    """Times are integers of any unit from any origin. waiting: (job, devices) in order, none of which can start before
    a run ends, for places, limits or a reservation. running: (job, devices)."""

    now: int
    free: int
    running: Sequence[tuple[int, int]]
    waiting: Sequence[tuple[int, int]]


def start_times(pool: Pool, length: Callable[[int], int], rest: Callable[[int], int]) -> dict[int, int]:
    """Return job -> its start; without jobs that never fit and those behind them. length: of a waiting job's run. rest:
    remaining time of a running one."""
    return _Future(pool, length, rest).starts()


class _Future:
    def __init__(self, pool: Pool, length: Callable[[int], int], rest: Callable[[int], int]) -> None:
        self.now, self.free, self.length = pool.now, pool.free, length
        self.ends: list[End] = sorted((pool.now + max(1, rest(job)), devices) for job, devices in pool.running)
        self.waiting = [*pool.waiting]
        self.started: dict[int, int] = {}

    def starts(self) -> dict[int, int]:
        while self.waiting and self.ends:
            self._pass_to_next_end()
            self._start_in_order()
            if self.waiting and (fit := self._first_fit(self.waiting[0][1])) is not None:
                self._backfill(*fit)
        return self.started

    def _start_in_order(self) -> None:
        first = 0
        while first < len(self.waiting) and self.waiting[first][1] <= self.free:
            self._start(*self.waiting[first])
            first += 1
        del self.waiting[:first]

    def _first_fit(self, devices: int) -> tuple[int, int] | None:
        """(when so many devices are free, how many more are then); None where they never are."""
        free = self.free
        for end, given in self.ends:
            free += given
            if free >= devices:
                return end, free - devices
        return None

    def _backfill(self, shadow: int, spare: int) -> None:
        """Start jobs that end before the shadow, or that fit into the spare devices."""
        left = self.waiting[:1]
        for at in range(1, len(self.waiting)):
            if not self.free:
                left += self.waiting[at:]
                break
            job, devices = self.waiting[at]
            is_short = devices <= self.free and self.now + self.length(job) <= shadow
            if is_short or devices <= min(self.free, spare):
                spare -= 0 if is_short else devices
                self._start(job, devices)
            else:
                left.append((job, devices))
        self.waiting = left

    def _start(self, job: int, devices: int) -> None:
        self.free -= devices
        self.started[job] = self.now
        insort(self.ends, (self.now + max(1, self.length(job)), devices))

    def _pass_to_next_end(self) -> None:
        self.now = self.ends[0][0]
        while self.ends and self.ends[0][0] == self.now:
            self.free += self.ends.pop(0)[1]

"""How long the loop rests between two passes and asks for single objects, what ends its rest, and pauses that grow."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from reconciler.timings import TIMINGS, LookUpTimings, RestTimings


def doubled(first: float, times: int, longest: float = inf) -> float:
    """Return the pause, doubled so many times, and no longer than the longest. It stays a number after days of
    failures."""
    return min(first * 2.0 ** min(times, 64), longest)


@dataclass(slots=True)
class Interval:
    """seconds: between two rounds of something. next_at: when one is due, on the clock."""

    seconds: float
    clock: Callable[[], float]
    next_at: float = 0.0

    def has_come(self) -> bool:
        """Return whether a round is due, which then begins."""
        if self.clock() < self.next_at:
            return False
        self.next_at = self.clock() + self.seconds
        return True


class LookUps:
    """How many objects a phase of a pass asks for by name, and for how long: it ends soon however slowly the server
    answers."""

    def __init__(self, clock: Callable[[], float], timings: LookUpTimings) -> None:
        self.clock, self.until, self.left = clock, clock() + timings.limit, timings.most

    def may_ask(self) -> bool:
        """Return whether one more object may be asked for, which is then counted."""
        if self.left <= 0 or self.clock() >= self.until:
            return False
        self.left -= 1
        return True


@dataclass(slots=True)
class LoopRest:
    """owed: seconds of rest that were put off, at the end of the last pass. ended_at: that end, on the clock."""

    timings: RestTimings = TIMINGS.rest
    owed: float = 0.0
    ended_at: float = 0.0

    def rested_at(self, began_at: float, ends_at: float, computed: float, is_paced: bool) -> float:
        """Return when the loop has rested from a pass with this begin and end, on the clock. computed: its computing
        seconds; the rest was waiting. is_paced: whether new jobs were deferred to later passes; such a rest is never
        put off."""
        waited, timings = ends_at - began_at - computed, self.timings
        self.owed = max(0.0, self.owed - (began_at - self.ended_at))
        self.ended_at = ends_at
        if is_paced:
            return ends_at + min(timings.longest_paced, max(timings.paced, timings.paced_factor * computed)) - waited
        self.owed += max(0.0, min(timings.longest, timings.factor * computed) - waited)
        return ends_at + self.owed - timings.credit


class WakeEvent(threading.Event):
    """Set when a pass is due. stirred: set then too, and when there are only objects to be put back, which needs no
    pass. is_urgent: the pass need not wait until the loop has rested."""

    def __init__(self) -> None:
        super().__init__()
        self.stirred = threading.Event()
        self.is_urgent = False

    def set(self) -> None:
        """Nothing where a pass is due already: of the hundreds of events of a wave each would stir the loop."""
        if not self.is_set():
            super().set()
            self.stirred.set()

    def hurry(self) -> None:
        """Let a pass be made without a rest: for what happens seldom, as an answer that a commit waits for."""
        self.is_urgent = True
        super().set()
        self.stirred.set()

    def clear(self) -> None:
        self.is_urgent = False
        super().clear()

"""When the compile worker is told what the cluster holds by now, though nothing is to be compiled: the compile of the
next commit then deals only with what that commit changes."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from reconciler.timings import TIMINGS, CompileTimings


@dataclass(slots=True)
class WorkerState:
    """seen: the lists of objects that plans rest on, as they were last. changed_at, told_at: on the clock."""

    timings: CompileTimings = TIMINGS.compile
    seen: tuple[object, ...] = ()
    changed_at: float = -inf
    told_at: float = -inf

    def note_seen(self, lists: tuple[object, ...], now: float) -> None:
        """Note what the cluster holds; lists of the same objects are compared quickly."""
        if lists != self.seen:
            self.seen, self.changed_at = lists, now

    def note_told(self, now: float) -> None:
        """Note that the worker is being told what was seen last."""
        self.told_at = now

    def tell_at(self) -> float:
        """On the clock; infinite where the worker knows what was seen last."""
        is_known = self.told_at >= self.changed_at
        return (
            inf if is_known else min(self.changed_at + self.timings.quiet, self.told_at + self.timings.longest_untold)
        )

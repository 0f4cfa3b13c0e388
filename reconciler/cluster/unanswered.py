"""Reads that the loop waits for and that get no answer (a dead aggregated API): not repeated for a while."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

PAUSE = 30.0
"""Seconds for which a read that got no answer is not repeated: the loop waits for it, and all objects for the loop."""


@dataclass(slots=True)
class Unanswered:
    """until: what was asked for -> what came instead, and until when that is told without asking."""

    clock: Callable[[], float] = time.monotonic
    until: dict[str, tuple[str, float]] = field(default_factory=dict)

    def trouble(self, path: str) -> str:
        """What came instead of an answer not long ago; empty where it may be asked for."""
        message, until = self.until.get(path, ("", 0.0))
        return message if self.clock() < until else ""

    def record(self, path: str, message: str) -> None:
        now = self.clock()
        recent = {known: row for known, row in self.until.items() if row[1] > now}
        self.until = {**recent, path: (message, now + PAUSE)}

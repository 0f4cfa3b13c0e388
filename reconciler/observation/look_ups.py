"""How many objects a pass asks for by name, and for how long: so it ends soon, however slowly the server answers."""

from __future__ import annotations

from collections.abc import Callable

MAX_LOOK_UPS = 100
LOOK_UP_SECONDS = 4.0
"""Seconds after which no further object is asked for: one read without an answer takes as long, and is not repeated for
a while, so that the next pass comes to others."""


class LookUps:
    """The look-ups of one phase of a pass, counted from its first."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock, self.until, self.left = clock, clock() + LOOK_UP_SECONDS, MAX_LOOK_UPS

    def may_ask(self) -> bool:
        """Whether one more object may be asked for, which is then counted."""
        if self.left <= 0 or self.clock() >= self.until:
            return False
        self.left -= 1
        return True

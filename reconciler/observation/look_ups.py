"""How many objects a pass asks for by name, and for how long: so it ends soon, however slowly the server answers."""

from __future__ import annotations

from collections.abc import Callable

from reconciler.timings import LookUpTimings


class LookUps:
    """The look-ups of one phase of a pass, counted from its first."""

    def __init__(self, clock: Callable[[], float], timings: LookUpTimings) -> None:
        self.clock, self.until, self.left = clock, clock() + timings.limit, timings.most

    def may_ask(self) -> bool:
        """Whether one more object may be asked for, which is then counted."""
        if self.left <= 0 or self.clock() >= self.until:
            return False
        self.left -= 1
        return True

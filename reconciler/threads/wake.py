"""What ends the loop's rest."""

from __future__ import annotations

import threading


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

"""What ends the loop's rest."""

from __future__ import annotations

import threading


class WakeEvent(threading.Event):
    """Set when a pass is due. stirred: set then too, and when there are only objects to be put back, which needs no
    pass."""

    def __init__(self) -> None:
        super().__init__()
        self.stirred = threading.Event()

    def set(self) -> None:
        super().set()
        self.stirred.set()

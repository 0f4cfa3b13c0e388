"""How fast one client writes: a token bucket, shared by all who write with it, and a pause when the server asks for
one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

WRITES_PER_SECOND, BURST = 400.0, 400.0
"""Of one client in the long run, and at once after a rest."""
LONGEST_WAIT = 1.0
"""Seconds that a writer waits for its turn; after that it has other things to do."""


@dataclass(slots=True)
class RateLimit:
    """Lets requests pass at `rate` a second, and none while the server has asked to wait."""

    rate: float = WRITES_PER_SECOND
    burst: float = BURST
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _tokens: float = 0.0
    _counted_at: float = -1.0
    _paused_until: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take_turn(self) -> float:
        """Wait for a turn and return 0; or, where that takes too long, do not wait and return the seconds left."""
        with self._lock:
            now = self.clock()
            since = now - self._counted_at if self._counted_at >= 0 else self.burst / self.rate
            self._tokens, self._counted_at = min(self.burst, self._tokens + since * self.rate), now
            wait = max(self._paused_until - now, (1.0 - self._tokens) / self.rate, 0.0)
            if wait > LONGEST_WAIT:
                return wait
            self._tokens -= 1.0
        if wait > 0:
            self.sleep(wait)
        return 0.0

    def pause(self, seconds: float) -> None:
        """Let nothing pass for so long: the server said when to come back."""
        with self._lock:
            self._paused_until = max(self._paused_until, self.clock() + seconds)

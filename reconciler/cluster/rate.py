"""How fast one client writes: a token bucket, and a pause when the server asks for one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf

from reconciler.timings import TIMINGS, RateTimings


@dataclass(slots=True)
class RateLimit:
    """Lets requests pass at `rate` a second, and none while the server has asked to wait. longest: seconds for which it
    may ask that of one object. _asked_until: path of an object -> until when it asked."""

    rate: float = TIMINGS.rate.per_second
    burst: float = TIMINGS.rate.burst
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    longest: float = inf
    timings: RateTimings = TIMINGS.rate
    _tokens: float = 0.0
    _counted_at: float = -1.0
    _paused_until: float = 0.0
    _asked_until: dict[str, float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take_turn(self, path: str = "") -> float:
        """Wait for a turn and return 0; where that takes too long, return the seconds left. path: of the object."""
        with self._lock:
            now = self.clock()
            since = now - self._counted_at if self._counted_at >= 0 else self.burst / self.rate
            self._tokens, self._counted_at = min(self.burst, self._tokens + since * self.rate), now
            paused_until = max(self._paused_until, self._asked_until.get(path, 0.0))
            wait = max(paused_until - now, (1.0 - self._tokens) / self.rate, 0.0)
            if wait > self.timings.longest_wait:
                return wait
            self._tokens -= 1.0
        if wait > 0:
            self.sleep(wait)
        return 0.0

    def pause(self, seconds: float, path: str = "") -> None:
        """Delay all requests for so many seconds, as the server asked in answer to a request for this path."""
        with self._lock:
            now = self.clock()
            self._asked_until = {known: until for known, until in self._asked_until.items() if until > now}
            self._asked_until[path] = now + min(seconds, self.longest)
            is_alone = len(self._asked_until) == 1
            most = self.timings.first_pause if is_alone else self.timings.longest_pause
            for_all = min(seconds, self.longest, most)
            self._paused_until = max(self._paused_until, now + for_all)


def retry_after(headers: Mapping[str, str]) -> float:
    """Return the seconds that an answer asks to wait; one second by default."""
    try:
        return min(max(0.1, float(headers.get("Retry-After") or 1)), 300.0)  # in this order: a NaN is not more than 0.1
    except ValueError:
        return 1.0

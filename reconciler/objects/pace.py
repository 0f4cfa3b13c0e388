"""How many jobs are made at a time. Decisions on data, no IO.

Volcano's job controller takes in jobs with three workers, one step of each in turn. Of hundreds that come at once it
makes every PodGroup before the first pods, and the scheduler tells of each gang, again and again, that it has none. So
new jobs that are to start come only as fast as those before them get their pods.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from reconciler.changes.diff import Change

IN_FLIGHT = 32
"""Jobs that may have been made and have no pods yet."""
FLIGHT_SECONDS = 8.0
"""Seconds after which a job without pods holds up no other."""
SOON = 0.1
"""Seconds after which a pass follows where room came while the last one was made."""
SLICE = 400
"""Changes of one pass: gates of the first jobs are lifted while the last ones are still to be made."""
BUSY_SECONDS = 1.0
"""Seconds in which `CorrectionPace.most` corrections are so many that Events wait for them."""


class CorrectionPace:
    """When the last `most` objects were put back between passes."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._times: deque[float] = deque(maxlen=most)

    def record(self, count: int, now: float) -> bool:
        """Note so many corrections; whether there are many now, as in a pass that makes many changes."""
        self._times.extend([now] * min(count, self.most))
        return len(self._times) == self.most and now - self._times[0] < BUSY_SECONDS


@dataclass(slots=True)
class StartPace:
    """made_at: Ref.key of a job without pods -> when it was made, on the clock. is_holding: whether jobs were
    left to a later pass."""

    made_at: dict[str, float] = field(default_factory=dict)
    is_holding: bool = False

    def observe(self, has_pods: Callable[[str], bool], now: float) -> None:
        """Forget the jobs that have their pods, and those that take too long."""
        recent = {key: at for key, at in self.made_at.items() if now - at < FLIGHT_SECONDS}
        self.made_at = {key: at for key, at in recent.items() if not has_pods(key)}

    def record_creation(self, key: str, now: float) -> None:
        self.made_at[key] = now

    def next_changes(self, due: Sequence[Change], starting: Collection[str], waiting: Collection[str]) -> list[Change]:
        """The changes of this pass in their order: wave by wave, new jobs last, and of them those that wait after those
        that start. starting, waiting: Ref.key of gangs."""
        room = max(IN_FLIGHT - len(self.made_at), 0)
        by_rank: tuple[list[Change], list[Change], list[Change]] = ([], [], [])
        for change in due:
            key = change.ref.key
            is_new = change.action == "create"
            by_rank[1 if is_new and key in starting else 2 if is_new and key in waiting else 0].append(change)
        others, starts, waits = by_rank
        self.is_holding = len(starts) > room
        chosen = [*others, *starts[:room]] if self.is_holding else [*others, *starts, *waits]
        return sorted(chosen, key=lambda change: change.desired.wave if change.desired else 0)[:SLICE]

    def deadlines(self, now: float) -> list[float]:
        """When jobs without pods let others go on, on the clock: soon, where that came during a long pass."""
        if not self.is_holding:
            return []
        return [max(at + FLIGHT_SECONDS, now + SOON) for at in self.made_at.values()] or [now + SOON]

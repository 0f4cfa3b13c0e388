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
from reconciler.timings import TIMINGS, ObjectTimings


class CorrectionPace:
    def __init__(self, timings: ObjectTimings = TIMINGS.objects) -> None:
        self.timings = timings
        self._times: deque[float] = deque(maxlen=timings.many)

    def record(self, count: int, now: float) -> bool:
        """Note so many corrections; whether there are many now, as in a pass that makes many changes."""
        self._times.extend([now] * min(count, self.timings.many))
        return len(self._times) == self.timings.many and now - self._times[0] < self.timings.busy


@dataclass(slots=True)
class StartPace:
    """made_at: Ref.key of a job without pods -> when it was made. is_holding: whether jobs were left to a later
    pass."""

    timings: ObjectTimings = TIMINGS.objects
    made_at: dict[str, float] = field(default_factory=dict)
    is_holding: bool = False

    def observe(self, has_pods: Callable[[str], bool], now: float) -> None:
        """Forget the jobs that have their pods, and those that take too long."""
        recent = {key: at for key, at in self.made_at.items() if now - at < self.timings.flight}
        self.made_at = {key: at for key, at in recent.items() if not has_pods(key)}

    def record_creation(self, key: str, now: float) -> None:
        self.made_at[key] = now

    def next_changes(self, due: Sequence[Change], starting: Collection[str], waiting: Collection[str]) -> list[Change]:
        """The changes of this pass, by wave, starting jobs before waiting ones. starting, waiting: Ref.key of gangs."""
        room = max(self.timings.jobs_in_flight - len(self.made_at), 0)
        by_rank: tuple[list[Change], list[Change], list[Change]] = ([], [], [])
        for change in due:
            key = change.ref.key
            is_new = change.action == "create"
            by_rank[1 if is_new and key in starting else 2 if is_new and key in waiting else 0].append(change)
        others, starts, waits = by_rank
        self.is_holding = len(starts) > room
        chosen = [*others, *starts[:room]] if self.is_holding else [*others, *starts, *waits]
        return sorted(chosen, key=lambda change: change.desired.wave if change.desired else 0)[: self.timings.slice]

    def deadlines(self, now: float) -> list[float]:
        """When jobs without pods let others go on; soon, where that came during a long pass."""
        if not self.is_holding:
            return []
        soon, flight = now + self.timings.soon, self.timings.flight
        return [max(at + flight, soon) for at in self.made_at.values()] or [soon]

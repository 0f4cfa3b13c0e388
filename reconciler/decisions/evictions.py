"""Evictions that were refused: when each pod is asked for again. Decisions on data, no IO."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

from compiler.kubernetes import uid_of
from reconciler.cluster.objects import Object

FIRST_PAUSE, MAX_PAUSE = 1.0, 60.0
"""Seconds before a refused eviction is asked for again: at first, doubled with each refusal, and at most."""


@dataclass(slots=True)
class EvictionMemory:
    """refused: uid of a pod -> (refusals, when it may be asked for again, the last answer). granted: uid of a job ->
    how many of its pods were evicted."""

    refused: dict[str, tuple[int, float, str]] = field(default_factory=dict)
    granted: Counter[str] = field(default_factory=Counter)

    def is_due(self, pod: Object, now: float) -> bool:
        _, retry_at, _ = self.refused.get(uid_of(pod), (0, now, ""))
        return now >= retry_at

    def record_refusal(self, pod: Object, message: str, after: float, now: float) -> None:
        """A budget or the server said no; `after`: the seconds that it asks to be left alone."""
        refusals, _, _ = self.refused.get(uid_of(pod), (0, now, ""))
        pause = max(after, min(FIRST_PAUSE * 2.0**refusals, MAX_PAUSE))
        self.refused[uid_of(pod)] = (refusals + 1, now + pause, message)

    def forget_others(self, present: Collection[str]) -> None:
        """Keep what is known of pods that are there still."""
        self.refused = {uid: known for uid, known in self.refused.items() if uid in present}

    def deadlines(self) -> list[float]:
        return [retry_at for _, retry_at, _ in self.refused.values()]

"""Evictions: when a refused eviction is asked for again, and which granted ones the watch does not show yet."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from compiler.cluster_state.pods import EVICTION_SLACK
from compiler.kubernetes import uid_of
from reconciler.cluster.objects import Object
from reconciler.timings import PodTimings


@dataclass(slots=True)
class EvictionMemory:
    """refused: uid of a pod -> (refusals, when it may be asked for again, the last answer). unseen: uids of pods whose
    end was granted, until the watch shows it: a plan made before would count them as running. ending: uid of a pod ->
    since when it is seen to end."""

    timings: PodTimings = field(default_factory=PodTimings)
    refused: dict[str, tuple[int, float, str]] = field(default_factory=dict)
    unseen: set[str] = field(default_factory=set)
    ending: dict[str, float] = field(default_factory=dict)

    def is_due(self, pod: Object, now: float) -> bool:
        """Whether to ask for the pod's end: not where that was granted a moment ago and the watch lags behind."""
        _, retry_at, _ = self.refused.get(uid_of(pod), (0, now, ""))
        return now >= retry_at and uid_of(pod) not in self.unseen

    def record_refusal(self, pod: Object, message: str, after: float, now: float) -> None:
        """A budget or the server said no; `after`: the seconds that it asks to be left alone."""
        refusals, _, _ = self.refused.get(uid_of(pod), (0, now, ""))
        timings = self.timings
        pause = max(after, min(timings.first_eviction_pause * 2.0**refusals, timings.longest_eviction_pause))
        self.refused[uid_of(pod)] = (refusals + 1, now + pause, message)

    def record_grant(self, pod: Object) -> None:
        self.unseen.add(uid_of(pod))

    def observe(self, pods: Iterable[Object], ending: Iterable[Object], now: float) -> None:
        """Keep what is known of pods that are there still, and what is unseen of those that do not end. ending: the
        pods that do."""
        self.ending = {uid: self.ending.get(uid, now) for uid in map(uid_of, ending)}
        if self.refused or self.unseen:
            present = set(map(uid_of, pods))
            self.refused = {uid: known for uid, known in self.refused.items() if uid in present}
            self.unseen &= present - self.ending.keys()

    def leaves_at(self, pod: Object, now: float) -> float:
        """When a pod that ends has had its grace period and some more, counted from when it was first seen to end: the
        API server's clock may be hours before or behind ours."""
        since = self.ending.get(uid_of(pod), now)
        return since + (pod["metadata"].get("deletionGracePeriodSeconds") or 0) + EVICTION_SLACK

    def deadlines(self) -> list[float]:
        return [retry_at for _, retry_at, _ in self.refused.values()]

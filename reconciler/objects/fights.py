"""Which objects are fought over. Decisions on data, no IO."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from reconciler.changes.events import Condition
from reconciler.cluster.objects import name_of_key
from reconciler.threads.memo import drop_other_keys
from reconciler.timings import TIMINGS, ObjectTimings


@dataclass(slots=True)
class FightDetector:
    """Heat per object: each correction adds one, and it cools down linearly. An object above the threshold is left
    alone for a while, and no other.

    heat: key -> heat and when it was so. opponents: key -> a sentence on who the fight is with.
    """

    timings: ObjectTimings = TIMINGS.objects
    heat: dict[str, tuple[float, float]] = field(default_factory=dict)
    paused_until: dict[str, float] = field(default_factory=dict)
    opponents: dict[str, str] = field(default_factory=dict)

    def record_correction(self, key: str, opponent: str, now: float) -> bool:
        """Count a correction; True when this object has just become a fight. opponent: a sentence on who it is with."""
        (heat, at), times = self.heat.get(key, (0.0, now)), self.timings
        heat = max(0.0, heat - (now - at) * times.fight_threshold / times.fight_window) + 1.0
        self.heat[key] = (heat, now)
        if heat <= times.fight_threshold:
            return False
        self.heat[key] = (0.0, now)
        self.paused_until[key] = now + times.fight_pause
        self.opponents[key] = opponent
        return True

    def conditions(self, now: float) -> Iterator[Condition]:
        """Which objects are left alone now, and who the fight is with."""
        fought = sorted(key for key, until in self.paused_until.items() if until > now)
        texts = [f"{name_of_key(key)}: {self.opponents[key]}" for key in fought]
        yield Condition.of_texts("Fighting", texts, "None", "Fighting")

    def trim(self, now: float) -> None:
        """Forget objects that have cooled down, and fights that are over."""
        window = self.timings.fight_window
        drop_other_keys(self.heat, {key for key, (_, at) in self.heat.items() if now - at < window})
        drop_other_keys(self.paused_until, {key for key, until in self.paused_until.items() if until > now})
        drop_other_keys(self.opponents, self.paused_until.keys())

    def is_paused(self, key: str, now: float) -> bool:
        if now < self.paused_until.get(key, 0.0):
            return True
        self.paused_until.pop(key, None)
        return False

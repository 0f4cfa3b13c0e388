"""A fight over an object stops that one only."""

from __future__ import annotations

from reconciler.objects.memory import FightDetector
from reconciler.timings import TIMINGS


def test_corrections_in_quick_succession_are_a_fight_and_slow_ones_are_not() -> None:
    fights = FightDetector()
    assert not any(fights.record_correction("slow", "them", now=60.0 * at) for at in range(20))
    most = int(TIMINGS.objects.fight_threshold)
    turns = [
        fights.record_correction("quick", "them", now=1200.0 + at)
        for at in range(int(TIMINGS.objects.fight_threshold) + 1)
    ]
    assert turns == [*[False] * most, True]
    assert fights.opponent("quick", 1210.0) == "them"
    assert not fights.opponent("slow", 1210.0)
    assert not fights.opponent("quick", 1206.0 + TIMINGS.objects.fight_pause)

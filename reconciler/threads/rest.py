"""How long the loop rests between two passes. Decisions on data, no IO."""

from __future__ import annotations

from dataclasses import dataclass

REST_FACTOR, MAX_REST = 4.0, 0.3
"""The loop rests for so many times what a pass has computed, and so many seconds at most, what the pass has waited for
the API server included: while much happens, a pass for each event would take the cores from those who do the work."""
CREDIT = 1.0
"""Seconds of rest that may be put off: the few passes that a commit needs in a quiet cluster follow one another."""
PACED_REST, MAX_PACED_REST, PACED_REST_FACTOR = 1.0, 2.0, 10.0
"""Least and longest seconds of rest while new jobs are left to later passes, and how many times what a pass has
computed: each pass makes as many as got their pods since the last one, and writes the inventory once for all of
them."""


@dataclass(slots=True)
class LoopRest:
    """owed: seconds of rest that were put off, at the end of the last pass. ended_at: that end, on the clock."""

    owed: float = 0.0
    ended_at: float = 0.0

    def rested_at(self, began_at: float, ends_at: float, computed: float, is_paced: bool) -> float:
        """When the loop has rested from a pass that began and ends then, on the clock. computed: seconds of it; in the
        others it has waited. is_paced: whether new jobs were left to later passes; such a rest is never put off."""
        waited = ends_at - began_at - computed
        self.owed = max(0.0, self.owed - (began_at - self.ended_at))
        self.ended_at = ends_at
        if is_paced:
            return ends_at + min(MAX_PACED_REST, max(PACED_REST, PACED_REST_FACTOR * computed)) - waited
        self.owed += max(0.0, min(MAX_REST, REST_FACTOR * computed) - waited)
        return ends_at + self.owed - CREDIT

"""Gangs that the plan starts and the last check did not: a reason for a new plan. Decisions on data, no IO."""

from __future__ import annotations

from dataclasses import dataclass, field

from reconciler.changes.planned_gangs import PlannedGang
from reconciler.planning.snapshot import Snapshot


@dataclass(slots=True)
class StartRefusals:
    """refused: Ref.key of a gang -> how it was planned when its nodes were closed to it or had no room for it."""

    refused: dict[str, PlannedGang] = field(default_factory=dict)

    def record(self, key: str, gang: PlannedGang) -> bool:
        """Note that the gang cannot start as it is planned; whether that is news."""
        is_news = self.refused.get(key) != gang
        self.refused[key] = gang
        return is_news

    def drop(self, key: str) -> None:
        """Note that nothing of the kind is in the gang's way."""
        self.refused.pop(key, None)

    def still_planned(self, snapshot: Snapshot | None) -> frozenset[str]:
        """Ref.key of each refused gang that the plan in force has as it was when it was refused; forgets the others."""
        gangs = snapshot.gangs if snapshot else {}
        self.refused = {key: gang for key, gang in self.refused.items() if gangs.get(key) == gang}
        return frozenset(self.refused)

"""What a pass aims at: the commit that is to be in force, and the plan that is."""

from __future__ import annotations

from dataclasses import dataclass, field

from reconciler.changes.planned import PlannedRuns
from reconciler.planning.fingerprint import Fingerprint
from reconciler.planning.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Target:
    """snapshot: the plan in force, None for none. fingerprint, base: what it rests on now, and what it was made from.
    is_fresh: whether it is of the target commit and still rests on what is observed. rewrite_message: why a head that
    does not descend from what is in force is held."""

    commit: str = ""
    rewrite_message: str = ""
    snapshot: Snapshot | None = None
    fingerprint: Fingerprint | None = None
    base: Fingerprint | None = None
    is_fresh: bool = False
    runs: PlannedRuns = field(default_factory=PlannedRuns)
    problems: tuple[str, ...] = ()

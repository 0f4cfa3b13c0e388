"""What may be deleted, and who fights: decisions on data, no IO.

Deleting is the one thing that cannot be taken back, so an error is never read as an empty set: only what the inventory
holds, by uid, and only after a commit that compiled as a whole, with every read good, and not more at once than the
limit.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from reconciler.cluster.inventory import Inventory
from reconciler.cluster.objects import PRUNE_ANNOTATION, Object, annotations_of, uid_of
from reconciler.diff import Change, DesiredObject

PRUNE_LIMIT = 10
"""So many objects may always leave at once."""
PRUNE_LIMIT_SHARE = 0.1
"""Beyond that, this share of the inventory."""


@dataclass(frozen=True, slots=True)
class PruneSafety:
    """How far what we see can be trusted. problems: one sentence for each read that failed. allowed: the commit that
    may prune beyond the limit."""

    commit: str
    has_compiled: bool
    problems: tuple[str, ...] = ()
    allowed_commit: str = ""


@dataclass(frozen=True, slots=True)
class PrunePlan:
    """changes: what is deleted. held: what would be, with the reason in each. forget: inventory keys whose object is
    gone already."""

    changes: tuple[Change, ...] = ()
    held_changes: tuple[Change, ...] = ()
    vanished_keys: tuple[str, ...] = ()


def prune_plan(
    desired: Collection[DesiredObject], inventory: Inventory, live: Mapping[str, Object | None], safety: PruneSafety
) -> PrunePlan:
    """Objects of the inventory that nobody wants any more. `live` is by Ref.key; a key that is missing there was not
    looked at."""
    keep = {item.ref.key for item in desired}
    leaving = [entry for key, entry in sorted(inventory.entries.items()) if key not in keep and key in live]
    changes, held, forget = [], [], []
    for entry in leaving:
        thing = live[entry.ref.key]
        if thing is None or (entry.uid and uid_of(thing) != entry.uid):
            forget.append(entry.ref.key)
        elif not entry.uid:
            held.append(
                Change(
                    "held",
                    entry.ref,
                    live=thing,
                    reason="its creation was never confirmed, so it may be somebody else's",
                )
            )
        elif annotations_of(thing).get(PRUNE_ANNOTATION) == "disabled":
            held.append(Change("held", entry.ref, live=thing, reason=f"{PRUNE_ANNOTATION}: disabled protects it"))
        elif not thing["metadata"].get("deletionTimestamp"):
            changes.append(Change("prune", entry.ref, live=thing, reason="it is no longer in the repository"))
    if why := _prune_obstacle(len(desired), len(changes), len(inventory.entries), safety):
        stopped = tuple(Change("held", change.ref, live=change.live, reason=why) for change in changes)
        return PrunePlan((), (*held, *stopped), ())
    return PrunePlan(tuple(changes), tuple(held), tuple(forget))


def _prune_obstacle(desired_count: int, delete_count: int, inventory_size: int, safety: PruneSafety) -> str:
    """Why nothing at all is deleted now; empty when it may be."""
    if not safety.has_compiled:
        return "nothing is deleted while the commit does not compile as a whole"
    if safety.problems:
        return f"nothing is deleted while a read fails: {safety.problems[0]}"
    if safety.allowed_commit and safety.allowed_commit == safety.commit:
        return ""
    if delete_count and not desired_count:
        return f"the repository is empty; allow it with --allow-prune {safety.commit}"
    if delete_count > (limit := max(PRUNE_LIMIT, int(PRUNE_LIMIT_SHARE * inventory_size))):
        return f"{delete_count} of {inventory_size} objects would be deleted, the limit is {limit}; allow it with --allow-prune {safety.commit}"
    return ""


FIGHT_WINDOW = 60.0
"""Seconds in which one correction is forgotten."""
FIGHT_THRESHOLD = 5.0
"""So many corrections within that time are a fight."""
FIGHT_PAUSE = 120.0
"""Seconds for which an object that is fought over is left alone."""


@dataclass(slots=True)
class FightDetector:
    """Heat per object: each correction adds one, and it cools down linearly. An object that boils is left alone for a
    while, it only."""

    heat: dict[str, tuple[float, float]] = field(default_factory=dict)
    paused_until: dict[str, float] = field(default_factory=dict)
    opponents: dict[str, str] = field(default_factory=dict)

    def record_correction(self, key: str, opponent: str, now: float) -> bool:
        """Count a correction; True when this object has just become a fight. `who` says in a sentence with whom."""
        level, at = self.heat.get(key, (0.0, now))
        level = max(0.0, level - (now - at) * FIGHT_THRESHOLD / FIGHT_WINDOW) + 1.0
        self.heat[key] = (level, now)
        if level <= FIGHT_THRESHOLD:
            return False
        self.heat[key] = (0.0, now)
        self.paused_until[key] = now + FIGHT_PAUSE
        self.opponents[key] = opponent
        return True

    def is_paused(self, key: str, now: float) -> bool:
        if now < self.paused_until.get(key, 0.0):
            return True
        self.paused_until.pop(key, None)
        return False

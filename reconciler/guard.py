"""What may be deleted, and who fights: decisions on data, no IO.

Deleting is the one thing that cannot be taken back, so an error is never read as an empty set: only what the inventory
holds, by uid, and only after a commit that compiled as a whole, with every read good, and not more at once than the
limit.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from reconciler.drift import Change, Wanted
from reconciler.inventory import Inventory
from reconciler.objects import PRUNE, Object, annotations_of, uid

FREE_PRUNES = 10
"""So many objects may always leave at once."""
FREE_SHARE = 0.1
"""Beyond that, this share of the inventory."""


@dataclass(frozen=True, slots=True)
class Sight:
    """How far what we see can be trusted. problems: one sentence for each read that failed. allowed: the commit that
    may prune beyond the limit."""

    commit: str
    compiled: bool
    problems: tuple[str, ...] = ()
    allowed: str = ""


@dataclass(frozen=True, slots=True)
class Prunes:
    """changes: what is deleted. held: what would be, with the reason in each. forget: inventory keys whose object is
    gone already."""

    changes: tuple[Change, ...] = ()
    held: tuple[Change, ...] = ()
    forget: tuple[str, ...] = ()


def prunes(wanted: Collection[Wanted], inventory: Inventory, live: Mapping[str, Object | None], sight: Sight) -> Prunes:
    """Objects of the inventory that nobody wants any more. `live` is by Ref.key; a key that is missing there was not
    looked at."""
    keep = {item.ref.key for item in wanted}
    leaving = [entry for key, entry in sorted(inventory.entries.items()) if key not in keep and key in live]
    changes, held, forget = [], [], []
    for entry in leaving:
        thing = live[entry.ref.key]
        if thing is None or (entry.uid and uid(thing) != entry.uid):
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
        elif annotations_of(thing).get(PRUNE) == "disabled":
            held.append(Change("held", entry.ref, live=thing, reason=f"{PRUNE}: disabled protects it"))
        elif not thing["metadata"].get("deletionTimestamp"):
            changes.append(Change("prune", entry.ref, live=thing, reason="it is no longer in the repository"))
    if why := _unsafe(len(wanted), len(changes), len(inventory.entries), sight):
        stopped = tuple(Change("held", change.ref, live=change.live, reason=why) for change in changes)
        return Prunes((), (*held, *stopped), ())
    return Prunes(tuple(changes), tuple(held), tuple(forget))


def _unsafe(wanted: int, deletes: int, known: int, sight: Sight) -> str:
    """Why nothing at all is deleted now; empty when it may be."""
    if not sight.compiled:
        return "nothing is deleted while the commit does not compile as a whole"
    if sight.problems:
        return f"nothing is deleted while a read fails: {sight.problems[0]}"
    if sight.allowed and sight.allowed == sight.commit:
        return ""
    if deletes and not wanted:
        return f"the repository is empty; allow it with --allow-prune {sight.commit}"
    if deletes > (limit := max(FREE_PRUNES, int(FREE_SHARE * known))):
        return f"{deletes} of {known} objects would be deleted, the limit is {limit}; allow it with --allow-prune {sight.commit}"
    return ""


COOLING = 60.0
"""Seconds in which one correction is forgotten."""
FIGHT = 5.0
"""So many corrections within that time are a fight."""
PAUSE = 120.0
"""Seconds for which an object that is fought over is left alone."""


@dataclass(slots=True)
class Fights:
    """Heat per object: each correction adds one, and it cools down linearly. An object that boils is left alone for a
    while, it only."""

    heat: dict[str, tuple[float, float]] = field(default_factory=dict)
    until: dict[str, float] = field(default_factory=dict)
    who: dict[str, str] = field(default_factory=dict)

    def corrected(self, key: str, who: str, now: float) -> bool:
        """Count a correction; True when this object has just become a fight. `who` says in a sentence with whom."""
        level, at = self.heat.get(key, (0.0, now))
        level = max(0.0, level - (now - at) * FIGHT / COOLING) + 1.0
        self.heat[key] = (level, now)
        if level <= FIGHT:
            return False
        self.heat[key] = (0.0, now)
        self.until[key] = now + PAUSE
        self.who[key] = who
        return True

    def paused(self, key: str, now: float) -> bool:
        if now < self.until.get(key, 0.0):
            return True
        self.until.pop(key, None)
        return False

"""What may be deleted, and which objects are fought over: decisions on data, no IO.

Deleting is the one thing that cannot be taken back, so an error is never read as an empty set: only what the inventory
holds, by uid, and only after a commit that compiled as a whole, with every read good, and not more at once than the
limit.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from compiler.emit.manifest import Manifest
from compiler.kubernetes import PRUNE_ANNOTATION, annotations_of, is_terminating, uid_of
from reconciler.cluster.inventory import Inventory
from reconciler.cluster.objects import Object, ref_of
from reconciler.diff import Change

PRUNE_LIMIT = 10
"""Objects that may always be deleted at once."""
PRUNE_LIMIT_SHARE = 0.1
"""Beyond that, this share of the inventory."""


@dataclass(frozen=True, slots=True)
class PruneSafety:
    """How far what is seen can be trusted. commit: the branch's head. problems: one sentence for each read that failed.
    allowed_commit: the one that may prune beyond the limit."""

    commit: str
    has_compiled: bool
    problems: tuple[str, ...] = ()
    allowed_commit: str = ""


@dataclass(frozen=True, slots=True)
class PrunePlan:
    """changes: what is deleted. held_changes: what would be, with the reason in each. vanished_keys: of the inventory,
    whose object is gone already."""

    changes: tuple[Change, ...] = ()
    held_changes: tuple[Change, ...] = ()
    vanished_keys: tuple[str, ...] = ()


def prune_plan(
    desired: Collection[Manifest], inventory: Inventory, live: Mapping[str, Object | None], safety: PruneSafety
) -> PrunePlan:
    """Objects of the inventory that no manifest holds any more. `live` is by Ref.key; a key that is missing there was
    not looked at."""
    keep = {ref_of(manifest.object).key for manifest in desired}
    changes: list[Change] = []
    held: list[Change] = []
    vanished: list[str] = []
    for key, entry in sorted(inventory.entries.items()):
        if key in keep or key not in live:
            continue
        item = live[key]
        if item is None or (entry.uid and uid_of(item) != entry.uid):
            vanished.append(key)
        elif not entry.uid:
            reason = "its creation was never confirmed, so it may be somebody else's"
            held.append(Change("held", entry.ref, live=item, reason=reason))
        elif annotations_of(item).get(PRUNE_ANNOTATION) == "disabled":
            held.append(Change("held", entry.ref, live=item, reason=f"{PRUNE_ANNOTATION}: disabled protects it"))
        elif not is_terminating(item):
            changes.append(Change("prune", entry.ref, live=item, reason="it is no longer in the repository"))
    if obstacle := _prune_obstacle(len(desired), len(changes), len(inventory.entries), safety):
        stopped = (Change("held", change.ref, live=change.live, reason=obstacle) for change in changes)
        return PrunePlan((), (*held, *stopped), ())
    return PrunePlan(tuple(changes), tuple(held), tuple(vanished))


def _prune_obstacle(desired_count: int, delete_count: int, inventory_size: int, safety: PruneSafety) -> str:
    """Why nothing at all is deleted now; empty when it may be."""
    if not safety.has_compiled:
        return "nothing is deleted while the commit does not compile as a whole"
    if safety.problems:
        return f"nothing is deleted while a read fails: {safety.problems[0]}"
    if safety.allowed_commit and safety.allowed_commit == safety.commit:
        return ""
    allow = f"allow it with --allow-prune {safety.commit}"
    if delete_count and not desired_count:
        return f"the repository is empty; {allow}"
    if delete_count > (limit := max(PRUNE_LIMIT, int(PRUNE_LIMIT_SHARE * inventory_size))):
        return f"{delete_count} of {inventory_size} objects would be deleted, the limit is {limit}; {allow}"
    return ""


FIGHT_WINDOW = 60.0
"""Seconds in which `FIGHT_THRESHOLD` corrections are forgotten."""
FIGHT_THRESHOLD = 5.0
"""Corrections within that time that make a fight."""
FIGHT_PAUSE = 120.0
"""Seconds for which an object that is fought over is left alone."""


@dataclass(slots=True)
class FightDetector:
    """Heat per object: each correction adds one, and it cools down linearly. An object above the threshold is left
    alone for a while, and no other.

    heat: key -> heat and when it was so. opponents: key -> a sentence on who the fight is with.
    """

    heat: dict[str, tuple[float, float]] = field(default_factory=dict)
    paused_until: dict[str, float] = field(default_factory=dict)
    opponents: dict[str, str] = field(default_factory=dict)

    def record_correction(self, key: str, opponent: str, now: float) -> bool:
        """Count a correction; True when this object has just become a fight. opponent: a sentence on who it is with."""
        heat, at = self.heat.get(key, (0.0, now))
        heat = max(0.0, heat - (now - at) * FIGHT_THRESHOLD / FIGHT_WINDOW) + 1.0
        self.heat[key] = (heat, now)
        if heat <= FIGHT_THRESHOLD:
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

"""What the watches saw go, until an inventory that knows of it is stored."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from compiler.kubernetes import uid_of
from reconciler.cluster.inventory import Inventory
from reconciler.cluster.objects import Object, ref_of


@dataclass(slots=True)
class UnsavedDeletions:
    """Deletions are seen once. An inventory that is read again, since a write of it was in doubt or another replica
    led, knows nothing of what its forerunner in memory was told: without these the job of somebody who deleted it would
    be taken for one that has finished unseen."""

    _seen: list[tuple[Object, bool]] = field(default_factory=list)
    _told: Inventory | None = None

    def take(self, inventory: Inventory, new: Iterable[tuple[Object, bool]]) -> list[tuple[Object, bool]]:
        """What this inventory is to be told: the last state of each object, and whether the deletion itself was
        seen."""
        if inventory is not self._told or inventory.is_stored:
            self._seen = [each for each in self._seen if _is_entered(each[0], inventory)]
        self._seen += new
        self._told = inventory
        return list(self._seen)


def _is_entered(item: Object, inventory: Inventory) -> bool:
    """Whether the inventory still has this very object."""
    entry = inventory.entries.get(ref_of(item).key)
    return entry is not None and entry.uid == uid_of(item)

"""What the watches saw go, until an inventory that knows of it is stored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from compiler.kubernetes import uid_of
from reconciler.cluster.objects import Object, ref_of
from reconciler.inventory.store import Inventory


@dataclass(slots=True)
class UnsavedDeletions:
    """Deletions are seen once. An inventory that is read again, since a write of it was in doubt or another replica
    led, knows nothing of what its forerunner in memory was told: without these the job of somebody who deleted it would
    be taken for one that has finished unseen."""

    _seen: list[tuple[Object, bool]] = field(default_factory=list)
    _told: Inventory | None = None
    _unsaved_pods: list[Object] = field(default_factory=list)
    _told_pods: Inventory | None = None

    def take(self, inventory: Inventory, new: Iterable[tuple[Object, bool]]) -> list[tuple[Object, bool]]:
        """What this inventory is to be told: the last state of each object, and whether the deletion itself was
        seen."""
        if inventory is not self._told or inventory.is_stored:
            self._seen = [each for each in self._seen if _is_entered(each[0], inventory)]
        self._seen += new
        self._told = inventory
        return list(self._seen)

    def take_pods(self, inventory: Inventory, new: Sequence[Object]) -> list[Object]:
        """The pods that went and that this inventory, which counts each of them once, is to be told."""
        if self._told_pods is not None and self._told_pods.is_stored:
            self._unsaved_pods = []
        told = list(new) if inventory is self._told_pods else [*self._unsaved_pods, *new]
        self._unsaved_pods += new
        self._told_pods = inventory
        return told


def _is_entered(item: Object, inventory: Inventory) -> bool:
    """Whether the inventory still has this very object."""
    entry = inventory.entries.get(ref_of(item).key)
    return entry is not None and entry.uid == uid_of(item)

"""The inventory of one replica: taken up from the cluster, and kept whole there."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass

from reconciler.cluster.client import ApiError
from reconciler.cluster.lease import Fence, Lease
from reconciler.inventory.neighbours import refuse_beside_another
from reconciler.inventory.store import Inventory, InventoryStore

log = logging.getLogger(__name__)


@dataclass(slots=True)
class InventoryKeeper:
    """inventory: None until it is read, or where it is to be read again. is_leading: whether the lease was held when it
    was taken up last. leads_since: when this replica last began to lead, on the clock."""

    store: InventoryStore
    lease: Lease
    fence: Fence
    clock: Callable[[], float]
    inventory: Inventory | None = None
    is_leading: bool = False
    leads_since: float = 0.0

    def take_up(self, go_on: Callable[[Inventory, bool], None]) -> Inventory:
        """Read the inventory unless it is known: it is, as long as this replica leads without a break. Raises
        OtherGangplanError. go_on: told of one that is read, and whether this replica leads, before it is taken up."""
        is_held, known = self.lease.is_held(), self.inventory
        if known is None or not is_held or not self.is_leading or not self.fence.is_open():
            self.forget()  # one that is taken up in part does not pass for one that is known
            self.inventory = known = self._read(known, is_held, go_on)
        self.is_leading = is_held
        return known

    def _read(self, known: Inventory | None, is_held: bool, go_on: Callable[[Inventory, bool], None]) -> Inventory:
        transitions = self.fence.enter()
        follows = known is not None and not is_held and not self.is_leading
        inventory = self.store.follow(known, self.clock()) if follows and known else self.store.read()
        go_on(inventory, is_held)
        if is_held:
            self.leads_since = self.clock()
            inventory.take_over(transitions)
            refuse_beside_another(self.store)
        return inventory

    def forget(self) -> None:
        """Let the next pass read the inventory again."""
        self.inventory = None

    def keep_whole(self, inventory: Inventory, present: Collection[str], now: int) -> None:
        """Forget runs of long ago, and write again what was deleted or changed by hand. present: Ref.key of what is in
        the repository or the cluster. now: seconds since the epoch."""
        inventory.trim_runs(present, now, self.store.timings)
        try:
            if self.store.restore(inventory):
                log.warning("a part of the inventory was deleted or changed by hand and is written again")
        except ApiError as error:
            log.info("whether the inventory is whole is not known", extra={"reason": str(error)})

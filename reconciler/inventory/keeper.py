"""The inventory of one replica: read from the cluster and kept complete there. Marks by which objects are ours.

It is the claim on the cluster. It is found by its labels in any namespace. So a gangplan with another `--cluster` or
`--namespace`, which would treat the first one's objects as its own, does not start
(docs/develop/decisions/0018-fencing.md).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

from compiler import kubernetes as k8s
from reconciler.changes.managed_fields import is_our_apply, managers_of
from reconciler.cluster.client import ApiError
from reconciler.cluster.lease import Fence, Lease
from reconciler.cluster.objects import FIELD_MANAGER, Object
from reconciler.inventory.store import Inventory, InventoryStore, Origin

log = logging.getLogger(__name__)


class OtherGangplanError(Exception):
    """Another gangplan keeps this cluster; this one must not start."""


def refuse_beside_another(store: InventoryStore) -> None:
    """Raise OtherGangplanError if another gangplan was first: of two that start together, one continues."""
    configmaps = store.client.resource("v1", "ConfigMap")
    found, _ = store.client.list(configmaps, selector=f"{k8s.MANAGED_BY_LABEL}={FIELD_MANAGER}")
    claims = (
        (k8s.created_at(item), k8s.namespace_of(item), cluster) for item in found if (cluster := _inventory_of(item))
    )
    _, namespace, cluster = min(claims, default=("", store.namespace, store.cluster))
    if (namespace, cluster) != (store.namespace, store.cluster):
        raise OtherGangplanError(
            f"this cluster is kept by another gangplan: --cluster {cluster} --namespace {namespace}. Two of them would "
            f"take each other's objects for their own. If it is gone for good, delete ConfigMap {namespace}/"
            f"gangplan-{cluster}-inventory; its objects then stay where they are"
        )


def _inventory_of(item: Object) -> str:
    """Return the cluster whose inventory this is, empty for another ConfigMap."""
    cluster = k8s.labels_of(item).get(k8s.MEMORY_LABEL, "")
    return cluster if item["metadata"]["name"] == f"gangplan-{cluster}-inventory" else ""


@dataclass(slots=True)
class InventoryKeeper:
    """inventory: None until it is read, or where it is to be read again. is_leading: whether the lease was held at the
    last `take_up`. leads_since: when this replica last began to lead, on the clock. others_led_until: when
    the last other replica had ceased to lead. term: the lease's transitions then."""

    store: InventoryStore
    lease: Lease
    fence: Fence
    clock: Callable[[], float]
    inventory: Inventory | None = None
    is_leading: bool = False
    leads_since: float = 0.0
    others_led_until: float = -inf
    term: int = -1

    def take_up(self, go_on: Callable[[Inventory, bool], None]) -> Inventory:
        """Return the inventory, read again unless this replica has led without a break since it was read. Raises
        OtherGangplanError. go_on: called with an inventory just read, and whether this replica leads, before it is
        used."""
        is_held, known = self.lease.is_held(), self.inventory
        if known is None or not is_held or not self.is_leading or not self.fence.is_open():
            self.forget()  # a partial one must not pass for a known one
            self.inventory = known = self._read(known, is_held, go_on)
        self.is_leading = is_held
        return known

    def _read(self, known: Inventory | None, is_held: bool, go_on: Callable[[Inventory, bool], None]) -> Inventory:
        began_at, transitions = self.clock(), self.fence.enter()
        follows = known is not None and not is_held and not self.is_leading
        inventory = self.store.follow(known, self.clock()) if follows and known else self.store.read()
        go_on(inventory, is_held)
        if is_held:
            self.leads_since = self.clock()
            if transitions != self.term:
                self.term, self.others_led_until = transitions, began_at
            inventory.take_over(transitions)
            refuse_beside_another(self.store)
        return inventory

    def forget(self) -> None:
        """Let the next pass read the inventory again."""
        self.inventory = None

    def keep_whole(self, inventory: Inventory, present: Collection[str], now: int) -> None:
        """Forget old runs, and restore parts that were deleted or changed by hand. present: Ref.key of objects in the
        repository or the cluster. now: seconds since the epoch."""
        inventory.trim_runs(present, now, self.store.timings)
        try:
            if self.store.restore(inventory):
                log.warning("a part of the inventory was deleted or changed by hand and is written again")
        except ApiError as error:
            log.info("whether the inventory is whole is not known", extra={"reason": str(error)})


_FIELDS_OF_NO_AUTHOR = frozenset({"f:metadata", "f:status"})


def is_marked(item: Object, cluster: str) -> bool:
    """Return whether we applied our labels to this object. Labels alone prove nothing: any client can write them."""
    labels = k8s.labels_of(item)
    if (labels.get(k8s.MANAGED_BY_LABEL), labels.get(k8s.CLUSTER_LABEL)) != (FIELD_MANAGER, cluster):
        return False
    return any(_applied_label(entry) for entry in managers_of(item))


def origin_of(item: Object, cluster: str) -> Origin:
    """Return the origin that an object shows: created if it carries our mark, and is no older than our fields, or no
    other manager had written its contents before these last changed. One that others may have created, and whose fields
    we may take over, counts as taken. Used only without other evidence."""
    applied_at = [str(entry.get("time") or "") for entry in managers_of(item) if _applied_label(entry)]
    if applied_at and is_marked(item, cluster):
        others = [str(entry.get("time") or "") for entry in managers_of(item) if _is_others(entry)]
        if "" < applied_at[0] <= k8s.created_at(item) or applied_at[0] < min(others, default="~"):
            return "created"
    return "taken" if k8s.annotations_of(item).get(k8s.ADOPT_ANNOTATION) == "true" else "joined"


def _applied_label(entry: Mapping[str, Any]) -> bool:
    labels = ((entry.get("fieldsV1") or {}).get("f:metadata") or {}).get("f:labels") or {}
    return is_our_apply(entry) and f"f:{k8s.CLUSTER_LABEL}" in labels


def _is_others(entry: Mapping[str, Any]) -> bool:
    """Return whether another manager has written contents."""
    is_ours = entry.get("manager") == FIELD_MANAGER or entry.get("subresource")
    return not is_ours and bool((entry.get("fieldsV1") or {}).keys() - _FIELDS_OF_NO_AUTHOR)

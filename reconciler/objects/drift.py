"""Between two passes: single objects that the watch shows changed are put back at once, without looking at the rest.

That is done only where an object's own fields decide: the last pass found it ours, as planned and free to be written,
it was updated and not deleted or made again, and no plan rests on its kind. Everything else wakes a pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from compiler.emit.manifest import Manifest
from compiler.kubernetes import is_planned_job, is_terminating, uid_of
from compiler.run_kinds import RUN_KINDS
from reconciler.changes.diff import Change, classify_change
from reconciler.changes.results import Allowed, ChangeResult, Effects
from reconciler.cluster.objects import Object, ref_of
from reconciler.inventory.store import Inventory
from reconciler.objects.writer import ClusterWriter
from reconciler.observation.informers import InformerSet
from reconciler.observation.pods import scheduler_text
from reconciler.planning.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Basis:
    """By what a leader judges objects: the plan in force, the inventory, and what operators ask for."""

    snapshot: Snapshot
    inventory: Inventory
    requests: object

    def is_of(self, other: Basis) -> bool:
        return self.snapshot is other.snapshot and self.inventory is other.inventory and self.requests == other.requests


@dataclass(slots=True)
class Corrections:
    """wake: asks for a pass. timed: measures the writes. basis: of the last pass; None while only a pass may write.
    targets: Ref.key -> the manifest of an object that was as planned; others are left to a pass."""

    watches: InformerSet
    writer: ClusterWriter
    wake: Callable[[], None]
    timed: Callable[[], AbstractContextManager[None]] = nullcontext
    basis: Basis | None = None
    targets: Mapping[str, Manifest] = field(default_factory=dict)

    def forbid(self) -> None:
        self.basis = None

    def note_pass(self, basis: Basis | None, allowed: Allowed, done: Effects) -> None:
        """Remember what a pass leaves as planned. basis: None without a plan or the lease; nothing is then put back."""
        self.basis = None if allowed.standstill else basis
        changes = allowed.changes
        left = {change.ref.key for change in (*changes.due, *changes.held, *changes.obstructed, *done.held)}
        left -= {result.change.ref.key for result in done.results if result.outcome == "done"}
        self.targets = {key: manifest for key, manifest in changes.manifests.items() if key not in left}

    def put_back(self, now: Basis | None) -> list[ChangeResult]:
        """Put back what was updated and can be decided alone; what was done. Wakes a pass for the rest, and where a
        write failed or changed the inventory. Raises LostLease. now: the basis as it is now; None where this replica
        does not lead."""
        updates = {ref_of(item).key: item for item in self.watches.take_updates(self.writer.timings.batch)}
        if not updates:
            return []
        if now is None or self.basis is None or not self.basis.is_of(now):
            self.wake()
            return []
        changes, inventory = [], now.inventory
        for key, item in updates.items():
            manifest = self.targets.get(key)
            if manifest is None or not self._is_decided_alone(inventory, manifest, item):
                self.wake()
            elif (change := self._correction(inventory, manifest, item)) is not None and self.writer.is_due(change):
                changes.append(change)
        if not changes:
            return []
        with self.timed():
            results = self.writer.apply_changes(changes, inventory)
        if any(result.outcome != "done" for result in results) or inventory.entries.changed_keys:
            self.wake()
        return results

    def _is_decided_alone(self, inventory: Inventory, manifest: Manifest, item: Object) -> bool:
        """Whether the object's own fields decide: it is ours, read and no job, nor the scheduler's configuration."""
        ref = ref_of(item)
        entry = inventory.entries.get(ref.key)
        if entry is None or entry.uid != uid_of(item) or is_terminating(item):
            return False
        informer = self.watches.informers.get(ref.group_kind)
        if informer is None or informer.obstacle():
            return False
        is_job = ref.group_kind in RUN_KINDS or manifest.run_digest or manifest.pods or is_planned_job(item)
        return not is_job and not scheduler_text(manifest.object)

    def _correction(self, inventory: Inventory, manifest: Manifest, item: Object) -> Change | None:
        """The update that puts the object back; None where there is nothing to do, or it is another object."""
        key = ref_of(item).key
        live = self.writer.own.newest(key, item)
        if live is None or uid_of(live) != inventory.entries[key].uid:
            self.wake()
            return None
        change = classify_change(manifest, live)
        if change is not None and change.action != "update":
            self.wake()
            return None
        return change

"""Writes to the cluster, and the only place that does. Changes come in as data, and what became of them goes out as
data.

Objects are written by server-side apply, wave by wave, only where something differs. A conflict with another manager is
not forced unless the object is ours already (then the field was ours, and is put back) or the user allows it; the
message names manager and field either way. An object that the server refuses is tried again within the pass as long as
others succeed: queues that grow need their parents first, queues that shrink their children first, and a second round
settles both.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from compiler.emit.manifest import JOB_KINDS, Manifest, json_digest
from compiler.kubernetes import ADOPT_ANNOTATION, annotations_of, uid_of
from reconciler.cluster.client import ApiError, Client, Conflict, Invalid, NotFound, Retry
from reconciler.cluster.inventory import Inventory, InventoryEntry, InventoryStore
from reconciler.cluster.objects import Object, Ref, ref_of
from reconciler.diff import Change, FieldDifference, field_differences
from reconciler.gates import GateLift
from reconciler.guard import FightDetector

log = logging.getLogger(__name__)

ChangeOutcome = Literal["done", "conflict", "refused", "retry", "fight"]
FIRST_PAUSE, MAX_PAUSE = 0.5, 60.0
"""Seconds before a failed change is tried again: at first, doubled with each failure, and at most."""
LAST_WRITE_SECONDS = 10.0
"""Seconds after which the watch is believed although it does not show our last write."""
_UNKNOWN_OPPONENT = "who changes it is not known"


class LostLease(Exception):
    """Another replica acts now; this one stops writing at once."""


@dataclass(frozen=True, slots=True)
class ChangeResult:
    """What became of a change. retry_after: seconds until it is worth another try."""

    change: Change
    outcome: ChangeOutcome
    message: str = ""
    retry_after: float = 0.0


@dataclass(slots=True)
class WriterMemory:
    """What one process remembers between passes to stay calm; losing it costs a few needless requests, nothing else.

    unfixable_differences: key -> digest of differences that stay after an apply (the server's own spelling).
    applied_digests: key -> digest of what was applied last. paused_changes: key -> (digest of what was refused,
    failures, time before which it is not tried again). refused_updates: jobs whose live object the server does not let
    be changed -> digest of the run. last_writes: key -> (what our last write returned, or None and the uid after a
    delete, and when), until the watch has caught up.
    """

    unfixable_differences: dict[str, str] = field(default_factory=dict)
    applied_digests: dict[str, str] = field(default_factory=dict)
    paused_changes: dict[str, tuple[str, int, float]] = field(default_factory=dict)
    refused_updates: dict[str, str] = field(default_factory=dict)
    last_writes: dict[str, tuple[Object | None, str, float]] = field(default_factory=dict)
    fights: FightDetector = field(default_factory=FightDetector)


@dataclass(slots=True)
class ClusterWriter:
    """Writes as long as `holds_lease` says so; each batch asks it first."""

    client: Client
    store: InventoryStore
    holds_lease: Callable[[], bool]
    clock: Callable[[], float]
    memory: WriterMemory = field(default_factory=WriterMemory)

    def fence(self) -> None:
        """Raise LostLease unless this replica still leads."""
        if not self.holds_lease():
            raise LostLease("another replica holds the lease")

    def newest_object(self, key: str, cached: Object | None) -> Object | None:
        """The newer of what the watch shows and what our own last write returned."""
        if key not in self.memory.last_writes:
            return cached
        written, deleted_uid, at = self.memory.last_writes[key]
        if written is None:
            caught_up = cached is None or uid_of(cached) != deleted_uid
        else:
            caught_up = cached is not None and _resource_version_number(cached) >= _resource_version_number(written)
        if caught_up or self.clock() - at > LAST_WRITE_SECONDS:
            del self.memory.last_writes[key]
            return cached
        return written

    def record_intents(self, changes: Iterable[Change], inventory: Inventory) -> None:
        """Enter what is to be created into the inventory before it exists, so that a crash in between leaves nothing
        unknown behind."""
        for change in changes:
            if change.action in ("create", "update", "in-place") and change.ref.key not in inventory.entries:
                inventory.entries[change.ref.key] = InventoryEntry(change.ref)
        self.fence()
        self.store.write(inventory)

    def apply_changes(self, changes: Sequence[Change], inventory: Inventory) -> list[ChangeResult]:
        """Apply wave by wave."""
        waves: dict[int, list[Change]] = {}
        for change in changes:
            if change.desired is not None:
                waves.setdefault(change.desired.wave, []).append(change)
        results: list[ChangeResult] = []
        for _, of_wave in sorted(waves.items()):
            results += self._try_repeatedly(of_wave, lambda change: self._apply_change(change, inventory))
        self._record_results(results)
        return results

    def prune_objects(self, changes: Sequence[Change], inventory: Inventory) -> list[ChangeResult]:
        """Delete what left the repository, jobs first, queues last; a failed delete stays in the inventory."""
        ordered = sorted(changes, key=lambda change: (change.ref.kind == "Queue", change.ref.key))
        results = self._try_repeatedly(ordered, lambda change: self._prune_object(change, inventory))
        self._record_results(results)
        return results

    def _try_repeatedly(
        self, changes: Sequence[Change], attempt: Callable[[Change], ChangeResult]
    ) -> list[ChangeResult]:
        """Attempt each change; those that are refused again, as long as another succeeds meanwhile."""
        final: list[ChangeResult] = []
        remaining = list(changes)
        while remaining:
            self.fence()
            results = [attempt(change) for change in remaining]
            progress = any(result.outcome == "done" for result in results)
            remaining = []
            for result in results:
                if progress and result.outcome == "refused":
                    remaining.append(result.change)
                else:
                    final.append(result)
        return final

    def _apply_change(self, change: Change, inventory: Inventory) -> ChangeResult:
        assert change.desired is not None  # noqa: S101 (only changes that have a manifest get here)
        key, now = change.ref.key, self.clock()
        if self.memory.fights.is_paused(key, now):
            return ChangeResult(change, "fight", self.memory.fights.opponents[key])
        try:
            if change.action == "replace":
                return self._delete_for_new_run(change, inventory)
            return self._apply_object(change, change.desired, inventory)
        except Conflict as error:
            return ChangeResult(change, "conflict", _conflict_message(error))
        except Retry as error:
            return ChangeResult(change, "retry", str(error), error.after)
        except ApiError as error:
            return ChangeResult(change, "refused", str(error))

    def _apply_object(self, change: Change, desired: Manifest, inventory: Inventory) -> ChangeResult:
        key = change.ref.key
        entry = inventory.entries.get(key)
        written, overridden = self._apply_or_force(change, desired, entry)
        self._record_write(key, written)
        started = entry is not None and entry.started and entry.uid == uid_of(written)
        inventory.entries[key] = InventoryEntry(change.ref, uid_of(written), started=started)
        remaining = field_differences(desired.object, written)
        self.memory.unfixable_differences[key] = _differences_digest(desired, remaining)
        digest = json_digest(desired.object)
        is_correction = self.memory.applied_digests.get(key) == digest
        self.memory.applied_digests[key] = digest
        opponent = f"put back again and again, so it is left alone for a while: {overridden or _UNKNOWN_OPPONENT}"
        if is_correction and self.memory.fights.record_correction(key, opponent, self.clock()):
            return ChangeResult(change, "fight", opponent)
        return ChangeResult(change, "done", overridden)

    def _apply_or_force(self, change: Change, desired: Manifest, entry: InventoryEntry | None) -> tuple[Object, str]:
        """The object as written, and which fields were taken back from other managers."""
        try:
            return self.client.apply(desired.object), ""
        except Conflict as error:
            is_ours = (
                entry is not None and bool(entry.uid) and (change.live is None or uid_of(change.live) == entry.uid)
            )
            may_adopt = annotations_of(desired.object).get(ADOPT_ANNOTATION) == "true"
            if not error.owners or not (is_ours or may_adopt):
                raise
            overridden = "; ".join(f"{owner.field} was set by {owner.manager}" for owner in error.owners)
        return self.client.apply(desired.object, force=True), overridden

    def _delete_for_new_run(self, change: Change, inventory: Inventory) -> ChangeResult:
        """Delete the old object now; the new one is created when a later pass sees that it is gone."""
        assert change.live is not None  # noqa: S101
        self.delete_object(change.ref, uid_of(change.live), inventory)
        return ChangeResult(change, "done", change.reason)

    def delete_object(self, ref: Ref, target_uid: str, inventory: Inventory) -> None:
        """Delete by uid. NotFound is as good; a namesake with another uid is left alone."""
        self.fence()
        try:
            self.client.delete(ref, target_uid)
        except NotFound:
            log.info("it was gone already", extra={"object": str(ref)})
        self.memory.last_writes[ref.key] = (None, target_uid, self.clock())
        if ref.group_kind in JOB_KINDS and ref.key in inventory.entries:
            inventory.entries[ref.key] = InventoryEntry(ref)

    def _prune_object(self, change: Change, inventory: Inventory) -> ChangeResult:
        assert change.live is not None  # noqa: S101
        try:
            self.delete_object(change.ref, uid_of(change.live), inventory)
        except Conflict:
            return ChangeResult(change, "conflict", "another object has taken its name")
        except Retry as error:
            return ChangeResult(change, "retry", str(error), error.after)
        except ApiError as error:
            return ChangeResult(change, "refused", str(error))
        inventory.entries.pop(change.ref.key, None)
        return ChangeResult(change, "done")

    def lift_gang_gates(self, lifts: Sequence[GateLift]) -> tuple[int, str]:
        """Give each pod of one gang its node and lift its gate; how many were lifted, and why another was not."""
        lifted, trouble = 0, ""
        for lift in lifts:
            self.fence()
            ref = ref_of(lift.pod)
            try:
                self._record_write(ref.key, self.client.patch(ref, lift.json_patch()))
                lifted += 1
            except (Invalid, NotFound, Conflict) as error:
                trouble = f"{ref}: it changed meanwhile: {error}"
            except Retry as error:
                trouble = str(error)
        return lifted, trouble

    def evict_pod(self, pod: Object) -> str:
        """Ask for the pod's end; why that was not granted, empty when it was."""
        self.fence()
        try:
            self.client.evict(ref_of(pod), uid_of(pod))
        except NotFound:
            return ""
        except ApiError as error:
            return str(error)
        return ""

    def is_due(self, change: Change) -> bool:
        """Whether a change is to be tried now: not while it pauses after a failure, unless its manifest has changed."""
        key = change.ref.key
        if change.desired is not None and change.action != "replace":
            remaining = _differences_digest(change.desired, change.fields)
            if remaining and self.memory.unfixable_differences.get(key) == remaining:
                return False
        digest, _, retry_at = self.memory.paused_changes.get(key, ("", 0, 0.0))
        return digest != _change_digest(change) or self.clock() >= retry_at

    def retry_times(self) -> list[float]:
        """When paused changes are due, on the writer's clock."""
        changes = [retry_at for _, _, retry_at in self.memory.paused_changes.values()]
        return changes + list(self.memory.fights.paused_until.values())

    def _record_write(self, key: str, written: Object) -> None:
        self.memory.last_writes[key] = (written, "", self.clock())

    def _record_results(self, results: Iterable[ChangeResult]) -> None:
        for result in results:
            key = result.change.ref.key
            if result.outcome == "done":
                self.memory.paused_changes.pop(key, None)
                self.memory.refused_updates.pop(key, None)
            elif result.outcome != "fight":
                self._pause_change(result)

    def _pause_change(self, result: ChangeResult) -> None:
        change = result.change
        key, digest = change.ref.key, _change_digest(change)
        if result.outcome == "refused" and change.action == "in-place" and change.desired:
            self.memory.refused_updates[key] = change.desired.run_digest
        previous, failures, _ = self.memory.paused_changes.get(key, ("", 0, 0.0))
        failures = failures + 1 if previous == digest else 1
        pause = max(result.retry_after, min(FIRST_PAUSE * 2 ** (failures - 1), MAX_PAUSE))
        self.memory.paused_changes[key] = (digest, failures, self.clock() + pause)


def mark_started(inventory: Inventory, job: Ref) -> None:
    """Note that the job's pods are about to get nodes: from now on it is not taken for one that never ran."""
    if (entry := inventory.entries.get(job.key)) is not None and not entry.started:
        inventory.entries[job.key] = replace(entry, started=True)


def _change_digest(change: Change) -> str:
    return json_digest([change.action, change.desired.object if change.desired else None])


def _differences_digest(desired: Manifest, fields: Sequence[FieldDifference]) -> str:
    """Identifies differences together with the manifest that they differ from; empty for none."""
    return json_digest([desired.object, [[field.path_text, field.live] for field in fields]]) if fields else ""


def _conflict_message(error: Conflict) -> str:
    if not error.owners:
        return str(error)
    owners = "; ".join(f"{owner.field} is held by {owner.manager}" for owner in error.owners)
    adopt = f'{ADOPT_ANNOTATION}: "true"'
    return f"{owners}. Take it over with the annotation {adopt}, or leave the field out of the repository"


def _resource_version_number(item: Object) -> int:
    """Resource versions are decimal numbers that grow (guaranteed since Kubernetes 1.35)."""
    text = str(item["metadata"].get("resourceVersion") or "0")
    return int(text) if text.isdigit() else 0

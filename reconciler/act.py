"""Acting: the only place that writes to the cluster. What is to be done comes in as data; what became of it goes out as
data.

Objects are written by server-side apply, wave by wave, only where something differs. A conflict with another manager is
not forced unless the object is ours already (then the field was, and is put back) or the user allows it; it names
manager and field either way. An object that the server refuses is tried again within the pass as long as others
succeed: queues that grow need their parents first, queues that shrink their children first, and a second round settles
both.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from compiler.emit.manifest import JOB_KINDS, json_digest
from reconciler.cluster.client import ApiError, Client, Conflict, FieldOwner, Invalid, NotFound, Retry
from reconciler.cluster.inventory import Inventory, InventoryEntry, InventoryStore
from reconciler.cluster.objects import ADOPT_ANNOTATION, Object, Ref, annotations_of, ref_of, uid_of
from reconciler.diff import Change, DesiredObject, FieldDifference, field_differences
from reconciler.gates import GateLift
from reconciler.guard import FightDetector

log = logging.getLogger(__name__)

ChangeOutcome = Literal["done", "conflict", "refused", "retry", "fight"]
MAX_PAUSE = 60.0


class LostLease(Exception):
    """Another replica acts now; this one stops writing at once."""


@dataclass(frozen=True, slots=True)
class ChangeResult:
    """What became of a change. after: seconds until it is worth another try."""

    change: Change
    outcome: ChangeOutcome
    message: str = ""
    retry_after: float = 0.0


@dataclass(slots=True)
class WriterMemory:
    """What one process remembers between passes to stay calm; losing it costs a few needless requests, nothing else.

    settled: key -> digest of differences that stay after an apply (the server's own spelling). applied: key -> digest
    of what was applied last. paused: key -> (digest of what was refused, failures, time before which it is not tried
    again). refused: jobs whose live object the server does not let be changed. written: key -> what our last write
    returned, until the watch has caught up; None after a delete.
    """

    unfixable_differences: dict[str, str] = field(default_factory=dict)
    applied_digests: dict[str, str] = field(default_factory=dict)
    paused_changes: dict[str, tuple[str, int, float]] = field(default_factory=dict)
    refused_updates: dict[str, str] = field(default_factory=dict)
    last_writes: dict[str, tuple[Object | None, str, float]] = field(default_factory=dict)
    fights: FightDetector = field(default_factory=FightDetector)


@dataclass(slots=True)
class ClusterWriter:
    client: Client
    store: InventoryStore
    holds_lease: Callable[[], bool]
    clock: Callable[[], float]
    memory: WriterMemory = field(default_factory=WriterMemory)

    def fence(self) -> None:
        if not self.holds_lease():
            raise LostLease("another replica holds the lease")

    def newest_object(self, key: str, cached: Object | None) -> Object | None:
        """The newer of what the watch shows and what our own last write returned."""
        if key not in self.memory.last_writes:
            return cached
        wrote, gone, at = self.memory.last_writes[key]
        caught_up = (
            cached is None
            if wrote is None
            else cached is not None and _resource_version_number(cached) >= _resource_version_number(wrote)
        )
        if caught_up or self.clock() - at > 10.0 or (wrote is None and cached is not None and uid_of(cached) != gone):
            del self.memory.last_writes[key]
            return cached
        return wrote

    def record_intents(self, changes: Iterable[Change], inventory: Inventory) -> None:
        """Enter what is to be created into the inventory before it exists, so that a crash in between leaves nothing
        unknown behind."""
        for change in changes:
            if change.action in ("create", "update", "in-place") and change.ref.key not in inventory.entries:
                inventory.entries[change.ref.key] = InventoryEntry(change.ref)
        self.fence()
        self.store.write(inventory)

    def apply_changes(self, changes: Sequence[Change], inventory: Inventory) -> list[ChangeResult]:
        """Wave by wave; within a wave again and again while something that was refused before now succeeds."""
        done: list[ChangeResult] = []
        waves = sorted({change.desired.wave for change in changes if change.desired})
        for wave in waves:
            left = [change for change in changes if change.desired and change.desired.wave == wave]
            while left:
                self.fence()
                results = [self._apply_change(change, inventory) for change in left]
                failed = [result.change for result in results if result.outcome == "refused"]
                again = failed if any(result.outcome == "done" for result in results) else []
                done += [result for result in results if result.outcome != "refused" or not again]
                left = again
        for result in done:
            self._record_result(result)
        return done

    def _apply_change(self, change: Change, inventory: Inventory) -> ChangeResult:
        assert change.desired is not None  # noqa: S101 (only changes that want something get here)
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

    def _apply_object(self, change: Change, desired: DesiredObject, inventory: Inventory) -> ChangeResult:
        key = change.ref.key
        owners: tuple[FieldOwner, ...] = ()
        entry = inventory.entries.get(key)
        try:
            result = self.client.apply(desired.object)
        except Conflict as error:
            ours = entry is not None and bool(entry.uid) and (change.live is None or uid_of(change.live) == entry.uid)
            if not error.owners or not (ours or annotations_of(desired.object).get(ADOPT_ANNOTATION) == "true"):
                raise
            owners = error.owners
            result = self.client.apply(desired.object, force=True)
        self._record_write(key, result)
        inventory.entries[key] = InventoryEntry(
            change.ref, uid_of(result), started=bool(entry and entry.started and entry.uid == uid_of(result))
        )
        rest = field_differences(desired.object, result)
        self.memory.unfixable_differences[key] = _differences_digest(desired, rest)
        same, self.memory.applied_digests[key] = (
            self.memory.applied_digests.get(key) == json_digest(desired.object),
            json_digest(desired.object),
        )
        taken = "; ".join(f"{owner.field} was set by {owner.manager}" for owner in owners)
        who = f"put back again and again, so it is left alone for a while: {taken or 'who changes it is not known'}"
        if same and self.memory.fights.record_correction(key, who, self.clock()):
            return ChangeResult(change, "fight", who)
        return ChangeResult(change, "done", taken)

    def _delete_for_new_run(self, change: Change, inventory: Inventory) -> ChangeResult:
        """A new run: the old object goes now, the new one is created when a later pass sees that it is gone."""
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

    def prune_objects(self, changes: Sequence[Change], inventory: Inventory) -> list[ChangeResult]:
        """Delete what left the repository, jobs first, queues last; a failed delete stays in the inventory."""
        done: list[ChangeResult] = []
        left = sorted(changes, key=lambda change: (change.ref.kind == "Queue", change.ref.key))
        while left:
            results = [self._prune_object(change, inventory) for change in left]
            again = (
                [r.change for r in results if r.outcome == "refused"]
                if any(r.outcome == "done" for r in results)
                else []
            )
            done += [result for result in results if result.change not in again]
            left = again
        for result in done:
            self._record_result(result)
        return done

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

    def lift_gang_gates(self, gang: Sequence[GateLift]) -> tuple[int, str]:
        """Give each pod of one gang its node and lift its gate; how many were lifted, and what went wrong with another."""
        lifted, trouble = 0, ""
        for lift in gang:
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
        """Ask for the pod's end; empty when it was granted, else why not."""
        self.fence()
        try:
            self.client.evict(ref_of(pod), uid_of(pod))
        except NotFound:
            return ""
        except ApiError as error:
            return str(error)
        return ""

    def is_due(self, change: Change) -> bool:
        """Whether a change is to be tried now: not while it pauses after a failure, unless what is wanted has changed."""
        key = change.ref.key
        stays = (
            _differences_digest(change.desired, change.fields)
            if change.desired is not None and change.action != "replace"
            else ""
        )
        if stays and self.memory.unfixable_differences.get(key) == stays:
            return False
        failed = self.memory.paused_changes.get(key)
        return failed is None or failed[0] != _desired_digest(change) or self.clock() >= failed[2]

    def retry_times(self) -> list[float]:
        """When paused changes are due, on the actor's clock."""
        return [at for _, _, at in self.memory.paused_changes.values()] + list(self.memory.fights.paused_until.values())

    def _record_write(self, key: str, result: Object) -> None:
        self.memory.last_writes[key] = (result, "", self.clock())

    def _record_result(self, result: ChangeResult) -> None:
        key = result.change.ref.key
        if result.outcome == "done":
            self.memory.paused_changes.pop(key, None)
            self.memory.refused_updates.pop(key, None)
            return
        if result.outcome == "fight":
            return
        if result.outcome == "refused" and result.change.action == "in-place" and result.change.desired:
            self.memory.refused_updates[key] = result.change.desired.digest
        wish, failures, _ = self.memory.paused_changes.get(key, ("", 0, 0.0))
        failures = failures + 1 if wish == _desired_digest(result.change) else 1
        pause = max(result.retry_after, min(0.25 * 2**failures, MAX_PAUSE))
        self.memory.paused_changes[key] = (_desired_digest(result.change), failures, self.clock() + pause)


def mark_started(inventory: Inventory, job: Ref) -> None:
    """Note that the job's pods are about to get nodes: from now on it is not taken for one that never ran."""
    if (entry := inventory.entries.get(job.key)) is not None and not entry.started:
        inventory.entries[job.key] = replace(entry, started=True)


def _desired_digest(change: Change) -> str:
    return json_digest([change.action, change.desired.object if change.desired else None])


def _differences_digest(desired: DesiredObject, fields: Sequence[FieldDifference]) -> str:
    """Names differences together with the wish that they differ from; empty for none."""
    return json_digest([desired.object, [[field.path_text, field.live] for field in fields]]) if fields else ""


def _conflict_message(error: Conflict) -> str:
    if not error.owners:
        return str(error)
    held = "; ".join(f"{owner.field} is held by {owner.manager}" for owner in error.owners)
    return (
        f'{held}. Take it over with the annotation {ADOPT_ANNOTATION}: "true", or leave the field out of the repository'
    )


def _resource_version_number(thing: Object) -> int:
    """Resource versions are decimal numbers that grow (guaranteed since Kubernetes 1.35)."""
    said = str(thing["metadata"].get("resourceVersion") or "0")
    return int(said) if said.isdigit() else 0

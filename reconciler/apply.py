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

from reconciler.drift import Change, Field, Wanted, differences
from reconciler.gates import Lift
from reconciler.guard import Fights
from reconciler.inventory import Entry, Inventory, Store
from reconciler.kube import ApiError, Client, Conflict, Invalid, NotFound, Owner, Retry
from reconciler.objects import ADOPT, JOBS, Object, Ref, annotations_of, digest, ref_of, uid

log = logging.getLogger(__name__)

Outcome = Literal["done", "conflict", "refused", "retry", "fight"]
LONGEST_PAUSE = 60.0


class LostLease(Exception):
    """Another replica acts now; this one stops writing at once."""


@dataclass(frozen=True, slots=True)
class Done:
    """What became of a change. after: seconds until it is worth another try."""

    change: Change
    outcome: Outcome
    message: str = ""
    after: float = 0.0


@dataclass(slots=True)
class Memory:
    """What one process remembers between passes to stay calm; losing it costs a few needless requests, nothing else.

    settled: key -> digest of differences that stay after an apply (the server's own spelling). applied: key -> digest
    of what was applied last. paused: key -> (digest of what was refused, failures, time before which it is not tried
    again). refused: jobs whose live object the server does not let be changed. written: key -> what our last write
    returned, until the watch has caught up; None after a delete.
    """

    settled: dict[str, str] = field(default_factory=dict)
    applied: dict[str, str] = field(default_factory=dict)
    paused: dict[str, tuple[str, int, float]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    written: dict[str, tuple[Object | None, str, float]] = field(default_factory=dict)
    fights: Fights = field(default_factory=Fights)


@dataclass(slots=True)
class Actor:
    client: Client
    store: Store
    held: Callable[[], bool]
    clock: Callable[[], float]
    memory: Memory = field(default_factory=Memory)

    def fence(self) -> None:
        if not self.held():
            raise LostLease("another replica holds the lease")

    def live(self, key: str, cached: Object | None) -> Object | None:
        """The newer of what the watch shows and what our own last write returned."""
        if key not in self.memory.written:
            return cached
        wrote, gone, at = self.memory.written[key]
        caught_up = cached is None if wrote is None else cached is not None and _version(cached) >= _version(wrote)
        if caught_up or self.clock() - at > 10.0 or (wrote is None and cached is not None and uid(cached) != gone):
            del self.memory.written[key]
            return cached
        return wrote

    def intend(self, changes: Iterable[Change], inventory: Inventory) -> None:
        """Enter what is to be created into the inventory before it exists, so that a crash in between leaves nothing
        unknown behind."""
        for change in changes:
            if change.action in ("create", "update", "in-place") and change.ref.key not in inventory.entries:
                inventory.entries[change.ref.key] = Entry(change.ref)
        self.fence()
        self.store.write(inventory)

    def apply(self, changes: Sequence[Change], inventory: Inventory) -> list[Done]:
        """Wave by wave; within a wave again and again while something that was refused before now succeeds."""
        done: list[Done] = []
        waves = sorted({change.wanted.wave for change in changes if change.wanted})
        for wave in waves:
            left = [change for change in changes if change.wanted and change.wanted.wave == wave]
            while left:
                self.fence()
                results = [self._one(change, inventory) for change in left]
                failed = [result.change for result in results if result.outcome == "refused"]
                again = failed if any(result.outcome == "done" for result in results) else []
                done += [result for result in results if result.outcome != "refused" or not again]
                left = again
        for result in done:
            self._remember(result)
        return done

    def _one(self, change: Change, inventory: Inventory) -> Done:
        assert change.wanted is not None  # noqa: S101 (only changes that want something get here)
        key, now = change.ref.key, self.clock()
        if self.memory.fights.paused(key, now):
            return Done(change, "fight", self.memory.fights.who[key])
        try:
            if change.action == "replace":
                return self._replace(change, inventory)
            return self._write(change, change.wanted, inventory)
        except Conflict as error:
            return Done(change, "conflict", _conflict(error))
        except Retry as error:
            return Done(change, "retry", str(error), error.after)
        except ApiError as error:
            return Done(change, "refused", str(error))

    def _write(self, change: Change, wanted: Wanted, inventory: Inventory) -> Done:
        key = change.ref.key
        owners: tuple[Owner, ...] = ()
        entry = inventory.entries.get(key)
        try:
            result = self.client.apply(wanted.object)
        except Conflict as error:
            ours = entry is not None and bool(entry.uid) and (change.live is None or uid(change.live) == entry.uid)
            if not error.owners or not (ours or annotations_of(wanted.object).get(ADOPT) == "true"):
                raise
            owners = error.owners
            result = self.client.apply(wanted.object, force=True)
        self._wrote(key, result)
        inventory.entries[key] = Entry(
            change.ref, uid(result), started=bool(entry and entry.started and entry.uid == uid(result))
        )
        rest = differences(wanted.object, result)
        self.memory.settled[key] = _stubborn(wanted, rest)
        same, self.memory.applied[key] = self.memory.applied.get(key) == digest(wanted.object), digest(wanted.object)
        taken = "; ".join(f"{owner.field} was set by {owner.manager}" for owner in owners)
        who = f"put back again and again, so it is left alone for a while: {taken or 'who changes it is not known'}"
        if same and self.memory.fights.corrected(key, who, self.clock()):
            return Done(change, "fight", who)
        return Done(change, "done", taken)

    def _replace(self, change: Change, inventory: Inventory) -> Done:
        """A new run: the old object goes now, the new one is created when a later pass sees that it is gone."""
        assert change.live is not None  # noqa: S101
        self.delete(change.ref, uid(change.live), inventory)
        return Done(change, "done", change.reason)

    def delete(self, ref: Ref, which: str, inventory: Inventory) -> None:
        """Delete by uid. NotFound is as good; a namesake with another uid is left alone."""
        self.fence()
        try:
            self.client.delete(ref, which)
        except NotFound:
            log.info("it was gone already", extra={"object": str(ref)})
        self.memory.written[ref.key] = (None, which, self.clock())
        if ref.group_kind in JOBS and ref.key in inventory.entries:
            inventory.entries[ref.key] = Entry(ref)

    def prune(self, changes: Sequence[Change], inventory: Inventory) -> list[Done]:
        """Delete what left the repository, jobs first, queues last; a failed delete stays in the inventory."""
        done: list[Done] = []
        left = sorted(changes, key=lambda change: (change.ref.kind == "Queue", change.ref.key))
        while left:
            results = [self._prune_one(change, inventory) for change in left]
            again = (
                [r.change for r in results if r.outcome == "refused"]
                if any(r.outcome == "done" for r in results)
                else []
            )
            done += [result for result in results if result.change not in again]
            left = again
        for result in done:
            self._remember(result)
        return done

    def _prune_one(self, change: Change, inventory: Inventory) -> Done:
        assert change.live is not None  # noqa: S101
        try:
            self.delete(change.ref, uid(change.live), inventory)
        except Conflict:
            return Done(change, "conflict", "another object has taken its name")
        except Retry as error:
            return Done(change, "retry", str(error), error.after)
        except ApiError as error:
            return Done(change, "refused", str(error))
        inventory.entries.pop(change.ref.key, None)
        return Done(change, "done")

    def lift(self, gang: Sequence[Lift]) -> tuple[int, str]:
        """Give each pod of one gang its node and lift its gate; how many were lifted, and what went wrong with another."""
        lifted, trouble = 0, ""
        for lift in gang:
            self.fence()
            ref = ref_of(lift.pod)
            try:
                self._wrote(ref.key, self.client.patch(ref, lift.operations()))
                lifted += 1
            except (Invalid, NotFound, Conflict) as error:
                trouble = f"{ref}: it changed meanwhile: {error}"
            except Retry as error:
                trouble = str(error)
        return lifted, trouble

    def evict(self, pod: Object) -> str:
        """Ask for the pod's end; empty when it was granted, else why not."""
        self.fence()
        try:
            self.client.evict(ref_of(pod), uid(pod))
        except NotFound:
            return ""
        except ApiError as error:
            return str(error)
        return ""

    def due(self, change: Change) -> bool:
        """Whether a change is to be tried now: not while it pauses after a failure, unless what is wanted has changed."""
        key = change.ref.key
        stays = (
            _stubborn(change.wanted, change.fields) if change.wanted is not None and change.action != "replace" else ""
        )
        if stays and self.memory.settled.get(key) == stays:
            return False
        failed = self.memory.paused.get(key)
        return failed is None or failed[0] != _wish(change) or self.clock() >= failed[2]

    def deadlines(self) -> list[float]:
        """When paused changes are due, on the actor's clock."""
        return [at for _, _, at in self.memory.paused.values()] + list(self.memory.fights.until.values())

    def _wrote(self, key: str, result: Object) -> None:
        self.memory.written[key] = (result, "", self.clock())

    def _remember(self, result: Done) -> None:
        key = result.change.ref.key
        if result.outcome == "done":
            self.memory.paused.pop(key, None)
            self.memory.refused.pop(key, None)
            return
        if result.outcome == "fight":
            return
        if result.outcome == "refused" and result.change.action == "in-place" and result.change.wanted:
            self.memory.refused[key] = result.change.wanted.digest
        wish, failures, _ = self.memory.paused.get(key, ("", 0, 0.0))
        failures = failures + 1 if wish == _wish(result.change) else 1
        pause = max(result.after, min(0.25 * 2**failures, LONGEST_PAUSE))
        self.memory.paused[key] = (_wish(result.change), failures, self.clock() + pause)


def start(inventory: Inventory, job: Ref) -> None:
    """Note that the job's pods are about to get nodes: from now on it is not taken for one that never ran."""
    if (entry := inventory.entries.get(job.key)) is not None and not entry.started:
        inventory.entries[job.key] = replace(entry, started=True)


def _wish(change: Change) -> str:
    return digest([change.action, change.wanted.object if change.wanted else None])


def _stubborn(wanted: Wanted, fields: Sequence[Field]) -> str:
    """Names differences together with the wish that they differ from; empty for none."""
    return digest([wanted.object, [[field.path, field.live] for field in fields]]) if fields else ""


def _conflict(error: Conflict) -> str:
    if not error.owners:
        return str(error)
    held = "; ".join(f"{owner.field} is held by {owner.manager}" for owner in error.owners)
    return f'{held}. Take it over with the annotation {ADOPT}: "true", or leave the field out of the repository'


def _version(thing: Object) -> int:
    """Resource versions are decimal numbers that grow (guaranteed since Kubernetes 1.35)."""
    said = str(thing["metadata"].get("resourceVersion") or "0")
    return int(said) if said.isdigit() else 0

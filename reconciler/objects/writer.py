"""Writes of objects to the cluster: changes in, results out, both as data.

Objects are written by server-side apply, wave by wave. A conflict with another manager is forced only where we created
the object, the field was ours alone (then it is put back), or the user allows it. A refused write is tried again as
long as others succeed: queues that grow need their parents first, queues that shrink their children. A refused change
of an object that the server would accept as a new one becomes a replacement, where the user allows that.

Before each batch the inventory is written, so that a replica which no longer leads stops there. A create never changes
an object, and a change is meant for one uid. A write without an answer is deferred
(`reconciler.cluster.write_threads`): it has not failed, and the object is not written again until `settle` has
collected its result.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import NamedTuple, TypeAlias

from compiler.emit.live_changes import FieldDifference, may_be_replaced
from compiler.emit.manifest import Manifest
from compiler.kubernetes import ADOPT_ANNOTATION, CLUSTER_LABEL, annotations_of, is_terminating, uid_of
from compiler.run_kinds import is_run
from compiler.syntax.runs import json_digest
from reconciler.changes.desired import WAY_OUT, is_accepted_if_recreated
from reconciler.changes.diff import Change, field_differences
from reconciler.changes.managed_fields import empty_set, hand_over_patch, other_holders
from reconciler.changes.results import ChangeOutcome, ChangeResult, WriteResult
from reconciler.cluster.client import ApiError, Client, Conflict, Invalid, LostLease, NotFound, NotServed, Retry
from reconciler.cluster.objects import Object, Ref
from reconciler.cluster.write_threads import Proceed, Task, WriteThreads
from reconciler.inventory.keeper import origin_of
from reconciler.inventory.store import Inventory, InventoryEntry, InventoryStore, Origin
from reconciler.objects.memory import NOTHING_UNKEPT, Unkept, WriterMemory, change_digest
from reconciler.observation.own_writes import OwnWrites
from reconciler.timings import TIMINGS, ObjectTimings

log = logging.getLogger(__name__)

_LAST_DELETED = {"NamespaceQueue": 1, "Queue": 2}
"""Kinds that are deleted after all others, in this order."""

PUT_OFF = "left to the next pass: this one has taken too long"
_CREATED: Origin = "created"
_UNKNOWN_OPPONENT = "who changes it is not known"

Note: TypeAlias = Callable[[], ChangeResult]
"""Records the effects of a completed write, in the loop's thread, and returns the result of its change."""


class _Forced(NamedTuple):
    """Which fields were taken from which managers, and whether any of them was not ours before."""

    message: str = ""
    is_takeover: bool = False


@dataclass(slots=True)
class ClusterWriter:
    """Writes with a client that asks the fence; LostLease interrupts it.

    deadline: on the clock; changes not begun by then are deferred to the next pass. failed_save: why the inventory
    could not be written since the last success, and until when it is not tried again; no message after a success.
    """

    client: Client
    store: InventoryStore
    clock: Callable[[], float]
    own: OwnWrites = field(default_factory=OwnWrites)
    sleep: Callable[[float], None] = time.sleep
    timings: ObjectTimings = TIMINGS.objects
    memory: WriterMemory = field(init=False)
    threads: WriteThreads = field(default_factory=WriteThreads)
    deadline: float = inf
    failed_save: tuple[str, float] = ("", -inf)

    def __post_init__(self) -> None:
        self.memory = WriterMemory(self.timings)

    def set_deadline(self, seconds: float) -> None:
        self.deadline = self.clock() + seconds

    def is_out_of_time(self) -> bool:
        """Return whether the rest is deferred to the next pass, so that a pass ends although each of its writes is
        slow."""
        return self.clock() > self.deadline

    # --- the inventory

    def save_inventory(self, inventory: Inventory) -> str:
        """Write the inventory, if it has changed; why that failed. Raises LostLease when another replica wrote it."""
        if self.store.is_written(inventory):
            self.memory.record_save(self.store.ref.key)
            return ""
        (trouble, until), began_at = self.failed_save, self.clock()
        if began_at < until:
            return trouble
        for pause in (*self.timings.save_pauses, 0.0):
            try:
                self.store.write(inventory)
            except Conflict as error:  # with our own write, where one failed before this one
                if not trouble or self.store.read().transitions != inventory.transitions:
                    raise LostLease(str(error)) from error
                log.info("the answer to a write of the inventory was lost")
            except ApiError as error:
                trouble = str(error)
                self.failed_save = trouble, -inf
                if (took := self.clock() - began_at) > self.timings.slow_save:
                    self.failed_save = trouble, self.clock() + self._slow_pause(took)
                    return trouble
                self.sleep(pause)
            else:
                self.failed_save = "", -inf
                self.memory.record_save(self.store.ref.key)
                return ""
        return trouble

    def try_to_save(self, inventory: Inventory) -> ChangeResult | None:
        """Write the inventory, if it has changed; the result where that failed. Raises LostLease."""
        if not (trouble := self.save_inventory(inventory)):
            return None
        result = ChangeResult(Change("update", self.store.ref), "retry", trouble)
        self.memory.record_result(result, self.clock())
        return result

    # --- results of changes

    def apply_changes(self, changes: Sequence[Change], inventory: Inventory) -> list[ChangeResult]:
        """Apply wave by wave. Objects to create enter the inventory first, so that a crash leaves none unknown."""
        waves: dict[int, list[Change]] = {}
        for change in changes:
            if change.desired is not None:
                waves.setdefault(change.desired.wave, []).append(change)
        return self._make_in_turns([of_wave for _, of_wave in sorted(waves.items())], inventory)

    def prune_objects(self, changes: Sequence[Change], inventory: Inventory) -> list[ChangeResult]:
        """Delete what left the repository, jobs first, queues of namespaces and then those of the cluster last; a
        failed delete stays in the inventory."""
        turns: dict[int, list[Change]] = {}
        for change in sorted(changes, key=lambda change: change.ref.key):
            turns.setdefault(_LAST_DELETED.get(change.ref.kind, 0), []).append(change)
        return self._make_in_turns([of_turn for _, of_turn in sorted(turns.items())], inventory)

    def settle(self) -> list[WriteResult]:
        """Collect the results of the deferred changes, gates and evictions that have completed."""
        results: list[WriteResult] = self.threads.take_ended()
        self._record_results(each for each in results if isinstance(each, ChangeResult))
        return results

    def _record_results(self, results: Iterable[ChangeResult]) -> None:
        for result in results:
            self.memory.record_result(result, self.clock())

    def _make_in_turns(self, turns: Iterable[Sequence[Change]], inventory: Inventory) -> list[ChangeResult]:
        results = [result for changes in turns for result in self._try_repeatedly(changes, inventory)]
        self._record_results(results)
        return results

    def _try_repeatedly(self, changes: Sequence[Change], inventory: Inventory) -> list[ChangeResult]:
        """Attempt each change, and refused ones again as long as another succeeds meanwhile."""
        final: list[ChangeResult] = []
        most = self.timings.batch
        while changes:
            results: list[ChangeResult] = []
            for start in range(0, len(changes), most):
                results += self._attempt_batch(changes[start : start + most], inventory)
            again = "refused" if any(result.outcome == "done" for result in results) else None
            final += [result for result in results if result.outcome != again]
            changes = [result.change for result in results if result.outcome == again]
        return final

    def _attempt_batch(self, batch: Sequence[Change], inventory: Inventory) -> list[ChangeResult]:
        """Attempt several changes at a time; only known ones while the inventory cannot be written."""
        for change in batch:
            key = change.ref.key
            if change.action in ("create", "update", "in-place") and key not in inventory.entries:
                inventory.enter(InventoryEntry(change.ref))
                self.memory.record_intent(key)
        failed = self.try_to_save(inventory)
        trouble, unknown = (failed.message, self.memory.unsaved_intents) if failed else ("", set[str]())

        def attempt(change: Change, proceed: Proceed) -> Note:
            if change.ref.key in unknown:
                return _conclusion(change, "retry", trouble)
            return self._attempt(change, inventory, proceed)

        tasks = [Task(each.ref, partial(attempt, each), partial(ChangeResult, each)) for each in batch]
        results: list[ChangeResult] = self.threads.run(tasks)
        return [*results, failed] if failed else results

    # --- one change, in a thread of its own

    def _attempt(self, change: Change, inventory: Inventory, proceed: Proceed) -> Note:
        if self.is_out_of_time():
            return _conclusion(change, "put off", PUT_OFF)
        began_at, desired = self.clock(), change.desired
        if desired is not None and (opponent := self.memory.opponent(change.ref.key, began_at)):
            return _conclusion(change, "fight", opponent)
        try:
            if change.action == "release":
                return self._release_object(change, inventory, proceed)
            if desired is None or change.action == "replace":
                return self._delete_object(change, inventory)
            return self._apply_object(change, desired, inventory, proceed)
        except Conflict as error:
            return _conclusion(change, *_conflict(change, error))
        except Retry as error:
            took = self.clock() - began_at if error.is_answer else 0.0
            return partial(self._note_trouble, change, error, max(error.after, self._slow_pause(took)))
        except Invalid as error:
            return self._conclude_refusal(change, str(error), proceed)
        except ApiError as error:
            return _conclusion(change, "refused", str(error))

    def _conclude_refusal(self, change: Change, message: str, proceed: Proceed) -> Note:
        """Return a refusal, and the way out of one of a change that would be none of a new object."""
        if change.action != "update" or change.desired is None:
            return _conclusion(change, "refused", message)
        proceed()
        if not is_accepted_if_recreated(self.client, change.desired.object):
            return _conclusion(change, "refused", message)
        if not may_be_replaced(change.desired.object):
            return _conclusion(change, "refused", f"{message}; {WAY_OUT}")

        def note() -> ChangeResult:
            self.memory.record_refused_update(change)
            return ChangeResult(change, "retry", f"it is to be recreated: {message}")

        return note

    def _note_trouble(self, change: Change, error: Retry, pause: float) -> ChangeResult:
        if not error.is_answer:
            self.memory.record_lost_answer(change.ref.key, self.clock())
        return ChangeResult(change, "retry", str(error), pause)

    def _slow_pause(self, took: float) -> float:
        return min(self.timings.slow_factor * took, self.timings.longest_pause)

    def _apply_object(self, change: Change, desired: Manifest, inventory: Inventory, proceed: Proceed) -> Note:
        known = inventory.entries.get(change.ref.key, InventoryEntry(change.ref))
        written, forced, origin = self._create(change, desired), _Forced(), _CREATED
        if written is None:
            proceed()
            live = change.live or self.client.get(change.ref)
            if is_terminating(live):
                return _conclusion(change, "retry", "what has its name is being deleted")
            origin = origin_of(live, self.store.cluster)
            # Made by us, where a stop kept its uid from the inventory. A job may be another run: its uid decides.
            is_remade = origin == _CREATED and not is_run(desired.object)
            is_known = known.uid == uid_of(live)
            is_made = known.is_created if is_known else is_remade
            own = self.memory.own_fields.get(change.ref.key, frozenset()) if is_known else frozenset[str]()
            written, forced = self._apply_or_force(change, live, desired, None if is_made else own, proceed)
        return partial(self._note_applied, change, desired, inventory, written, forced, origin)

    def _note_applied(
        self, change: Change, desired: Manifest, inventory: Inventory, written: Object, forced: _Forced, origin: Origin
    ) -> ChangeResult:
        """Note a completed apply, and return its result. origin: where the object comes from, if it was not ours."""
        key, overridden = change.ref.key, forced.message
        known = inventory.entries.get(key, InventoryEntry(change.ref))
        self.own.record_write(written)
        if known.uid != uid_of(written):
            known = InventoryEntry(change.ref, uid_of(written), origin=origin)
        if (known.ref, known.run) != (change.ref, desired.run_digest):
            known = replace(known, ref=change.ref, run=desired.run_digest)
        if overridden and known.origin == "joined":
            known = replace(known, origin="taken")
        inventory.enter(known)
        if not known.is_created:
            self.memory.record_own_fields(key, written)
        unkept = _unkept(desired, field_differences(desired.object, written))
        is_correction = self.memory.record_apply(key, json_digest(desired.object), unkept, self.clock())
        opponent = f"corrected repeatedly, so it is left alone for a while: {overridden or _UNKNOWN_OPPONENT}"
        if is_correction and self.memory.record_correction(key, opponent, self.clock()):
            return ChangeResult(change, "fight", opponent)
        return ChangeResult(change, "done", overridden, is_takeover=forced.is_takeover)

    def _create(self, change: Change, desired: Manifest) -> Object | None:
        """Return the new object; None where it exists. An existing job is deferred to the next pass, which sees its
        state."""
        if change.live is not None:
            return None
        try:
            return self.client.create_by_apply(desired.object)
        except Conflict:
            if is_run(desired.object):
                raise
        return None

    def _apply_or_force(
        self, change: Change, live: Object, desired: Manifest, own: frozenset[str] | None, proceed: Proceed
    ) -> tuple[Object, _Forced]:
        """Return the written object, and the fields taken from other managers. own: the fields that were ours alone;
        None where the whole object is ours and its other managers are known from it: then their fields are taken at
        once."""
        uid = uid_of(live)
        may_adopt = annotations_of(desired.object).get(ADOPT_ANNOTATION) == "true"
        holders = other_holders(live, [each.steps for each in change.fields]) if own is None else []
        if not holders:
            try:
                return self.client.apply(desired.object, uid), _Forced()
            except Conflict as error:
                others = () if own is None else tuple(owner for owner in error.owners if owner.field not in own)
                if not error.owners or (others and not may_adopt):
                    raise Conflict(str(error), others) from error
                holders = [*error.owners]
            proceed()
        message = "; ".join(f"{field} was set by {manager}" for field, manager in holders)
        is_takeover = own is not None and any(field not in own for field, _ in holders)
        return self.client.apply(desired.object, uid, force=True), _Forced(message, is_takeover)

    def _delete_object(self, change: Change, inventory: Inventory) -> Note:
        """Delete by uid, so that a namesake with another uid stays. The entry stays until the object does not exist any
        more; then a later pass creates its replacement."""
        assert change.live is not None  # noqa: S101
        ref, target = change.ref, change.live
        _unless_gone(ref, partial(self.client.delete, ref, uid_of(target)))

        def note() -> ChangeResult:
            self.own.record_deletion(ref.key, uid_of(target))
            if is_run(target) and ref.key in inventory.entries:
                inventory.enter(InventoryEntry(ref))
            return ChangeResult(change, "done", change.reason)

        return note

    def _release_object(self, change: Change, inventory: Inventory, proceed: Proceed) -> Note:
        """Give back an object that existed before us; what we had taken over keeps its value."""
        assert change.live is not None  # noqa: S101
        ref, live = change.ref, change.live
        hand_over = partial(self.client.patch, ref, hand_over_patch(live))
        let_go = partial(self.client.apply, empty_set(ref), uid_of(live))
        try:
            _unless_gone(ref, hand_over if inventory.entries[ref.key].origin == "taken" else let_go)
        except Invalid:  # it needs a field that only we own
            proceed()
            hand_over()

        def note() -> ChangeResult:
            inventory.drop_entry(ref.key)
            return ChangeResult(change, "done", change.reason)

        return note

    # --- what parts ask

    def announce(self, key: str) -> None:
        """Note that the stored inventory lacks a write of this object that is about to be sent."""
        self.memory.record_intent(key)

    def refused_keys(self) -> set[str]:
        """Return Ref.key of what the server refuses, or others hold."""
        failures = self.memory.failures.items()
        return {key for key, result in failures if result.outcome in ("refused", "conflict")}

    def may_still_come(self, ref: Ref, seconds: float) -> bool:
        """Return whether a write of the object is under way, or has lost its answer so many seconds ago at most."""
        lost_at = self.memory.lost_answers.get(ref.key, -inf)
        return self.threads.is_open(ref.key) or self.clock() - lost_at <= seconds

    def is_due(self, change: Change) -> bool:
        """Return whether a change is to be tried now: not while it pauses after a failure, unless its manifest has
        changed."""
        if self.is_unfixable(change) or self.threads.must_wait(change.ref):
            return False
        digest, _, retry_at = self.memory.paused_changes.get(change.ref.key, ("", 0, 0.0))
        return self.clock() >= retry_at or digest != change_digest(change)

    def is_unfixable(self, change: Change) -> bool:
        """Return whether just these differences stayed when the same was written, not long ago. An object that was
        hidden thereby is still to be created, as it seems."""
        known = self.memory.unkept.get(change.ref.key, NOTHING_UNKEPT)
        if not known.digest or change.desired is None or change.action == "replace" or self.clock() >= known.retry_at:
            return False
        if change.action == "create":
            is_same = self.memory.applied_digests.get(change.ref.key) == json_digest(change.desired.object)
            return known.is_hidden and is_same
        return known.digest == _unkept(change.desired, change.fields).digest

    def retry_times(self) -> list[float]:
        changes = [retry_at for _, _, retry_at in self.memory.paused_changes.values()]
        return [*changes, *(until for until, _ in self.memory.fights.values())]


def _unless_gone(ref: Ref, send: Callable[[], object]) -> None:
    """Send a request about an object. NotFound counts as success, unless its kind is not served, which proves
    nothing."""
    try:
        send()
    except NotServed:
        raise
    except NotFound:
        log.info("it was gone already", extra={"object": str(ref)})


def _conclusion(change: Change, outcome: ChangeOutcome, message: str) -> Note:
    """Return the note of a write of which nothing is to be remembered but its failure."""
    return partial(ChangeResult, change, outcome, message)


def _unkept(desired: Manifest, fields: Sequence[FieldDifference]) -> Unkept:
    """Return the differences from a manifest as the memory has them."""
    if not fields:
        return NOTHING_UNKEPT
    digest = json_digest([desired.object, [[field.path_text, field.live] for field in fields]])
    labels = (field.steps for field in fields if field.steps[:2] == ("metadata", "labels"))
    is_hidden = any(len(steps) == 2 or steps[2] == CLUSTER_LABEL for steps in labels)
    return Unkept(digest, ", ".join(field.path_text for field in fields), is_hidden)


def _conflict(change: Change, error: Conflict) -> tuple[ChangeOutcome, str]:
    if change.desired is None:
        return "conflict", "another object has taken its name"
    if not error.owners:
        return "retry", f"it changed meanwhile: {error}"
    owners = "; ".join(f"{owner.field} is held by {owner.manager}" for owner in error.owners)
    adopt = f'{ADOPT_ANNOTATION}: "true"'
    message = f"{owners}. Take it over with the annotation {adopt}, or leave the field out of the repository"
    return "conflict", message

"""The part of the plan's objects: what of them differs, writing it, and putting it back between passes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from compiler.emit.manifest import Manifest
from compiler.kubernetes import DIGEST_ANNOTATION, annotations_of, is_planned_job, is_terminating, uid_of
from compiler.run_kinds import RUN_KINDS
from reconciler.changes.diff import Change, classify_change
from reconciler.changes.results import Allowed, ChangeResult, Condition, Effects
from reconciler.cluster.objects import Object, Ref, ref_of
from reconciler.inventory.keeper import refuse_beside_another
from reconciler.inventory.store import Inventory
from reconciler.objects.differ import Differ
from reconciler.objects.writer import ClusterWriter
from reconciler.observation.informers import InformerSet
from reconciler.observation.observe import Seen
from reconciler.observation.pods import scheduler_text
from reconciler.part import Part
from reconciler.planning.snapshot import Snapshot
from reconciler.timings import TIMINGS, ObjectTimings


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
    """Puts back single objects that the watch shows changed, between two passes and without examining the rest.

    That is done only where an object's own fields decide: the last pass found it ours, as planned and free to be
    written, it was updated and not deleted or recreated, and no plan depends on its kind. Everything else wakes a pass.
    wake: asks for a pass. timed: measures the writes. basis: of the last pass; None while only a pass may write.
    targets: Ref.key -> the manifest of an object that was as planned; others need a pass.
    """

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
        """Put back updated objects that can be decided alone, and return the results. Wakes a pass for the rest, and
        where a write failed or changed the inventory. Raises LostLease. now: the current basis; None where this replica
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
        """Return whether the object's own fields decide: it is ours, read and no job, nor the scheduler's
        configuration."""
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
        """Return the update that puts the object back; None where there is nothing to do, or it is another object."""
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


@dataclass(slots=True)
class StartPace:
    """Creates new jobs only as fast as earlier ones get their pods.

    Volcano's job controller handles jobs with three workers, one step of each in turn. Of all jobs of a large commit at
    once it creates every PodGroup before the first pods, and the scheduler reports again and again that each gang has
    no pods. With few it writes how the first ones run before it makes pods for the last: it sends 50 requests a second
    by default, and they decide when the last gang starts.

    made_at: Ref.key of a job without pods -> when it was created. is_holding: whether jobs were deferred to a later
    pass.
    """

    timings: ObjectTimings = TIMINGS.objects
    made_at: dict[str, float] = field(default_factory=dict)
    is_holding: bool = False

    def observe(self, has_pods: Callable[[str], bool], now: float) -> None:
        """Forget the jobs that have their pods, and jobs that take too long."""
        recent = {key: at for key, at in self.made_at.items() if now - at < self.timings.flight}
        self.made_at = {key: at for key, at in recent.items() if not has_pods(key)}

    def record_creation(self, key: str, now: float) -> None:
        self.made_at[key] = now

    def next_changes(self, due: Sequence[Change], starting: Collection[str], waiting: Collection[str]) -> list[Change]:
        """Return the changes of this pass, by wave, starting jobs before waiting ones. starting, waiting: Ref.key of
        gangs."""
        room = max(self.timings.jobs_in_flight - len(self.made_at), 0)
        by_rank: tuple[list[Change], list[Change], list[Change]] = ([], [], [])
        for change in due:
            key = change.ref.key
            is_new = change.action == "create"
            by_rank[1 if is_new and key in starting else 2 if is_new and key in waiting else 0].append(change)
        others, starts, waits = by_rank
        self.is_holding = len(starts) > room
        chosen = [*others, *starts[:room]] if self.is_holding else [*others, *starts, *waits]
        return sorted(chosen, key=lambda change: change.desired.wave if change.desired else 0)[: self.timings.slice]

    def deadlines(self, now: float) -> list[float]:
        """Return when other jobs need no longer wait for jobs without pods; soon, if that time passed during a long
        pass."""
        if not self.is_holding:
            return []
        soon, flight = now + self.timings.soon, self.timings.flight
        return [max(at + flight, soon) for at in self.made_at.values()] or [soon]


@dataclass(slots=True)
class ObjectsPart(Part):
    """corrections: of objects between passes. wake: asks for another pass. pace: of new jobs."""

    writer: ClusterWriter
    differ: Differ
    corrections: Corrections
    wake: Callable[[], None]
    pace: StartPace = field(init=False)

    def __post_init__(self) -> None:
        self.pace = StartPace(self.writer.timings)

    def begin(self, seen: Seen, snapshot: Snapshot) -> Effects:
        """Store which commit is in force before anything of it is written."""
        store = self.writer.store
        seen.inventory.bring_into_force(snapshot.commit)
        is_first = not store.exists
        saved = self.save(seen.inventory)
        if is_first and not saved.results:
            refuse_beside_another(store)
        return saved

    def save(self, inventory: Inventory) -> Effects:
        failed = self.writer.try_to_save(inventory)
        return Effects((failed,) if failed else ())

    def next_changes(self, allowed: Allowed, seen: Seen, snapshot: Snapshot) -> list[Change]:
        """As many changes as a pass may make; new jobs come no faster than those before them get their pods."""
        due = [change for change in allowed.changes.due if self.writer.is_due(change)]
        self.pace.observe(lambda key: _has_pods(seen, key), self.writer.clock())
        starting = _starting(snapshot)
        chosen = self.pace.next_changes(due, starting, snapshot.gangs.keys() - starting)
        if len(chosen) < len(due) and not self.pace.is_holding:
            self.wake()
        return chosen

    def apply(self, changes: Sequence[Change], seen: Seen, snapshot: Snapshot, earlier: Effects) -> Effects:
        """Make these changes. earlier: what has ended since the last pass, of which jobs may be new as well."""
        results = tuple(self.writer.apply_changes(changes, seen.inventory))
        starting, now = _starting(snapshot), self.writer.clock()
        for result in (*earlier.results, *results):
            change = result.change
            if result.outcome == "done" and change.action == "create" and change.ref.key in starting:
                self.pace.record_creation(change.ref.key, now)
        return Effects(results)

    def unmarked_jobs(self, jobs: Iterable[Ref], seen: Seen) -> dict[str, str]:
        """Return Ref.key of jobs that do not keep the mark of their run -> why they keep no room: no gate is lifted
        without it."""
        objects, entries, found = seen.observation.objects, seen.inventory.entries, dict[str, str]()
        for key in (job.key for job in jobs if job.key in self.writer.memory.unkept):
            is_marked = key not in objects or DIGEST_ANNOTATION in annotations_of(objects[key])
            if not is_marked and key in entries and not entries[key].started:
                found[key] = f"it keeps no room: its annotation {DIGEST_ANNOTATION} does not stay as written"
        return found

    def is_busy(self, allowed: Allowed, results: Sequence[ChangeResult]) -> bool:
        """Return whether a write is under way, or one is still to be made that is not refused again and again."""
        changes = (*allowed.changes.due, *(result.change for result in results))
        return self.writer.threads.is_any_open() or not all(map(self.writer.memory.is_given_up, changes))

    def conditions(self, now: float) -> Iterator[Condition]:
        return self.writer.memory.conditions(now)

    def deadlines(self, now: float) -> list[float]:
        return [*self.writer.retry_times(), *self.pace.deadlines(now)]

    def forget_except(self, live: Collection[str]) -> None:
        self.differ.desired.forget_except(live)
        self.writer.memory.trim(live, self.writer.clock())
        self.writer.own.forget_except(live)


def _starting(snapshot: Snapshot) -> set[str]:
    return {key for key, gang in snapshot.gangs.items() if gang.decision != "wait"}


def _has_pods(seen: Seen, key: str) -> bool:
    """Return whether the controller has made pods of the job, or need not."""
    entry = seen.inventory.entries.get(key)
    return entry is None or entry.started or key in seen.pods

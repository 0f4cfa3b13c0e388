"""The inventory: which objects of a cluster are ours, and which jobs have had their run.

It is stored in the cluster, so that a reconciler which lost its disk still knows what it may delete and what must never
run again: a head (commit, version of the format, where the tables are), and two tables of rows in shards of their own,
objects and runs.

It is written before the first object of a batch is created (an intent, without a uid) and trimmed after the object is
seen to be deleted. Each write begins with the head, at the resource version it was read at: a second writer is a
Conflict and not a lost update. Head and shards carry digests, by which changes of other clients are detected.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from math import inf
from operator import attrgetter
from typing import Any, Literal, TypeVar

from compiler.specs.gang_spec import JobKey
from compiler.syntax.runs import json_digest
from reconciler.changes.planned import PlannedRuns
from reconciler.cluster.client import Client, NotFound
from reconciler.cluster.objects import Object, Ref
from reconciler.inventory.shards import (
    UNREADABLE,
    Layout,
    PackedRecord,
    ShardSet,
    Table,
    memory_labels,
    place_of,
    put_config_map,
    rows_of,
    unreadable,
)
from reconciler.timings import TIMINGS, InventoryTimings

FORMAT_VERSION = 2
_HEAD_KEY = "inventory.json"

Origin = Literal["created", "joined", "taken"]
"""created: by us, so it is deleted when it leaves the repository. joined: it existed before our first write, so it is
released. taken: joined, and fields of another manager were taken over, so it keeps their values when it is released."""


@dataclass(frozen=True, slots=True)
class InventoryEntry:
    """An object of ours. uid: empty while a creation is intended and not yet confirmed. started: the job's pods have
    been given nodes. run: the digest of the job's run, empty where unknown. record: of a running job, the record of its
    former pods, plain data (`reconciler.runs.run_record`)."""

    ref: Ref
    uid: str = ""
    started: bool = False
    origin: Origin = "created"
    run: str = ""
    record: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_created(self) -> bool:
        return self.origin == "created"


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A finished run of a job: the digest of its specification, and how it ended. left_at: since when the job is no
    longer in the repository, in seconds since the epoch; 0 while it is. details: its record, plain data
    (`reconciler.runs.run_record`)."""

    ref: Ref
    digest: str
    phase: str
    left_at: int = 0
    details: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.details, PackedRecord):
            object.__setattr__(self, "details", PackedRecord(self.details))

    def job_rows(self) -> Iterator[tuple[JobKey, Mapping[str, Any]]]:
        """Yield the job with the details of this run, and of the runs before it that are known."""
        details = self.details.unpack() if isinstance(self.details, PackedRecord) else dict(self.details)
        for row in (details, *details.get("former", ())):
            yield (self.ref.namespace, self.ref.name, self.ref.kind), row


@dataclass(slots=True)
class Inventory:
    """The objects that are ours and the finished runs, both by `Ref.key`, runs in the order of their ends.

    commit: the commit last applied. transitions: of the lease that the last writer held. deletions: recent deletions,
    rows (time, *`guard.Toll`). announced: uid of an object -> such a row, noted before each request to delete it. It
    counts once the object does not exist any more, even if the process is killed meanwhile. scheduler: the state of its
    configuration (`reconciler.scheduler.configuration`). is_lost: there was no inventory. Which objects with our mark
    are ours, and which jobs have run, must be found out before any write.
    """

    entries: Table[InventoryEntry] = field(default_factory=Table)
    runs: Table[FinishedRun] = field(default_factory=Table)
    commit: str = ""
    transitions: int = 0
    deletions: list[list[int]] = field(default_factory=list)
    announced: dict[str, list[int]] = field(default_factory=dict)
    scheduler: Mapping[str, str] = field(default_factory=dict)
    is_lost: bool = False

    @classmethod
    def from_rows(cls, objects: Iterable[Any], runs: Iterable[Any], head: Mapping[str, Any]) -> Inventory:
        """Build an inventory from rows. Raises ValueError for invalid ones: an error is never an empty inventory."""
        try:
            entries = [_from_row(InventoryEntry, row) for row in objects]
            finished = _finished_runs(runs)
            return cls(
                Table({entry.ref.key: entry for entry in entries}),
                Table({run.ref.key: run for run in finished}),
                str(head["commit"]),
                int(head.get("transitions") or 0),
                [[int(number) for number in row] for row in head.get("deletions") or ()],
                {str(uid): [int(number) for number in row] for uid, row in (head.get("announced") or {}).items()},
                {str(name): str(text) for name, text in (head.get("scheduler") or {}).items()},
            )
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise ValueError(f"the inventory cannot be read: {error!r}") from error

    @property
    def is_stored(self) -> bool:
        """Return whether the cluster has all of its rows."""
        return not (self.entries.changed_keys or self.runs.changed_keys)

    def enter(self, entry: InventoryEntry) -> None:
        """Put this entry in the place of the former one of its object."""
        self.entries[entry.ref.key] = entry

    def drop_entry(self, key: str) -> None:
        """Remove an object that was deleted or is no longer ours."""
        self.entries.pop(key)

    def record_run(self, run: FinishedRun) -> None:
        """Put this run in the place of the job's former one: it is the last one."""
        self.runs.pop(run.ref.key)
        self.runs[run.ref.key] = run

    def finished_jobs(self, planned: PlannedRuns) -> frozenset[str]:
        """Return jobs whose present specification has had its run."""
        return frozenset(key for key, run in self.runs.items() if run.digest == planned.of(key, run.digest))

    def trim_runs(self, present: Collection[str], now: int, timings: InventoryTimings) -> None:
        """Forget finished runs whose job left the repository long ago; if there are too many, those that left first.
        present: Ref.key of jobs in the repository or the cluster. now: seconds since the epoch."""
        absent: list[tuple[int, str]] = []
        for key, run in list(self.runs.items()):
            if key in present:
                if run.left_at:
                    self.runs[key] = replace(run, left_at=0)
            elif not run.left_at:
                self.runs[key] = replace(run, left_at=now)
                absent.append((now, key))
            elif now - run.left_at > timings.run_memory:
                self.runs.pop(key)
            else:
                absent.append((run.left_at, key))
        for _, key in sorted(absent)[: max(0, len(absent) - timings.run_memory_size)]:
            self.runs.pop(key)

    def mark_started(self, key: str) -> bool:
        """Note that the job's pods are about to get nodes, so that it counts as one that ran; whether that is news."""
        entry = self.entries.get(key)
        if entry is None or entry.started:
            return False
        self.entries[key] = replace(entry, started=True)
        return True

    def unmark_started(self, key: str) -> None:
        """Take back `mark_started`, where it could not be stored, or no pod was given its node after all."""
        self.entries[key] = replace(self.entries[key], started=False)

    def bring_into_force(self, commit: str) -> None:
        """Note the commit whose plan is applied."""
        self.commit = commit

    def take_over(self, transitions: int) -> None:
        """Note the lease under which it is written from now on."""
        self.transitions = transitions

    def record_deletions(self, at: int, toll: Iterable[int]) -> None:
        """Note the deletions of one time (seconds since the epoch): a `guard.Toll`."""
        self.deletions.append([at, *toll])

    def announce_deletion(self, uid: str, at: int, toll: Iterable[int]) -> bool:
        """Note what dies of the deletion of this object, before it is asked for; whether that is news."""
        row = [at, *toll]
        if self.announced.get(uid) == row:
            return False
        self.announced[uid] = row
        return True

    def settle_announced(self, not_gone: Collection[str]) -> None:
        """Count announced deletions as made, except for these uids, whose objects exist or may exist."""
        gone = sorted((row[0], uid) for uid, row in self.announced.items() if uid not in not_gone)
        rows = [self.announced.pop(uid) for _, uid in gone]
        for at in sorted({row[0] for row in rows}):
            of_time = [row[1:] for row in rows if row[0] == at]
            self.record_deletions(at, map(sum, zip(*of_time, strict=True)))

    def trim_deletions(self, now: int, window: int) -> None:
        """Forget deletions before the window. A time noted by a clock that was ahead counts as now."""
        rows = ([min(row[0], now), *row[1:]] for row in self.deletions)
        self.deletions = [row for row in rows if row[0] > now - window]
        announced = {uid: [min(row[0], now), *row[1:]] for uid, row in self.announced.items()}
        self.announced = {uid: row for uid, row in announced.items() if row[0] > now - window}

    def note_scheduler(self, kept: Mapping[str, str]) -> None:
        """Note the state of the scheduler's configuration."""
        self.scheduler = kept

    def settle_loss(self) -> None:
        """Note that the owned objects are known again."""
        self.is_lost = False


_Row = TypeVar("_Row", InventoryEntry, FinishedRun)


def _from_row(row_type: type[_Row], row: list[Any]) -> _Row:
    return row_type(Ref(*row[:4]), *row[4:])


_VALUES = {row: attrgetter(*(each.name for each in fields(row)[1:])) for row in (InventoryEntry, FinishedRun)}
"""Gives the fields of a row but for its ref, in their order."""


def _as_row(entry: InventoryEntry | FinishedRun) -> list[Any]:
    ref = entry.ref
    return [ref.api_version, ref.kind, ref.namespace, ref.name, *_VALUES[type(entry)](entry)]


@dataclass(slots=True)
class InventoryStore:
    """Reads and writes the inventory's ConfigMaps. `write` raises Conflict when another has written."""

    client: Client
    namespace: str
    cluster: str
    timings: InventoryTimings = TIMINGS.inventory
    _objects: ShardSet = field(init=False)
    _runs: ShardSet = field(init=False)
    _version: str = ""
    _head: Mapping[str, Any] = field(default_factory=dict)
    _checks: int = 0
    _was_deleted: bool = False
    _followed: tuple[str, float] = ("", -inf)

    def __post_init__(self) -> None:
        place, labels, limit = (self.client, self.namespace), memory_labels(self.cluster), self.timings.shard_limit
        names = (f"gangplan-{self.cluster}-{table}" for table in ("objects", "runs"))
        self._objects, self._runs = (ShardSet(*place, name, labels, limit, _as_row) for name in names)

    def _tables(self, inventory: Inventory) -> list[tuple[ShardSet, Table[Any]]]:
        return [(self._objects, inventory.entries), (self._runs, inventory.runs)]

    @property
    def ref(self) -> Ref:
        return Ref("v1", "ConfigMap", self.namespace, f"gangplan-{self.cluster}-inventory")

    @property
    def exists(self) -> bool:
        """Return whether the last read or write found one in the cluster."""
        return bool(self._version)

    def read(self) -> Inventory:
        """Read the inventory; it is lost if it, or a part of it, does not exist. Raises ApiError, or ValueError for an
        unreadable one."""
        try:
            item = self.client.get(self.ref)
        except NotFound:
            return self._read_without_head()
        head = _decode_head(item)
        inventory = self._read_tables(head)
        self._version = str(item["metadata"]["resourceVersion"])
        self._followed = self._version, -inf
        self._head = {"data": item["data"]}
        return inventory

    def follow(self, known: Inventory, now: float) -> Inventory:
        """Return the inventory for a replica that does not act, read only. The commit in force is read each time. The
        tables, which may be large, are read rarely, and only where they may have changed. Raises as `read`."""
        version, seen_at = self._followed
        try:
            item = self.client.get(self.ref)
        except NotFound:
            return self.read()
        head, found = _decode_head(item), str(item["metadata"]["resourceVersion"])
        if found != version and now - seen_at >= self.timings.follow:
            self._followed = found, now
            return self._read_tables(head)
        known.bring_into_force(str(head["commit"]))
        return known

    def _read_tables(self, head: Mapping[str, Any]) -> Inventory:
        if head["version"] != FORMAT_VERSION:
            raise ValueError(f"the inventory is of format {head['version']}, this gangplan knows {FORMAT_VERSION}")
        layouts = [Layout(**head["tables"][name]) for name in ("objects", "runs")]
        try:
            items = [shards.fetch(layout) for shards, layout in zip((self._objects, self._runs), layouts, strict=True)]
        except NotFound:
            self._forget_layouts()
            return replace(Inventory.from_rows((), (), head), is_lost=True)
        return self._take_for_written(layouts, items, head)

    def _take_for_written(
        self, layouts: Sequence[Layout], items: Sequence[Sequence[Object]], head: Mapping[str, Any]
    ) -> Inventory:
        """Return the inventory that these ConfigMaps hold; none of its rows has to be written. Raises ValueError
        first."""
        inventory = Inventory.from_rows(rows_of(items[0]), rows_of(items[1]), head)
        for (shards, table), layout, found in zip(self._tables(inventory), layouts, items, strict=True):
            shards.adopt(layout, found, table)
            table.mark_written()
        return inventory

    def _forget_layouts(self) -> None:
        self._objects.forget_layout()
        self._runs.forget_layout()

    def _read_without_head(self) -> Inventory:
        """Read the inventory from the shards alone, where each table has a complete set of them."""
        labels = ",".join(f"{key}={value}" for key, value in memory_labels(self.cluster).items())
        resource = self.client.resource("v1", "ConfigMap")
        items, _ = self.client.list(resource, self.namespace, labels)
        self._version, self._head = "", {}
        self._forget_layouts()
        found = [_newest_layout(shards.name, items) for shards in (self._objects, self._runs)]
        tables = [each for each in found if each is not None]
        if len(tables) < len(found):
            return Inventory(is_lost=True)
        return self._take_for_written([layout for layout, _ in tables], [each for _, each in tables], {"commit": ""})

    def write(self, inventory: Inventory) -> None:
        """Write what has changed. A new layout is written whole before the head names it, and runs before objects, so
        that a job is never forgotten on both sides. Where the head was deleted by hand, so may be all the rest, which
        is then made again at once: a process that begins without it knows nothing of finished runs."""
        if self.is_written(inventory):
            return
        if not self._version:
            self._forget_layouts()
            self._put_head(self._head_content(inventory))
        tables = self._tables(inventory)[::-1]
        prepared = [shards.prepare(table, self._version) for shards, table in tables]
        former = [shards.layout for shards, _ in tables]
        is_spread = [layout for layout, _ in prepared] != former
        self._put_head(self._head if is_spread else self._head_content(inventory))
        for (shards, table), to_write in zip(tables, prepared, strict=True):
            shards.write(*to_write, table)
        if is_spread:
            self._put_head(self._head_content(inventory))
            for (shards, _), layout in zip(tables, former, strict=True):
                if layout != shards.layout:
                    shards.delete(layout)
        if self._was_deleted:
            for shards, table in tables:
                for index in range(shards.layout.shards):
                    shards.restore(index, table)
            self._was_deleted = False

    def restore(self, inventory: Inventory) -> bool:
        """Restore parts of the head and of one shard, alternating, that were deleted or changed by hand; return whether
        any was."""
        if not self._version:
            return False
        self._checks += 1
        shards, table = self._tables(inventory)[self._checks % 2]
        is_restored = shards.restore(self._checks // 2, table)
        with suppress(NotFound):
            if _is_intact(self.client.get_briefly(self.ref)):
                return is_restored
        self._put_head(self._head)
        return True

    def is_written(self, inventory: Inventory) -> bool:
        """Return whether the cluster holds it as it is."""
        is_changed = inventory.entries.changed_keys or inventory.runs.changed_keys or not self._objects.layout.shards
        return bool(self._version) and not is_changed and self._head_content(inventory) == self._head

    def _head_content(self, inventory: Inventory) -> Mapping[str, Any]:
        layouts = (("objects", self._objects.layout), ("runs", self._runs.layout))
        head = {
            "version": FORMAT_VERSION,
            "commit": inventory.commit,
            "transitions": inventory.transitions,
            "deletions": inventory.deletions,
            **({"announced": dict(sorted(inventory.announced.items()))} if inventory.announced else {}),
            **({"scheduler": dict(inventory.scheduler)} if inventory.scheduler else {}),
            "tables": {name: {"generation": layout.generation, "shards": layout.shards} for name, layout in layouts},
        }
        return {"data": {_HEAD_KEY: json.dumps({**head, "digest": _digest_of(head)}, indent=1) + "\n"}}

    def _put_head(self, content: Mapping[str, Any]) -> None:
        """Write the head, the fence of the writes that follow: Conflict where another writer has written it. A head
        changed by hand is not from another writer: a gangplan's is always intact."""
        metadata = {"namespace": self.namespace, "name": self.ref.name, "labels": memory_labels(self.cluster)}
        item = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **content}
        written, was_deleted = put_config_map(self.client, item, self._version, lambda found: not _is_intact(found))
        self._was_deleted = self._was_deleted or was_deleted
        self._version, self._head = str(written["metadata"]["resourceVersion"]), content


def _decode_head(item: Object) -> Mapping[str, Any]:
    """Raises ValueError when the ConfigMap holds no inventory."""
    try:
        head: Mapping[str, Any] = json.loads(item["data"][_HEAD_KEY])
        is_intact = head["digest"] == _digest_of(head)
    except UNREADABLE as error:
        raise unreadable(item, "inventory", error) from error
    if not is_intact:
        raise unreadable(item, "inventory", ValueError("it is not what gangplan wrote"))
    return head


def _is_intact(item: Object) -> bool:
    """Return whether the head is as a gangplan has written it."""
    try:
        return bool(_decode_head(item))
    except ValueError:
        return False


def _digest_of(head: Mapping[str, Any]) -> str:
    """Return the digest of the head's other fields."""
    return json_digest({key: value for key, value in head.items() if key != "digest"})[7:23]


def runs_of(cluster: str, items: Iterable[Object]) -> list[FinishedRun]:
    """Return the runs in these ConfigMaps of one cluster, which nobody is going to write, in the order of their ends.
    Raises ValueError."""
    found = _newest_layout(f"gangplan-{cluster}-runs", items)
    return [] if found is None else _finished_runs(rows_of(found[1]))


def _finished_runs(rows: Iterable[Any]) -> list[FinishedRun]:
    by_end = sorted(rows, key=lambda row: str(row[7].get("ended") or ""))  # RFC 3339, where it is known
    return [_from_row(FinishedRun, row) for row in by_end]


def _newest_layout(name: str, items: Iterable[Object]) -> tuple[Layout, list[Object]] | None:
    """Return the newest layout of a table of which every shard is there, and these in the order of their indices."""
    found: dict[Layout, dict[int, Object]] = {}
    for item in items:
        place = place_of(item)
        if place.get("table") == name:
            layout = Layout(str(place["generation"]), int(place["shards"]))
            found.setdefault(layout, {})[int(place["index"])] = item
    complete = [layout for layout, shards in found.items() if len(shards) == layout.shards]
    if not complete:
        return None
    newest = max(complete, key=lambda layout: (len(layout.generation), layout.generation))
    return newest, [found[newest][index] for index in range(newest.shards)]

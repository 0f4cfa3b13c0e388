"""The part of the plan's objects: what of them differs, writing it, and putting it back between passes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

from reconciler.changes.diff import Change
from reconciler.changes.results import Allowed, ChangeResult, Condition, Effects
from reconciler.inventory.keeper import refuse_beside_another
from reconciler.inventory.store import Inventory
from reconciler.objects.differ import Differ
from reconciler.objects.drift import Corrections
from reconciler.objects.writer import ClusterWriter
from reconciler.observation.observe import Seen
from reconciler.part import Part
from reconciler.planning.snapshot import Snapshot
from reconciler.timings import TIMINGS, ObjectTimings


@dataclass(slots=True)
class StartPace:
    """New jobs that are to start come only as fast as those before them get their pods.

    Volcano's job controller takes in jobs with three workers, one step of each in turn. Of hundreds at once it makes
    every PodGroup before the first pods, and the scheduler tells of each gang, again and again, that it has none.

    made_at: Ref.key of a job without pods -> when it was made. is_holding: whether jobs were left to a later pass.
    """

    timings: ObjectTimings = TIMINGS.objects
    made_at: dict[str, float] = field(default_factory=dict)
    is_holding: bool = False

    def observe(self, has_pods: Callable[[str], bool], now: float) -> None:
        """Forget the jobs that have their pods, and those that take too long."""
        recent = {key: at for key, at in self.made_at.items() if now - at < self.timings.flight}
        self.made_at = {key: at for key, at in recent.items() if not has_pods(key)}

    def record_creation(self, key: str, now: float) -> None:
        self.made_at[key] = now

    def next_changes(self, due: Sequence[Change], starting: Collection[str], waiting: Collection[str]) -> list[Change]:
        """The changes of this pass, by wave, starting jobs before waiting ones. starting, waiting: Ref.key of gangs."""
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
        """When jobs without pods let others go on; soon, where that came during a long pass."""
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

    def is_busy(self, allowed: Allowed, results: Sequence[ChangeResult]) -> bool:
        """Whether a write is under way, or one is still to be made that is not refused again and again."""
        changes = (*allowed.changes.due, *(result.change for result in results))
        return self.writer.threads.is_any_open() or not all(map(self.writer.memory.is_given_up, changes))

    def conditions(self, now: float) -> Iterator[Condition]:
        return self.writer.memory.fights.conditions(now)

    def deadlines(self, now: float) -> list[float]:
        return [*self.writer.retry_times(), *self.pace.deadlines(now)]

    def forget_except(self, live: Collection[str]) -> None:
        self.differ.desired.forget_except(live)
        self.writer.memory.trim(live, self.writer.clock())
        self.writer.own.forget_except(live)


def _starting(snapshot: Snapshot) -> set[str]:
    return {key for key, gang in snapshot.gangs.items() if gang.decision != "wait"}


def _has_pods(seen: Seen, key: str) -> bool:
    """Whether the controller has made pods of the job, or need not."""
    entry = seen.inventory.entries.get(key)
    return entry is None or entry.started or key in seen.pods

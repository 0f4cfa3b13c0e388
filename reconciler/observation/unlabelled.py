"""Jobs of ours that the watches do not show, though the server may have them: somebody took our label from them. The
server is asked by name before such a job counts as gone; one that is there is compared as any other, which puts the
label back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from compiler.kubernetes import uid_of
from reconciler.cluster.client import ApiError
from reconciler.cluster.objects import Object, Ref, ref_of
from reconciler.inventory.store import Inventory, InventoryEntry
from reconciler.observation.informers import InformerSet
from reconciler.observation.look_ups import LookUps
from reconciler.observation.seen import Seen
from reconciler.timings import TIMINGS, LookUpTimings


@dataclass(frozen=True, slots=True)
class UnlabelledSearch:
    """find: asks the server for an object by name. is_job: whether an object, by Ref.key, runs once. wake: asks for
    another pass."""

    find: Callable[[Ref], Object | None]
    watches: InformerSet
    is_job: Callable[[str], bool]
    clock: Callable[[], float]
    wake: Callable[[], None]
    look_up_timings: LookUpTimings = TIMINGS.look_ups

    def doubts(self, inventory: Inventory) -> dict[str, str]:
        """Ask for the jobs that the watches do not show. Ref.key -> why it is not known whether that one is gone."""
        doubts: dict[str, str] = {}
        unseen, jobs = dict(self._unseen(inventory)), self.watches.unlabelled
        jobs.keep_only(unseen, {entry.uid for entry in inventory.entries.values()} if jobs.gone else ())
        look_ups, is_answered, are_all_asked = LookUps(self.clock, self.look_up_timings), True, True
        for key, entry in unseen.items():
            if entry.uid in jobs.gone:
                continue
            if not look_ups.may_ask():
                are_all_asked = False
                doubts[key] = "the watch does not show it, and the server is yet to be asked whether it is gone"
                continue
            try:
                if (item := self.find(entry.ref)) is not None and uid_of(item) == entry.uid:
                    jobs.note_found(key, item)
                elif (former := jobs.note_gone(key, entry.uid)) is not None:
                    self.watches.record_deletion(former, witnessed=False)
            except ApiError as error:
                is_answered = False
                doubts[key] = f"the watch does not show it, and whether it is gone is not known: {error}"
        if is_answered and not are_all_asked:
            self.wake()
        return doubts

    def _unseen(self, inventory: Inventory) -> Iterator[tuple[str, InventoryEntry]]:
        """The jobs of ours, by uid, of kinds that are watched by our label, which the watch does not show."""
        shown = self.watches.labelled_objects()
        for key, entry in inventory.entries.items() if shown else ():
            kind = key.partition("/")[0]
            if entry.uid and kind in shown and self.is_job(key):
                item = shown[kind].get(key)
                if item is None or uid_of(item) != entry.uid:
                    yield key, entry

    def believed_deletions(self, seen: Seen) -> Iterator[tuple[Object, bool]]:
        """What the watches saw go, without jobs that are still there and have only lost our label. Where it is not
        known which of the two it is, the next pass is told again."""
        for item, witnessed in list(self.watches.take_deletions()):
            ref = ref_of(item)
            known = seen.observation.objects.get(ref.key)
            if not self._is_unconfirmed(seen, item):
                yield item, witnessed
            elif known is None or uid_of(known) != uid_of(item):
                self.watches.record_deletion(item, witnessed)
                if ref.group_kind in seen.observation.readable_kinds and ref.key not in seen.doubts:
                    self.wake()

    def _is_unconfirmed(self, seen: Seen, item: Object) -> bool:
        """Whether a watch by label has shown this job of ours to go, and the server has not said so."""
        ref = ref_of(item)
        entry = seen.inventory.entries.get(ref.key)
        if entry is None or entry.uid != uid_of(item) or not self.is_job(ref.key):
            return False
        return self.watches.is_labelled_kind(ref.group_kind) and entry.uid not in self.watches.unlabelled.gone

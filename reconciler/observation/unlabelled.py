"""Jobs of ours that the watches do not show, though the server may have them: somebody took our label from them. The
server is asked by name before such a job counts as gone; one that is there is compared as any other, which puts the
label back."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.kubernetes import uid_of
from reconciler.cluster.client import ApiError
from reconciler.cluster.objects import Object, ref_of
from reconciler.context import Pass, Reconciler
from reconciler.inventory.store import Inventory, InventoryEntry
from reconciler.observation.look_ups import LookUps


def find_unlabelled(r: Reconciler, inventory: Inventory) -> dict[str, str]:
    """Ask for the jobs that the watches do not show. Ref.key -> why it is not known whether that one is gone."""
    doubts: dict[str, str] = {}
    unseen, jobs = dict(_unseen(r, inventory)), r.watches.unlabelled
    jobs.keep_only(unseen, {entry.uid for entry in inventory.entries.values()} if jobs.gone else ())
    look_ups, is_answered, are_all_asked = LookUps(r.clock), True, True
    for key, entry in unseen.items():
        if entry.uid in jobs.gone:
            continue
        if not look_ups.may_ask():
            are_all_asked = False
            doubts[key] = "the watch does not show it, and the server is yet to be asked whether it is gone"
            continue
        try:
            if (item := r.client.find(entry.ref)) is not None and uid_of(item) == entry.uid:
                jobs.note_found(key, item)
            elif (former := jobs.note_gone(key, entry.uid)) is not None:
                r.watches.record_deletion(former, witnessed=False)
        except ApiError as error:
            is_answered = False
            doubts[key] = f"the watch does not show it, and whether it is gone is not known: {error}"
    if is_answered and not are_all_asked:
        r.wake_event.set()
    return doubts


def _unseen(r: Reconciler, inventory: Inventory) -> Iterator[tuple[str, InventoryEntry]]:
    """The jobs of ours, by uid, of kinds that are watched by our label, which the watch does not show."""
    shown = r.watches.labelled_objects()
    for key, entry in inventory.entries.items() if shown else ():
        kind = key.partition("/")[0]
        if entry.uid and kind in shown and r.planning.is_job(key):
            item = shown[kind].get(key)
            if item is None or uid_of(item) != entry.uid:
                yield key, entry


def believed_deletions(r: Reconciler, p: Pass) -> Iterator[tuple[Object, bool]]:
    """What the watches saw go, without jobs that are still there and have only lost our label. Where it is not known
    which of the two it is, the next pass is told again."""
    for item, witnessed in list(r.watches.take_deletions()):
        ref = ref_of(item)
        known = p.observation.objects.get(ref.key)
        if not is_unconfirmed(r, p, item):
            yield item, witnessed
        elif known is None or uid_of(known) != uid_of(item):
            r.watches.record_deletion(item, witnessed)
            if ref.group_kind in p.observation.readable_kinds and ref.key not in p.unconfirmed_ends:
                r.wake_event.set()


def is_unconfirmed(r: Reconciler, p: Pass, item: Object) -> bool:
    """Whether a watch by label has shown this job of ours to go, and the server has not said so."""
    ref = ref_of(item)
    entry = p.inventory.entries.get(ref.key)
    if entry is None or entry.uid != uid_of(item) or not r.planning.is_job(ref.key):
        return False
    return r.watches.is_labelled_kind(ref.group_kind) and entry.uid not in r.watches.unlabelled.gone

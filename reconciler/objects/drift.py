"""Between two passes: single objects that the watch shows changed are put back at once, for work in proportion to what
has changed.

A pass looks at everything. Here an object is looked at only where nothing but its own fields can decide what is to be
done: the last pass found it ours, as planned and free to be written, it was updated and not deleted or made again, and
no plan rests on its kind. Everything else is left to a pass, which is woken.
"""

from __future__ import annotations

from compiler.emit.manifest import Manifest
from compiler.kubernetes import is_planned_job, is_terminating, uid_of
from compiler.run_kinds import RUN_KINDS
from reconciler.changes.diff import Change, classify_change
from reconciler.changes.results import ChangeResult, events_of_results
from reconciler.cluster.objects import Object, ref_of
from reconciler.context import DriftBasis, Pass, Reconciler
from reconciler.objects.writer import BATCH
from reconciler.observation.volcano import scheduler_text


def note_basis(r: Reconciler, p: Pass) -> None:
    """Remember what this pass leaves as it is to be: the objects of the plan in force, less those of which a write is
    outstanding or held. Where the pass could not write, nothing is put back without another one."""
    if not r.keeper.is_leading or p.snapshot is None or p.standstill:
        r.forbid_corrections()
        return
    left = {change.ref.key for change in (*p.changes, *p.held_changes, *p.obstructed_changes)}
    left -= {result.change.ref.key for result in p.results if result.outcome == "done"}
    targets = {key: manifest for key, manifest in p.manifests.items() if key not in left}
    r.allow_corrections(DriftBasis(p.snapshot, p.inventory, r.requests.current(), targets))


def put_back_updates(r: Reconciler) -> list[ChangeResult]:
    """Put back what was updated since the last look, as far as that can be decided object by object; what was done.
    Wakes a pass for the rest, and where a write failed or has changed what the inventory says. Raises LostLease."""
    updates = {ref_of(item).key: item for item in r.watches.take_updates(BATCH)}
    if not updates:
        return []
    basis = r.drift_basis
    if basis is None or not _is_valid(r, basis):
        r.wake_event.set()
        return []
    changes = []
    for key, item in updates.items():
        manifest = basis.targets.get(key)
        if manifest is None or not _is_decided_alone(r, basis, manifest, item):
            r.wake_event.set()
        elif (change := _correction(r, basis, manifest, item)) is not None and r.writer.is_due(change):
            changes.append(change)
    if not changes:
        return []
    with r.metrics.time_phase("drift"):
        results = r.writer.apply_changes(changes, basis.inventory)
    if r.correction_pace.record(len(results), r.writer.clock()):
        r.writer.note_busy()  # Events wait
    if any(result.outcome != "done" for result in results) or basis.inventory.entries.changed_keys:
        r.wake_event.set()
    r.event_writer.put(events_of_results(results))
    return results


def _is_valid(r: Reconciler, basis: DriftBasis) -> bool:
    """Whether what the last pass found is still what counts, and this replica has led without a break since."""
    is_in_force = basis.snapshot is r.planning.snapshot and basis.inventory is r.keeper.inventory
    return is_in_force and basis.requests == r.requests.current() and r.keeper.is_leading and r.fence.is_open()


def _is_decided_alone(r: Reconciler, basis: DriftBasis, manifest: Manifest, item: Object) -> bool:
    """Whether the object's own fields tell what is to be done: it is no job, not the scheduler's configuration, whose
    writes are followed, its kind is listed and watched, and by the inventory this very object is ours."""
    ref = ref_of(item)
    entry = basis.inventory.entries.get(ref.key)
    if entry is None or entry.uid != uid_of(item) or entry.origin == "former" or is_terminating(item):
        return False
    informer = r.watches.informers.get(ref.group_kind)
    if informer is None or informer.obstacle():
        return False
    is_job = ref.group_kind in RUN_KINDS or manifest.run_digest or manifest.pods or is_planned_job(item)
    return not is_job and not scheduler_text(manifest.object)


def _correction(r: Reconciler, basis: DriftBasis, manifest: Manifest, item: Object) -> Change | None:
    """The update that puts the object back; None where there is nothing to do, or the newest object is another."""
    key = ref_of(item).key
    live = r.writer.own.newest(key, item)
    if live is None or uid_of(live) != basis.inventory.entries[key].uid:
        r.wake_event.set()
        return None
    change = classify_change(manifest, live, finished_digest=None, has_started=False, is_update_refused=False)
    if change is not None and change.action != "update":
        r.wake_event.set()
        return None
    return change

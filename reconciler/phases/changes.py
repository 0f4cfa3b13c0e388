"""Phase 5 of a pass, objects: apply what has changed, then delete what has left the repository; and the inventory that
knows of both."""

from __future__ import annotations

from reconciler.cluster.inventory import Inventory
from reconciler.cluster.neighbours import refuse_beside_another
from reconciler.context import Pass, Reconciler
from reconciler.phases.ownership import prune
from reconciler.phases.planning import give_up_superseded_plan, restore_snapshot
from reconciler.phases.scheduler import read_scheduler_memory
from reconciler.plan.snapshot import Snapshot

SLICE = 400
"""Changes of one pass: gates of the first jobs are lifted while the last ones are still to be made."""


def take_up_inventory(r: Reconciler) -> Inventory:
    """Read the inventory unless it is known: it is, as long as this replica leads without a break. Raises
    OtherGangplanError."""
    is_holder = r.lease.is_held()
    inventory = r.inventory
    if inventory is None or not is_holder or not r.was_holder or not r.fence.is_open():
        transitions = r.fence.enter()
        inventory = r.inventory = r.store.read()
        give_up_superseded_plan(r)
        restore_snapshot(r)
        r.scheduler = read_scheduler_memory(r)
        if is_holder:
            r.leads_since = r.clock()
            inventory.transitions = transitions
            refuse_beside_another(r.client, r.store)
    r.was_holder = is_holder
    return inventory


def write_changes(r: Reconciler, p: Pass, snapshot: Snapshot) -> None:
    """Apply what has changed, and then delete what has left the repository."""
    p.inventory.commit = snapshot.commit
    is_first_inventory = not r.store.exists
    if trouble := r.writer.save_inventory(p.inventory):
        p.results.append(r.writer.record_failed_save(trouble))
    elif is_first_inventory:
        refuse_beside_another(r.client, r.store)
    due = [change for change in p.changes if r.writer.is_due(change)]
    if len(due) > SLICE:
        due = sorted(due, key=lambda change: change.desired.wave if change.desired else 0)[:SLICE]
        r.wake_event.set()
    p.results += r.writer.apply_changes(due, p.inventory)
    prune(r, p)

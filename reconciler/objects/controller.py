"""Phase 5 of a pass, objects: apply what has changed, then delete what has left the repository."""

from __future__ import annotations

from collections.abc import Sequence

from reconciler.changes.allowed import Allowed
from reconciler.changes.diff import Change
from reconciler.changes.results import ChangeResult
from reconciler.context import Pass, Reconciler, changes_of, seen_by
from reconciler.inventory.neighbours import refuse_beside_another
from reconciler.planning.snapshot import Snapshot


def write_changes(r: Reconciler, p: Pass, snapshot: Snapshot) -> None:
    """Apply what has changed, and then delete what has left the repository."""
    p.inventory.bring_into_force(snapshot.commit)
    is_first_inventory = not r.store.exists
    if trouble := r.writer.save_inventory(p.inventory):
        p.record_results([r.writer.record_failed_save(trouble)])
    elif is_first_inventory:
        refuse_beside_another(r.store)
    due = [change for change in p.changes if r.writer.is_due(change)]
    p.record_results(_apply_next_changes(r, p, snapshot, due))
    allowed = Allowed(changes_of(p), p.prune_plan)
    p.record_results(r.ownership.prune(allowed, seen_by(r, p), p.results).results)


def _apply_next_changes(r: Reconciler, p: Pass, snapshot: Snapshot, due: Sequence[Change]) -> list[ChangeResult]:
    """Apply as many changes as a pass may; new jobs that start no faster than those before them get their pods."""
    starting = {key for key, gang in snapshot.gangs.items() if gang.decision != "wait"}
    r.pace.observe(lambda key: _has_pods(p, key), r.clock())
    chosen = r.pace.next_changes(due, starting, snapshot.gangs.keys() - starting)
    if len(chosen) < len(due) and not r.pace.is_holding:
        r.wake_event.set()
    r.ownership.announce_deletions(chosen, seen_by(r, p), p.prune_plan)
    results = r.writer.apply_changes(chosen, p.inventory)
    for result in (*p.results, *results):
        change, now = result.change, r.clock()
        if result.outcome != "done":
            continue
        if change.action == "create" and change.ref.key in starting:
            r.pace.record_creation(change.ref.key, now)
    r.runs.record_results((*p.results, *results))
    return results


def _has_pods(p: Pass, key: str) -> bool:
    """Whether the controller has made pods of the job, or need not."""
    entry = p.inventory.entries.get(key)
    return entry is None or entry.started or key in p.pods

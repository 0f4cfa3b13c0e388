"""Phase 4 of a pass: what is ours, what left the repository, and what of it may be deleted; and deleting it.

An object that we created is deleted when it leaves the repository, one that existed before is released. An entry of the
inventory ends when the server says, asked by name, that the object is gone.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import inf

from compiler.kubernetes import (
    ALLOW_PRUNE_ANNOTATION,
    ALLOW_REBUILD_ANNOTATION,
    DIGEST_ANNOTATION,
    annotations_of,
    is_gated,
    is_terminating,
    status_of,
    uid_of,
)
from compiler.run_kinds import PLANNED_RUN_KINDS
from reconciler.changes.diff import Change
from reconciler.cluster.client import ApiError
from reconciler.cluster.objects import Object, ref_of
from reconciler.context import Pass, Reconciler
from reconciler.git.process import GitError
from reconciler.inventory.marks import is_marked, origin_of
from reconciler.inventory.store import InventoryEntry
from reconciler.observation.look_ups import LookUps
from reconciler.ownership import guard
from reconciler.ownership.dependents import pods_of_all
from reconciler.runs.controller import run_digest_of

log = logging.getLogger(__name__)

INTENT_SECONDS = 90.0
"""Seconds after which no request arrives any more of a former leader, or of which the answer was lost: the API server's
time limit is 60 s."""


# --- what is ours


def confirm_entries(r: Reconciler, p: Pass) -> None:
    """Note the uid of what was created, where former entries come from, which jobs have started, and which runs they
    are."""
    for key, entry in list(p.inventory.entries.items()):
        if (item := p.observation.objects.get(key)) is None:
            continue
        is_job = r.planning.is_job(key)
        if entry.uid != uid_of(item):
            entry = _with_uid_of(r, entry, r.writer.newest_object(key, item))
        elif entry.origin != "former" and (not is_job or (entry.started and _is_known_run(entry, item))):
            continue
        if entry.uid == uid_of(item) and entry.origin == "former":
            entry = replace(entry, origin=origin_of(item, r.settings.cluster))
        if entry.uid == uid_of(item) and not entry.started:
            has_begun = is_job and entry.ref.group_kind not in PLANNED_RUN_KINDS and bool(status_of(item))
            entry = replace(entry, started=has_begun or any(not is_gated(pod) for pod in p.pods.get(key, ())))
        if entry.uid == uid_of(item) and is_job and not _is_known_run(entry, item):
            entry = replace(entry, run=run_digest_of(r, item))
        p.inventory.enter(entry)


def _is_known_run(entry: InventoryEntry, job: Object) -> bool:
    return annotations_of(job).get(DIGEST_ANNOTATION, "") == entry.run


def _with_uid_of(r: Reconciler, entry: InventoryEntry, item: Object | None) -> InventoryEntry:
    """The entry of an intention, or of an object that was made anew just before a stop, with the uid of what has come
    of it. That is ours only with our mark: without it the object of this name was made by others."""
    if item is None or uid_of(item) == entry.uid or not is_marked(item, r.settings.cluster):
        return entry
    if is_terminating(item):  # deleted by us for a new run, or what was before the one that we know
        return entry if entry.uid else replace(entry, uid=uid_of(item))
    return InventoryEntry(entry.ref, uid_of(item), origin=origin_of(item, r.settings.cluster))


def settle_lost_inventory(r: Reconciler, p: Pass) -> None:
    """Where there is no inventory: begin an empty one in a cluster without our marks, else make it anew from the
    objects that carry them. As long as that could run a job a second time, nothing is written (`p.standstill`)."""
    if not p.inventory.is_lost or p.snapshot is None:
        return
    obstacles = [*p.problems, *(p.observation.obstacles[kind] for kind in sorted(p.observation.withdrawn_kinds))]
    if obstacles:
        p.stand_still(f"there is no inventory, and what is ours cannot be found while a read fails: {obstacles[0]}")
        return
    marked = {key: item for key, item in p.observation.objects.items() if _is_ours(r, item)}
    head = r.poller.head.commit
    creations = [change for change in p.changes if change.action == "create"]
    reruns = sorted(str(change.ref) for change in creations if change.run_digest)
    if marked and reruns and r.publisher.read_annotations().get(ALLOW_REBUILD_ANNOTATION) != head:
        names = ", ".join(reruns[:5]) + (", ..." if len(reruns) > 5 else "")
        p.stand_still(
            f"the inventory is lost, {len(marked)} objects carry our mark, and {len(reruns)} jobs of the repository "
            f"have no object, so they may have had their run: {names}. Nothing is written. To make the inventory anew "
            f"from the marks and run these jobs, set the annotation {ALLOW_REBUILD_ANNOTATION}: {head} on ConfigMap "
            f"{r.publisher.ref.name}; to keep one from running, take it out of the repository first"
        )
        return
    for item in marked.values():
        p.inventory.enter(InventoryEntry(ref_of(item), uid_of(item), origin=origin_of(item, r.settings.cluster)))
    p.inventory.settle_loss()
    confirm_entries(r, p)
    if marked:
        log.warning("the inventory was lost and is made anew", extra={"objects": len(marked), "jobs": len(reruns)})


def _is_ours(r: Reconciler, item: Object) -> bool:
    """Whether an object of the repository carries our mark; our own ConfigMaps do as well."""
    ref = ref_of(item)
    is_own = ref.namespace == r.settings.namespace and ref.name.startswith(f"gangplan-{r.settings.cluster}-")
    return is_marked(item, r.settings.cluster) and not is_own


# --- what may be deleted


def plan_pruning(r: Reconciler, p: Pass) -> None:
    """Set `p.prune_plan`, and hold back replacements that would end too much at once; those of which nothing runs go
    their way. Annotations that release it are read only when something is held."""
    live, head = live_inventory(r, p), r.poller.head
    is_of_head = p.snapshot is not None and p.snapshot.commit == head.commit
    safety = guard.PruneSafety(
        head.commit,
        has_compiled=is_of_head and not p.rewrite_message and not head.problem,
        problems=tuple(p.problems),
        recent=_recent_toll(r, p, live),
        status_name=r.publisher.ref.name,
    )
    pods = _pods_of_all(p) if _may_end_something(p) else p.pods
    ended = [change for change in p.changes if _ends_what_runs(change, pods)]
    plan = guard.prune_plan(p.desired_keys, p.inventory, live, pods, safety, ended)
    awaits_leave = plan.excess or plan.waits_for_release
    if awaits_leave and safety.has_compiled and (allowed := _allowed_deletions(r, p)):
        safety = replace(safety, allowed=allowed)
        plan = guard.prune_plan(p.desired_keys, p.inventory, live, pods, safety, ended)
    withheld = {change.ref.key for change in plan.held_changes}
    if kept := [change for change in ended if change.ref.key in withheld]:
        p.keep_changes([change for change in p.changes if change not in kept])
        ended = [change for change in ended if change not in kept]
    if plan.excess:
        reason = "; ".join(plan.excess)
        held = [replace(change, action="held", reason=reason) for change in ended]
        p.keep_changes([change for change in p.changes if not _ends_what_runs(change, pods)])
        plan = replace(plan, held_changes=(*plan.held_changes, *held))
    p.plan_deletions(plan)


def _may_end_something(p: Pass) -> bool:
    """Whether anything is to be replaced, or has left the repository: only then it matters what goes with it."""
    return any(change.action == "replace" for change in p.changes) or not p.inventory.entries.keys() <= p.desired_keys


def _pods_of_all(p: Pass) -> Mapping[str, list[Object]]:
    """Ref.key of what has pods, of its own, made by those or of the runs that it has made -> these pods."""
    return pods_of_all(p.inventory.entries, p.pods, p.observation.objects, p.observation.objects_of_kind("Pod"))


def _ends_what_runs(change: Change, pods: Mapping[str, list[Object]]) -> bool:
    """Whether it is a replacement of which something dies: not of a job that waits or is over."""
    dies = any(guard.toll_of_change(change, pods.get(change.ref.key, ()))) or guard.takes_data(change)
    return change.action == "replace" and dies


def live_inventory(r: Reconciler, p: Pass) -> Mapping[str, Object | None]:
    """The inventory's objects of which it is known what they are now, or that they are gone. One whose kind no plan
    holds any more is asked for by name; one that cannot be read is left alone, and no other."""
    live: dict[str, Object | None] = {}
    obstacles = dict(p.observation.obstacles)
    for key, entry in p.inventory.entries.items():
        kind = entry.ref.group_kind
        if kind in p.observation.readable_kinds:
            live[key] = r.writer.newest_object(key, p.observation.objects.get(key))
        elif key not in p.desired_keys and p.snapshot is not None:
            if kind not in obstacles:
                try:
                    live[key] = r.client.find(entry.ref)
                    continue
                except ApiError as error:
                    obstacles[kind] = str(error)
            reason = f"it is no longer in the repository, and whether it is still there is not known: {obstacles[kind]}"
            p.obstruct(entry.ref, reason)
    return live


def _recent_toll(r: Reconciler, p: Pass, live: Mapping[str, Object | None]) -> guard.Toll:
    """What has died within the hour. What was announced has not, as long as it is there, or that is not known and the
    server has not taken its deletion."""
    if p.inventory.announced:  # seldom, and it goes over all objects
        there = {uid_of(item) for item in filter(None, live.values()) if not is_terminating(item)}
        unknown = {entry.uid for key, entry in p.inventory.entries.items() if key not in live}
        deleted = {uid for _, uid, _ in r.writer.memory.last_writes.values()}
        p.inventory.settle_announced(there | (unknown - deleted))
    p.inventory.trim_deletions(int(r.wall_clock()), guard.PRUNE_WINDOW)
    return guard.sum_tolls(guard.Toll(*row[1:]) for row in p.inventory.deletions)


def _allowed_deletions(r: Reconciler, p: Pass) -> frozenset[str]:
    """Digests and commits that annotations name: on the status ConfigMap, and on the Cluster in the repository, which
    cannot name its own commit and so may name the one before it."""
    head, on_cluster = r.poller.head.commit, p.snapshot.allow_prune if p.snapshot else ""
    allowed = {r.publisher.read_annotations().get(ALLOW_PRUNE_ANNOTATION, ""), on_cluster}
    try:
        if on_cluster and r.mirror.is_parent(on_cluster, head):
            allowed.add(head)
    except GitError as error:
        log.info("whether an annotation names the commit before this one is not known", extra={"reason": str(error)})
    return frozenset(allowed - {""})


# --- deleting it


def prune(r: Reconciler, p: Pass) -> None:
    """Delete and release what left the repository, and end the entries of what is gone.

    It waits for nothing but a new object of the same name that has not been tried yet.
    """
    plan, awaited = p.prune_plan, _awaited_names(r, p)
    due = [change for change in (*plan.releases, *plan.changes) if r.writer.is_due(change)]
    due = [change for change in due if (change.ref.namespace, change.ref.name) not in awaited]
    announce_deletions(r, p, due)
    p.record_results(r.writer.prune_objects(due, p.inventory))
    _trim_gone_entries(r, p)


def _awaited_names(r: Reconciler, p: Pass) -> set[tuple[str, str]]:
    """Names under which a new object of another kind is still to be tried: what had the name before goes after it. One
    that the server refuses is not waited for, it may need the room."""
    tried = {result.change.ref.key for result in p.results if result.outcome == "done"}
    failures = r.writer.memory.failures
    tried |= {key for key, result in failures.items() if result.outcome in ("refused", "conflict")}
    new = (change.ref for change in p.changes if change.action == "create")
    return {(ref.namespace, ref.name) for ref in new if ref.key not in tried}


def announce_deletions(r: Reconciler, p: Pass, changes: Iterable[Change]) -> None:
    """Note what these changes end, for what may end within the hour, before any of them is made: a process that is
    killed meanwhile would let as much go again. While that cannot be stored they wait. One that is tried again counts
    from that time on: it may have been refused for most of the hour."""
    ended = [change for change in changes if change.action in ("prune", "replace")] if p.prune_plan.counts else []
    pods, now = _pods_of_all(p) if ended else {}, int(r.wall_clock())
    for change in ended:
        toll = guard.toll_of_change(change, pods.get(change.ref.key, ()))
        if any(toll) and change.live and p.inventory.announce_deletion(uid_of(change.live), now, toll):
            r.writer.memory.record_intent(change.ref.key)


def _trim_gone_entries(r: Reconciler, p: Pass) -> None:
    """End the entries of objects that are gone. One that is there again under another uid belongs to others unless it
    carries our mark, and so does one where we only had the intention. An intention whose object is not there is kept
    for as long as a request may still arrive, a former leader's or one of ours."""
    has_intents = r.clock() - r.leads_since <= INTENT_SECONDS
    gone: Iterable[str] = p.prune_plan.vanished_keys
    if has_intents:
        gone = (key for key in gone if p.inventory.entries[key].uid)
    settled = (key for key in gone if not _may_still_come(r, p.inventory.entries[key]))
    look_ups = LookUps(r.clock)
    for key in settled:
        if r.writer.is_out_of_time() or not look_ups.may_ask():
            return
        entry = p.inventory.entries[key]
        try:
            item = r.client.find(entry.ref)
        except ApiError as error:
            log.info("whether an object is gone is not known", extra={"object": str(entry.ref), "reason": str(error)})
            continue
        found = _with_uid_of(r, entry, item)
        if item is not None and found.uid == uid_of(item):
            p.inventory.enter(found)
        else:
            p.inventory.drop_entry(key)


def _may_still_come(r: Reconciler, entry: InventoryEntry) -> bool:
    """Whether a write of the object is under way, as far as is known."""
    lost_at = r.writer.memory.lost_answers.get(entry.ref.key, -inf)
    return r.writer.is_open(entry.ref) or r.clock() - lost_at <= INTENT_SECONDS

"""One pass: observe -> compile -> diff -> guard -> act -> report, all about one observation of the cluster.

Level-triggered: a pass looks at what is, never at what changed, so it may be repeated, skipped or cut off anywhere.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from compiler.emit.manifest import Manifest
from compiler.kubernetes import (
    ADOPT_ANNOTATION,
    annotations_of,
    is_gated,
    status_of,
    uid_of,
)
from compiler.outcome import HELD_SENTENCE
from compiler.run_kinds import PLANNED_RUN_KINDS
from reconciler.changes.allowed import Allowed
from reconciler.changes.diff import Change, classify_change
from reconciler.changes.effects import Effects
from reconciler.changes.results import ChangeResult
from reconciler.cluster.client import ApiError
from reconciler.cluster.objects import Ref, group_kind_of, ref_of, version_of
from reconciler.context import Pass, Reconciler, changes_of, planned_runs, seen_by, target_of
from reconciler.inventory.store import Inventory, InventoryEntry
from reconciler.objects.controller import write_changes
from reconciler.objects.drift import note_basis
from reconciler.observation.observe import Restrictions
from reconciler.observation.pods import has_ended
from reconciler.observation.unlabelled import believed_deletions, find_unlabelled
from reconciler.planning.snapshot import Snapshot
from reconciler.pods.lifts import Orders
from reconciler.report.outcome import Outcome, report_of
from reconciler.report.status import Report
from reconciler.requests.part import SUSPENDED

log = logging.getLogger(__name__)

UNFIXABLE = "it was written, and the server keeps other values (a webhook changes them, or it spells them otherwise)"
"""Why a change is held."""


def reconcile_once(r: Reconciler) -> Report:
    """Make one pass. Raises ApiError when the inventory cannot be read (then nothing is done), LostLease when another
    replica took over."""
    r.forbid_corrections()
    with _phase(r, "observe"):  # 1
        p = observe(r)
    with _phase(r, "compile"):  # 2
        follow_plan(r, p)
    with _phase(r, "diff"):  # 3
        compute_changes(r, p)
    with _phase(r, "guard"):  # 4
        p.allow(r.ownership.guard(changes_of(p), seen_by(r, p), target_of(r, p)))
    with _phase(r, "act"):  # 5 the only phase that writes
        act_on_changes(r, p)
        keep_house(r, p)
        note_basis(r, p)
    with _phase(r, "report"):  # 6
        r.metrics.prune_held.set(len(p.prune_plan.held_changes))
        r.metrics.suspects.set(r.pods.suspects())
        return make_report(r, p)


@contextmanager
def _phase(r: Reconciler, name: str) -> Iterator[None]:
    """Each phase is timed, and a sign of life."""
    with r.metrics.time_phase(name), r.tracing.span(name):
        yield
    r.heartbeat.beat()


# --- 1 observe


def observe(r: Reconciler) -> Pass:
    """Begin a pass with what the caches hold now, and bring the inventory up to it."""
    inventory = r.keeper.take_up(partial(_go_on_with, r))
    r.watches.watch_kinds(kinds_in_use(r, inventory))
    r.watches.expect_kinds({entry.ref.group_kind for entry in inventory.entries.values() if entry.uid})
    doubts = find_unlabelled(r, inventory)
    settled = r.writer.settle()  # before the observation: they are laid over it
    observation = r.watches.observe(Restrictions())
    p = Pass(observation, inventory, problems=list(observation.problems))
    r.pods.observe(observation, r.wall_clock())
    p.record_results(each for each in settled if isinstance(each, ChangeResult))
    p.take(r.pods.settle(settled, seen_by(r, p)))
    snapshot = r.planning.snapshot
    jobs = [gang.job for gang in snapshot.gangs.values()] if snapshot else []
    held = {**r.runs.lost_jobs.refused_jobs, **r.requests.suspended_jobs(jobs)}
    p.look_at_pods(observation.with_restrictions(r.pods.restrictions(observation, snapshot, held, r.wall_clock())))
    for key, doubt in doubts.items():
        p.doubt_end(key, doubt)
    seen, runs, gone = seen_by(r, p), planned_runs(r), list(believed_deletions(r, p))
    r.runs.record_deletions(seen, runs, gone)
    r.ownership.confirm_entries(seen, runs)
    r.runs.record_ends(seen, runs)
    return p


def _go_on_with(r: Reconciler, inventory: Inventory, is_leading: bool) -> None:
    """Take up what hangs on an inventory that was read."""
    r.pods.lifter.memory.believe_starts()
    r.planning.take_up(inventory)
    r.scheduler.recall()
    if is_leading:
        r.watches.read_pods()


def kinds_in_use(r: Reconciler, inventory: Inventory) -> frozenset[tuple[str, str]]:
    """Kinds, by (apiVersion, kind), of plans and of what we have made. One that left the repository before any object
    of it was made is in use no more. Where a plan has a kind its version counts: what is known of an object may be of a
    version that is served no more."""
    declared = r.planning.kinds
    known = {group_kind_of(api, kind) for api, kind in declared}
    made = (entry.ref for entry in inventory.entries.values() if entry.uid)
    return declared.union((ref.api_version, ref.kind) for ref in made if ref.group_kind not in known)


# --- 2 compile


def follow_plan(r: Reconciler, p: Pass) -> None:
    """Set what the pass aims at; the runs that have ended unseen are entered by the plan that is now in force."""
    seen = seen_by(r, p)
    target = r.planning.follow(seen)
    p.follow(target)
    for key, doubt in r.runs.record_unobserved_ends(seen, planned_runs(r)).items():
        p.doubt_end(key, doubt)
    reruns, given_up = r.requests.current().reruns, r.runs.lost_jobs.given_up
    p.follow(r.planning.renew(seen, target, reruns, given_up, is_free=not r.pods.awaits_evictions))


# --- 3 diff


def compute_changes(r: Reconciler, p: Pass) -> None:
    """What is to be written, and what is held, from the manifests of the plan and the live objects."""
    if p.snapshot is None:
        return
    refs = _collect_manifests(r, p, p.snapshot)
    p.leave_alone(r.requests.suspended_keys({key: manifest.object for key, manifest in p.manifests.items()}))
    r.runs.observe_lost_jobs(seen_by(r, p), zip(refs, p.desired_manifests, strict=True))
    unbound = r.pods.evictor.binding.unbound_since
    r.scheduler.observe(seen_by(r, p), target_of(r, p), r.runs.lost_jobs.repeats, unbound)
    for ref, manifest in zip(refs, p.desired_manifests, strict=True):
        if p.suspended_keys and ref.key in p.suspended_keys:
            live = p.observation.objects.get(ref.key)
            p.add_change(Change("held", ref, manifest, live, reason=SUSPENDED, is_deferred=True))
        elif obstacle := reading_obstacle(r, p, ref):
            p.obstruct(ref, obstacle, manifest)
        elif (change := _required_change(r, p, manifest, ref)) is not None:
            p.add_change(_unless_unfixable(r, change))
    withhold_waiting_jobs(p, p.snapshot)


def _unless_unfixable(r: Reconciler, change: Change) -> Change:
    """The change; held and told where it was written not long ago and the server kept other values."""
    if not r.writer.is_unfixable(change):
        return change
    paths = ", ".join(each.path_text for each in change.fields)
    return replace(change, action="held", reason=f"{UNFIXABLE}: {paths}")


def reading_obstacle(r: Reconciler, p: Pass, ref: Ref) -> str:
    """Why what the cluster holds of this object is not known for certain; empty when it is. Of a job the pods count
    too: what may be done to it depends on whether they have started."""
    kinds = (ref.group_kind, "Pod") if r.planning.is_job(ref.key) else (ref.group_kind,)
    for kind in kinds:
        if kind not in p.observation.readable_kinds:
            return p.observation.obstacles.get(kind, f"{kind} was not read yet")
    return p.unconfirmed_ends.get(ref.key) or _version_obstacle(r, ref)


def _version_obstacle(r: Reconciler, ref: Ref) -> str:
    """Why the object cannot be written in its version, where its kind is watched in another one; else empty."""
    informer = r.watches.informers.get(ref.group_kind)
    if informer is None or informer.resource.api_version == ref.api_version:
        return ""
    try:
        r.client.resource(ref.api_version, ref.kind)
    except ApiError as error:
        return f"{error}; it does in {informer.resource.api_version}"
    return ""


def _collect_manifests(r: Reconciler, p: Pass, snapshot: Snapshot) -> list[Ref]:
    """Set the manifests as they are to be in the cluster, each made once; their refs."""
    refs, manifests = [], []
    made, runs = r.desired, planned_runs(r)
    made.keep_only(snapshot.manifests)
    for manifest in snapshot.manifests:
        ref = made.ref_of(manifest)
        run = runs.numbered(ref.key, manifest.run_digest) if manifest.run_digest else ""
        try:
            desired, ref = made.get(manifest, run)
        except ApiError as error:
            p.obstruct(ref, str(error))
            p.declare(ref)
        else:
            manifests.append(r.scheduler.standing(desired))
            refs.append(ref)
    p.take_manifests(refs, manifests)
    return refs


def withhold_waiting_jobs(p: Pass, snapshot: Snapshot) -> None:
    """Hold back waiting jobs that the plan holds, and those beyond the cluster's `maxWaitingPods`; others are created,
    gated."""
    waiting = {key for key, gang in snapshot.gangs.items() if gang.decision == "wait"}
    if not waiting or not p.changes:
        return
    pods_of = {ref_of(manifest.object).key: manifest.pods for manifest in snapshot.manifests}
    present = waiting & p.observation.objects.keys()
    remaining = snapshot.max_waiting_pods - sum(pods_of.get(key, 0) for key in present)
    kept = []
    for change in p.changes:
        if change.action == "create" and change.ref.key in waiting:
            pods = pods_of.get(change.ref.key, 0)
            if pods > remaining or snapshot.gangs[change.ref.key].held:
                full = f"the cluster holds as many waiting pods as it may ({snapshot.max_waiting_pods})"
                reason = f"it waits, and {full if pods > remaining else HELD_SENTENCE}"
                p.add_change(Change("held", change.ref, change.desired, reason=reason, is_deferred=True))
                continue
            remaining -= pods
        kept.append(change)
    p.keep_changes(kept)


def _required_change(r: Reconciler, p: Pass, desired: Manifest, ref: Ref) -> Change | None:
    """The change of one object, None when there is nothing to do. Remembers for which versions there was nothing."""
    key = ref.key
    live = p.observation.objects.get(key)
    run, entry = p.inventory.runs.get(key), p.inventory.entries.get(key)
    is_followed = ref.group_kind in PLANNED_RUN_KINDS and (desired.pods > 0 or not status_of(live or {}))
    if live is not None and not is_followed:
        started = True  # its pods are not known to be its own
    elif live is not None and entry is not None and entry.uid == uid_of(live) and entry.started:
        started = True
    else:
        started = any(not is_gated(pod) and not has_ended(pod) for pod in p.pods.get(key, ()))
    refused = r.writer.memory.is_update_refused(key, desired, live)
    if live is not None and (lost := r.runs.lost_jobs.message(live, r.clock())):
        return _unless_joined(Change("replace", ref, desired, live, reason=lost), entry)
    if live is None and key in r.runs.departed_jobs:
        reason = "its former pods or jobs are still ending; it returns when they are gone"
        return Change("held", ref, desired, reason=reason)
    finished = run.digest if run else None
    versions = (version_of(live), finished, started, refused)
    known, known_versions = r.desired.unchanged.get(key, (None, ()))
    if known is desired and known_versions == versions:
        return None
    change = classify_change(desired, live, finished_digest=finished, has_started=started, is_update_refused=refused)
    if change is None:
        r.desired.note_unchanged(key, desired, versions)
        if live is not None and entry is not None and not entry.is_created:
            r.writer.memory.record_own_fields(key, live)
    return change and _unless_joined(change, entry)


def _unless_joined(change: Change, entry: InventoryEntry | None) -> Change:
    """The change; held where it would delete an object that existed before gangplan and is not given to it."""
    may_delete = entry is None or entry.is_created or _may_adopt(change.desired)
    if change.action != "replace" or may_delete:
        return change
    reason = f'it existed before gangplan, which deletes it only with {ADOPT_ANNOTATION}: "true"'
    return replace(change, action="held", reason=reason)


def _may_adopt(desired: Manifest | None) -> bool:
    return desired is not None and annotations_of(desired.object).get(ADOPT_ANNOTATION) == "true"


# --- 5 act


def act_on_changes(r: Reconciler, p: Pass) -> None:
    """Write to the cluster. Nothing is written without the lease; LostLease ends the pass in the middle, which is as
    good as a kill."""
    if not r.keeper.is_leading or not r.fence.is_open() or p.snapshot is None or p.standstill:
        return
    write_changes(r, p, p.snapshot)
    p.take(r.scheduler.follow(seen_by(r, p), target_of(r, p), p.results))
    is_current = p.snapshot.gated and not p.observation.problems
    if is_current and p.target.fingerprint is not None and p.target.base is not None:
        orders = Orders(p.suspended_keys, r.requests.current().retries, r.pace.is_holding)
        p.take(r.pods.act(seen_by(r, p), target_of(r, p), orders))
    if trouble := r.writer.save_inventory(p.inventory):
        p.record_results([r.writer.record_failed_save(trouble)])


def keep_house(r: Reconciler, p: Pass) -> None:
    """Let the parts forget what is neither in the repository nor in the inventory. The holder of the lease also keeps a
    copy of the plan in force, and what is stored whole."""
    if p.snapshot is None:
        return
    acts = r.keeper.is_leading and r.lease.is_held() and not p.standstill
    if acts:
        r.planning.keep_copy(p.inventory, r.clock())
    if not r.begin_housekeeping(r.timings.housekeeping):
        return
    known = p.desired_keys | p.inventory.entries.keys() | {r.store.ref.key}
    r.desired.forget_except(known)
    r.writer.memory.trim(known, r.clock())
    r.writer.own.forget_except(known)
    for part in r.parts:
        part.forget_except(known)
    if acts:
        r.keeper.keep_whole(p.inventory, p.desired_keys | p.observation.objects.keys(), int(r.wall_clock()))
        r.publisher.recheck()


# --- 6 report


def make_report(r: Reconciler, p: Pass) -> Report:
    """The report, of what the parts say."""
    seen, target = seen_by(r, p), target_of(r, p)
    done = Effects(tuple(p.results), (), p.lifted_gates, tuple(p.evicted_pods), tuple(p.events))
    outcome = Outcome(
        seen,
        r.planning.verdict(target),
        Allowed(changes_of(p), p.prune_plan, p.standstill),
        done,
        r.writer.memory.failures,
        tuple(r.pods.unplaced_jobs(p.observation)),
        r.scheduler.stalled(seen, target),
        frozenset(r.requests.current().suspended | p.suspended_keys),
        (*p.problems, *p.observation.partial_problems, *filter(None, [r.requests.problem])),
    )
    conditions = (
        *r.writer.memory.fights.conditions(seen.now),
        *r.scheduler.conditions(seen.now, target),
        *r.pods.conditions(),
    )
    deadlines = [at for part in r.parts for at in part.deadlines(seen.now)]
    deadlines += (*r.writer.retry_times(), *r.pace.deadlines(seen.now))
    return report_of(outcome, conditions, deadlines, r.publisher.event_object, is_busy=_is_busy(r, p))


def _is_busy(r: Reconciler, p: Pass) -> bool:
    """Whether something goes on, or is still to be done that is not refused again and again."""
    memory = r.writer.memory
    is_writing = r.pods.is_busy() or r.writer.is_any_open()
    changes = (*p.changes, *(result.change for result in p.results))
    return r.planning.is_busy or is_writing or not all(map(memory.is_given_up, changes))

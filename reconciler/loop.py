"""One pass: observe -> compile -> diff -> guard -> act -> report, all about one snapshot. And the loop that repeats it.

Level-triggered: a pass looks at what is, never at what changed, so it may be repeated, skipped or cut off anywhere. The
compile runs beside the loop in a child process; until it answers, the last good plan stays in force and drift from it
is put back.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from math import inf

from compiler.emit.manifest import JOB_KINDS, Manifest
from reconciler import guard
from reconciler.act import LostLease, mark_started
from reconciler.cluster.client import ApiError, Conflict, NotFound
from reconciler.cluster.inventory import FinishedRun, Inventory, InventoryEntry
from reconciler.cluster.objects import (
    CLUSTER_LABEL,
    DIGEST_ANNOTATION,
    FIELD_MANAGER,
    MANAGED_BY_LABEL,
    YIELD_ANNOTATION,
    Object,
    annotations_of,
    final_phase,
    ref_of,
    uid_of,
)
from reconciler.compile_child import CompileRequest, Snapshot, load_snapshot, save_snapshot
from reconciler.context import Pass, Reconciler, Rejection, due_moment, is_plan_fresh, recreate_time
from reconciler.diff import Change, DesiredObject, classify_change, without_fields
from reconciler.gates import (
    PlannedGang,
    assigned_node,
    gate_lifts,
    has_ended,
    is_gated,
    pods_by_job,
    pods_to_evict,
    scheduler_message,
    unbound_pods,
)
from reconciler.git.process import GitError
from reconciler.observe import fingerprint_of, node_index, planned_gangs, state_objects
from reconciler.publish.status import Report
from reconciler.report import build_report

log = logging.getLogger(__name__)

SUSPECT_SECONDS = 300.0
"""Seconds for which a node where pods could not be bound takes nothing new."""
COMPILE_RETRY, PLAN_RETRY = 10.0, 300.0
"""Seconds after which a compile that broke down, and a plan that was refused, may be tried again although nothing
changed."""
PLAN_CODES = frozenset({"GP501", "GP502"})
"""Diagnostics that rest on what the cluster holds as well; those of files stay with their commit."""
UNKNOWN_PHASE = "Unknown"
"""How a run ended that vanished, with a time to live, while nobody watched."""


def reconcile_once(w: Reconciler) -> Report:
    """Raises ApiError when the inventory cannot be read (then nothing is done), LostLease when another replica took
    over."""
    p = observe(w)  # 1 one snapshot; all below is about it
    choose_commit(w, p)  # 2 which commit is to be in force, and is there a plan for it
    update_plan(w, p)
    compute_changes(w, p)  # 3 data, printable
    p.prune_plan = guard.prune_plan(
        p.desired_objects, p.inventory, _live_inventory(w, p), _prune_safety(w, p)
    )  # 4 pure
    act_on_changes(w, p)  # 5 the only step that writes
    return build_report(w, p)  # 6


# --- 1 observe


def observe(w: Reconciler) -> Pass:
    now = w.clock()
    w.suspect_nodes = {node: until for node, until in w.suspect_nodes.items() if until > now}
    holder = w.lease.is_held()
    if w.inventory is None or not holder or not w.was_holder:
        w.inventory = w.store.read()
        if (
            w.planning.snapshot is None
            and (kept := load_snapshot(w.settings.data / "snapshot.json")) is not None
            and kept.commit == w.inventory.commit
        ):
            w.planning.snapshot = kept
            w.planning.run_digests = _run_digests(kept)
    w.was_holder = holder
    p = Pass(w.watches.observe(frozenset(w.suspect_nodes)), w.inventory)
    p.problems += p.observation.problems
    p.pods, p.former_job_keys = pods_by_job(
        p.observation.objects_of_kind("Pod"),
        {key: thing for key, thing in p.observation.objects.items() if key.partition("/")[0] in JOB_KINDS},
    )
    update_inventory(w, p)
    for key in p.former_job_keys:
        if key.partition("/")[0] in JOB_KINDS:
            w.departed_jobs[key] = w.departed_jobs.get(key, (now, now))[0], now
    w.departed_jobs = {key: seen for key, seen in w.departed_jobs.items() if recreate_time(*seen) > now}
    return p


def update_inventory(w: Reconciler, p: Pass) -> None:
    """Bring the inventory up to what is seen: creations confirmed, jobs started, runs that are over."""
    entries, runs = p.inventory.entries, p.inventory.runs
    while w.watches.deleted_objects:
        thing, witnessed = w.watches.deleted_objects.pop()
        key = ref_of(thing).key
        if key.partition("/")[0] in JOB_KINDS:
            w.departed_jobs[key] = w.clock(), w.clock()
        if key in entries and entries[key].uid == uid_of(thing) and key.partition("/")[0] in JOB_KINDS:
            if phase := final_phase(thing):
                runs[key] = FinishedRun(ref_of(thing), _run_digest_of(w, thing), phase)
            elif witnessed:
                entries[key] = InventoryEntry(ref_of(thing))
    for key, entry in list(entries.items()):
        thing_now = p.observation.objects.get(key)
        if thing_now is not None and not entry.uid and thing_now["metadata"].get("managedFields"):
            entries[key] = entry = InventoryEntry(entry.ref, uid_of(thing_now))
        if (
            thing_now is not None
            and entry.uid == uid_of(thing_now)
            and not entry.started
            and any(not is_gated(pod) for pod in p.pods.get(key, ()))
        ):
            entries[key] = replace(entry, started=True)
    for key in {*w.planning.run_digests, *entries} & p.observation.objects.keys():
        if key.partition("/")[0] in JOB_KINDS and (phase := final_phase(p.observation.objects[key])):
            runs[key] = FinishedRun(
                ref_of(p.observation.objects[key]), _run_digest_of(w, p.observation.objects[key]), phase
            )


def _run_digest_of(w: Reconciler, job: Object) -> str:
    return annotations_of(job).get(DIGEST_ANNOTATION) or w.planning.run_digests.get(ref_of(job).key, "")


def _unobserved_ends(w: Reconciler, p: Pass) -> Iterator[tuple[str, FinishedRun]]:
    """Started jobs with a time to live that are gone although nobody saw them go: most likely they finished, and a
    doubled run is worse than one that a person has to ask for again."""
    timed = (
        {
            ref_of(m.object).key: m.run_digest
            for m in p.snapshot.manifests
            if m.run_digest and _has_time_to_live(m.object)
        }
        if p.snapshot
        else {}
    )
    for key, run in timed.items():
        entry, before = p.inventory.entries.get(key), p.inventory.runs.get(key)
        if entry is None or not entry.uid or not entry.started or (before is not None and before.digest == run):
            continue
        if (
            key not in p.observation.objects
            and entry.ref.group_kind in p.observation.readable_kinds
            and key not in w.writer.memory.last_writes
        ):
            yield key, FinishedRun(entry.ref, run, UNKNOWN_PHASE)


def _has_time_to_live(job: Object) -> bool:
    spec = job["spec"]
    return any(s.get("ttlSecondsAfterFinished") is not None for s in (spec, spec.get("runPolicy") or {}))


# --- 2 compile


def choose_commit(w: Reconciler, p: Pass) -> None:
    """The head, unless its history was rewritten or it does not compile; then what is in force stays so."""
    head, planning = w.poller.head, w.planning
    in_force = planning.snapshot.commit if planning.snapshot else p.inventory.commit
    p.target_commit = head.commit or in_force
    if head.commit and in_force and head.commit != in_force:
        try:
            if w.settings.allow_rewrite != head.commit and not w.mirror.is_ancestor(in_force, head.commit):
                p.rewrite_message = f"{head.commit} does not descend from {in_force}, which is in force; allow it with --allow-rewrite {head.commit}"
                p.target_commit = in_force
        except GitError as error:
            p.problems.append(str(error))
            p.target_commit = in_force
    if p.target_commit in planning.rejections and p.target_commit != in_force and not _may_retry(w, p.target_commit):
        p.target_commit = in_force


def _may_retry(w: Reconciler, commit: str) -> bool:
    return w.clock() >= w.planning.rejections[commit].retry_at


def _retry_delay(snapshot: Snapshot) -> float:
    """Seconds until a rejected commit may be tried again although nothing changed."""
    codes = {found["code"] for found in snapshot.diagnostics if found["severity"] == "error"}
    return COMPILE_RETRY if not any(codes) else PLAN_RETRY if codes <= PLAN_CODES else inf


def _is_postponed(w: Reconciler, p: Pass) -> bool:
    """Whether the target was rejected, and neither time nor what it rests on gives it another chance. What is in force
    has one with each change."""
    found = w.planning.rejections.get(p.target_commit)
    if found is None or w.clock() >= found.retry_at:
        return False
    in_force = p.snapshot is not None and p.snapshot.commit == p.target_commit
    return (
        not in_force
        or w.clock() < found.rejected_at + COMPILE_RETRY
        or found.rests_on == (p.current_fingerprint, due_moment(w))
    )


def update_plan(w: Reconciler, p: Pass) -> None:
    """Take what a compile came to, and begin another if the plan no longer rests on what is."""
    planning, over_now = w.planning, _finished_job_keys(w, p.inventory)
    if (result := w.compiler.take_result()) is not None and planning.running_compile is not None:
        commit, sight, over_then, moment = planning.running_compile
        planning.running_compile = None
        w.metrics.add_to_counter("compiles_total", result="good" if result.ok else "rejected")
        if result.ok:
            planning.snapshot, planning.base_fingerprint = result, fingerprint_of(sight, result, over_then)
            planning.run_digests = _run_digests(result)
            planning.rejections.pop(commit, None)
            save_snapshot(result, w.settings.data / "snapshot.json")
            over_now = _finished_job_keys(w, p.inventory)
        else:
            base = fingerprint_of(sight, planning.snapshot, over_then) if planning.snapshot else None
            planning.rejections[commit] = found = Rejection(
                result, w.clock(), w.clock() + _retry_delay(result), (base, moment)
            )
            log.warning(
                "commit rejected",
                extra={"commit": commit, "reason": found.first_error["message"] if found.first_error else "no plan"},
            )
            if p.target_commit == commit and planning.snapshot is not None:
                p.target_commit = planning.snapshot.commit
    p.snapshot = planning.snapshot
    if (ended := dict(_unobserved_ends(w, p))) != {}:
        p.inventory.runs.update(ended)
        over_now = _finished_job_keys(w, p.inventory)
    if p.snapshot is not None:
        p.current_fingerprint = fingerprint_of(p.observation, p.snapshot, over_now)
    if (
        is_plan_fresh(w, p)
        or not p.target_commit
        or w.compiler.is_busy
        or p.observation.problems
        or _is_postponed(w, p)
    ):
        return
    _start_compile(w, p, over_now)


def _start_compile(w: Reconciler, p: Pass, finished_keys: frozenset[str]) -> None:
    head = w.poller.head
    try:
        tree = (
            head.tree
            if p.target_commit == head.commit and head.tree is not None
            else w.mirror.read_tree(p.target_commit)
        )
    except GitError as error:
        p.problems.append(str(error))
        return
    finished_jobs = [
        (ref.namespace, ref.name, ref.kind) for key in sorted(finished_keys) for ref in (p.inventory.runs[key].ref,)
    ]
    stale = frozenset(p.inventory.runs.keys() - finished_keys)
    problems = [asdict(problem) for problem in tree.problems]
    seen, executor = state_objects(p.observation, stale), w.settings.executor
    request = CompileRequest(
        p.target_commit,
        w.settings.cluster,
        tree.files,
        tree.commit_dates,
        problems,
        seen,
        finished_jobs,
        executor,
        int(w.wall_clock()),
    )
    w.planning.running_compile = p.target_commit, p.observation, finished_keys, due_moment(w)
    w.compiler.start_compile(request)


def _finished_job_keys(w: Reconciler, inventory: Inventory) -> frozenset[str]:
    """Jobs whose present specification has had its run."""
    known = w.planning.run_digests
    return frozenset(key for key, run in inventory.runs.items() if known.get(key, run.digest) == run.digest)


def _run_digests(snapshot: Snapshot) -> dict[str, str]:
    return {ref_of(m.object).key: m.run_digest for m in snapshot.manifests if m.run_digest}


# --- 3 diff


def compute_changes(w: Reconciler, p: Pass) -> None:
    if p.snapshot is None:
        return
    known = w.planning.desired_objects if w.planning.desired_snapshot is p.snapshot else {}
    for manifest in p.snapshot.manifests:
        try:
            item = known.get(id(manifest)) or _desired_object(w, manifest)
            known[id(manifest)] = item
            p.desired_objects.append(item)
        except NotFound as error:
            p.held_changes.append(Change("held", ref_of(manifest.object), reason=str(error)))
        except ApiError as error:
            p.problems.append(str(error))
    w.planning.desired_snapshot, w.planning.desired_objects = p.snapshot, known
    refs = {item.ref for item in p.desired_objects}
    if {ref.group_kind for ref in refs} - w.watches.informers.keys():
        w.watches.watch_kinds_of(refs)
        p.observation = w.watches.observe(p.observation.suspect_nodes)
        p.problems = [*dict.fromkeys((*p.problems, *p.observation.problems))]
    for item in p.desired_objects:
        if item.ref.group_kind in p.observation.readable_kinds and (change := _required_change(w, p, item)) is not None:
            (p.held_changes if change.action in ("held", "forbidden") else p.changes).append(change)
    withhold_waiting_jobs(p, p.snapshot)


def withhold_waiting_jobs(p: Pass, snapshot: Snapshot) -> None:
    """Jobs that only wait are created, gated, until their pods reach the cluster's `maxWaitingPods`; the rest stays out
    of the cluster."""
    waiting = {key for key, gang in planned_gangs(snapshot).items() if gang.decision == "wait"}
    pods = {ref_of(manifest.object).key: manifest.pods for manifest in snapshot.manifests}
    room = snapshot.max_waiting_pods - sum(pods.get(key, 0) for key in waiting & p.observation.objects.keys())
    kept = []
    for change in p.changes:
        key = change.ref.key
        if change.action == "create" and key in waiting:
            room -= pods.get(key, 0)
            if room < 0:
                room += pods.get(key, 0)
                reason = f"it waits, and the cluster holds as many waiting pods as it may ({snapshot.max_waiting_pods})"
                p.held_changes.append(Change("held", change.ref, change.desired, reason=reason))
                continue
        kept.append(change)
    p.changes = kept


def _required_change(w: Reconciler, p: Pass, item: DesiredObject) -> Change | None:
    key = item.ref.key
    live = w.writer.newest_object(key, p.observation.objects.get(key))
    run = p.inventory.runs.get(key)
    entry = p.inventory.entries.get(key)
    started = any(not is_gated(pod) and not has_ended(pod) for pod in p.pods.get(key, ()))
    if live is not None and entry is not None and entry.uid == uid_of(live):
        started = started or entry.started
    refused = w.writer.memory.refused_updates.get(key) == item.digest
    if live is None and key in w.departed_jobs:
        return Change("held", item.ref, item, reason="its former pods are still ending; it returns when they are gone")
    about = (_live_version(live), run.digest if run else None, started, refused)
    if (calm := w.planning.unchanged.get(key)) is not None and calm[0] is item and calm[1] == about:
        return None
    change = classify_change(item, live, finished_digest=about[1], has_started=started, is_update_refused=refused)
    if change is None:
        w.planning.unchanged[key] = item, about
    return change


def _live_version(live: Object | None) -> tuple[str, str]:
    return (uid_of(live), str(live["metadata"].get("resourceVersion"))) if live is not None else ("", "")


def _desired_object(w: Reconciler, manifest: Manifest) -> DesiredObject:
    """The manifest with our labels, with the digest of its run, and without the fields that its owner leaves to others."""
    thing: Object = json.loads(json.dumps(manifest.object))
    meta = thing["metadata"]
    meta["labels"] = {**(meta.get("labels") or {}), MANAGED_BY_LABEL: FIELD_MANAGER, CLUSTER_LABEL: w.settings.cluster}
    if manifest.run_digest:
        meta["annotations"] = {**(meta.get("annotations") or {}), DIGEST_ANNOTATION: manifest.run_digest}
    if not meta.get("namespace") and w.client.resource(thing["apiVersion"], thing["kind"]).namespaced:
        meta["namespace"] = "default"
    if left := annotations_of(thing).get(YIELD_ANNOTATION):
        thing = without_fields(thing, [path.strip() for path in left.split(",") if path.strip()])
    return DesiredObject(manifest.wave, ref_of(thing), thing, manifest.run_digest, manifest.position)


# --- 4 guard


def _live_inventory(w: Reconciler, p: Pass) -> Mapping[str, Object | None]:
    """The inventory's objects as far as their kind could be read; one whose kind no plan holds any more is asked for by
    name."""
    found: dict[str, Object | None] = {}
    keep = {item.ref.key for item in p.desired_objects}
    for key, entry in p.inventory.entries.items():
        if entry.ref.group_kind in p.observation.readable_kinds:
            found[key] = w.writer.newest_object(key, p.observation.objects.get(key))
        elif key not in keep:
            try:
                found[key] = w.client.get(entry.ref)
            except NotFound:
                found[key] = None
            except ApiError as error:
                p.problems.append(str(error))
    return found


def _prune_safety(w: Reconciler, p: Pass) -> guard.PruneSafety:
    good = (
        p.snapshot is not None
        and p.snapshot.commit == w.poller.head.commit
        and not p.rewrite_message
        and not w.poller.head.problem
    )
    return guard.PruneSafety(w.poller.head.commit, good, tuple(p.problems), w.settings.allow_prune)


# --- 5 act


def act_on_changes(w: Reconciler, p: Pass) -> None:
    """Nothing is written without the lease; LostLease ends the pass in the middle, which is as good as a kill."""
    if not w.was_holder or not w.lease.is_held() or p.snapshot is None:
        return
    try:
        due = [change for change in p.changes if w.writer.is_due(change)]
        p.inventory.commit = p.snapshot.commit
        w.writer.record_intents(due, p.inventory)
        if due:
            p.results += w.writer.apply_changes(due, p.inventory)
        if p.prune_plan.changes and not p.changes:
            p.results += w.writer.prune_objects(
                [change for change in p.prune_plan.changes if w.writer.is_due(change)], p.inventory
            )
        for key in p.prune_plan.vanished_keys:
            p.inventory.entries.pop(key, None)
        if p.snapshot.gated and p.current_fingerprint is not None and w.planning.base_fingerprint is not None:
            evict_victims(w, p, p.snapshot)
            lift_gates(w, p, p.snapshot)
            evict_unbound_pods(w, p, p.snapshot)
        w.writer.fence()
        w.store.write(p.inventory)
    except Conflict as error:
        w.inventory = None
        raise LostLease(str(error)) from error


def evict_victims(w: Reconciler, p: Pass, snapshot: Snapshot) -> None:
    """Evict what the plan takes away, as long as the winners and their nodes are still as planned.

    Gates hold these pods back when they return, and when they are gone the cluster is planned again.
    """
    nodes, planned = node_index(p.observation.objects_of_kind("Node"), snapshot.leaves), planned_gangs(snapshot)
    standing = {
        f"{gang.job.namespace}/{gang.job.name}"
        for key, gang in planned.items()
        if gang.decision == "start" and _is_as_planned(w, p, key, gang)
    }
    for key, gang in planned.items():
        if not gang.evicted_for or not standing.issuperset(gang.evicted_for) or not _is_as_planned(w, p, key, gang):
            continue
        for pod in pods_to_evict(gang, p.pods.get(key, ()), nodes):
            if refusal := w.writer.evict_pod(pod):
                p.problems.append(refusal)
                continue
            p.evicted_pods.append(str(ref_of(pod)))
            p.events.append((pod, "Preempted", f"evicted to make room for {', '.join(gang.evicted_for)}", True))


def _is_as_planned(w: Reconciler, p: Pass, key: str, gang: PlannedGang) -> bool:
    """Whether the job's run is the planned one, and its nodes are as the plan took them to be."""
    assert p.current_fingerprint is not None  # noqa: S101
    assert w.planning.base_fingerprint is not None  # noqa: S101
    job = p.observation.objects.get(key)
    if job is None or annotations_of(job).get(DIGEST_ANNOTATION) != w.planning.run_digests.get(key):
        return False
    now, then = p.current_fingerprint.nodes, w.planning.base_fingerprint.nodes
    return all(now.get(node) == then.get(node) for counts in gang.pods.values() for node in counts)


def lift_gates(w: Reconciler, p: Pass, snapshot: Snapshot) -> None:
    """Gang by gang: those whose nodes are as the plan took them to be, and whose run is the planned one.

    A gang that others make room for starts with the plan that is made once they are gone.
    """
    nodes, planned = node_index(p.observation.objects_of_kind("Node"), snapshot.leaves), planned_gangs(snapshot)
    winners = {name for gang in planned.values() for name in gang.evicted_for}
    for key, gang in planned.items():
        if (
            gang.decision not in ("start", "keep")
            or f"{gang.job.namespace}/{gang.job.name}" in winners
            or not _is_as_planned(w, p, key, gang)
        ):
            continue
        job = p.observation.objects[key]
        found = gate_lifts(gang, [_newest_pod(w, pod) for pod in p.pods.get(key, ())], nodes)
        if found:
            mark_started(p.inventory, gang.job)
            w.store.write(p.inventory)
            p.lifted_gates[key], trouble = w.writer.lift_gang_gates(found)
            if trouble:
                log.info("a gate was not lifted", extra={"gang": str(gang.job), "reason": trouble})
            where = ", ".join(sorted({lift.node for lift in found}))
            p.events.append((job, "Placed", f"{p.lifted_gates[key]} pods were given their nodes: {where}", False))


def _newest_pod(w: Reconciler, pod: Object) -> Object:
    return w.writer.newest_object(ref_of(pod).key, pod) or pod


def evict_unbound_pods(w: Reconciler, p: Pass, snapshot: Snapshot) -> None:
    """A pod that the scheduler does not bind to its node in time is evicted, and its node takes nothing new for a
    while."""
    now, nodes = w.clock(), node_index(p.observation.objects_of_kind("Node"), snapshot.leaves)
    waiting: dict[str, float] = {}
    for key in planned_gangs(snapshot).keys() & p.pods.keys():
        for pod in unbound_pods(p.pods[key], nodes):
            since = waiting[uid_of(pod)] = w.unbound_since.get(uid_of(pod), now)
            if now - since < w.settings.bind_timeout:
                continue
            node = assigned_node(pod, nodes) or ""
            said = scheduler_message(pod) or "the scheduler said nothing"
            if refusal := w.writer.evict_pod(pod):
                p.problems.append(refusal)
                continue
            w.suspect_nodes[node] = now + SUSPECT_SECONDS
            p.evicted_pods.append(str(ref_of(pod)))
            p.events.append(
                (
                    pod,
                    "NotBound",
                    f"not bound to {node} within {w.settings.bind_timeout:g} s, so it is planned again: {said}",
                    True,
                )
            )
    w.unbound_since = waiting

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

from reconciler import guard
from reconciler.apply import LostLease, start
from reconciler.compile_child import Manifest, Request, Snapshot, load, save
from reconciler.drift import Change, Wanted, classify, without
from reconciler.gates import Gang, evictions, gated, lifts, over, place, pods_by_job, scheduler_message, unbound
from reconciler.git import GitError
from reconciler.inventory import Entry, Inventory, Run
from reconciler.kube import ApiError, Conflict, NotFound
from reconciler.objects import (
    CLUSTER_LABEL,
    DIGEST,
    JOBS,
    MANAGED_BY,
    MANAGER,
    YIELD,
    Object,
    annotations_of,
    finished,
    ref_of,
    uid,
)
from reconciler.observe import fingerprint, gangs, hosts, state
from reconciler.report import Report
from reconciler.tell import report
from reconciler.world import Pass, Rejection, World, due, fresh, settled

log = logging.getLogger(__name__)

SUSPICION = 300.0
"""Seconds for which a node where pods could not be bound takes nothing new."""
COMPILE_RETRY, PLAN_RETRY = 10.0, 300.0
"""Seconds after which a compile that broke down, and a plan that was refused, may be tried again although nothing
changed."""
OF_THE_PLAN = frozenset({"GP501", "GP502"})
"""Diagnostics that rest on what the cluster holds as well; those of files stay with their commit."""
UNKNOWN_END = "Unknown"
"""How a run ended that vanished, with a time to live, while nobody watched."""


def reconcile_once(w: World) -> Report:
    """Raises ApiError when the inventory cannot be read (then nothing is done), LostLease when another replica took
    over."""
    p = observe(w)  # 1 one snapshot; all below is about it
    choose(w, p)  # 2 which commit is to be in force, and is there a plan for it
    compile_(w, p)
    diff(w, p)  # 3 data, printable
    p.prunes = guard.prunes(p.wanted, p.inventory, _looked_at(w, p), _sight(w, p))  # 4 pure
    act(w, p)  # 5 the only step that writes
    return report(w, p)  # 6


# --- 1 observe


def observe(w: World) -> Pass:
    now = w.clock()
    w.suspects = {node: until for node, until in w.suspects.items() if until > now}
    holder = w.lease.held()
    if w.inventory is None or not holder or not w.holder:
        w.inventory = w.store.read()
        if (
            w.planning.snapshot is None
            and (kept := load(w.settings.data / "snapshot.json")) is not None
            and kept.commit == w.inventory.commit
        ):
            w.planning.snapshot = kept
            w.planning.digests = _digests(kept)
    w.holder = holder
    p = Pass(w.watches.look(frozenset(w.suspects)), w.inventory)
    p.problems += p.seen.problems
    p.pods, p.former = pods_by_job(
        p.seen.of("Pod"), {key: thing for key, thing in p.seen.objects.items() if key.partition("/")[0] in JOBS}
    )
    remember_ends(w, p)
    for key in p.former:
        if key.partition("/")[0] in JOBS:
            w.departed[key] = w.departed.get(key, (now, now))[0], now
    w.departed = {key: seen for key, seen in w.departed.items() if settled(*seen) > now}
    return p


def remember_ends(w: World, p: Pass) -> None:
    """Bring the inventory up to what is seen: creations confirmed, jobs started, runs that are over."""
    entries, runs = p.inventory.entries, p.inventory.runs
    while w.watches.vanished:
        thing, witnessed = w.watches.vanished.pop()
        key = ref_of(thing).key
        if key.partition("/")[0] in JOBS:
            w.departed[key] = w.clock(), w.clock()
        if key in entries and entries[key].uid == uid(thing) and key.partition("/")[0] in JOBS:
            if phase := finished(thing):
                runs[key] = Run(ref_of(thing), _run_of(w, thing), phase)
            elif witnessed:
                entries[key] = Entry(ref_of(thing))
    for key, entry in list(entries.items()):
        thing_now = p.seen.objects.get(key)
        if thing_now is not None and not entry.uid and thing_now["metadata"].get("managedFields"):
            entries[key] = entry = Entry(entry.ref, uid(thing_now))
        if (
            thing_now is not None
            and entry.uid == uid(thing_now)
            and not entry.started
            and any(not gated(pod) for pod in p.pods.get(key, ()))
        ):
            entries[key] = replace(entry, started=True)
    for key in {*w.planning.digests, *entries} & p.seen.objects.keys():
        if key.partition("/")[0] in JOBS and (phase := finished(p.seen.objects[key])):
            runs[key] = Run(ref_of(p.seen.objects[key]), _run_of(w, p.seen.objects[key]), phase)


def _run_of(w: World, job: Object) -> str:
    return annotations_of(job).get(DIGEST) or w.planning.digests.get(ref_of(job).key, "")


def _vanished_unseen(w: World, p: Pass) -> Iterator[tuple[str, Run]]:
    """Started jobs with a time to live that are gone although nobody saw them go: most likely they finished, and a
    doubled run is worse than one that a person has to ask for again."""
    timed = (
        {m.ref.key: m.digest for m in p.snapshot.manifests if m.digest and _time_to_live(m.object)}
        if p.snapshot
        else {}
    )
    for key, run in timed.items():
        entry, before = p.inventory.entries.get(key), p.inventory.runs.get(key)
        if entry is None or not entry.uid or not entry.started or (before is not None and before.digest == run):
            continue
        if key not in p.seen.objects and entry.ref.group_kind in p.seen.kinds and key not in w.actor.memory.written:
            yield key, Run(entry.ref, run, UNKNOWN_END)


def _time_to_live(job: Object) -> bool:
    spec = job["spec"]
    return any(s.get("ttlSecondsAfterFinished") is not None for s in (spec, spec.get("runPolicy") or {}))


# --- 2 compile


def choose(w: World, p: Pass) -> None:
    """The head, unless its history was rewritten or it does not compile; then what is in force stays so."""
    head, planning = w.poller.head, w.planning
    in_force = planning.snapshot.commit if planning.snapshot else p.inventory.commit
    p.target = head.commit or in_force
    if head.commit and in_force and head.commit != in_force:
        try:
            if w.settings.allow_rewrite != head.commit and not w.mirror.descends(in_force, head.commit):
                p.rewritten = f"{head.commit} does not descend from {in_force}, which is in force; allow it with --allow-rewrite {head.commit}"
                p.target = in_force
        except GitError as error:
            p.problems.append(str(error))
            p.target = in_force
    if p.target in planning.rejected and p.target != in_force and not _again(w, p.target):
        p.target = in_force


def _again(w: World, commit: str) -> bool:
    return w.clock() >= w.planning.rejected[commit].at


def _patience(snapshot: Snapshot) -> float:
    """Seconds until a rejected commit may be tried again although nothing changed."""
    codes = {found["code"] for found in snapshot.diagnostics if found["severity"] == "error"}
    return COMPILE_RETRY if not any(codes) else PLAN_RETRY if codes <= OF_THE_PLAN else inf


def _put_off(w: World, p: Pass) -> bool:
    """Whether the target was rejected, and neither time nor what it rests on gives it another chance. What is in force
    has one with each change."""
    found = w.planning.rejected.get(p.target)
    if found is None or w.clock() >= found.at:
        return False
    in_force = p.snapshot is not None and p.snapshot.commit == p.target
    return not in_force or w.clock() < found.since + COMPILE_RETRY or found.rested == (p.current, due(w))


def compile_(w: World, p: Pass) -> None:
    """Take what a compile came to, and begin another if the plan no longer rests on what is."""
    planning, over_now = w.planning, _over(w, p.inventory)
    if (result := w.compiler.take()) is not None and planning.under_way is not None:
        commit, sight, over_then, moment = planning.under_way
        planning.under_way = None
        w.metrics.add("compiles_total", result="good" if result.ok else "rejected")
        if result.ok:
            planning.snapshot, planning.base = result, fingerprint(sight, result, over_then)
            planning.digests = _digests(result)
            planning.rejected.pop(commit, None)
            save(result, w.settings.data / "snapshot.json")
            over_now = _over(w, p.inventory)
        else:
            base = fingerprint(sight, planning.snapshot, over_then) if planning.snapshot else None
            planning.rejected[commit] = found = Rejection(
                result, w.clock(), w.clock() + _patience(result), (base, moment)
            )
            log.warning(
                "commit rejected",
                extra={"commit": commit, "reason": found.error["message"] if found.error else "no plan"},
            )
            if p.target == commit and planning.snapshot is not None:
                p.target = planning.snapshot.commit
    p.snapshot = planning.snapshot
    if (ended := dict(_vanished_unseen(w, p))) != {}:
        p.inventory.runs.update(ended)
        over_now = _over(w, p.inventory)
    if p.snapshot is not None:
        p.current = fingerprint(p.seen, p.snapshot, over_now)
    if fresh(w, p) or not p.target or w.compiler.busy or p.seen.problems or _put_off(w, p):
        return
    _submit(w, p, over_now)


def _submit(w: World, p: Pass, over_now: frozenset[str]) -> None:
    head = w.poller.head
    try:
        tree = head.tree if p.target == head.commit and head.tree is not None else w.mirror.read(p.target)
    except GitError as error:
        p.problems.append(str(error))
        return
    finished_jobs = [
        (ref.namespace, ref.name, ref.kind) for key in sorted(over_now) for ref in (p.inventory.runs[key].ref,)
    ]
    stale = frozenset(p.inventory.runs.keys() - over_now)
    problems = [asdict(problem) for problem in tree.problems]
    seen, executor = state(p.seen, stale), w.settings.executor
    request = Request(
        p.target,
        w.settings.cluster,
        tree.files,
        tree.commit_dates,
        problems,
        seen,
        finished_jobs,
        executor,
        int(w.wall()),
    )
    w.planning.under_way = p.target, p.seen, over_now, due(w)
    w.compiler.submit(request)


def _over(w: World, inventory: Inventory) -> frozenset[str]:
    """Jobs whose present specification has had its run."""
    known = w.planning.digests
    return frozenset(key for key, run in inventory.runs.items() if known.get(key, run.digest) == run.digest)


def _digests(snapshot: Snapshot) -> dict[str, str]:
    return {manifest.ref.key: manifest.digest for manifest in snapshot.manifests if manifest.digest}


# --- 3 diff


def diff(w: World, p: Pass) -> None:
    if p.snapshot is None:
        return
    known = w.planning.wanted if w.planning.wanted_of is p.snapshot else {}
    for manifest in p.snapshot.manifests:
        try:
            item = known.get(id(manifest)) or _wanted(w, manifest)
            known[id(manifest)] = item
            p.wanted.append(item)
        except NotFound as error:
            p.held.append(Change("held", manifest.ref, reason=str(error)))
        except ApiError as error:
            p.problems.append(str(error))
    w.planning.wanted_of, w.planning.wanted = p.snapshot, known
    refs = {item.ref for item in p.wanted}
    if {ref.group_kind for ref in refs} - w.watches.informers.keys():
        w.watches.cover(refs)
        p.seen = w.watches.look(p.seen.suspects)
        p.problems = [*dict.fromkeys((*p.problems, *p.seen.problems))]
    for item in p.wanted:
        if item.ref.group_kind in p.seen.kinds and (change := _change(w, p, item)) is not None:
            (p.held if change.action in ("held", "forbidden") else p.changes).append(change)
    withhold(p, p.snapshot)


def withhold(p: Pass, snapshot: Snapshot) -> None:
    """Jobs that only wait are created, gated, until their pods reach the cluster's `maxWaitingPods`; the rest stays out
    of the cluster."""
    waiting = {key for key, gang in gangs(snapshot).items() if gang.decision == "wait"}
    pods = {manifest.ref.key: manifest.pods for manifest in snapshot.manifests}
    room = snapshot.max_waiting_pods - sum(pods.get(key, 0) for key in waiting & p.seen.objects.keys())
    kept = []
    for change in p.changes:
        key = change.ref.key
        if change.action == "create" and key in waiting:
            room -= pods.get(key, 0)
            if room < 0:
                room += pods.get(key, 0)
                reason = f"it waits, and the cluster holds as many waiting pods as it may ({snapshot.max_waiting_pods})"
                p.held.append(Change("held", change.ref, change.wanted, reason=reason))
                continue
        kept.append(change)
    p.changes = kept


def _change(w: World, p: Pass, item: Wanted) -> Change | None:
    key = item.ref.key
    live = w.actor.live(key, p.seen.objects.get(key))
    run = p.inventory.runs.get(key)
    entry = p.inventory.entries.get(key)
    started = any(not gated(pod) and not over(pod) for pod in p.pods.get(key, ()))
    if live is not None and entry is not None and entry.uid == uid(live):
        started = started or entry.started
    refused = w.actor.memory.refused.get(key) == item.digest
    if live is None and key in w.departed:
        return Change("held", item.ref, item, reason="its former pods are still ending; it returns when they are gone")
    about = (_version(live), run.digest if run else None, started, refused)
    if (calm := w.planning.calm.get(key)) is not None and calm[0] is item and calm[1] == about:
        return None
    change = classify(item, live, done=about[1], started=started, refused=refused)
    if change is None:
        w.planning.calm[key] = item, about
    return change


def _version(live: Object | None) -> tuple[str, str]:
    return (uid(live), str(live["metadata"].get("resourceVersion"))) if live is not None else ("", "")


def _wanted(w: World, manifest: Manifest) -> Wanted:
    """The manifest with our labels, with the digest of its run, and without the fields that its owner leaves to others."""
    thing: Object = json.loads(json.dumps(manifest.object))
    meta = thing["metadata"]
    meta["labels"] = {**(meta.get("labels") or {}), MANAGED_BY: MANAGER, CLUSTER_LABEL: w.settings.cluster}
    if manifest.digest:
        meta["annotations"] = {**(meta.get("annotations") or {}), DIGEST: manifest.digest}
    if not meta.get("namespace") and w.client.resource(thing["apiVersion"], thing["kind"]).namespaced:
        meta["namespace"] = "default"
    if left := annotations_of(thing).get(YIELD):
        thing = without(thing, [path.strip() for path in left.split(",") if path.strip()])
    return Wanted(manifest.wave, ref_of(thing), thing, manifest.digest, manifest.position)


# --- 4 guard


def _looked_at(w: World, p: Pass) -> Mapping[str, Object | None]:
    """The inventory's objects as far as their kind could be read; one whose kind no plan holds any more is asked for by
    name."""
    found: dict[str, Object | None] = {}
    keep = {item.ref.key for item in p.wanted}
    for key, entry in p.inventory.entries.items():
        if entry.ref.group_kind in p.seen.kinds:
            found[key] = w.actor.live(key, p.seen.objects.get(key))
        elif key not in keep:
            try:
                found[key] = w.client.get(entry.ref)
            except NotFound:
                found[key] = None
            except ApiError as error:
                p.problems.append(str(error))
    return found


def _sight(w: World, p: Pass) -> guard.Sight:
    good = (
        p.snapshot is not None
        and p.snapshot.commit == w.poller.head.commit
        and not p.rewritten
        and not w.poller.head.problem
    )
    return guard.Sight(w.poller.head.commit, good, tuple(p.problems), w.settings.allow_prune)


# --- 5 act


def act(w: World, p: Pass) -> None:
    """Nothing is written without the lease; LostLease ends the pass in the middle, which is as good as a kill."""
    if not w.holder or not w.lease.held() or p.snapshot is None:
        return
    try:
        due = [change for change in p.changes if w.actor.due(change)]
        p.inventory.commit = p.snapshot.commit
        w.actor.intend(due, p.inventory)
        if due:
            p.done += w.actor.apply(due, p.inventory)
        if p.prunes.changes and not p.changes:
            p.done += w.actor.prune([change for change in p.prunes.changes if w.actor.due(change)], p.inventory)
        for key in p.prunes.forget:
            p.inventory.entries.pop(key, None)
        if p.snapshot.gated and p.current is not None and w.planning.base is not None:
            make_room(w, p, p.snapshot)
            lift_gates(w, p, p.snapshot)
            give_up_unbound(w, p, p.snapshot)
        w.actor.fence()
        w.store.write(p.inventory)
    except Conflict as error:
        w.inventory = None
        raise LostLease(str(error)) from error


def make_room(w: World, p: Pass, snapshot: Snapshot) -> None:
    """Evict what the plan takes away, as long as the winners and their nodes are still as planned.

    Gates hold these pods back when they return, and when they are gone the cluster is planned again.
    """
    nodes, planned = hosts(p.seen.of("Node"), snapshot.leaves), gangs(snapshot)
    standing = {
        f"{gang.job.namespace}/{gang.job.name}"
        for key, gang in planned.items()
        if gang.decision == "start" and _as_planned(w, p, key, gang)
    }
    for key, gang in planned.items():
        if not gang.evicted_for or not standing.issuperset(gang.evicted_for) or not _as_planned(w, p, key, gang):
            continue
        for pod in evictions(gang, p.pods.get(key, ()), nodes):
            if refusal := w.actor.evict(pod):
                p.problems.append(refusal)
                continue
            p.evicted.append(str(ref_of(pod)))
            p.events.append((pod, "Preempted", f"evicted to make room for {', '.join(gang.evicted_for)}", True))


def _as_planned(w: World, p: Pass, key: str, gang: Gang) -> bool:
    """Whether the job's run is the planned one, and its nodes are as the plan took them to be."""
    assert p.current is not None  # noqa: S101
    assert w.planning.base is not None  # noqa: S101
    job = p.seen.objects.get(key)
    if job is None or annotations_of(job).get(DIGEST) != w.planning.digests.get(key):
        return False
    now, then = p.current.nodes, w.planning.base.nodes
    return all(now.get(node) == then.get(node) for counts in gang.pods.values() for node in counts)


def lift_gates(w: World, p: Pass, snapshot: Snapshot) -> None:
    """Gang by gang: those whose nodes are as the plan took them to be, and whose run is the planned one.

    A gang that others make room for starts with the plan that is made once they are gone.
    """
    nodes, planned = hosts(p.seen.of("Node"), snapshot.leaves), gangs(snapshot)
    winners = {name for gang in planned.values() for name in gang.evicted_for}
    for key, gang in planned.items():
        if (
            gang.decision not in ("start", "keep")
            or f"{gang.job.namespace}/{gang.job.name}" in winners
            or not _as_planned(w, p, key, gang)
        ):
            continue
        job = p.seen.objects[key]
        found = lifts(gang, [_latest(w, pod) for pod in p.pods.get(key, ())], nodes)
        if found:
            start(p.inventory, gang.job)
            w.store.write(p.inventory)
            p.lifted[key], trouble = w.actor.lift(found)
            if trouble:
                log.info("a gate was not lifted", extra={"gang": str(gang.job), "reason": trouble})
            where = ", ".join(sorted({lift.node for lift in found}))
            p.events.append((job, "Placed", f"{p.lifted[key]} pods were given their nodes: {where}", False))


def _latest(w: World, pod: Object) -> Object:
    return w.actor.live(ref_of(pod).key, pod) or pod


def give_up_unbound(w: World, p: Pass, snapshot: Snapshot) -> None:
    """A pod that the scheduler does not bind to its node in time is evicted, and its node takes nothing new for a
    while."""
    now, nodes = w.clock(), hosts(p.seen.of("Node"), snapshot.leaves)
    waiting: dict[str, float] = {}
    for key in gangs(snapshot).keys() & p.pods.keys():
        for pod in unbound(p.pods[key], nodes):
            since = waiting[uid(pod)] = w.unbound_since.get(uid(pod), now)
            if now - since < w.settings.bind_timeout:
                continue
            node = place(pod, nodes) or ""
            said = scheduler_message(pod) or "the scheduler said nothing"
            if refusal := w.actor.evict(pod):
                p.problems.append(refusal)
                continue
            w.suspects[node] = now + SUSPICION
            p.evicted.append(str(ref_of(pod)))
            p.events.append(
                (
                    pod,
                    "NotBound",
                    f"not bound to {node} within {w.settings.bind_timeout:g} s, so it is planned again: {said}",
                    True,
                )
            )
    w.unbound_since = waiting

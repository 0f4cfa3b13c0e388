"""A plan of a new commit before it is in force: the API server is asked first whether it would take the objects that
change. One that it refuses holds the commit back as a whole, and the plan in force stays."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from compiler.emit.manifest import JOBS_WAVE, REFUSED_BY_SERVER, Manifest
from compiler.kubernetes import name_of, uid_of
from compiler.run_kinds import RUN_KINDS, is_run
from reconciler.changes.diff import Change, classify_change
from reconciler.cluster.client import ApiError
from reconciler.cluster.objects import Ref, version_of
from reconciler.context import Pass, Reconciler
from reconciler.planning.dry_run import PATIENCE, Question, Refusal
from reconciler.planning.snapshot import Snapshot, save_snapshot
from reconciler.planning.state import Candidate, Rejection

log = logging.getLogger(__name__)

SNAPSHOT_FILE = "snapshot.json"
_NEEDED_KINDS = frozenset({"Queue", "Namespace", "PriorityClass", "ResourceQuota"})
"""What admission may look up by name when it judges another object; a Queue by other queues only."""


def settle_candidate(r: Reconciler, p: Pass) -> None:
    """Ask about the candidate, put it in force, reject it, or drop it for a newer commit. Only a leader asks; another
    replica follows the inventory."""
    planning = r.planning
    if (candidate := planning.candidate) is None:
        return
    commit = candidate.snapshot.commit
    if commit == p.inventory.commit:
        _put_in_force(r, candidate)
    elif commit != p.target_commit:
        planning.drop_candidate()
        r.dry_run.give_up()
    elif r.was_holder:
        if not candidate.is_asked:
            planning.offer(replace(candidate, is_asked=True))
            r.dry_run.start(tuple(_questions(r, p, candidate.snapshot)))
        if not r.dry_run.is_busy:
            _take_answer(r, p, candidate)


def _take_answer(r: Reconciler, p: Pass, candidate: Candidate) -> None:
    if (refusals := r.dry_run.take_result()) is None:
        r.planning.offer(replace(candidate, is_asked=False))
    elif refusals:
        _reject(r, p, candidate, refusals)
    else:
        _put_in_force(r, candidate)


def unanswered_message(r: Reconciler) -> str:
    """Why the plan of a new commit is not in force yet, where the API server does not answer for long; else empty."""
    candidate, delay = r.planning.candidate, r.dry_run.delay()
    if candidate is None or not delay:
        return ""
    return (
        f"commit {candidate.snapshot.commit} is not in force yet: the API server was asked whether it takes its "
        f"objects, and does not answer. After {PATIENCE:g} s it is in force all the same, and what has no answer holds "
        f"up only itself: {delay}"
    )


def offer_candidate(r: Reconciler, p: Pass, candidate: Candidate) -> None:
    """Take a good plan: one of the commit in force replaces the last one at once."""
    in_force = r.planning.snapshot.commit if r.planning.snapshot else p.inventory.commit
    if candidate.snapshot.commit == in_force:
        _put_in_force(r, candidate)
    else:
        r.planning.offer(candidate)


def _put_in_force(r: Reconciler, candidate: Candidate) -> None:
    r.planning.put_in_force(candidate)
    save_snapshot(candidate.snapshot, r.settings.data / SNAPSHOT_FILE)


def _reject(r: Reconciler, p: Pass, candidate: Candidate, refusals: tuple[Refusal, ...]) -> None:
    planning, commit, now = r.planning, candidate.snapshot.commit, r.clock()
    former = planning.rejections.get(commit)
    attempts = 1 + (former.attempts if former is not None and former.refusals else 0)
    timings = r.timings.planning
    pause = min(timings.refusal_retry * 2 ** (attempts - 1), timings.longest_refusal_retry)
    entries = tuple(_diagnostic(refusal) for refusal in refusals)
    snapshot = replace(candidate.snapshot, ok=False, diagnostics=(*entries, *candidate.snapshot.diagnostics))
    held = tuple(_held(p, refusal) for refusal in refusals)
    planning.reject(commit, Rejection(snapshot, now, now + pause, (None, None), attempts, held))
    planning.drop_candidate()
    log.warning("commit refused", extra={"commit": commit, "reason": entries[0]["message"]})
    p.aim_at(planning.snapshot.commit if planning.snapshot else p.inventory.commit)


def _diagnostic(refusal: Refusal) -> dict[str, Any]:
    file, _, line = refusal.question.position.rpartition(":")
    return {
        "code": REFUSED_BY_SERVER.code,
        "severity": REFUSED_BY_SERVER.severity,
        "file": file,
        "line": int(line) if line.isdigit() else 0,
        "column": 1,
        "message": f"the API server refuses {refusal.question.ref}: {refusal.message}",
        "help": "mend the object, or what refuses it; the commit is tried again from time to time",
        "object": str(refusal.question.ref),
    }


def _held(p: Pass, refusal: Refusal) -> Change:
    ref = refusal.question.ref
    manifest = Manifest(0, refusal.question.item, refusal.question.position)
    reason = f"the API server refuses it, so its commit is held: {refusal.message}"
    return Change("held", ref, manifest, p.observation.objects.get(ref.key), reason=reason)


def _questions(r: Reconciler, p: Pass, snapshot: Snapshot) -> Iterator[Question]:
    """One for each object that the commit makes or changes. Kinds that are not served hold up only themselves, and so
    does what is not yet as the plan in force wants it, where the commit wants the same: what keeps it from that is no
    matter of the commit."""
    known = {id(manifest) for manifest in r.planning.snapshot.manifests} if r.planning.snapshot else set[int]()
    changes = list(_changes_of(r, p, snapshot))
    objects = [desired.object for _, _, desired in changes]
    needed = frozenset(name_of(item) for item in objects if item["kind"] in _NEEDED_KINDS)
    queues = frozenset(name_of(item) for item in objects if item["kind"] == "Queue")
    for manifest, change, desired in changes:
        if id(manifest) in known:
            continue
        others = queues if desired.object["kind"] == "Queue" else needed
        others = others if desired.run_digest else others - {name_of(desired.object)}
        is_new_run = change.action in ("replace", "held")
        uid = uid_of(change.live) if change.live is not None and not is_new_run else ""
        item = desired.object if is_new_run or change.desired is None else change.desired.object
        may_wait = desired.wave == JOBS_WAVE or bool(desired.run_digest)
        is_job = bool(desired.run_digest) or is_run(item)
        yield Question(item, desired.position, uid, others, is_new_run, may_wait, is_job)


def _changes_of(r: Reconciler, p: Pass, snapshot: Snapshot) -> Iterator[tuple[Manifest, Change, Manifest]]:
    """The manifests that the cluster does not hold, each as the plan has it, with its change, and as it is to be in the
    cluster. Those that are as in the plan in force are that plan's own."""
    made, in_force = r.planning.desired, r.planning.snapshot
    for manifest in (snapshot.with_manifests_of(in_force) if in_force else snapshot).manifests:
        try:
            desired, ref = made.get(r.client, r.settings.cluster, manifest, manifest.run_digest)
        except ApiError:
            continue
        if (change := _change_of(r, p, desired, ref)) is not None:
            yield manifest, change, desired


def _change_of(r: Reconciler, p: Pass, desired: Manifest, ref: Ref) -> Change | None:
    live = p.observation.objects.get(ref.key)
    run = p.inventory.runs.get(ref.key)
    finished = run.digest if run else None
    if r.planning.is_unchanged(ref.key, desired, version_of(live), finished):
        return None
    change = classify_change(desired, live, finished_digest=finished, has_started=True, is_update_refused=False)
    if change is None or change.action == "forbidden":
        return None
    is_ending = change.action == "held" and ref.group_kind not in RUN_KINDS and not desired.run_digest
    return None if is_ending else change

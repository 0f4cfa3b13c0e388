"""Phase 2 of a pass: which commit is to be in force, and a plan for it.

The compile runs beside the loop in a child process; until it answers, the last good plan stays in force.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from math import inf
from typing import TypeVar

from compiler.kubernetes import ALLOW_REWRITE_ANNOTATION
from compiler.repository import Repository
from compiler.specs import JobKey
from reconciler.context import Pass, Reconciler, due_moment, is_plan_fresh, planned_runs, revision_in_force, seen_by
from reconciler.git.process import GitError
from reconciler.planning.candidate import SNAPSHOT_FILE, offer_candidate, settle_candidate, unanswered_message
from reconciler.planning.compile.inputs import CompileRequest
from reconciler.planning.fingerprint import FINGERPRINT_KINDS, Fingerprint, fingerprint_of, state_objects
from reconciler.planning.snapshot import CompileBreakdown, Snapshot, load_snapshot
from reconciler.planning.state import Candidate, Rejection, RunningCompile

Value = TypeVar("Value")

log = logging.getLogger(__name__)

PLAN_CODES = frozenset({"GP501", "GP502"})
"""Diagnostics that rest on what the cluster holds as well; those of files stay with their commit."""


def restore_snapshot(r: Reconciler) -> None:
    """Take up the plan of the last process, if its commit is still the one in force: from the data folder, or from the
    cluster, where the files are kept as well. Raises ApiError."""
    planning, inventory = r.planning, r.inventory
    if planning.snapshot is not None or inventory is None:
        return
    kept, cluster = load_snapshot(r.settings.data / SNAPSHOT_FILE), r.settings.cluster
    is_ours = kept is not None and kept.plan.get("cluster", cluster) == cluster  # the folder may serve two in turn
    if kept is not None and is_ours and kept.commit == inventory.commit:
        planning.restore(kept)
        return
    copy = r.plan_copy.read()
    if copy is not None and inventory.commit in ("", copy.snapshot.commit):
        log.info("the plan in force is taken from the cluster", extra={"commit": copy.snapshot.commit})
        inventory.bring_into_force(copy.snapshot.commit)
        planning.restore(copy.snapshot, copy.tree)


def give_up_superseded_plan(r: Reconciler) -> None:
    """Forget a plan whose commit is older than what another replica has brought into force, or not known to follow it:
    who leads again before it has heard of the newer commit does not go back."""
    planning, inventory = r.planning, r.inventory
    if planning.snapshot is None or inventory is None or inventory.commit in ("", planning.snapshot.commit):
        return
    try:
        is_newer = r.mirror.is_ancestor(inventory.commit, planning.snapshot.commit)
    except GitError:
        is_newer = False
    if not is_newer and not _is_rewrite_allowed(r, planning.snapshot.commit):
        log.info("the plan is superseded", extra={"commit": planning.snapshot.commit, "in_force": inventory.commit})
        planning.give_up_plan()


def choose_commit(r: Reconciler, p: Pass) -> None:
    """Set the target: the head, unless its history was rewritten or it does not compile; else what is in force."""
    head, snapshot = r.poller.head, r.planning.snapshot
    in_force = snapshot.commit if snapshot else p.inventory.commit
    p.aim_at(head.commit or in_force)
    if head.commit and in_force and head.commit != in_force:
        try:
            if not r.mirror.is_ancestor(in_force, head.commit) and not _is_rewrite_allowed(r, head.commit):
                p.hold_rewrite(
                    f"{head.commit} does not descend from {in_force}, which is in force; allow it with the annotation "
                    f"{ALLOW_REWRITE_ANNOTATION}: {head.commit} on ConfigMap {r.publisher.ref.name}"
                )
                p.aim_at(in_force)
        except GitError as error:
            p.report_problem(str(error))
            p.aim_at(in_force)
    rejection = r.planning.rejections.get(p.target_commit)
    if rejection is not None and p.target_commit != in_force and r.clock() < rejection.retry_at:
        p.aim_at(in_force)


def _is_rewrite_allowed(r: Reconciler, commit: str) -> bool:
    return r.publisher.read_annotations().get(ALLOW_REWRITE_ANNOTATION) == commit


def update_plan(r: Reconciler, p: Pass) -> None:
    """Take the result of the compile, and start another if the plan no longer rests on what is observed."""
    running = r.planning.running_compile
    if running is not None and (result := r.compiler.take_result()) is not None:
        r.planning.end_compile()
        _take_result(r, p, running, result)
    settle_candidate(r, p)
    is_waiting = r.planning.candidate is not None
    if is_waiting and r.planning.snapshot is not None and unanswered_message(r):
        p.aim_at(r.planning.snapshot.commit)  # what is in force is planned anew meanwhile, where nodes or jobs change
        is_waiting = False
    p.go_by(r.planning.snapshot)
    doubts = r.runs.record_unobserved_ends(seen_by(r, p), planned_runs(r))
    for key, doubt in doubts.items():
        p.doubt_end(key, doubt)
    finished = p.inventory.finished_jobs(planned_runs(r))
    if p.snapshot is not None:
        current = _current_fingerprint(r, p, p.snapshot, finished)
        p.compare_with(current)
        if current == r.planning.base_fingerprint:
            r.planning.note_fresh(current)
    is_free = not is_waiting and not r.compiler.is_busy and not r.pods.awaits_evictions
    may_compile = p.target_commit and not p.observation.problems and is_free
    if may_compile and not is_plan_fresh(r, p) and not _is_postponed(r, p):
        _start_compile(r, p, finished)
    elif may_compile and r.was_holder and r.clock() >= r.planning.worker_state.tell_at():
        _tell_worker(r, p, finished)


def _current_fingerprint(r: Reconciler, p: Pass, snapshot: Snapshot, finished: frozenset[str]) -> Fingerprint:
    """What the plan in force rests on now; made anew only when nodes, pods or jobs have changed."""
    seen = p.observation
    lists = tuple(seen.objects_of_kind(kind) for kind in sorted(FINGERPRINT_KINDS | snapshot.job_kinds))
    r.planning.worker_state.note_seen(lists, r.clock())
    return r.planning.fingerprint.get(
        (snapshot, finished, seen.restrictions, *lists), lambda: fingerprint_of(seen, snapshot, finished)
    )


def _take_result(r: Reconciler, p: Pass, running: RunningCompile, result: Snapshot | CompileBreakdown) -> None:
    planning, now = r.planning, r.clock()
    r.metrics.compile_seconds.observe(now - running.started_at)
    r.tracing.record("compile", now - running.started_at, commit=running.commit)
    log.info("a compile has ended", extra={"commit": running.commit, "seconds": round(now - running.started_at, 3)})
    if isinstance(result, CompileBreakdown):
        _record_breakdown(r, p, running, result)
        return
    r.metrics.compiles.labels(result="good" if result.ok else "rejected").inc()
    if result.ok:
        result = result.with_manifests_of(planning.snapshot) if planning.snapshot else result
        planning.forget_breakdown(running.commit)
        fingerprint = fingerprint_of(running.observation, result, running.finished_jobs)
        offer_candidate(r, p, Candidate(result, fingerprint, running.tree))
        return
    rejection = Rejection(result, now, now + _retry_delay(result, r.timings.planning.plan_retry), _basis(r, running))
    _reject(r, p, running, rejection)
    reason = rejection.first_error["message"] if rejection.first_error else "no plan"
    log.warning("commit rejected", extra={"commit": running.commit, "reason": reason})


def _record_breakdown(r: Reconciler, p: Pass, running: RunningCompile, result: CompileBreakdown) -> None:
    """Note a compile that gave no answer: nothing is held against its commit, and it is tried again."""
    r.metrics.compiles.labels(result="broken").inc()
    former, now = r.planning.rejections.get(running.commit), r.clock()
    attempts = 1 + (former.attempts if former is not None and former.breakdown else 0)
    timings = r.timings.planning
    pause = min(timings.compile_retry * 2.0 ** min(attempts - 1, 16), timings.plan_retry)
    nothing = Snapshot(running.commit, ok=False)
    rejection = Rejection(nothing, now, now + pause, _basis(r, running), attempts, breakdown=result.message)
    _reject(r, p, running, rejection)
    log.warning("a compile broke down", extra={"commit": running.commit, "reason": result.message, "retry": pause})


def _basis(r: Reconciler, running: RunningCompile) -> tuple[Fingerprint | None, int | None]:
    in_force = r.planning.snapshot
    base = fingerprint_of(running.observation, in_force, running.finished_jobs) if in_force else None
    return base, running.due_moment


def _reject(r: Reconciler, p: Pass, running: RunningCompile, rejection: Rejection) -> None:
    r.planning.reject(running.commit, rejection)
    if p.target_commit == running.commit and r.planning.snapshot is not None:
        p.aim_at(r.planning.snapshot.commit)


def _retry_delay(snapshot: Snapshot, plan_retry: float) -> float:
    """Seconds until a rejected commit may be tried again although nothing changed."""
    codes = {diagnostic["code"] for diagnostic in snapshot.diagnostics if diagnostic["severity"] == "error"}
    return plan_retry if codes <= PLAN_CODES else inf


def _is_postponed(r: Reconciler, p: Pass) -> bool:
    """Whether the target was rejected, and neither time nor what it rests on gives it another chance. The commit in
    force has one with each change."""
    rejection = r.planning.rejections.get(p.target_commit)
    if rejection is None or r.clock() >= rejection.retry_at:
        return False
    if p.snapshot is None or p.snapshot.commit != p.target_commit:
        return True
    is_recent = r.clock() < rejection.rejected_at + r.timings.planning.compile_retry
    return is_recent or rejection.rests_on == (p.current_fingerprint, due_moment(r))


def _start_compile(r: Reconciler, p: Pass, finished_keys: frozenset[str]) -> None:
    head, commit = r.poller.head, p.target_commit
    try:
        tree = head.tree if head.tree is not None and commit == head.commit else r.mirror.read_tree(commit)
    except GitError as error:
        if r.planning.tree is None or commit != revision_in_force(r):
            p.report_problem(str(error))
            return
        tree = r.planning.tree
    request = _compile_request(r, p, finished_keys, commit, tree)
    r.planning.begin_compile(RunningCompile(commit, p.observation, finished_keys, due_moment(r), r.clock(), tree))
    r.planning.worker_state.note_told(r.clock())
    log.info("a compile begins", extra={"commit": commit})
    r.compiler.start_compile(request)


def _tell_worker(r: Reconciler, p: Pass, finished_keys: frozenset[str]) -> None:
    """Let the compile worker know what the cluster holds by now."""
    r.planning.worker_state.note_told(r.clock())
    if p.snapshot is not None and r.planning.tree is not None:
        r.compiler.tell_state(_compile_request(r, p, finished_keys, p.snapshot.commit, r.planning.tree))


def _compile_request(
    r: Reconciler, p: Pass, finished_keys: frozenset[str], commit: str, tree: Repository
) -> CompileRequest:
    """All that a plan of this commit is made of."""
    refs = [p.inventory.runs[key].ref for key in sorted(finished_keys)]
    stale = frozenset(p.inventory.runs.keys() - finished_keys) | r.runs.lost_jobs.given_up
    return CompileRequest(
        commit,
        r.settings.cluster,
        tree.files,
        tree.commit_dates,
        problems=[asdict(problem) for problem in tree.problems],
        state=state_objects(p.observation, stale),
        finished_jobs=[(ref.namespace, ref.name, ref.kind) for ref in refs],
        executor=r.settings.executor,
        clock=int(r.wall_clock()),
        held_jobs=list(_by_job(p.observation.restrictions.held_jobs)),
        closed_nodes=[(job, sorted(nodes)) for job, nodes in _by_job(p.observation.restrictions.closed_nodes)],
        former_places=list(_by_job(r.planning.snapshot.placed_pods)) if r.planning.snapshot else [],
    )


def _by_job(by_key: Mapping[str, Value]) -> Iterator[tuple[JobKey, Value]]:
    """(Namespace, name, kind) of each job with its value, in the order of the keys."""
    for key, value in sorted(by_key.items()):
        group_kind, namespace, name = key.split("/")
        yield (namespace, name, group_kind.partition(".")[0]), value

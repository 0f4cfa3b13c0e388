"""Phase 6 of a pass: what it saw and did, as a report, and events on single objects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from math import isfinite

from reconciler.changes.diff import Change
from reconciler.changes.results import ChangeResult
from reconciler.cluster.objects import name_of_key, ref_of
from reconciler.context import Pass, Reconciler, is_plan_fresh
from reconciler.planning.candidate import unanswered_message
from reconciler.planning.snapshot import PlannedGang
from reconciler.planning.state import Rejection
from reconciler.report.events import ObjectEvent
from reconciler.report.status import Condition, Report
from reconciler.runs.records import record_row
from reconciler.scheduler.controller import behind_message
from reconciler.scheduler.stalls_controller import stalled_components

MAX_RUNS = 1000
"""Finished runs that the status names, the last ones."""
MAX_RECORDS = 10
"""Finished runs of which the status says what is known, the last ones."""
MAX_REASONS = 5
"""Sentences that a condition says at most."""
ANNOTATION_INTERVAL = 5.0
"""Seconds between looks for an annotation that allows what is held."""


def build_report(r: Reconciler, p: Pass) -> Report:
    head = r.poller.head
    rejection = r.planning.rejections.get(head.commit)
    refusals = rejection.refusals if rejection else ()
    if rejection is not None and not rejection.breakdown:
        diagnostics = rejection.snapshot.diagnostics
    else:
        diagnostics = p.snapshot.diagnostics if p.snapshot else ()
    return Report(
        commit=p.snapshot.commit if p.snapshot else "",
        head=head.commit,
        conditions=tuple(_conditions(r, p, rejection)),
        digest=p.snapshot.plan.get("digest", "") if p.snapshot else "",
        gangs=(*_gangs_with_started(p), *(p.snapshot.unbound_gangs if p.snapshot else ())),
        diagnostics=diagnostics,
        results=tuple(p.results),
        outstanding=tuple(_outstanding(r, p)),
        held_changes=(
            *refusals,
            *p.obstructed_changes,
            *_unplaced_jobs(r, p),
            *stalled_components(r, p),
            *p.prune_plan.leaving,
            *(change for change in p.held_changes if not change.is_deferred),
        ),
        deferred_changes=(
            *p.prune_plan.held_changes,
            *(change for change in p.held_changes if change.is_deferred),
        ),
        lifted_gates=p.lifted_gates,
        evicted_pods=tuple(p.evicted_pods),
        runs={str(run.ref): run.phase for run in islice(reversed(p.inventory.runs.values()), MAX_RUNS)},
        records=tuple(map(record_row, islice(reversed(p.inventory.runs.values()), MAX_RECORDS))),
        run_count=len(p.inventory.runs),
        suspended=tuple(sorted(r.request_poller.current().suspended | p.suspended_keys)),
        is_idle=not _is_busy(r, p),
        next_wakeup=_seconds_to_deadline(r, p),
        events=(*p.events, *_events(r, p, rejection)),
    )


def _is_busy(r: Reconciler, p: Pass) -> bool:
    """Whether something goes on, or is still to be done that is not refused again and again."""
    is_planning = r.compiler.is_busy or r.planning.candidate is not None
    are_gates_open = any(p.lifted_gates.values()) or r.writer.memory.has_passing_gate_troubles(r.clock())
    is_writing = are_gates_open or r.writer.is_any_open()
    is_open = is_planning or p.observation.pending_kinds or is_writing or not is_plan_fresh(r, p)
    changes = (*p.changes, *(result.change for result in p.results))
    return bool(is_open) or not all(map(r.writer.memory.is_given_up, changes))


def _gangs_with_started(p: Pass) -> Iterator[PlannedGang]:
    """The gangs of the plan, with "keep" for what was to start and has started since."""
    started = {entry.ref.key for entry in p.inventory.entries.values() if entry.started}
    for key, gang in p.snapshot.gangs.items() if p.snapshot else ():
        yield replace(gang, decision="keep") if gang.decision == "start" and key in started else gang


def _events(r: Reconciler, p: Pass, rejection: Rejection | None) -> Iterator[ObjectEvent]:
    refusals = rejection.refusals if rejection else ()
    for change in (*p.held_changes, *refusals, *p.prune_plan.held_changes):
        if change.live is not None and change.desired is not None:
            yield ObjectEvent(change.live, "Held", change.reason, True)
    for change in _unplaced_jobs(r, p):
        if change.live is not None:
            yield ObjectEvent(change.live, "NotPlaced", change.reason, True)
    for change in stalled_components(r, p):
        yield ObjectEvent(r.publisher.event_object, "VolcanoStalled", change.reason, True)
    yield from events_of_results(p.results)
    for key, gang in p.snapshot.gangs.items() if p.snapshot else ():
        if gang.decision == "wait" and gang.reasons and key in p.observation.objects:
            yield ObjectEvent(p.observation.objects[key], "Waiting", "; ".join(gang.reasons), False)
    if unanswered := unanswered_message(r):
        yield ObjectEvent(r.publisher.event_object, "CommitUnanswered", unanswered, True)
    if rejection is not None:
        message = _rejection_message(p, rejection, r.poller.head.commit)
        yield ObjectEvent(r.publisher.event_object, _rejection_reason(p, rejection), message, True)


def events_of_results(results: Iterable[ChangeResult]) -> Iterator[ObjectEvent]:
    """What became of changes, on the objects themselves."""
    return filter(None, map(_result_event, results))


def _result_event(result: ChangeResult) -> ObjectEvent | None:
    change = result.change
    if change.live is None:
        return None
    if result.outcome in ("conflict", "refused", "fight"):
        return ObjectEvent(change.live, "NotApplied", result.message, True)
    if result.outcome == "done" and change.action in ("update", "in-place") and result.message:
        done = "taken over" if result.is_takeover else "put back"
        return ObjectEvent(change.live, "Corrected", f"{done}: {result.message}", False)
    if result.outcome == "done" and change.action == "replace" and not change.run_digest:
        return ObjectEvent(change.live, "Replaced", f"deleted, to be made anew: {change.reason}", False)
    return None


def _rejection_reason(p: Pass, rejection: Rejection) -> str:
    """A commit that is in force has a plan, only no newer one for the cluster as it is now."""
    if rejection.refusals:
        return "CommitRefused"
    if rejection.breakdown:
        return "CompileFailed"
    is_in_force = p.snapshot is not None and p.snapshot.commit == rejection.snapshot.commit
    return "PlanRefused" if is_in_force else "CommitRejected"


def _rejection_message(p: Pass, rejection: Rejection, commit: str) -> str:
    if rejection.breakdown:
        return _breakdown_message(commit, rejection)
    detail = "no plan"
    if error := rejection.first_error:
        position = f"{error['file']}:{error['line']}:" if error["file"] else ""
        detail = " ".join(filter(None, (position, error["code"], error["message"])))
    if _rejection_reason(p, rejection) == "PlanRefused":
        return f"no new plan for commit {commit}, so the last plan stays in force and nothing else is changed: {detail}"
    if rejection.refusals:
        return f"commit {commit} is held as a whole, {len(rejection.refusals)} of its objects are refused: {detail}"
    return f"commit {commit} does not compile and changes nothing: {detail}"


def _conditions(r: Reconciler, p: Pass, rejection: Rejection | None) -> Iterator[Condition]:
    problem = r.poller.head.problem
    yield Condition("Fetched", not problem, "GitFailed" if problem else "Fetched", problem)
    refused = _rejection_message(p, rejection, r.poller.head.commit) if rejection and rejection.refusals else ""
    yield _compiled_condition(r, p, rejection if not refused else None)
    yield _accepted_condition(r, refused)
    rewritten = p.rewrite_message
    yield Condition("HistoryRewritten", bool(rewritten), "Held" if rewritten else "Descends", rewritten)
    unread = (r.request_poller.problem,) if r.request_poller.problem else ()
    problem = _summary_text((*p.problems, *p.observation.partial_problems, *unread))
    yield Condition("Observed", not problem, "ReadFailed" if problem else "Observed", problem)
    yield Condition("PassFailed", False, "None", "")
    yield Condition("InventoryLost", bool(p.standstill), "Held" if p.standstill else "Present", p.standstill)
    yield _applied_condition(r, p, refused)
    yield _prune_condition(p)
    now, fights = r.clock(), r.writer.memory.fights
    fought = [
        f"{name_of_key(key)}: {fights.opponents[key]}"
        for key, until in sorted(fights.paused_until.items())
        if until > now
    ]
    yield Condition("Fighting", bool(fought), "Fighting" if fought else "None", _summary_text(fought))
    commits = sorted({r.poller.head.commit, p.target_commit} & r.planning.rejections.keys())
    rejections = ((commit, r.planning.rejections[commit]) for commit in commits)
    broken = [_breakdown_message(commit, found) for commit, found in rejections if found.breakdown]
    yield Condition("CompilerFailed", bool(broken), "BrokeDown" if broken else "None", _summary_text(broken))
    behind = behind_message(r, p)
    known = "NotKnown" if r.scheduler_probe.active is None else "None"
    yield Condition(
        "SchedulerBehind", bool(behind), "NotTaken" if behind else known, behind or r.scheduler_probe.problem
    )
    stuck = [f"{name_of_key(key)}: {reason}" for key, reason in sorted(r.binding.held_jobs(now).items())]
    yield Condition("GangsHeld", bool(stuck), "NotBound" if stuck else "None", _summary_text(stuck))


def _accepted_condition(r: Reconciler, refused: str) -> Condition:
    unanswered = unanswered_message(r)
    reason = "CommitRefused" if refused else "Unanswered" if unanswered else "Accepted"
    return Condition("Accepted", not refused and not unanswered, reason, refused or unanswered)


def _breakdown_message(commit: str, rejection: Rejection) -> str:
    times = f" {rejection.attempts} times in a row" if rejection.attempts > 1 else ""
    return (
        f"the compile of commit {commit} broke down{times}, which says nothing about the commit; it is tried again, "
        f"and what is in force stays: {rejection.breakdown}"
    )


def _applied_condition(r: Reconciler, p: Pass, refused: str) -> Condition:
    """What is outstanding now, whether or not it was tried in this pass."""
    if p.standstill:
        return Condition("Applied", False, "InventoryLost", p.standstill)
    failures = [f"{each.change.ref}: {each.message}" for each in _outstanding(r, p) if each.outcome != "fight"]
    standing = (*p.obstructed_changes, *_unplaced_jobs(r, p), *stalled_components(r, p))
    failures += [f"{change.ref}: {change.reason}" for change in standing]
    failures = [refused, *failures] if refused else failures
    applied = p.snapshot is not None and not failures
    reason = "CommitRefused" if refused else "Applied" if applied else "Outstanding"
    return Condition("Applied", applied, reason, _summary_text(failures))


def _unplaced_jobs(r: Reconciler, p: Pass) -> Iterator[Change]:
    """The jobs whose pods should be given their nodes and are not, with why."""
    for key, reason in sorted(r.writer.memory.lasting_gate_troubles(r.clock()).items()):
        if (job := p.observation.objects.get(key)) is not None:
            yield Change("held", ref_of(job), live=job, reason=f"its pods are not given their nodes: {reason}")


def _outstanding(r: Reconciler, p: Pass) -> list[ChangeResult]:
    """The last failure of each object that is still to be written."""
    wanted = {change.ref.key for change in (*p.changes, *p.prune_plan.changes, *p.prune_plan.releases)}
    wanted |= {result.change.ref.key for result in p.results}
    return [result for key, result in sorted(r.writer.memory.failures.items()) if key in wanted]


def _prune_condition(p: Pass) -> Condition:
    """All reasons for which something that left the repository stays, with how many objects each keeps."""
    reasons = Counter(change.reason for change in p.prune_plan.held_changes)
    message = "; ".join(
        f"{count} object{'s' if count > 1 else ''}: {reason}" for reason, count in reasons.most_common(MAX_REASONS)
    )
    return Condition("PruneHeld", bool(reasons), "Held" if reasons else "None", message)


def _summary_text(sentences: Sequence[str]) -> str:
    """The first sentences, and how many more there are."""
    more = len(sentences) - MAX_REASONS
    return "; ".join(sentences[:MAX_REASONS]) + (f"; and {more} more" if more > 0 else "")


def _compiled_condition(r: Reconciler, p: Pass, rejection: Rejection | None) -> Condition:
    if rejection is None:
        return Condition("Compiled", p.snapshot is not None, "Compiled" if p.snapshot else "NoPlan")
    head, reason = r.poller.head.commit, _rejection_reason(p, rejection)
    if reason in ("PlanRefused", "CompileFailed"):
        return Condition("Compiled", False, reason, _rejection_message(p, rejection, head))
    in_force = p.snapshot.commit if p.snapshot else "nothing"
    return Condition("Compiled", False, reason, f"commit {head} does not compile; {in_force} is in force")


def _seconds_to_deadline(r: Reconciler, p: Pass) -> float | None:
    """Seconds to the next deadline of anything that waits for time to pass."""
    now, wall_now = r.clock(), r.wall_clock()
    deadlines = r.binding.deadlines(r.settings.bind_timeout)
    deadlines += r.node_health.deadlines(r.settings.node_timeout, now)
    deadlines += r.evictions.deadlines()
    deadlines += r.departed_jobs.reservations().values()
    deadlines += r.lost_jobs.deadlines(now)
    deadlines += r.stalls.deadlines(now)
    deadlines += [found.retry_at for found in r.planning.rejections.values() if isfinite(found.retry_at)]
    deadlines += r.writer.retry_times()
    deadlines += r.pace.deadlines(now)
    deadlines += [r.planning.worker_state.tell_at()] if r.was_holder else []
    prunes = p.prune_plan
    if p.rewrite_message or p.standstill or prunes.obstacles or prunes.excess or prunes.waits_for_release:
        deadlines.append(now + ANNOTATION_INTERVAL)
    seconds = [at - now for at in deadlines]
    if (untold := r.dry_run.seconds_to_tell()) is not None:
        seconds.append(untold)
    seconds += [until + 1 - wall_now for until in p.observation.restrictions.leaving_pods.values()]
    seconds += [at - wall_now for at in (r.planning.snapshot.moments if r.planning.snapshot else ())]
    return min((left for left in seconds if left > 0), default=None)

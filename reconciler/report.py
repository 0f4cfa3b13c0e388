"""The last phase of a pass: what it saw and did, as a report, and what is to be said about single objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Any

from reconciler.act import ChangeResult
from reconciler.cluster.objects import Object, Ref
from reconciler.context import Pass, Reconciler, Rejection, is_plan_fresh, recreate_time
from reconciler.observe import planned_gangs
from reconciler.publish.status import Condition, Report


def build_report(w: Reconciler, p: Pass) -> Report:
    head = w.poller.head
    rejected = w.planning.rejections.get(head.commit)
    failed = [d for d in p.results if d.outcome in ("conflict", "refused", "retry")]
    fights = [d for d in p.results if d.outcome == "fight"]
    held = (*p.held_changes, *p.prune_plan.held_changes)
    for change in held:
        if change.live is not None and change.desired is not None:
            p.events.append((change.live, "Held", change.reason, True))
    for done in p.results:
        if (
            done.outcome == "done"
            and done.change.live is not None
            and done.change.action in ("update", "in-place")
            and done.message
        ):
            p.events.append((done.change.live, "Corrected", f"put back: {done.message}", False))
        elif done.outcome in ("conflict", "refused", "fight") and done.change.live is not None:
            p.events.append((done.change.live, "NotApplied", done.message, True))
    p.events += _waiting_events(p)
    if rejected is not None:
        about = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"namespace": w.settings.namespace, "name": w.publisher.ref.name},
        }
        p.events.append((about, _rejection_reason(p, rejected), _rejection_message(p, rejected, head.commit), True))
    diagnostics = rejected.snapshot.diagnostics if rejected else p.snapshot.diagnostics if p.snapshot else ()
    conditions = tuple(_report_conditions(w, p, rejected, failed, fights))
    busy = w.compiler.is_busy or bool(p.results) or bool(p.lifted_gates) or bool(p.changes) or not is_plan_fresh(w, p)
    runs = {str(run.ref): run.phase for run in p.inventory.runs.values()}
    commit = p.snapshot.commit if p.snapshot else ""
    plan = _plan_with_started_gangs(p)
    return Report(
        commit,
        head.commit,
        conditions,
        plan,
        diagnostics,
        tuple(p.results),
        held,
        p.lifted_gates,
        tuple(p.evicted_pods),
        runs,
        not busy,
        _seconds_to_deadline(w),
        tuple(p.events),
    )


def _rejection_reason(p: Pass, rejected: Rejection) -> str:
    """A commit that is in force has a plan, only no newer one for the cluster as it is now."""
    return (
        "PlanRefused" if p.snapshot is not None and p.snapshot.commit == rejected.snapshot.commit else "CommitRejected"
    )


def _rejection_message(p: Pass, rejected: Rejection, commit: str) -> str:
    first = rejected.first_error
    place = f"{first['file']}:{first['line']}:" if first and first["file"] else ""
    said = " ".join(filter(None, (place, first["code"], first["message"]))) if first else "no plan"
    if _rejection_reason(p, rejected) == "PlanRefused":
        return f"no new plan for commit {commit}, so the last plan stays in force and nothing else is changed: {said}"
    return f"commit {commit} does not compile and changes nothing: {said}"


def _plan_with_started_gangs(p: Pass) -> Mapping[str, Any]:
    """The plan, with "keep" for what was to start and has started since."""
    if p.snapshot is None:
        return {}
    started = {entry.ref.key for entry in p.inventory.entries.values() if entry.started}
    keys = [Ref(g["apiVersion"], g["kind"], g["namespace"], g["name"]).key for g in p.snapshot.plan["gangs"]]
    went = [
        {**g, "decision": "keep"} if g["decision"] == "start" and k in started else g
        for k, g in zip(keys, p.snapshot.plan["gangs"], strict=True)
    ]
    return {**p.snapshot.plan, "gangs": went}


def _waiting_events(p: Pass) -> Iterator[tuple[Object, str, str, bool]]:
    for key, gang in (planned_gangs(p.snapshot) if p.snapshot else {}).items():
        if gang.decision == "wait" and key in p.observation.objects and gang.reasons:
            yield p.observation.objects[key], "Waiting", "; ".join(gang.reasons), False


def _report_conditions(
    w: Reconciler, p: Pass, rejected: Rejection | None, failed: Sequence[ChangeResult], fights: Sequence[ChangeResult]
) -> Iterator[Condition]:
    head = w.poller.head
    yield Condition("Fetched", not head.problem, "GitFailed" if head.problem else "Fetched", head.problem)
    in_force = p.snapshot.commit if p.snapshot else "nothing"
    if rejected is not None and _rejection_reason(p, rejected) == "PlanRefused":
        yield Condition("Compiled", False, "PlanRefused", _rejection_message(p, rejected, head.commit))
    elif rejected is not None:
        yield Condition(
            "Compiled", False, "CommitRejected", f"commit {head.commit} does not compile; {in_force} is in force"
        )
    else:
        yield Condition("Compiled", p.snapshot is not None, "Compiled" if p.snapshot else "NoPlan")
    yield Condition(
        "HistoryRewritten", bool(p.rewrite_message), "Held" if p.rewrite_message else "Descends", p.rewrite_message
    )
    yield Condition(
        "Observed", not p.problems, "ReadFailed" if p.problems else "Observed", p.problems[0] if p.problems else ""
    )
    applied = p.snapshot is not None and not failed
    yield Condition(
        "Applied",
        applied,
        "Applied" if applied else "Outstanding",
        f"{failed[0].change.ref}: {failed[0].message}" if failed else "",
    )
    yield Condition(
        "PruneHeld",
        bool(p.prune_plan.held_changes),
        "Held" if p.prune_plan.held_changes else "None",
        p.prune_plan.held_changes[0].reason if p.prune_plan.held_changes else "",
    )
    yield Condition(
        "Fighting",
        bool(fights),
        "Fighting" if fights else "None",
        f"{fights[0].change.ref}: {fights[0].message}" if fights else "",
    )


def _seconds_to_deadline(w: Reconciler) -> float | None:
    """Seconds to the next deadline of anything that waits for time to pass."""
    now = w.clock()
    times = [since + w.settings.bind_timeout for since in w.unbound_since.values()]
    times += [recreate_time(*seen) for seen in w.departed_jobs.values()]
    times += [
        *w.suspect_nodes.values(),
        *(found.retry_at for found in w.planning.rejections.values() if isfinite(found.retry_at)),
    ]
    times += [at for at in w.writer.retry_times() if at > now]
    ahead = [at - now for at in times if at > now]
    ahead += [
        at - w.wall_clock()
        for at in (w.planning.snapshot.moments if w.planning.snapshot else ())
        if at > w.wall_clock()
    ]
    return min(ahead, default=None)

"""The last phase of a pass: what it saw and did, as a report, and what is to be said about single objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Any

from reconciler.apply import Done
from reconciler.objects import Object, Ref
from reconciler.observe import gangs
from reconciler.report import Condition, Report
from reconciler.world import Pass, Rejection, World, fresh, settled


def report(w: World, p: Pass) -> Report:
    head = w.poller.head
    rejected = w.planning.rejected.get(head.commit)
    failed = [d for d in p.done if d.outcome in ("conflict", "refused", "retry")]
    fights = [d for d in p.done if d.outcome == "fight"]
    held = (*p.held, *p.prunes.held)
    for change in held:
        if change.live is not None and change.wanted is not None:
            p.events.append((change.live, "Held", change.reason, True))
    for done in p.done:
        if (
            done.outcome == "done"
            and done.change.live is not None
            and done.change.action in ("update", "in-place")
            and done.message
        ):
            p.events.append((done.change.live, "Corrected", f"put back: {done.message}", False))
        elif done.outcome in ("conflict", "refused", "fight") and done.change.live is not None:
            p.events.append((done.change.live, "NotApplied", done.message, True))
    p.events += _waiting(p)
    if rejected is not None:
        about = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"namespace": w.settings.namespace, "name": w.publisher.ref.name},
        }
        p.events.append((about, _rejection(p, rejected), _no_plan(p, rejected, head.commit), True))
    diagnostics = rejected.snapshot.diagnostics if rejected else p.snapshot.diagnostics if p.snapshot else ()
    conditions = tuple(_conditions(w, p, rejected, failed, fights))
    busy = w.compiler.busy or bool(p.done) or bool(p.lifted) or bool(p.changes) or not fresh(w, p)
    runs = {str(run.ref): run.phase for run in p.inventory.runs.values()}
    commit = p.snapshot.commit if p.snapshot else ""
    plan = _as_it_went(p)
    return Report(
        commit,
        head.commit,
        conditions,
        plan,
        diagnostics,
        tuple(p.done),
        held,
        p.lifted,
        tuple(p.evicted),
        runs,
        not busy,
        _wake(w),
        tuple(p.events),
    )


def _rejection(p: Pass, rejected: Rejection) -> str:
    """A commit that is in force has a plan, only no newer one for the cluster as it is now."""
    return (
        "PlanRefused" if p.snapshot is not None and p.snapshot.commit == rejected.snapshot.commit else "CommitRejected"
    )


def _no_plan(p: Pass, rejected: Rejection, commit: str) -> str:
    first = rejected.error
    place = f"{first['file']}:{first['line']}:" if first and first["file"] else ""
    said = " ".join(filter(None, (place, first["code"], first["message"]))) if first else "no plan"
    if _rejection(p, rejected) == "PlanRefused":
        return f"no new plan for commit {commit}, so the last plan stays in force and nothing else is changed: {said}"
    return f"commit {commit} does not compile and changes nothing: {said}"


def _as_it_went(p: Pass) -> Mapping[str, Any]:
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


def _waiting(p: Pass) -> Iterator[tuple[Object, str, str, bool]]:
    for key, gang in (gangs(p.snapshot) if p.snapshot else {}).items():
        if gang.decision == "wait" and key in p.seen.objects and gang.reasons:
            yield p.seen.objects[key], "Waiting", "; ".join(gang.reasons), False


def _conditions(
    w: World, p: Pass, rejected: Rejection | None, failed: Sequence[Done], fights: Sequence[Done]
) -> Iterator[Condition]:
    head = w.poller.head
    yield Condition("Fetched", not head.problem, "GitFailed" if head.problem else "Fetched", head.problem)
    in_force = p.snapshot.commit if p.snapshot else "nothing"
    if rejected is not None and _rejection(p, rejected) == "PlanRefused":
        yield Condition("Compiled", False, "PlanRefused", _no_plan(p, rejected, head.commit))
    elif rejected is not None:
        yield Condition(
            "Compiled", False, "CommitRejected", f"commit {head.commit} does not compile; {in_force} is in force"
        )
    else:
        yield Condition("Compiled", p.snapshot is not None, "Compiled" if p.snapshot else "NoPlan")
    yield Condition("HistoryRewritten", bool(p.rewritten), "Held" if p.rewritten else "Descends", p.rewritten)
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
        bool(p.prunes.held),
        "Held" if p.prunes.held else "None",
        p.prunes.held[0].reason if p.prunes.held else "",
    )
    yield Condition(
        "Fighting",
        bool(fights),
        "Fighting" if fights else "None",
        f"{fights[0].change.ref}: {fights[0].message}" if fights else "",
    )


def _wake(w: World) -> float | None:
    """Seconds to the next deadline of anything that waits for time to pass."""
    now = w.clock()
    times = [since + w.settings.bind_timeout for since in w.unbound_since.values()]
    times += [settled(*seen) for seen in w.departed.values()]
    times += [*w.suspects.values(), *(found.at for found in w.planning.rejected.values() if isfinite(found.at))]
    times += [at for at in w.actor.deadlines() if at > now]
    ahead = [at - now for at in times if at > now]
    ahead += [at - w.wall() for at in (w.planning.snapshot.moments if w.planning.snapshot else ()) if at > w.wall()]
    return min(ahead, default=None)

"""The record of a run: when it began and ended, on which nodes, and how its pods ended. Plain data of bounded size, so
that the inventory can hold a hundred thousand of them.

A pod is added once: when it is deleted during its job, or at the job's end. Existing pods hold all of it themselves, so
nothing has to be stored before one is deleted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from compiler import kubernetes as k8s
from compiler.cluster_state.run_records import StartPromise
from compiler.fields.texts import short_list
from reconciler.cluster.objects import Object
from reconciler.inventory.store import FinishedRun, InventoryEntry

RunRecord = Mapping[str, Any]
"""started, ended: RFC 3339. promise, submitted: as of a `RecordedRun`. nodes: to which pods were bound. retries: the
controller's. evictions: evicted pods, by anyone. evictedBy: the cause that the pod shows -> pods. exitCodes: role ->
code -> containers that exited with it. failures: of the last pods that failed, when, which role, where, and the exit
code. events: role -> kind of event -> [how many, first, last]. Unknown values are left out."""

MAX_NODES, MAX_FAILURES, MAX_ROLES, MAX_CODES = 64, 20, 16, 20
"""Nodes, failed pods, roles, and exit codes (or phases) of a role that a record holds at most."""
_SHOWN_NODES = 4
_FAILURE_WORDS = (("at", "{}"), ("role", "{}"), ("node", "on {}"), ("exitCode", "exit code {}"), ("reason", "{}"))
_OTHERS = "others"
"""The role, or the exit code, beyond the limit."""


def with_pods(record: RunRecord, pods: Sequence[Object], gone_at: str = "") -> RunRecord:
    """Return the record extended by these pods. gone_at: when they were seen to be deleted, RFC 3339; empty if they
    exist."""
    made: dict[str, Any] = json.loads(json.dumps(record))
    for pod in sorted(pods, key=_end_of_pod):
        marks = {**k8s.annotations_of(pod), **k8s.labels_of(pod)}
        role = next(filter(None, map(marks.get, k8s.ROLE_KEYS)), "")
        _add_events(_row_of(made.setdefault("events", {}), role), pod, gone_at)
        if _fate_of(pod) == "evicted":
            _count(made.setdefault("evictedBy", {}), _eviction_reason(pod))
        for code in (str(each.get("exitCode")) for each in _terminations(pod)):
            _count(_row_of(made.setdefault("exitCodes", {}), role), code)
        if _fate_of(pod) == "failed":
            made.setdefault("failures", []).append(_failure(pod, role))
    starts = (made.get("started"), *(k8s.status_of(pod).get("startTime") for pod in pods))
    nodes = {*made.get("nodes", ()), *map(k8s.bound_node, pods)} - {""}
    made |= {"started": min(filter(None, starts), default=None), "nodes": sorted(nodes)[:MAX_NODES]}
    made["failures"] = made.get("failures", [])[-MAX_FAILURES:]
    return {key: value for key, value in made.items() if value}


def final_record(record: RunRecord, job: Object, pods: Sequence[Object]) -> RunRecord:
    """Return the record of a finished run. record: of the deleted pods. pods: the existing ones."""
    made, status = with_pods(record, pods), k8s.status_of(job)
    retries = [number for name in ("retryCount", "failed") if isinstance(number := status.get(name), int)]
    starts = (_text(status.get("startTime")), made.get("started"))
    promise = StartPromise.from_text(k8s.annotations_of(job).get(k8s.PROMISED_START_ANNOTATION, ""))
    found = {
        **made,
        "promise": promise.as_data() if promise else None,
        "submitted": _text(job["metadata"].get("creationTimestamp")) if promise else None,
        "started": min(filter(None, starts), default=job["metadata"].get("creationTimestamp")),
        "ended": max(filter(None, (_end_time(job), *map(_end_of_pod, pods))), default=None),
        "retries": next(filter(None, retries), 0),
        "evictions": sum(row["evicted"][0] for row in made.get("events", {}).values() if "evicted" in row),
    }
    return {key: value for key, value in found.items() if value}


def _add_events(row: dict[str, Any], pod: Object, gone_at: str) -> None:
    """Count what happened to the pod. It ends in one way."""
    happened = {"created": k8s.created_at(pod)}
    if k8s.bound_node(pod):
        happened["bound"] = _condition_time(pod, "PodScheduled")
    if fate := _fate_of(pod):
        happened[fate] = _condition_time(pod, "DisruptionTarget") if fate == "evicted" else _end_of_pod(pod)
    elif gone_at:
        happened["deleted"] = gone_at
    for event, at in happened.items():
        count, first, last = row.get(event, (0, "", ""))
        times = sorted(filter(None, (first, last, at))) or [""]
        row[event] = [count + 1, times[0], times[-1]]


def _fate_of(pod: Object) -> str:
    """Return how the pod has ended, or is about to; empty while it runs."""
    if any(row.get("type") == "DisruptionTarget" and row.get("status") == "True" for row in k8s.conditions_of(pod)):
        return "evicted"
    return ("ended" if k8s.is_succeeded_pod(pod) else "failed") if k8s.is_finished_pod(pod) else ""


def _eviction_reason(pod: Object) -> str:
    """EvictionByEvictionAPI, DeletionByTaintManager, PreemptionByScheduler and so on."""
    reasons = [row.get("reason") for row in k8s.conditions_of(pod) if row.get("type") == "DisruptionTarget"]
    return next(filter(None, map(_text, reasons)), "unknown")


def _count(counts: dict[str, int], key: str) -> None:
    known = key if key in counts or len(counts) < MAX_CODES else _OTHERS
    counts[known] = counts.get(known, 0) + 1


def _failure(pod: Object, role: str) -> dict[str, Any]:
    codes = [each.get("exitCode") for each in _terminations(pod)]
    found = {
        "at": _end_of_pod(pod),
        "role": role,
        "node": k8s.bound_node(pod),
        "exitCode": next(filter(None, codes), None),
        "reason": _text(k8s.status_of(pod).get("reason")),
    }
    return {key: value for key, value in found.items() if value}


def _terminations(pod: Object) -> Iterator[Mapping[str, Any]]:
    """Yield how its containers ended, also before their last restart, as far as the pod shows it."""
    for container in k8s.status_of(pod).get("containerStatuses") or ():
        for state in ("lastState", "state"):
            if ended := (container.get(state) or {}).get("terminated"):
                yield ended


def _row_of(table: dict[str, dict[str, Any]], role: str) -> dict[str, Any]:
    return table.setdefault(role if role in table or len(table) < MAX_ROLES else _OTHERS, {})


def _end_of_pod(pod: Object) -> str:
    """Return when the last of its containers ended; empty where none has."""
    return max((str(each.get("finishedAt") or "") for each in _terminations(pod)), default="")


def _condition_time(item: Object, kind: str) -> str:
    """Return since when this condition holds, "" if it has no time."""
    times = [row.get("lastTransitionTime") for row in k8s.conditions_of(item) if row.get("type") == kind]
    return next(filter(None, map(_text, times)), "")


def _end_time(job: Object) -> str | None:
    """Return when the job ended, by its status."""
    status = k8s.status_of(job)
    state = status.get("state")
    named = _text(status.get("completionTime")) or _text(status.get("endTime"))
    found = named or (_text(state.get("lastTransitionTime")) if isinstance(state, Mapping) else None)
    times = [_text(row.get("lastTransitionTime")) for row in k8s.conditions_of(job) if row.get("status") == "True"]
    return found or max(filter(None, times), default=None)


def _text(value: object) -> str | None:
    """Return the value if it is a text: the status of a kind that passes through may hold anything."""
    return value if isinstance(value, str) else None


def run_so_far(entry: InventoryEntry) -> FinishedRun | None:
    """Return the current run, as far as its deleted pods show it; None without any."""
    if not entry.record:
        return None
    return FinishedRun(
        entry.ref, entry.run, "Running", details={**final_record(entry.record, {"metadata": {}}, ()), "ended": "now"}
    )


def record_row(run: FinishedRun) -> dict[str, Any]:
    """Return the run as the status has it."""
    return {"job": str(run.ref), "phase": run.phase, "digest": run.digest, **run.details}


def record_line(row: Mapping[str, Any]) -> str:
    """Return the run in a line."""
    parts = [f"{row.get('started', 'unknown')} to {row.get('ended', 'unknown')}"]
    parts += [_promise_text(row)] if row.get("promise") else []
    parts += [f"retries {row['retries']}"] if row.get("retries") else []
    causes = f" by {_counts_text(row['evictedBy'])}" if row.get("evictedBy") else ""
    parts += [f"evictions {row['evictions']}{causes}"] if row.get("evictions") else []
    for role, codes in row.get("exitCodes", {}).items():
        parts.append(f"{' '.join(filter(None, ('exit codes', role)))}: {_counts_text(codes)}")
    if nodes := row.get("nodes"):
        parts.append(f"nodes {short_list(nodes, most=_SHOWN_NODES)}")
    return f"{row['phase']:<10} {row['job']}: {'; '.join(parts)}"


def _promise_text(row: Mapping[str, Any]) -> str:
    """Return whether the run began in the window first announced; all times are RFC 3339 in UTC."""
    low, high, start = row["promise"]["low"], row["promise"]["high"], row.get("started", "")
    return f"started {'before' if start < low else 'after' if start > high else 'in'} its window, {low} to {high}"


def _counts_text(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{key} ({count})" for key, count in counts.items())


def record_text(run: FinishedRun) -> str:
    """Return all that is known of the run and of those before it."""
    row = record_row(run)
    lines = [record_line(row), f"  {run.digest}"]
    for role, events in row.get("events", {}).items():
        for event, (count, first, last) in events.items():
            times = f", {first}" if first == last else f", {first} to {last}"
            lines.append(f"  {' '.join(filter(None, (role, event)))}: {count}{times if last else ''}")
    for failure in row.get("failures", ()):
        words = (text.format(failure[name]) for name, text in _FAILURE_WORDS if name in failure)
        lines.append(f"  failed: {', '.join(words)}")
    lines += [f"  before: {record_line({'job': former['digest'], **former})}" for former in row.get("former", ())]
    return "\n".join(lines) + "\n"

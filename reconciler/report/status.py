"""The report of a pass: conditions, what each means, and the status ConfigMap."""

from __future__ import annotations

import contextlib
import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any

from compiler.diagnostics.render.words import with_fix
from compiler.fields.times import rfc3339
from compiler.kubernetes import MANAGED_BY_LABEL, annotations_of
from reconciler.changes.planned import PlannedGang
from reconciler.changes.results import Condition, Effects
from reconciler.cluster.client import ApiError, Client, NotFound, Retry
from reconciler.cluster.objects import FIELD_MANAGER, Object, Ref
from reconciler.inventory.shards import UNREADABLE, stored_size, stored_text, text_stored_in
from reconciler.inventory.store import FinishedRun
from reconciler.report.status_text import history_lines, reason_history, status_text
from reconciler.runs.run_record import record_row
from reconciler.timings import TIMINGS, ReportTimings

if TYPE_CHECKING:
    from compiler.outputs import ConditionEntry, PromiseEntry, StatusDocument, StatusGangEntry

log = logging.getLogger(__name__)

READABLE_GANGS = 100  # up to which the status is indented; that takes its time
PLAIN_LIMIT = 256 << 10  # characters up to which it is stored as it is, for people to read; a ConfigMap holds 1 MiB
SIZE_LIMIT = 1_000_000  # bytes of the stored text: of 1 MiB, the limit of a ConfigMap
_KEY = "status.json"
MAX_FAILURE = 2000  # characters of what ends passes
MAX_RUNS, MAX_RECORDS = 1000, 10  # the last finished runs: how many are listed, and how many with their records
MAX_MESSAGES = 50  # diagnostics, held and failed changes in the status
FAILURE_TYPE = "PassFailed"  # the condition that no report holds, since its pass failed


@dataclass(frozen=True, slots=True)
class PlanSummary:
    """digest: of the plan in force, empty for none. promised_starts: how the windows of earlier plans held."""

    digest: str = ""
    promised_starts: PromiseEntry | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """Observations and effects of one pass.

    commit: in force, empty for none. head: of the branch. held: not applied, with the reason, the worst first. runs:
    finished, the last first. suspended: `all`, kinds and objects. done: with all Events. is_idle: nothing was written,
    and everything outstanding was refused repeatedly. next_wakeup: seconds until the next work.
    """

    commit: str
    head: str
    conditions: tuple[Condition, ...]
    plan: PlanSummary = PlanSummary()
    gangs: tuple[PlannedGang, ...] = ()
    diagnostics: tuple[Mapping[str, Any], ...] = ()
    held: tuple[tuple[Ref, str], ...] = ()
    runs: tuple[FinishedRun, ...] = ()
    suspended: tuple[str, ...] = ()
    done: Effects = field(default_factory=Effects)
    is_idle: bool = False
    next_wakeup: float | None = None


def status_document(report: Report, previous: Mapping[str, Any], now: str) -> StatusDocument:
    """Return the status document. It has times of changes alone, so an idle cluster is not written."""
    past = previous.get("history") or {}
    known = {entry["type"]: entry for entry in previous.get("conditions") or ()}
    document: StatusDocument = {
        "commit": report.commit,
        "head": report.head,
        "digest": report.plan.digest,
        "conditions": [_condition_entry(each, known.get(each.type), now) for each in report.conditions],
        "gangs": [_gang_entry(gang) for gang in report.gangs],
        "gangsTotal": len(report.gangs),
        "history": reason_history(report.gangs, past, now) if report.plan.digest else dict(past),
        "finished": dict(sorted((str(run.ref), run.phase) for run in report.runs[:MAX_RUNS])),
        "records": [record_row(run) for run in report.runs[:MAX_RECORDS]],
        "suspended": list(report.suspended),
        "finishedTotal": len(report.runs),
        "held": [{"object": str(ref), "reason": reason} for ref, reason in report.held[:MAX_MESSAGES]],
        "heldTotal": len(report.held),
        "diagnostics": [_diagnostic_line(entry) for entry in report.diagnostics[:MAX_MESSAGES]],
    }
    if report.plan.promised_starts is not None:
        document["promisedStarts"] = report.plan.promised_starts
    return document


def with_most_jobs(status: dict[str, Any], most: float) -> dict[str, Any]:
    """Return the document with so many jobs at most: those that wait before others, as people ask about these."""
    gangs = status.get("gangs") or []
    if len(gangs) <= most:
        return status
    ranked = sorted(range(len(gangs)), key=lambda at: (gangs[at]["decision"] != "wait", at))
    kept = [gangs[at] for at in sorted(ranked[: int(most)])]
    names = {f"{gang['kind']} {gang['namespace']}/{gang['name']}" for gang in kept}
    history = {name: rows for name, rows in status.get("history", {}).items() if name in names}
    return {**status, "gangs": kept, "history": history}


def read_status(client: Client, ref: Ref) -> dict[str, Any]:
    """Return the status document. Raises ApiError (NotFound where there is none), or ValueError for an invalid one."""
    try:
        status: dict[str, Any] = json.loads(text_stored_in(client.get(ref), _KEY))
        status_text(status)  # what can be shown is one
        for rows in (status.get("history") or {}).values():
            list(history_lines(rows, {}))
    except UNREADABLE as error:
        raise ValueError(f"ConfigMap {ref.name} holds no status: {error!r}") from error
    return status


def _condition_entry(condition: Condition, previous: Mapping[str, Any] | None, now: str) -> ConditionEntry:
    status = str(condition.status)
    since = str(previous.get("lastTransitionTime")) if previous and previous["status"] == status else now
    return {
        "type": condition.type,
        "status": status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": since,
    }


def _gang_entry(gang: PlannedGang) -> StatusGangEntry:
    entry: StatusGangEntry = {
        "kind": gang.job.kind,
        "namespace": gang.job.namespace,
        "name": gang.job.name,
        "queue": gang.queue,
        "decision": gang.decision,
        "domains": list(gang.domains),
        "reasons": list(gang.reasons),
        "startsAt": gang.starts_at,
    }
    if gang.start_window is not None:
        entry["startWindow"] = gang.start_window
    if not gang.bound:
        entry["bound"] = False
    if nodes := gang.pods_by_node():
        entry["nodes"] = nodes
    if gang.evicted_for:
        entry["evictedFor"] = list(gang.evicted_for)
    return entry


def _diagnostic_line(entry: Mapping[str, Any]) -> str:
    position = "{file}:{line}:{column}: ".format_map(entry) if entry["file"] else ""
    return f"{position}{entry['severity']} {entry['code']}: {with_fix(entry['message'], entry['help'])}"


@dataclass(slots=True)
class StatusPublisher:
    """Writes the status ConfigMap when it changes; changes outside of conditions wait until `due_at`. A failure never
    stops the loop. size_limit: of the stored bytes; jobs beyond it are left out. refusal: why the server refuses the
    status."""

    client: Client
    namespace: str
    cluster: str
    clock: Callable[[], float] = time.monotonic
    timings: ReportTimings = TIMINGS.report
    size_limit: int = SIZE_LIMIT
    due_at: float | None = None
    refusal: str = ""
    _most_jobs: float = inf
    _written_at: float = -inf
    _retry_at: float = -inf
    _last_status: dict[str, Any] | None = None

    @property
    def ref(self) -> Ref:
        return Ref("v1", "ConfigMap", self.namespace, f"gangplan-{self.cluster}-status")

    @property
    def event_object(self) -> Object:
        metadata = {"namespace": self.namespace, "name": self.ref.name}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}

    @property
    def last_status(self) -> Mapping[str, Any] | None:
        """Return the document that was written last, or read; None before the first."""
        return self._last_status

    def read_annotations(self) -> Mapping[str, str]:
        """Return the annotations by which operators release held changes; none where they cannot be read."""
        try:
            return annotations_of(self.client.get_briefly(self.ref))
        except ApiError as error:
            log.info("the annotations of the status cannot be read", extra={"reason": str(error)})
            return {}

    def remove_annotation(self, name: str, stays: Callable[[str], bool]) -> bool:
        """Remove an operator's annotation, unless its value stays. Return whether nothing of it is left to do."""
        path = f"/metadata/annotations/{name.replace('/', '~1')}"
        try:
            value = annotations_of(self.client.get_briefly(self.ref)).get(name)
            if value is not None and not stays(value):
                known: list[dict[str, Any]] = [{"op": "test", "path": path, "value": value}]
                self.client.patch(self.ref, [*known, {"op": "remove", "path": path}])
        except NotFound:
            return True
        except ApiError as error:
            log.info("an annotation of the status stays", extra={"annotation": name, "reason": str(error)})
            return False
        return True

    def publish(self, report: Report, *, at_once: bool = False) -> None:
        """Write what has changed. at_once: do not wait for the rest of an interval."""
        self._try_to_write(lambda last: dict(status_document(report, last, _now())), at_once)

    def publish_failure(self, message: str) -> None:
        """Report that passes fail, in addition to the last report."""

        def document(last: dict[str, Any]) -> dict[str, Any]:
            failed = Condition(FAILURE_TYPE, True, "Failed", message[:MAX_FAILURE])
            others = [entry for entry in last.get("conditions") or () if entry["type"] != FAILURE_TYPE]
            new = status_document(Report(last.get("commit", ""), last.get("head", ""), (failed,)), last, _now())
            return {**new, **last, "conditions": [*others, *new["conditions"]]}

        self._try_to_write(document, at_once=False)

    def _try_to_write(self, document: Callable[[dict[str, Any]], dict[str, Any]], at_once: bool) -> None:
        """Write the document built from the last status. The loop waits for it, so a slow failure is followed by a
        pause."""
        began_at = self.clock()
        self.due_at = self._retry_at if began_at < self._retry_at else None
        if self.due_at is not None:
            return
        self.refusal = ""
        try:
            if self._last_status is None:
                self._last_status = self._read_status()
            self._write_status(document(self._last_status), self._last_status, at_once)
        except ApiError as error:
            self.refusal = "" if isinstance(error, Retry) else str(error)
            if (took := self.clock() - began_at) > self.timings.slow_write:
                self._retry_at = self.clock() + min(self.timings.slow_factor * took, self.timings.longest_pause)
            log.warning("the report was not written", extra={"reason": str(error)})

    def recheck(self) -> None:
        """Forget the last status if another leader, or a person, has changed it: the next write starts from the
        current one."""
        try:
            if self._last_status is not None and self._last_status != self._read_status():
                self._last_status = None
        except ApiError as error:
            log.info("whether the status is as it was written is not known", extra={"reason": str(error)})

    def seconds_due(self) -> float:
        return inf if self.due_at is None else max(0.0, self.due_at - self.clock())

    def _write_status(self, status: dict[str, Any], last: dict[str, Any], at_once: bool) -> None:
        status = with_most_jobs(status, self._most_jobs)
        if status == last:
            return
        is_urgent = at_once or any(status.get(part) != last.get(part) for part in ("commit", "head", "conditions"))
        scale = max(1.0, len(status["gangs"]) / self.timings.gangs_of_interval)
        due_at = self._written_at + self.timings.status_interval * scale
        if not is_urgent and self.clock() < due_at:
            self.due_at = due_at
            return
        item, labels = self.event_object, {MANAGED_BY_LABEL: FIELD_MANAGER}  # without the cluster's it is no news
        status, content = self._fit(status)
        self.client.apply_anyway({**item, "metadata": {**item["metadata"], "labels": labels}, **content})
        _log_turned_conditions(last, status)
        self._last_status, self._written_at = status, self.clock()

    def _fit(self, status: dict[str, Any]) -> tuple[dict[str, Any], Mapping[str, Any]]:
        """Return the document with as many jobs as there is room for, and what is stored of it."""
        while True:
            indent = 1 if len(status["gangs"]) <= READABLE_GANGS else None
            content = stored_text(_KEY, json.dumps(status, indent=indent, sort_keys=True), PLAIN_LIMIT)
            used, jobs = stored_size(content) / self.size_limit, len(status["gangs"])
            if used <= 1 or not jobs:
                break
            self._most_jobs = int(0.9 * jobs / used)
            status = with_most_jobs(status, self._most_jobs)
        if used < 0.7 and jobs < status["gangsTotal"]:
            self._most_jobs *= 1.2  # for the next time
        return status, content

    def _read_status(self) -> dict[str, Any]:
        try:
            return read_status(self.client, self.ref)
        except (NotFound, ValueError):
            return {}


@dataclass(slots=True)
class StatusReader:
    """The status document as a replica shows it: written by itself as the leader, else read from the cluster, at most
    once in `seconds` for any number of requests."""

    publisher: StatusPublisher
    is_leader: Callable[[], bool]
    seconds: float = TIMINGS.report.status_interval
    clock: Callable[[], float] = time.monotonic
    _read_at: float = -inf
    _found: Mapping[str, Any] | None = None

    def document(self) -> Mapping[str, Any] | None:
        """Return the document; None before the first. The last one read counts while the server does not answer."""
        if self.is_leader():
            return self.publisher.last_status
        if self.clock() - self._read_at >= self.seconds:
            self._read_at = self.clock()
            with contextlib.suppress(ApiError, ValueError):
                self._found = read_status(self.publisher.client, self.publisher.ref)
        return self._found


def _log_turned_conditions(before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """Log the conditions that have changed, and the new ones with a message."""
    known = {entry["type"]: (entry.get("status"), entry.get("reason")) for entry in before.get("conditions") or ()}
    for entry in after["conditions"]:
        state, message = (entry["status"], entry["reason"]), entry["message"]
        if known.get(entry["type"], state if not message else None) != state:
            named = {"condition": entry["type"], "status": entry["status"], "reason": entry["reason"]}
            log.log(logging.WARNING if message else logging.INFO, "condition", extra={**named, "detail": message})


def _now() -> str:
    return rfc3339(int(time.time()))

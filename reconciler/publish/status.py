"""What people and machines learn: conditions, the status ConfigMap, Events on the objects, counters for Prometheus,
JSON log lines."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from compiler.emit.manifest import json_digest
from reconciler.act import ChangeResult
from reconciler.cluster.client import ApiError, Client, Conflict, NotFound
from reconciler.cluster.objects import CLUSTER_LABEL, FIELD_MANAGER, MANAGED_BY_LABEL, Object, Ref, ref_of, uid_of
from reconciler.diff import Change

log = logging.getLogger(__name__)

MAX_MESSAGES = 50
"""At most so many diagnostics, held and failed changes are written into the status."""


@dataclass(frozen=True, slots=True)
class Condition:
    """As in Kubernetes: type, whether it holds, a short reason for machines and a sentence for people."""

    type: str
    status: bool
    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """What one pass saw and did. commit: in force (empty: none). head: of the branch. quiet: nothing was written and
    nothing is outstanding."""

    commit: str
    head: str
    conditions: tuple[Condition, ...]
    plan: Mapping[str, Any] = field(default_factory=dict)
    diagnostics: tuple[Mapping[str, Any], ...] = ()
    results: tuple[ChangeResult, ...] = ()
    held_changes: tuple[Change, ...] = ()
    lifted_gates: Mapping[str, int] = field(default_factory=dict)
    evicted_pods: tuple[str, ...] = ()
    runs: Mapping[str, str] = field(default_factory=dict)
    is_idle: bool = False
    next_wakeup: float | None = None
    """Seconds until there is something to do even if nothing happens."""
    events: tuple[tuple[Object, str, str, bool], ...] = ()
    """(object, reason, message, whether it is a warning)."""


def status_document(report: Report, previous: Mapping[str, Any], now: str) -> dict[str, Any]:
    """The status document. lastTransitionTime moves only when a condition turns; nothing else in it is a clock, so an
    idle cluster is not written."""
    known = {c["type"]: c for c in previous.get("conditions") or ()}

    def moment(condition: Condition) -> str:
        old = known.get(condition.type)
        return str(old["lastTransitionTime"]) if old and old["status"] == str(condition.status) else now

    held = [{"object": str(change.ref), "reason": change.reason} for change in report.held_changes]
    held += [
        {"object": str(d.change.ref), "reason": d.message}
        for d in report.results
        if d.outcome in ("conflict", "refused", "fight")
    ]
    return {
        "commit": report.commit,
        "head": report.head,
        "digest": report.plan.get("digest", ""),
        "conditions": [
            {
                "type": c.type,
                "status": str(c.status),
                "reason": c.reason,
                "message": c.message,
                "lastTransitionTime": moment(c),
            }
            for c in report.conditions
        ],
        "gangs": [
            {
                "kind": gang["kind"],
                "namespace": gang["namespace"],
                "name": gang["name"],
                "queue": gang["queue"],
                "decision": gang["decision"],
                "domains": gang["domains"],
                "reasons": [f"{reason['code']}: {reason['message']}" for reason in gang["reasons"]],
                "startsAt": gang["startsAt"],
            }
            for gang in report.plan.get("gangs", ())
        ],
        "finished": dict(sorted(report.runs.items())),
        "held": held[:MAX_MESSAGES],
        "diagnostics": [_diagnostic_line(found) for found in report.diagnostics[:MAX_MESSAGES]],
    }


def _diagnostic_line(d: Mapping[str, Any]) -> str:
    place = f"{d['file']}:{d['line']}:{d['column']}: " if d["file"] else ""
    return f"{place}{d['severity']} {d['code']}: {d['message']}. {d['help']}".rstrip(" .") + "."


@dataclass(slots=True)
class StatusPublisher:
    """Writes the status ConfigMap and Events, each only when it says something new. Failing to report never stops the
    loop."""

    client: Client
    namespace: str
    cluster: str
    identity: str
    _last_status: dict[str, Any] | None = None
    _written_events: set[str] = field(default_factory=set)

    @property
    def ref(self) -> Ref:
        return Ref("v1", "ConfigMap", self.namespace, f"gangplan-{self.cluster}-status")

    def publish(self, report: Report) -> None:
        try:
            self._write_status(report)
            for thing, reason, message, warning in report.events:
                self.write_event(thing, reason, message, warning)
        except ApiError as error:
            log.warning("the report was not written", extra={"reason": str(error)})

    def _write_status(self, report: Report) -> None:
        if self._last_status is None:
            self._last_status = self._read_status()
        fresh = status_document(report, self._last_status, _now())
        if fresh == self._last_status:
            return
        labels = {MANAGED_BY_LABEL: FIELD_MANAGER, CLUSTER_LABEL: self.cluster}
        text = json.dumps(fresh, indent=1, sort_keys=True)
        metadata = {"namespace": self.namespace, "name": self.ref.name, "labels": labels}
        self.client.apply(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"status.json": text}}, force=True
        )
        self._last_status = fresh

    def _read_status(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(self.client.get(self.ref)["data"]["status.json"])
        except (NotFound, KeyError, ValueError):
            return {}
        return found

    def write_event(self, thing: Object, reason: str, message: str, warning: bool) -> None:
        """An Event on the object, once for each message: its name is made of what it says, so a restart does not say it
        again."""
        ref = ref_of(thing)
        mark = json_digest([uid_of(thing), reason, message])[7:23]
        if mark in self._written_events:
            return
        if len(self._written_events) > 10_000:
            self._written_events.clear()
        self._written_events.add(mark)
        namespace, now = ref.namespace or "default", _now()
        about = {
            "apiVersion": ref.api_version,
            "kind": ref.kind,
            "namespace": ref.namespace,
            "name": ref.name,
            "uid": uid_of(thing),
        }
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"namespace": namespace, "name": f"{ref.name[:200]}.{mark}"},
            "involvedObject": about,
            "reason": reason,
            "message": message[:1000],
            "type": "Warning" if warning else "Normal",
            "source": {"component": FIELD_MANAGER},
            "reportingComponent": "gangplan.dev/reconciler",
            "reportingInstance": self.identity[:128],
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        try:
            self.client.create(event)
        except Conflict:
            log.debug("this event has been written before", extra={"object": str(ref)})


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    _STANDARD_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
        }
        line |= {
            "message": record.getMessage(),
            **{k: v for k, v in vars(record).items() if k not in self._STANDARD_FIELDS},
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


@dataclass(slots=True)
class Metrics:
    """Counters and gauges as Prometheus text. Keys: (name, label text)."""

    gauges: dict[tuple[str, str], float] = field(default_factory=dict)
    counters: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add_to_counter(self, name: str, amount: float = 1, **labels: str) -> None:
        self.counters[name, _format_labels(labels)] += amount  # type: ignore[assignment]

    def set_gauge(self, name: str, value: float, **labels: str) -> None:
        self.gauges[name, _format_labels(labels)] = value

    def clear_gauge(self, name: str) -> None:
        for key in [key for key in self.gauges if key[0] == name]:
            del self.gauges[key]

    def prometheus_text(self) -> str:
        lines: list[str] = []
        for kind, table in (("gauge", dict(self.gauges)), ("counter", dict(self.counters))):
            last = ""
            for (name, labels), value in sorted(table.items()):
                if name != last:
                    lines.append(f"# TYPE gangplan_{name} {kind}")
                    last = name
                lines.append(
                    f"gangplan_{name}{labels} {value:g}" if value < 1e6 else f"gangplan_{name}{labels} {value:.3f}"
                )
        return "\n".join(lines) + "\n"


def _format_labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    quoted = (f'{name}="{_escape_label(value)}"' for name, value in sorted(labels.items()))
    return "{" + ",".join(quoted) + "}"


def _escape_label(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def status_text(document: Mapping[str, Any]) -> str:
    """The status document for people."""
    lines = [
        f"commit {document.get('commit') or 'none'}"
        + (f" (head {document['head']})" if document.get("head") != document.get("commit") else ""),
        "",
    ]
    for condition in document.get("conditions") or ():
        said = f": {condition['message']}" if condition["message"] else ""
        lines.append(f"{condition['type']:<16} {condition['status']:<6} {condition['reason']}{said}")
    tables = {
        "gangs": _gang_lines(document.get("gangs") or ()),
        "held": document.get("held") or (),
        "problems": document.get("diagnostics") or (),
    }
    for title, rows in tables.items():
        if rows:
            lines += ["", title]
            lines += [f"  {row['object']}: {row['reason']}" if isinstance(row, Mapping) else f"  {row}" for row in rows]
    return "\n".join(lines) + "\n"


def _gang_lines(gangs: Sequence[Mapping[str, Any]]) -> list[str]:
    rows = []
    for gang in gangs:
        where = ", ".join(gang["domains"][:4]) + (" ..." if len(gang["domains"]) > 4 else "")
        why = "; ".join(
            (*gang["reasons"], *([f"expected to start about {gang['startsAt']}"] if gang.get("startsAt") else []))
        )
        rows.append(
            f"{gang['decision']:<6} {gang['namespace']}/{gang['name']} ({gang['queue']}) {where or why}".rstrip()
        )
    return rows

"""Runs that are over, and the starts that were promised to them: in a state an object of the kind `RunRecords`, made of
the reconciler's inventory; on a job that waits an annotation, which stays while it runs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from compiler.fields.times import epoch_seconds, parse_timestamp, rfc3339
from compiler.kubernetes import API_VERSION, Object
from compiler.specs.gang_spec import JobKey
from solver.forecast import Outcome

RUN_RECORDS = "RunRecords"
_FIELDS = ("submitted", "started", "ended", "promise")


@dataclass(frozen=True, slots=True)
class StartPromise:
    """The first window of a job, announced at the time `made`: it starts between `low` and `high`, and is as likely
    before `middle` as after. raw: the median of the underlying futures. by_limits: the start if each run took as long
    as its job declares, None where one declares nothing. Seconds since the epoch. share: percentage of such windows
    that should hold, None for a first estimate."""

    made: int
    low: int
    middle: int
    high: int
    raw: int
    by_limits: int | None = None
    share: int | None = None

    def as_data(self) -> dict[str, str]:
        known = {name: value for name, value in asdict(self).items() if value is not None}
        return {name: str(value) if name == "share" else rfc3339(value) for name, value in known.items()}

    @classmethod
    def from_data(cls, data: object) -> StartPromise | None:
        """Return the promise; None for invalid data: other clients may write into a job."""
        try:
            texts = {str(name): text for name, text in dict(data).items()}  # type: ignore[call-overload]
            share = int(texts.pop("share")) if "share" in texts else None
            return cls(**{name: parse_timestamp(at) for name, at in texts.items()}, share=share)
        except (TypeError, ValueError):
            return None

    @classmethod
    def from_text(cls, text: object) -> StartPromise | None:
        """Return the promise in the annotation; None if it is invalid."""
        try:
            return cls.from_data(json.loads(str(text)))
        except (ValueError, RecursionError):
            return None

    def outcome(self, started: int, submitted: int | None) -> Outcome:
        """Return the outcome of the promise. started, submitted: when the job was, where that is known."""
        low, middle, high = (at - self.made for at in (self.low, self.middle, self.high))
        by_limits = None if self.by_limits is None else self.by_limits - self.made
        since = self.made if submitted is None else submitted
        waits = max(0, started - self.made), max(0, started - since)
        return Outcome(low, middle, high, by_limits, *waits, self.share)


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """Seconds since the epoch. promise: the first one, if any; submitted: with a promise, when the job was created in
    the cluster, if known."""

    started: int
    ended: int
    promise: StartPromise | None = None
    submitted: int | None = None


def records_object(cluster: str, rows: Iterable[tuple[JobKey, Mapping[str, Any]]]) -> dict[str, Any]:
    """Return the object for a state. rows: jobs with `started`, `ended` and `promise` as the reconciler records them;
    rows without begin or end of the run are left out."""
    runs = []
    for (namespace, name, kind), row in rows:
        if row.get("started") and row.get("ended"):
            known = {field: row[field] for field in _FIELDS if field in row}
            runs.append({"namespace": namespace, "name": name, "kind": kind, **known})
    return {"apiVersion": API_VERSION, "kind": RUN_RECORDS, "metadata": {"name": cluster}, "spec": {"runs": runs}}


def recorded_runs(objects: Iterable[Object]) -> list[tuple[JobKey, RecordedRun]]:
    """Return the runs of such objects, in the order of their ends, without invalid times: a status may hold
    anything."""
    found = list[tuple[JobKey, RecordedRun]]()
    for row in (row for item in objects for row in (item.get("spec") or {}).get("runs") or ()):
        started, ended = epoch_seconds(row.get("started")), epoch_seconds(row.get("ended"))
        if started is not None and ended is not None:
            promise, submitted = StartPromise.from_data(row.get("promise")), epoch_seconds(row.get("submitted"))
            run = RecordedRun(started, max(started, ended), promise, submitted)
            found.append(((row.get("namespace", ""), row.get("name", ""), row.get("kind", "")), run))
    return sorted(found, key=lambda each: (each[1].ended, each[1].started, each[0]))

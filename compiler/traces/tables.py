"""Tables with a header: CSV, `sacct --parsable2`, and objects a line. Columns are known by name (`columns.toml`)."""

from __future__ import annotations

import csv
import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files

from compiler.traces.trace import Trace, TraceError, TraceJob

Columns = Mapping[str, Sequence[str]]
Row = Mapping[str, str]
MAX_PROBLEMS = 20
MIB = 1 << 20
_EPOCH_SECONDS = 1e9
"""Seconds from which a time is a date: September 2001."""
UNKNOWN = {"", "unknown", "none", "nan", "null", "unlimited", "partition_limit"}


@cache
def _table_columns() -> Columns:
    found: Columns = tomllib.loads((files("compiler.traces") / "columns.toml").read_text("utf-8"))
    return found


def known_columns(own: Columns) -> Columns:
    """The known columns, behind the user's own."""
    known = _table_columns()
    return {meaning: [*(name.lower() for name in own.get(meaning, ())), *names] for meaning, names in known.items()}


def read_table(text: str, columns: Columns) -> Trace:
    """A table with a header; the separator is the one of , | ; and tab that the header has most of."""
    lines = text.splitlines()
    header = lines[0] if lines else ""
    separator = max(",|;\t", key=header.count)
    return _read_rows(enumerate(csv.DictReader(lines, delimiter=separator), start=2), columns)


def read_lines(text: str, columns: Columns) -> Trace:
    """One JSON object a line."""

    def rows() -> Iterator[tuple[int, Row]]:
        for number, line in enumerate(text.splitlines(), start=1):
            if line.strip():
                try:
                    found = json.loads(line)
                except json.JSONDecodeError as error:
                    raise TraceError(f"{number}:{error.colno}: invalid JSON: {error.msg}") from error
                yield number, {name: "" if value is None else str(value) for name, value in found.items()}

    return _read_rows(rows(), columns)


def _read_rows(rows: Iterable[tuple[int, Mapping[str, object]]], columns: Columns) -> Trace:
    jobs, left_out, problems = list[TraceJob](), Counter[str](), list[str]()
    for number, row in rows:
        lower = {str(name).lower().strip(): str(value or "").strip() for name, value in row.items() if name}
        try:
            found = _job(lower, columns, number)
        except ValueError as error:
            problems.append(f"{number}: {error}")
            continue
        if isinstance(found, str):
            left_out[found] += 1
        else:
            jobs.append(found)
    if problems:
        more = [f"{len(problems) - MAX_PROBLEMS} more"] if len(problems) > MAX_PROBLEMS else []
        raise TraceError("\n".join([*problems[:MAX_PROBLEMS], *more]))
    jobs.sort(key=lambda job: job.submit)
    is_dated = bool(jobs) and jobs[0].submit >= _EPOCH_SECONDS
    return Trace(jobs, left_out, origin=jobs[0].submit if is_dated else 0.0)


def _job(row: Row, columns: Columns, number: int) -> TraceJob | str:
    """Return the job of a row, or why the row is left out. Raises ValueError for a value that cannot be read."""

    def value(meaning: str) -> str | None:
        """The first column with this meaning; None where there is none, or nothing is known."""
        names = (name for name in columns[meaning] if name in row)
        return next((row[name] for name in names if row[name].lower() not in UNKNOWN), None)

    name = value("id") or f"row-{number}"
    if re.fullmatch(r"\d+(_\d+)?\..+", name):
        return "a step of a job"  # sacct lists them below their job
    submit, duration = value("submit"), _duration(value("duration"), value("start") or value("submit"), value("end"))
    if submit is None:
        raise ValueError("no submission time. Fix: name the column with --columns, for example `submit: my_column`")
    devices = _devices(value("devices"), value("tres"), value("processors"))
    if devices is None:
        return "no size"
    requested = value("requested")
    return TraceJob(
        name,
        seconds_at(submit),
        duration if duration and duration > 0 else None,
        None if requested is None else clock_seconds(requested),
        devices,
        _integer(value("share"), "share", 1000) or 1000,
        _integer(value("cpu"), "cpu", 0),
        _integer(value("memory"), "memory", 0) * MIB,
        tuple(sorted({model for model in (value("models") or "").split("|") if model})),
        value("queue") or "",
        value("user") or "",
        _integer(value("priority"), "priority", 0),
    )


def _integer(text: str | None, meaning: str, default: int) -> int:
    if text is None:
        return default
    try:
        return int(float(text))
    except ValueError as error:
        raise ValueError(f"invalid {meaning} {text!r}: not a number") from error


def _devices(devices: str | None, tres: str | None, processors: str | None) -> int | None:
    """What the job asks for: a column of devices; GPUs of Slurm's TRES; else nodes or CPUs."""
    if devices is not None:
        return _integer(devices, "devices", 0)
    if tres is not None and (gpus := re.search(r"(?:^|,)gres/gpu=(\d+)", tres)):
        return int(gpus[1])
    return None if processors is None else _integer(processors, "processors", 0)


def _duration(text: str | None, start: str | None, end: str | None) -> float | None:
    """start: the submission, where a table does not say when jobs started: then the wait counts as run time."""
    if text is not None:
        return clock_seconds(text)
    return None if start is None or end is None else seconds_at(end) - seconds_at(start)


def seconds_at(text: str) -> float:
    """A moment in seconds: a number, or a date of ISO 8601 (without a zone: UTC)."""
    try:
        return float(text)
    except ValueError:
        pass
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f"invalid time {text!r}: expected seconds or an ISO 8601 date") from error
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def clock_seconds(text: str) -> float:
    """A number of seconds, or [days-]hours:minutes:seconds as Slurm writes it."""
    found = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+(?:\.\d+)?)", text)
    if found is None:
        try:
            return float(text)
        except ValueError as error:
            raise ValueError(f"invalid duration {text!r}: expected seconds or [days-]hours:minutes:seconds") from error
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds

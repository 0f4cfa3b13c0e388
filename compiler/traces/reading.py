"""Read a trace from a file. The format is recognized by the content, not by the name: a table, one of these.

Batsim's workloads: {"nb_res": machines, "jobs": [{id, subtime, res, walltime, profile}], "profiles": {name: {...}}}
(Batsim's documentation, Workload). Only profiles of type `delay` have a duration; others need its network model.

The Standard Workload Format, version 2 (Feitelson, Parallel Workloads Archive): a header of comments, then 18
numbers a line, -1 for unknown.

Tables with a header: CSV, `sacct --parsable2`, and objects a line. Columns are known by name (`columns.toml`).
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import math
import re
import tomllib
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from compiler.traces.trace import Trace, TraceError, TraceJob, amount, clock, memory_bytes, moment, seconds, whole

Columns = Mapping[str, Sequence[str]]
Row = Mapping[str, str]
MAX_PROBLEMS = 20
NOT_ENDED = {"pending", "running", "requeued", "resizing", "suspended"}
"""States of Slurm's jobs."""
_STEP = re.compile(r"\d+([_+]\d+|_\[.*\])?\..+")
MIB = 1 << 20
_EPOCH_SECONDS = 1e9
"""Seconds from which a time is a date: September 2001."""
UNKNOWN = {"", "unknown", "none", "nan", "null", "unlimited", "partition_limit"}


@cache
def _table_columns() -> Columns:
    found: Columns = tomllib.loads((files("compiler.traces") / "columns.toml").read_text("utf-8"))
    return found


def known_columns(own: Columns) -> Columns:
    """Return the known columns, behind the user's own."""
    known = _table_columns()
    return {meaning: [*(name.lower() for name in own.get(meaning, ())), *names] for meaning, names in known.items()}


def read_table(text: str, own: Columns, is_timed: bool = True) -> Trace:
    """Return a table with a header; the separator is the one of , | ; and tab that the header has most of. own: columns
    that the user names. is_timed: whether jobs need a submission time; without a column of it they come by line."""
    lines = io.StringIO(text, newline="").readlines()
    before = sum(1 for _ in takewhile(_is_before_header, lines))
    return _read_rows(_cells(lines[before:], before), own, GPUS in text, is_timed)


def _is_before_header(line: str) -> bool:
    return not line.strip() or line.startswith("#")


def _cells(lines: Sequence[str], before: int) -> Iterator[tuple[int, Row | ValueError]]:
    """Yield (number of the line, column -> value or the fault); before: the number of lines before the header."""
    header = lines[0] if lines else ""
    separator = max(",|;\t", key=header.count)
    # sacct quotes nothing: a quote is a part of the name of a job
    quoting: Literal[0, 3] = csv.QUOTE_NONE if separator == "|" and '"' not in header else csv.QUOTE_MINIMAL
    rows, names, number = csv.reader(lines, delimiter=separator, quoting=quoting), list[str](), before + 1
    try:
        for row in rows:
            if not names:
                names = row
            elif any(cell.strip() for cell in row):
                yield number, _named(row, names)
            number = before + rows.line_num + 1
    except csv.Error as error:
        raise TraceError(f"{number}: {error}") from error


def _named(row: Sequence[str], names: Sequence[str]) -> Row | ValueError:
    """Column -> value; the error where another number of values than of columns is there."""
    if len(row) < len(names) or any(cell.strip() for cell in row[len(names) :]):
        return ValueError(
            f"{len(row)} values for {len(names)} columns. Fix: complete the line, or quote a value that contains the "
            "separator (in the output of sacct: leave that column out)"
        )
    return dict(zip(names, row, strict=False))


def read_lines(text: str, own: Columns, is_timed: bool = True) -> Trace:
    """One JSON object a line. own: keys that the user names. is_timed: as in `read_table`."""

    def rows() -> Iterator[tuple[int, Row]]:
        for number, line in enumerate(text.split("\n"), start=1):
            if line.strip():
                try:
                    found = json.loads(line)
                except json.JSONDecodeError as error:
                    raise TraceError(f"{number}:{error.colno}: invalid JSON: {error.msg}") from error
                if not isinstance(found, dict):
                    raise TraceError(f"{number}: not a JSON object. Fix: write one object a line, keys as columns")
                yield number, {name: "" if value is None else str(value) for name, value in found.items()}

    return _read_rows(rows(), own, GPUS in text, is_timed)


def _read_rows(rows: Iterable[tuple[int, Row | ValueError]], own: Columns, counts_gpus: bool, is_timed: bool) -> Trace:
    """counts_gpus: whether the TRES of some job name GPUs, so that one whose TRES name none asks for none."""
    jobs, left_out, problems = list[TraceJob](), Counter[str](), dict[str, list[int]]()
    columns, missing = known_columns(own), {meaning: {*map(str.lower, names)} for meaning, names in own.items()}
    for number, row in rows:
        try:
            if isinstance(row, ValueError):
                raise row
            lower = {name.lower().strip(): value.strip() for name, value in row.items()}
            missing = {meaning: names for meaning, names in missing.items() if names.isdisjoint(lower)}
            if not is_timed and lower.keys().isdisjoint(columns["submit"]):
                lower["submit"] = str(number)
            found = _job(lower, columns, number, counts_gpus)
        except ValueError as error:
            problems.setdefault(str(error), []).append(number)
            continue
        if isinstance(found, str):
            left_out[found] += 1
        else:
            jobs.append(found)
    for meaning in missing if jobs or left_out else ():
        named = " or ".join(own[meaning])
        problems.setdefault(
            f"no column {named}, which --columns names for {meaning}. Fix: correct the name", []
        ).append(1)
    if problems:
        raise TraceError("\n".join(_problem_lines(problems)))
    jobs.sort(key=lambda job: job.submit)
    is_dated = bool(jobs) and jobs[-1].submit >= _EPOCH_SECONDS
    if is_dated and jobs[0].submit < _EPOCH_SECONDS:
        raise TraceError(
            f"job {jobs[0].id} is submitted at {jobs[0].submit:g} and job {jobs[-1].id} at a date. "
            "Fix: write dates, or seconds since one moment"
        )
    return Trace(jobs, left_out, origin=jobs[0].submit if is_dated else 0.0)


def _problem_lines(problems: Mapping[str, Sequence[int]]) -> Iterator[str]:
    """One for each problem, with the number of lines that have it."""
    for message, numbers in [*problems.items()][:MAX_PROBLEMS]:
        yield f"{numbers[0]}: {message}{f' ({len(numbers)} lines)' if len(numbers) > 1 else ''}"
    if len(problems) > MAX_PROBLEMS:
        yield f"{len(problems) - MAX_PROBLEMS} more"


def _job(row: Row, columns: Columns, number: int, counts_gpus: bool) -> TraceJob | str:
    """Return the job of a row, or why the row is left out. Raises ValueError for a value that cannot be read."""

    def value(meaning: str) -> str | None:
        """Return the first column with this meaning; None without one, or for an unknown value."""
        names = (name for name in columns[meaning] if name in row)
        return next((row[name] for name in names if row[name].lower() not in UNKNOWN), None)

    name = value("id") or f"row-{number}"
    if "jobid" in row and _STEP.fullmatch(name):
        return "a step of a job"  # sacct lists them below their job
    if (submit := value("submit")) is None:
        raise ValueError(_no_submission(row, columns))
    devices = _devices(value("devices"), value("tres"), value("processors"), counts_gpus)
    if devices is None or devices < 0:
        return "no size"
    duration, requested = _duration(row, columns, value), value("requested")
    limit = 0.0 if requested is None else clock(requested, "requested time")
    cpu, memory = cpu_and_memory(value)
    return TraceJob(
        name,
        moment(submit, "submission time"),
        duration if duration and duration > 0 else None,
        limit if limit > 0 else None,
        devices,
        whole(value("share") or 0, "share") or 1000,
        math.ceil(amount(value("cpu") or 0, "cpu")) or cpu,
        math.ceil(amount(value("memory") or 0, "memory")) * MIB or memory,
        tuple(sorted({model for model in (value("models") or "").split("|") if model})),
        value("queue") or "",
        value("user") or "",
        whole(value("priority") or 0, "priority"),
    )


def _no_submission(row: Row, columns: Columns) -> str:
    if any(name in row for name in columns["submit"]):
        return "unknown submission time. Fix: write it, or leave the line out"
    names = ", ".join([*row][:12])
    return (
        f"no submission time among the columns {names}. "
        "Fix: name the column with --columns, for example `submit: my_column`, or draw jobs without times by --sample"
    )


def _devices(devices: str | None, tres: str | None, processors: str | None, counts_gpus: bool) -> int | None:
    """Return the job's devices: a column of devices; GPUs of Slurm's TRES, of any type; else nodes or CPUs."""
    if devices is not None:
        return whole(devices, "devices")
    if tres is not None and counts_gpus:
        return gpus_of(parse_tres(tres))
    return None if processors is None else whole(processors, "processors")


def _duration(row: Row, columns: Columns, value: Callable[[str], str | None]) -> float | None:
    """Return the duration; None for a job that has not ended: Slurm counts the time of a running one until now. A job
    with an empty start counts its wait as run time; Slurm writes None for one that never started."""
    if (value("state") or "").lower() in NOT_ENDED or any(row.get(name) == "Unknown" for name in columns["end"]):
        return None
    if (text := value("duration")) is not None:
        return clock(text, "duration")
    has_start = any(row.get(name) for name in columns["start"])
    start, end = value("start" if has_start else "submit"), value("end")
    return None if start is None or end is None else moment(end, "end") - moment(start, "start")


GPUS = "gres/gpu"
MILLICORES = 1000


def parse_tres(text: str | None) -> Mapping[str, str]:
    """Resource -> its amount, as written: `cpu=4,mem=16G,gres/gpu=2`."""
    return dict(part.partition("=")[::2] for part in (text or "").split(",") if part)


def gpus_of(tres: Mapping[str, str]) -> int:
    """GPUs of all types. Raises ValueError."""
    typed = [count for kind, count in tres.items() if kind.startswith(f"{GPUS}:")]
    return sum(whole(count, "TRES") for count in ([tres[GPUS]] if GPUS in tres else typed))


def cpu_and_memory(value: Callable[[str], str | None]) -> tuple[int, int]:
    """(millicores, bytes) of a job, 0 where nothing is stated: of its TRES, else ReqCPUS and ReqMem. value: the first
    column of a meaning. Raises ValueError."""
    tres = parse_tres(value("tres"))
    cpus = whole(tres.get("cpu") or value("cpus") or 0, "CPUs")
    memory = memory_bytes(tres["mem"], "TRES") if tres.get("mem") else _requested_memory(value, cpus)
    return cpus * MILLICORES, memory


def _requested_memory(value: Callable[[str], str | None], cpus: int) -> int:
    """ReqMem: of a node with the suffix n, of a CPU with c, else of the job."""
    text = value("slurm_memory") or "0"
    if text == "?":
        return 0
    times = {"n": whole(value("nodes") or 1, "nodes"), "c": cpus or 1}.get(text[-1], 1)
    return times * memory_bytes(text.rstrip("nc"), "ReqMem")


COMPRESSED: Mapping[bytes, Callable[[bytes], bytes]] = {
    b"\x1f\x8b": gzip.decompress,
    b"BZh": bz2.decompress,
    b"\xfd7zXZ": lzma.decompress,
}
"""First bytes of a file -> its reader."""
UTF16 = (b"\xff\xfe", b"\xfe\xff")
"""First bytes of a text that PowerShell or Excel wrote."""


def read_trace(path: Path, columns: Mapping[str, Sequence[str]] | None = None, is_timed: bool = True) -> Trace:
    """Return the trace of a file. columns: meaning -> columns that have it, before the known ones (`columns.toml`).
    is_timed: whether jobs of a table need a submission time; else its lines without one are in order.

    Raises TraceError for a file that is not a trace, OSError where it cannot be read.
    """
    text = _text(path, path.read_bytes())
    try:
        found = _read_text(text, columns or {}, is_timed)
    except json.JSONDecodeError as error:
        raise TraceError(f"{path}:{error.lineno}:{error.colno}: invalid JSON: {error.msg}") from error
    except TraceError as error:
        raise TraceError("\n".join(f"{path}:{line}" for line in str(error).splitlines())) from error
    if not found.jobs:
        reasons = ", ".join(f"{reason}: {number}" for reason, number in sorted(found.left_out.items()))
        fix = ". Fix: name the column with --columns, for example `devices: my_gpus`" if "no size" in reasons else ""
        raise TraceError(f"{path}: no jobs found{f' ({reasons}){fix}' if reasons else ''}")
    return found


def _text(path: Path, content: bytes) -> str:
    """Return the text of a file, which may be compressed. Raises TraceError."""
    try:
        for begin, decompress in COMPRESSED.items():
            content = decompress(content) if content.startswith(begin) else content
        text = content.decode("utf-16" if content.startswith(UTF16) else "utf-8-sig")
    except (UnicodeDecodeError, OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        archive = "a zip archive. Fix: unpack it" if content.startswith(b"PK") else f"not a text file: {error}"
        raise TraceError(f"{path}: {archive}") from error
    if "\0" in text:
        raise TraceError(f"{path}: not a text file: it has zero bytes")
    return text


def _read_text(text: str, columns: Mapping[str, Sequence[str]], is_timed: bool) -> Trace:
    first = next((line for line in map(str.strip, text.splitlines()) if line), "")
    if first.startswith("["):
        raise TraceError("1: a JSON array. Fix: write one object a line, for example with jq -c '.[]'")
    if first.startswith("{"):
        workload = _one_object(text, first)
        return read_lines(text, columns, is_timed) if workload is None else read_batsim(workload)
    return read_swf(text) if first.startswith(";") or is_swf_job(first) else read_table(text, columns, is_timed)


def _one_object(text: str, first: str) -> Any:
    """Return the object that a file is; None where it has an object a line. Raises JSONDecodeError."""
    try:
        found = json.loads(first)
    except json.JSONDecodeError:
        return json.loads(text)
    return found if text.strip() == first and "jobs" in found else None


def read_columns(path: Path | None) -> Mapping[str, Sequence[str]]:
    """Return the columns that a file names: YAML, meaning -> a column or a list of them. Raises TraceError."""
    if path is None:
        return {}
    try:
        found = YAML(typ="safe").load(path.read_text("utf-8"))
    except (YAMLError, UnicodeDecodeError) as error:
        raise TraceError(f"{path}: invalid YAML: {error}") from error
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found):
        raise TraceError(f"{path}: not a mapping. Fix: write a column for each meaning, for example `devices: my_gpus`")
    if unknown := sorted(found.keys() - known_columns({}).keys()):
        meanings = ", ".join(known_columns({}))
        raise TraceError(f"{path}: unknown meaning {unknown[0]!r} of a column. Fix: use one of {meanings}")
    return {
        meaning: [str(name) for name in (names if isinstance(names, list) else [names])]
        for meaning, names in found.items()
    }


def read_batsim(document: Any) -> Trace:
    """Return the trace of a workload. Raises TraceError, with a line for each invalid job."""
    listed, profiles, machines = document.get("jobs"), document.get("profiles"), document.get("nb_res")
    if not isinstance(listed, list) or not isinstance(profiles, dict):
        raise TraceError("1: not a Batsim workload: `jobs` and `profiles` are required")
    jobs, left_out, problems = list[TraceJob](), Counter[str](), list[str]()
    if machines is not None and (type(machines) is not int or machines < 1):
        problems.append(f"1: invalid nb_res {machines!r}: not a number of machines")
    for number, job in enumerate(listed):
        try:
            profile = _profile(job, profiles)
            if profile.get("type") == "delay":
                jobs.append(_batsim_job(job, profile))
            else:
                left_out[f"profile of type {profile.get('type')}"] += 1
        except KeyError as error:
            problems.append(f"1: jobs[{number}]: missing {error}")
        except ValueError as error:
            problems.append(f"1: jobs[{number}]: {error}")
    if problems:
        raise TraceError("\n".join(problems))
    return Trace(sorted(jobs, key=lambda job: job.submit), left_out, machines)


def _profile(job: Any, profiles: Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(job, dict):
        raise TraceError("not an object")
    found = profiles.get(name) if isinstance(name := job["profile"], str) else None
    if not isinstance(found, dict):
        raise TraceError(f"unknown profile {name!r}. Fix: add it to `profiles`")
    return found


def _batsim_job(job: Mapping[str, Any], profile: Mapping[str, Any]) -> TraceJob:
    delay, size = seconds(profile["delay"], "delay"), whole(job["res"], "res")
    if delay < 0 or size < 1:
        raise ValueError(f"invalid {f'delay {delay:g}' if delay < 0 else f'res {size}'}: too small")
    requested = seconds(job.get("walltime", -1), "walltime")
    limit = requested if requested > 0 else None
    return TraceJob(str(job["id"]), seconds(job["subtime"], "subtime"), delay, limit, size)


FIELDS = 18
NUMBER, SUBMIT, RUN_TIME, ALLOCATED, ASKED, REQUESTED, USER, QUEUE = 0, 1, 3, 4, 7, 8, 11, 14
_MACHINES = re.compile(r";\s*(MaxProcs|MaxNodes):\s*(\d[\d,]*)")
_QUEUE = re.compile(r";\s*Queue:\s*(\d+)\s+(\S+)")


def is_swf_job(line: str) -> bool:
    """Return whether a line has the 18 numbers of the format."""
    words = line.split()
    return len(words) == FIELDS and all(re.fullmatch(r"[-+]?[\d.]+(e[-+]?\d+)?", word, re.I) for word in words)


def read_swf(text: str) -> Trace:
    """Return the trace of a file's text. Raises TraceError, with a line for each invalid one."""
    machines, queues = dict[str, int](), dict[str, str]()
    jobs, left_out, problems = list[TraceJob](), Counter[str](), list[str]()
    for number, line in enumerate(map(str.strip, text.splitlines()), start=1):
        if line.startswith(";"):
            if found := _MACHINES.match(line):
                machines[found[1]] = int(found[2].replace(",", ""))
            elif found := _QUEUE.match(line):
                queues[found[1]] = found[2]
            continue
        if not line:
            continue
        try:
            found_job = _swf_job(line, queues)
        except ValueError as error:
            problems.append(f"{number}: {error}")
            continue
        if isinstance(found_job, str):
            left_out[found_job] += 1
        else:
            jobs.append(found_job)
    if problems:
        raise TraceError("\n".join(problems))
    count = machines.get("MaxProcs") or machines.get("MaxNodes")
    return Trace(sorted(jobs, key=lambda job: job.submit), left_out, count or None)


def _swf_job(line: str, queues: Mapping[str, str]) -> TraceJob | str:
    """Return the job of a line, or why it is left out. Raises ValueError for a line that is invalid."""
    words = line.split()
    if not is_swf_job(line):
        raise ValueError(
            f"expected {FIELDS} numbers of the Standard Workload Format, found {len(words)} fields: {line[:80]}"
        )
    size = next((whole(words[at], "processors") for at in (ASKED, ALLOCATED) if float(words[at]) > 0), 0)
    submit, duration, requested = (seconds(words[at], "time") for at in (SUBMIT, RUN_TIME, REQUESTED))
    if submit < 0:
        return "no submission time"
    if duration <= 0 or size <= 0:
        return "no run time" if duration <= 0 else "no processors"
    return TraceJob(
        words[NUMBER],
        submit,
        duration,
        requested if requested > 0 else None,
        size,
        queue=queues.get(words[QUEUE], "" if words[QUEUE] == "-1" else words[QUEUE]),
        user=words[USER],
    )

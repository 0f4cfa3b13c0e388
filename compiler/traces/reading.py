"""Read a trace from a file. The format is recognized by the content, not by the name: a table, one of these.

Batsim's workloads: {"nb_res": machines, "jobs": [{id, subtime, res, walltime, profile}], "profiles": {name: {...}}}
(Batsim's documentation, Workload). Only profiles of type `delay` have a duration; others need its network model.

The Standard Workload Format, version 2 (Feitelson, Parallel Workloads Archive): a header of comments, then 18
numbers a line, -1 for unknown.
"""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import re
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from compiler.traces import tables
from compiler.traces.trace import Trace, TraceError, TraceJob, seconds, whole

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
        return tables.read_lines(text, columns, is_timed) if workload is None else read_batsim(workload)
    return read_swf(text) if first.startswith(";") or is_swf_job(first) else tables.read_table(text, columns, is_timed)


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
    if unknown := sorted(found.keys() - tables.known_columns({}).keys()):
        meanings = ", ".join(tables.known_columns({}))
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

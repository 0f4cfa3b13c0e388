"""Read a trace from a file. The format is recognized by the content, not by the name."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from compiler.traces import batsim, swf, tables
from compiler.traces.trace import Trace, TraceError

GZIP = b"\x1f\x8b"


def read_trace(path: Path, columns: Mapping[str, Sequence[str]] | None = None) -> Trace:
    """Return the trace of a file. columns: meaning -> columns that have it, before the known ones (`columns.toml`).

    Raises TraceError for a file that is not a trace, OSError where it cannot be read.
    """
    content = path.read_bytes()
    try:
        text = (gzip.decompress(content) if content.startswith(GZIP) else content).decode("utf-8-sig")
    except (UnicodeDecodeError, EOFError, gzip.BadGzipFile) as error:
        raise TraceError(f"{path}: not a text file: {error}") from error
    first = next((line for line in text.splitlines() if line.strip()), "")
    try:
        found = _read_text(text, first, tables.known_columns(columns or {}))
    except json.JSONDecodeError as error:
        raise TraceError(f"{path}:{error.lineno}:{error.colno}: invalid JSON: {error.msg}") from error
    except TraceError as error:
        raise TraceError("\n".join(f"{path}:{line}" for line in str(error).splitlines())) from error
    if not found.jobs:
        raise TraceError(f"{path}: no jobs found")
    return found


def _read_text(text: str, first: str, columns: Mapping[str, Sequence[str]]) -> Trace:
    if first.startswith("{"):
        return batsim.read(json.loads(text)) if _is_one_object(text) else tables.read_lines(text, columns)
    return swf.read(text) if first.startswith(";") or _is_swf(first) else tables.read_table(text, columns)


def _is_one_object(text: str) -> bool:
    """Whether the file is one JSON object, and not one a line."""
    try:
        json.loads(text.lstrip().splitlines()[0])
    except json.JSONDecodeError:
        return True
    return len([line for line in text.splitlines() if line.strip()]) == 1 and '"jobs"' in text


def _is_swf(line: str) -> bool:
    """Whether a line has the 18 numbers of the Standard Workload Format."""
    words = line.split()
    return len(words) == swf.FIELDS and all(swf.is_number(word) for word in words)


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

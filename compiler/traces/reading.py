"""Read a trace from a file. The format is recognized by the content, not by the name."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from compiler.traces import batsim, swf, tables
from compiler.traces.trace import Trace, TraceError

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
        return tables.read_lines(text, columns, is_timed) if workload is None else batsim.read(workload)
    return swf.read(text) if first.startswith(";") or swf.is_job(first) else tables.read_table(text, columns, is_timed)


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

"""Views for machines: one text per format of any data; changed files as a diff for `git apply` and `patch -p1`."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from compiler.emit.block import to_yaml


def to_json(data: Mapping[str, Any]) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


FORMATS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {"json": to_json, "yaml": to_yaml}


_NO_NEWLINE = "\\ No newline at end of file\n"
_QUOTED = {'"', "\\"}
_PLAIN = frozenset(map(chr, range(32, 127))) - _QUOTED


def patch_text(before: Mapping[str, bytes], after: Mapping[str, bytes], folder: str = "") -> str:
    """Return the files of `after` that differ from `before`. folder: the prefix of their names, ending in a slash."""
    return "".join(line for file in sorted(after) for line in _file_lines(folder + file, before[file], after[file]))


def _file_lines(name: str, before: bytes, after: bytes) -> Iterator[str]:
    old, new = (_lines(content.decode()) for content in (before, after))
    for line in difflib.unified_diff(old, new, _quoted(f"a/{name}"), _quoted(f"b/{name}")):
        yield line if line.endswith("\n") else f"{line}\n{_NO_NEWLINE}"


def _lines(text: str) -> list[str]:
    """Return the lines as git counts them, with their ends: other line breaks than \n are text."""
    *whole, last = text.split("\n")
    return [f"{line}\n" for line in whole] + ([last] if last else [])


def _quoted(name: str) -> str:
    """Return the name as git writes it in a diff."""
    if name.isprintable() and not _QUOTED & set(name):
        return f"{name}\t" if " " in name else name
    codes = (chr(byte) if chr(byte) in _PLAIN else f"\\{byte:03o}" for byte in name.encode())
    return f'"{"".join(codes)}"'

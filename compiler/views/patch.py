"""Changed files as a unified diff that `git apply` and `patch -p1` take."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping

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

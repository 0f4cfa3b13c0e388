"""Regular expressions of hypernode members, matched by RE2, from which Go's regexp package stems (Volcano uses
regexp.MatchString). Matching time is linear in the length of the name, and memory is bounded.
"""

from __future__ import annotations

import re
from typing import Any

MAX_MEMORY = 8 << 20
"""Bytes that a compiled pattern and its cache of states may take; larger patterns are refused."""

_TOKEN = re.compile(
    r"""\\Q.*?(?:\\E|\Z)                              # quoted text
      | \[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*\]          # character class
      | (?P<byte>\\C) | \\.
      | \{(?P<least>[0-9]+)(?:,(?P<most>[0-9]*))?\}
      | \(\?P?<(?P<name>[^>]*)>""",
    re.DOTALL | re.VERBOSE,
)
_LITERAL_PREFIX = re.compile(r"\^([a-z0-9-]+)(?![*+?{])[^|]*\Z", re.DOTALL)
"""A beginning that every matching name has; a pattern with alternatives has none."""
_MAX_COUNT_DIGITS = 8
"""RE2 reads a longer repetition count as text, Go refuses it."""


class Regex:
    """A compiled pattern. ValueError for a pattern that Go's regexp refuses, or that is too large."""

    def __init__(self, pattern: str) -> None:
        import re2

        _refuse_what_only_re2_reads(pattern)
        options = re2.Options()
        options.log_errors, options.max_mem = False, MAX_MEMORY
        try:
            self._compiled: Any = re2.compile(pattern, options=options)
        except re2.error as problem:
            raise ValueError(problem.args[0].decode("utf-8", "replace")) from None
        prefix = _LITERAL_PREFIX.match(pattern)
        self._prefix = prefix[1] if prefix else ""

    def search(self, name: str) -> bool:
        """Return whether the pattern matches a part of `name`."""
        # Most names of a cluster fail the prefix, which is a hundred times cheaper than a call of RE2.
        return name.startswith(self._prefix) and self._compiled.search(name) is not None


def _refuse_what_only_re2_reads(pattern: str) -> None:
    for token in _TOKEN.finditer(pattern):
        if token["byte"]:
            raise ValueError(r"invalid escape sequence: \C")
        if max(len(token["least"] or ""), len(token["most"] or "")) > _MAX_COUNT_DIGITS:
            raise ValueError(f"invalid repetition size: {token.group()}")
        if not (token["name"] or "").isascii():
            raise ValueError(f"invalid named capture: {token.group()}")

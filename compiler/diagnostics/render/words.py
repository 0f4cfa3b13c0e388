"""Text that comes from a repository, made harmless for terminals and reports; and the sentence that a diagnostic makes."""

from __future__ import annotations

import re
from collections.abc import Iterable

from compiler.diagnostics import Diagnostic

_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]|[\t\n]")


def printable(text: str) -> str:
    """One line without control characters: they are shown as escapes, so that no file can move the reader's cursor or
    reverse the writing."""
    return _UNSAFE.sub(lambda found: found.group().encode("unicode_escape", "surrogatepass").decode("ascii"), text)


def sentence(diagnostic: Diagnostic) -> str:
    """What is wrong. How to mend it."""
    message, help = printable(diagnostic.message), printable(diagnostic.help)
    return f"{message}. {help[:1].upper()}{help[1:]}" if help else message


def severity_counts(diagnostics: Iterable[Diagnostic]) -> str:
    """ "2 errors, 1 warning"; empty when there is nothing."""
    found: list[str] = [diagnostic.severity for diagnostic in diagnostics]
    words = [("error", "errors"), ("warning", "warnings"), ("info", "infos")]
    return ", ".join(f"{number} {one if number == 1 else many}" for one, many in words if (number := found.count(one)))

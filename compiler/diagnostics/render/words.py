"""Text of a repository made safe for terminals and reports, and the sentence of a diagnostic."""

from __future__ import annotations

import re
from collections.abc import Iterable

from compiler.diagnostics.diagnostic import Diagnostic, Position

_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]|[\t\n]")


def printable(text: str) -> str:
    """`text` on one line, with control and bidirectional characters escaped, so that a file cannot manipulate the
    terminal."""
    return _UNSAFE.sub(lambda found: found.group().encode("unicode_escape", "surrogatepass").decode("ascii"), text)


def place_text(at: Position) -> str:
    return f"{printable(at.file)}:{at.line}:{at.column}"


def sentence(diagnostic: Diagnostic) -> str:
    """Return the sentence of a diagnostic."""
    return with_fix(diagnostic.message, diagnostic.help)


def with_fix(message: str, help: str) -> str:
    """Return the message, and the help as its fix."""
    return printable(f"{message}. Fix: {help}" if help else message)


def severity_counts(diagnostics: Iterable[Diagnostic]) -> str:
    """Counts such as "2 errors, 1 warning"; empty for no diagnostics."""
    found: list[str] = [diagnostic.severity for diagnostic in diagnostics]
    words = [("error", "errors"), ("warning", "warnings"), ("info", "infos")]
    return ", ".join(f"{number} {one if number == 1 else many}" for one, many in words if (number := found.count(one)))

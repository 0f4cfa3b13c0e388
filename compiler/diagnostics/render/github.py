"""GitHub workflow commands, which show each diagnostic next to its line in a pull request.

Escaping follows actions/toolkit (packages/core/src/command.ts): % CR LF everywhere, and : and , in properties.
"""

from __future__ import annotations

from collections.abc import Sequence

from compiler.diagnostics.diagnostic import Diagnostic
from compiler.diagnostics.render.text import render as render_text
from compiler.diagnostics.render.words import printable, sentence

_COMMANDS = {"error": "error", "warning": "warning", "info": "notice"}


MAX_ANNOTATIONS = 10
"""GitHub shows no more of a kind for a step."""
MAX_ROWS = 1000
_ORDER = ("error", "warning", "info")


def render(diagnostics: Sequence[Diagnostic]) -> str:
    """Commands for the most important diagnostics; the others as lines of the log."""
    ordered = sorted(diagnostics, key=lambda diagnostic: _ORDER.index(diagnostic.severity))
    shown, others = ordered[:MAX_ANNOTATIONS], ordered[MAX_ANNOTATIONS:]
    rest = f"{len(others)} more:\n{render_text(others)}" if others else ""
    return "".join(map(_command, shown)) + rest


def summary_markdown(diagnostics: Sequence[Diagnostic]) -> str:
    """Return all diagnostics as a table for the summary of the run; empty where each is an annotation."""
    if len(diagnostics) <= MAX_ANNOTATIONS:
        return ""
    rows = ["### gangplan check\n", "| | where | what |", "|---|---|---|"]
    for each in sorted(diagnostics, key=lambda diagnostic: _ORDER.index(diagnostic.severity))[:MAX_ROWS]:
        place = f"{printable(each.position.file)}:{each.position.line}"
        rows.append(f"| {each.severity} {each.code} | {_escaped_cell(place)} | {_escaped_cell(sentence(each))} |")
    if len(diagnostics) > MAX_ROWS:
        rows.append(f"\nand {len(diagnostics) - MAX_ROWS} more: `gangplan check` shows them all")
    return "\n".join(rows) + "\n"


def _escaped_cell(text: str) -> str:
    return "".join(f"&#{ord(char)};" if char in "\\`*_{}[]<>|#@" else char for char in text)


def _command(diagnostic: Diagnostic) -> str:
    at = diagnostic.position
    properties = {"file": at.file, "line": str(at.line), "col": str(at.column), "title": diagnostic.code}
    attributes = ",".join(f"{key}={_escaped_property(value)}" for key, value in properties.items())
    return f"::{_COMMANDS[diagnostic.severity]} {attributes}::{_escaped_data(sentence(diagnostic))}\n"


def _escaped_data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escaped_property(text: str) -> str:
    return _escaped_data(text).replace(":", "%3A").replace(",", "%2C")

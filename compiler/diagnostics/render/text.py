"""Text for terminals: `file:line:column: error GP123: message. Fix: help`, and the line if its source is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from compiler.diagnostics.diagnostic import Diagnostic, Position, linked_code
from compiler.diagnostics.render.words import place_text, printable, sentence

_COLOURS = {"error": "31", "warning": "33", "info": "36"}
_MAX_COLUMNS = 120


def render(
    diagnostics: Sequence[Diagnostic],
    *,
    colour: bool = False,
    links: bool = False,
    sources: Mapping[str, bytes] | None = None,
) -> str:
    """sources: the files' contents, for excerpts; without them, one line for each diagnostic. links: codes are links to
    their pages."""
    lines: dict[str, list[str]] = {}
    out: list[str] = []
    for diagnostic in diagnostics:
        at = diagnostic.position
        place, head = f"{place_text(at)}:", f"{diagnostic.severity} {linked_code(diagnostic.code, links)}:"
        if colour:
            place, head = f"\x1b[1m{place}\x1b[0m", f"\x1b[{_COLOURS[diagnostic.severity]}m{head}\x1b[0m"
        see = f" (see {place_text(diagnostic.see)})" if diagnostic.see else ""
        out.append(f"{place} {head} {sentence(diagnostic)}{see}\n")
        if sources is not None and at.file in sources:
            if at.file not in lines:
                lines[at.file] = sources[at.file].decode("utf-8", "replace").removeprefix("\ufeff").split("\n")
            out.append(_excerpt(lines[at.file], at))
    return "".join(out)


def _excerpt(lines: list[str], at: Position) -> str:
    if not 0 < at.line <= len(lines) or not lines[at.line - 1].strip() or at.column > _MAX_COLUMNS:
        return ""
    line = printable(lines[at.line - 1].rstrip("\r").replace("\t", " "))[:_MAX_COLUMNS]
    number = f"{at.line:>6}"
    return f"{number} | {line}\n{' ' * len(number)} | {' ' * (at.column - 1)}^\n"

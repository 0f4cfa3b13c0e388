"""A diagnostic is data: what is wrong, where, and how to mend it. `compiler.diagnostics.render` turns it into text,
JSON, SARIF and so on.

Every code is declared once, as a `Rule`, and means the same for ever: GP1xx reading a file, GP2xx shape and types of
one document, GP3xx rules inside and across objects, GP4xx scheduler configuration, GP5xx binding and placement.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in a file of the repository; line and column count from 1."""

    file: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """`message` says what is wrong, `help` how to mend it; neither ends in the other. `object` is "Kind namespace/name"
    where known."""

    code: str
    severity: Severity
    position: Position
    message: str
    help: str
    object: str = ""
    see: Position | None = None
    """A second place that belongs to the finding, e.g. the other document of the same name."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What a code means. `text` is the user documentation: the rule, its source or reason, and the mend."""

    code: str
    severity: Severity
    title: str
    text: str

    def diagnostic(
        self,
        position: Position,
        message: str,
        help: str,
        *,
        object: str = "",
        see: Position | None = None,
        severity: Severity | None = None,
    ) -> Diagnostic:
        """A diagnostic of this rule; `severity` replaces the rule's own where a case is milder."""
        return Diagnostic(self.code, severity or self.severity, position, message, help, object, see)


RULES: dict[str, Rule] = {}
"""Every rule that exists, by code. `compiler.checks.catalogue.all_rules` fills it completely."""


def declare_rule(code: str, severity: Severity, title: str, text: str) -> Rule:
    """Declare a code. ValueError when the code is taken: a code has one meaning for ever."""
    if code in RULES:
        raise ValueError(f"{code} already means {RULES[code].title!r}")
    RULES[code] = Rule(code, severity, title, " ".join(text.split()))
    return RULES[code]


def sorted_diagnostics(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """By position, then code and message; the same finding is kept once."""
    return tuple(sorted(set(diagnostics), key=lambda d: (d.position, d.code, d.message)))


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The known word that `word` most likely is meant to be, or "". Case alone never separates two words."""
    by_case = {name.lower(): name for name in sorted(known, reverse=True)}
    close = difflib.get_close_matches(word.lower(), by_case, n=1, cutoff=0.75)
    return by_case[close[0]] if close else ""

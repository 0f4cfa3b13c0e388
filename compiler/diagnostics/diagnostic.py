"""Diagnostics as data: what is wrong, where, and how to fix it. `compiler.diagnostics.render` makes text, JSON and
SARIF of them.

Every code is declared once, as a `Rule`, and never changes its meaning: GP1xx reading files, GP2xx shape and types of
one document, GP3xx rules inside and across objects, GP4xx scheduler configuration, GP5xx binding and placement.
"""

from __future__ import annotations

import difflib
from collections.abc import Container, Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A position in a file of the repository; line and column count from 1."""

    file: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding. message: what is wrong. help: how to fix it. object: "Kind namespace/name" where known."""

    code: str
    severity: Severity
    position: Position
    message: str
    help: str
    object: str = ""
    see: Position | None = None
    """A second place that belongs to the finding, e.g. the other document of the same name."""
    cause: str = ""
    """The object, as `object` names it, whose errors are behind this finding."""
    path: tuple[str | int, ...] = ()
    """The field that it is about, of the object."""
    explains: tuple[str | int, ...] = ()
    """The place at which, on the way to which and below which a missing field follows from this finding."""

    def as_data(self) -> dict[str, Any]:
        """The fields by name, for others to read: without those that only the reading of a document uses."""
        return {key: value for key, value in asdict(self).items() if key not in ("path", "explains")}


@dataclass(frozen=True, slots=True)
class Rule:
    """The meaning of a code. text: the user documentation: the rule, its source or reason, and the fix. folds: whether
    findings with the same words have one cause, so that people are shown one of them."""

    code: str
    severity: Severity
    title: str
    text: str
    folds: bool = False

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
        """A diagnostic of this rule. severity: replaces the rule's own in another case."""
        return Diagnostic(self.code, severity or self.severity, position, message, help, object, see)


RULES: dict[str, Rule] = {}
"""Every rule that exists, by code. `compiler.checks.catalogue.all_rules` fills it completely."""


def declare_rule(code: str, severity: Severity, title: str, text: str, *, folds: bool = False) -> Rule:
    """Declare a code. ValueError for a code with another meaning: a code never changes it."""
    rule = Rule(code, severity, title, " ".join(text.split()), folds)
    if RULES.setdefault(code, rule) != rule:
        raise ValueError(f"{code} already means {RULES[code].title!r}")
    return rule


def sorted_diagnostics(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """The distinct diagnostics, sorted by position, code and message, and then by the rest."""

    def key(found: Diagnostic) -> tuple[object, ...]:
        rest = found.object, found.help, found.see or found.position, found.cause, found.severity
        return found.position, found.code, found.message, *rest

    return tuple(sorted(set(diagnostics), key=key))


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The known word most similar to `word`, or "". Case does not count as a difference."""
    by_case = {name.lower(): name for name in sorted(known, reverse=True)}
    close = difflib.get_close_matches(word.lower(), by_case, n=1, cutoff=0.75)
    return by_case[close[0]] if close else ""


def key_suggestion(key: str, known: Iterable[str], present: Container[str], fallback: str) -> tuple[str, str]:
    """The help on an unknown key of a mapping, and the key that was meant, if it is not there. present: its keys."""
    near = did_you_mean(key, known)
    if near and near in present:
        return f"remove it: {near!r} is here already", ""
    return (f"did you mean {near!r}?", near) if near else (fallback, "")


def suggestion(word: str, known: Iterable[str], fallback: str) -> str:
    """The help on an unknown word: the known word that it resembles, else `fallback`."""
    near = did_you_mean(word, known)
    return f"did you mean {near!r}?" if near else fallback

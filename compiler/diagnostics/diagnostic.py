"""Diagnostics as data: the fault, its place, and the fix. `compiler.diagnostics.render` makes text, JSON and SARIF of
them.

Every code is declared once, as a `Rule`, and never changes its meaning: GP1xx reading files, GP2xx shape and types of
one document, GP3xx rules inside and across objects, GP4xx scheduler configuration, GP5xx binding and placement.

For people, findings with one cause are one message: the consequences of an error are folded into it.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import takewhile
from typing import Any, Literal

from compiler.version import DOCS_URL

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A position in a file of the repository; line and column count from 1."""

    file: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class TextEdit:
    """Replace the text between two places of a file by `text`; places count from 1, the second is behind the last
    character."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    text: str


@dataclass(frozen=True, slots=True)
class Edit:
    """The new value for the field of a finding: `new` instead of `old`, its key, its value or a word in that; without
    `old` as its value. at: the field, where it differs from the finding's."""

    new: str | int | float
    old: str = ""
    at: tuple[str | int, ...] = ()


class Help(str):
    """How to fix a finding, with the edit that does it where there is one only."""

    edit: Edit | None

    def __new__(cls, text: str, edit: Edit | None = None) -> Help:
        """`text` with the edit."""
        found = super().__new__(cls, text)
        found.edit = edit
        return found


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding. message: the fault. help: the fix. object: "Kind namespace/name" where known."""

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
    edit: Edit | None = None
    """The fix at the path, where there is one only."""
    fix: tuple[TextEdit, ...] = ()
    """The same in the text of its file, where a command asks for it (`compiler.emit.edited_files`)."""

    def as_data(self) -> dict[str, Any]:
        """Return the fields by name, for others to read, without fields for internal use."""
        return {key: value for key, value in asdict(self).items() if key not in ("path", "explains", "edit", "fix")}

    def below(self, folder: str) -> Diagnostic:
        """Return the same with the names of files after this prefix."""
        position, see = self.position, self.see
        return replace(
            self,
            position=replace(position, file=folder + position.file),
            see=see and replace(see, file=folder + see.file),
            fix=tuple(replace(edit, file=folder + edit.file) for edit in self.fix),
        )


@cache
def _documentation() -> Mapping[str, Mapping[str, str]]:
    import tomllib  # here, since few commands show a text
    from importlib.resources import files

    return tomllib.loads((files("compiler.diagnostics") / "rules.toml").read_text("utf-8"))


@dataclass(frozen=True, slots=True)
class Rule:
    """The meaning of a code. folds: whether findings with the same words have one cause, so that people are shown one
    of them. words: the title and text of a check, which are with its function; those of other rules are in
    rules.toml."""

    code: str
    severity: Severity
    folds: bool = False
    words: tuple[str, str] | None = None

    @property
    def title(self) -> str:
        return self.words[0] if self.words else _documentation()[self.code]["title"]

    @property
    def text(self) -> str:
        """Return the user documentation: the rule, its source or reason, and the fix."""
        return " ".join((self.words[1] if self.words else _documentation()[self.code]["text"]).split())

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
        """Return a diagnostic of this rule. severity: replaces the rule's own in another case."""
        edit = help.edit if isinstance(help, Help) else None
        return Diagnostic(self.code, severity or self.severity, position, message, str(help), object, see, edit=edit)


RULES: dict[str, Rule] = {}
"""Every rule that exists, by code. `compiler.checks.check.all_rules` fills it completely."""


def declare_rule(code: str, severity: Severity, words: tuple[str, str] | None = None, *, folds: bool = False) -> Rule:
    """Declare a code. ValueError for a code with another meaning: a code never changes it."""
    rule = Rule(code, severity, folds, words)
    if RULES.setdefault(code, rule) != rule:
        raise ValueError(f"{code} already means {RULES[code].title!r}")
    return rule


def sorted_diagnostics(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Return the distinct diagnostics, sorted by position, code and message, and then by the rest."""

    def key(found: Diagnostic) -> tuple[object, ...]:
        rest = found.object, found.help, found.see or found.position, found.cause, found.severity
        return found.position, found.code, found.message, *rest

    return tuple(sorted(set(diagnostics), key=key))


_LIKE, _DISTANCE = 0.75, 0.1
"""How similar a known word is to the one that was meant, and how much less any other."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the known word most similar to `word`, or "". Case does not count as a difference."""
    return next(iter(_near_words(word, known)), "")


def _near_words(word: str, known: Iterable[str]) -> list[str]:
    """Return the two known words most similar to `word`, or fewer; of equally similar ones those of fewest edits, then
    in the order of names."""
    by_case = {name.lower(): name for name in sorted(known, reverse=True)}
    lower = word.lower()
    found = difflib.get_close_matches(lower, by_case, n=max(1, len(by_case)), cutoff=_LIKE)
    alike = list(takewhile(lambda name: _likeness(lower, name) == _likeness(lower, found[0]), found))
    ranked = [*sorted(alike, key=lambda name: (_edits(lower, name), len(name), name)), *found[len(alike) :]]
    return [by_case[name] for name in ranked[:2]]


def _edits(one: str, other: str) -> int:
    """Return how many letters must be added, removed or replaced to make one word of the other (Levenshtein)."""
    row = list(range(len(other) + 1))
    for at, letter in enumerate(one, 1):
        last, row = row, [at]
        for column, found in enumerate(other):
            row.append(min(last[column] + (letter != found), last[column + 1] + 1, row[column] + 1))
    return row[-1]


def key_suggestion(key: str, known: Iterable[str], present: Container[str], fallback: str) -> tuple[str, str]:
    """Return the help on an unknown key of a mapping, and the key that was meant, if it is not there. present: its
    keys."""
    known = tuple(known)
    near = did_you_mean(key, known)
    if near and near in present:
        return f"remove it: {near!r} is here already", ""
    return suggestion(key, known, fallback), near


def suggestion(word: str, known: Iterable[str], fallback: str, more: str = "") -> str:
    """Return the help on an unknown word: the known word that it resembles, and `more`, else `fallback`; with its edit
    where no other word is nearly as similar."""
    near, *others = (*_near_words(word, known), "")
    if not near:
        return fallback
    help = meant(word, near, f"did you mean {near!r}?{more}")
    is_certain = all(_likeness(word, near) - _likeness(word, each) > _DISTANCE for each in others)
    return help if is_certain else str(help)


_MOST_NAMES = 5


def one_of(names: Iterable[str]) -> str:
    """Return the help that one of these names is to be written: the only one, or the first five of several."""
    first, *others = names
    if not others:
        return f"write {first}"
    more = f" and {len(others) + 1 - _MOST_NAMES} more" if len(others) >= _MOST_NAMES else ""
    return f"use one of {', '.join((first, *others)[:_MOST_NAMES])}{more}"


def meant(word: str, right: str, help: str = "") -> str:
    """Return the help on a word instead of which another was meant."""
    return Help(help or f"did you mean {right!r}?", Edit(right, word))


def _likeness(word: str, known: str) -> float:
    return difflib.SequenceMatcher(None, known.lower(), word.lower()).ratio() if known else 0.0


def to_write(value: str | int | float, *at: str | int, help: str = "") -> str:
    """Return the help that the value is to be written at the finding's field, or at that of another path."""
    return Help(help or f"write {value}", Edit(value, at=at))


def unquoted(text: object) -> str:
    """Return the help on a number or a truth value that is in quotes; "" for anything else."""
    if not isinstance(text, str) or not _IN_QUOTES.fullmatch(text):
        return ""
    value = text == "true" if text in ("true", "false") else float(text) if "." in text else int(text)
    return to_write(value, help="remove the quotes")


_IN_QUOTES = re.compile(r"true|false|[-+]?[0-9]+(?:\.[0-9]+)?")


CODES_URL = f"{DOCS_URL}/reference/codes"
_PROGRAMS = frozenset({"iTerm.app", "WezTerm", "ghostty", "vscode", "Hyper", "rio", "Tabby"})
_TERMINALS = frozenset({"xterm-kitty", "xterm-ghostty", "alacritty", "foot", "wezterm"})
_VARIABLES = ("WT_SESSION", "KONSOLE_VERSION", "DOMTERM")
_FIRST_VTE = 5000
"""VTE 0.50, the first that shows links; GNOME Terminal and others name it in VTE_VERSION."""


def code_url(code: str) -> str:
    """Return the address of the page of a diagnostic, a reason or a repair."""
    return f"{CODES_URL}/{code}/"


def linked_code(code: str, links: bool) -> str:
    """Return the code, as a link to its page (OSC 8) where the terminal shows links."""
    return f"\x1b]8;;{code_url(code)}\x1b\\{code}\x1b]8;;\x1b\\" if links else code


def shows_links(environment: Mapping[str, str]) -> bool:
    """Return whether a terminal with these variables shows links. FORCE_HYPERLINK decides where it is set."""
    if (forced := environment.get("FORCE_HYPERLINK")) is not None:
        return forced not in ("", "0")
    version = environment.get("VTE_VERSION", "0")
    return (
        environment.get("TERM_PROGRAM") in _PROGRAMS
        or environment.get("TERM") in _TERMINALS
        or any(name in environment for name in _VARIABLES)
        or (version.isdecimal() and int(version) >= _FIRST_VTE)
    )


MAX_NAMES = 3


def fold_diagnostics(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Return the diagnostics in their order, without repetitions: dependents of an object with errors are counted at
    its first error, and equal messages about several objects are reported at the first."""
    found = list(diagnostics)
    causes = {each.object: each.cause for each in found if each.cause}
    first_error: dict[str, Diagnostic] = {}
    for each in found:
        if each.severity == "error" and not each.cause:
            first_error.setdefault(each.object, each)
    waiting: Counter[Diagnostic] = Counter()
    kept = []
    for each in found:
        root = first_error.get(_root(each.cause, causes)) if each.cause else None
        if root is None:
            kept.append(each)
        elif not each.object.startswith("Queue "):
            waiting[root] += 1
    return tuple(_with_count(each, waiting[each]) for each in _without_repeats(kept))


def _root(name: str, causes: dict[str, str]) -> str:
    seen = set()
    while name in causes and name not in seen:
        seen.add(name)
        name = causes[name]
    return name


def _without_repeats(diagnostics: list[Diagnostic]) -> Iterable[Diagnostic]:
    groups: dict[tuple[object, ...], list[Diagnostic]] = {}
    for each in diagnostics:
        words = (each.code, each.severity, each.message, each.help)
        groups.setdefault(words if RULES[each.code].folds else (each,), []).append(each)
    for group in groups.values():
        others = list(dict.fromkeys(each.object for each in group if each.object != group[0].object))
        if not others:
            yield from group
            continue
        names = ", ".join(others[:MAX_NAMES]) + (", ..." if len(others) > MAX_NAMES else "")
        yield replace(group[0], message=f"{group[0].message} (and {len(others)} more: {names})")


def _with_count(diagnostic: Diagnostic, jobs: int) -> Diagnostic:
    if not jobs:
        return diagnostic
    return replace(diagnostic, help=f"{diagnostic.help}; {jobs} job{'s wait' if jobs > 1 else ' waits'} for this")

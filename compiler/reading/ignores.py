"""Findings that users ignore: `# gangplan: ignore GP213 reason` in a file, and [ignore] in gangplan.toml.

Errors cannot be ignored: an object with one is in no plan, which must be reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from compiler.checks.check import all_rules
from compiler.diagnostics.diagnostic import RULES, Diagnostic, Position, sorted_diagnostics
from compiler.diagnostics.guard import Place, guarded
from compiler.repository.paths import BAD_IGNORE_RULE, CONFIGURATION_FILE, path_patterns
from compiler.repository.tree import Repository

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

_COMMENT = re.compile(r"#[ \t]*gangplan:[ \t]*ignore\b(.*)")
_MARK = b"gangplan:"
_CODES = re.compile(r"[ \t]*((?:GP\d{3}[ \t,]*)*)")
_CODE = re.compile(r"GP\d{3}")
_TOML_PLACE = re.compile(r" \(at line (\d+), column (\d+)\)$")


@dataclass(frozen=True, slots=True)
class _Rule:
    """Codes that are ignored. first, last: the lines of a file; patterns: else the files."""

    at: Position
    codes: frozenset[str]
    first: int = 0
    last: int = 0
    patterns: GitIgnoreSpec | None = None

    def covers(self, found: Diagnostic) -> bool:
        if found.code not in self.codes:
            return False
        if self.patterns is not None:
            return bool(self.patterns.match_file(found.position.file))
        return found.position.file == self.at.file and self.first <= found.position.line <= self.last


def without_ignored(tree: Repository, diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Return the diagnostics without those that the repository ignores, and with the faults of its rules, sorted."""
    rules, problems = list[_Rule](), list[Diagnostic]()
    for found in _rules(tree):
        if isinstance(found, Diagnostic):
            problems.append(found)
        else:
            rules.append(found)
    left = []
    for diagnostic in diagnostics:
        covering = next((rule for rule in rules if rule.covers(diagnostic)), None)
        if covering is None:
            left.append(diagnostic)
        elif diagnostic.severity == "error":
            message = f"{diagnostic.code} is an error, which cannot be ignored"
            problems.append(BAD_IGNORE_RULE.diagnostic(covering.at, message, "correct the error, or remove the object"))
            left.append(diagnostic)
    return sorted_diagnostics([*left, *problems])


def _rules(tree: Repository) -> Iterator[_Rule | Diagnostic]:
    if CONFIGURATION_FILE in tree.files:
        yield from _configured_rules(tree.files[CONFIGURATION_FILE])
    for file in tree.manifests():
        if _MARK in tree.files[file]:
            errors = list[Diagnostic]()
            with guarded(Place(Position(file, 1, 1)), errors.append):
                yield from _commented_rules(file, tree.files[file].decode("utf-8", "replace").split("\n"))
            yield from errors


def _commented_rules(file: str, lines: list[str]) -> Iterator[_Rule | Diagnostic]:
    """Yield the rules in comments. A comment next to text is about its line; one on its own line about the next line
    with text; one before a document's text about the whole document."""
    is_before_text = True
    for number, line in enumerate(lines, start=1):
        alone = line.lstrip().startswith("#")
        if found := _COMMENT.search(line):
            at = Position(file, number, found.start() + 1)
            codes = _CODES.match(found.group(1))
            named = frozenset(_CODE.findall(codes.group(1) if codes else ""))
            if not named:
                help = "write it as # gangplan: ignore GP213 reason"
                yield BAD_IGNORE_RULE.diagnostic(at, "the comment names no code to ignore", help)
            elif unknown := sorted(filter(_is_unknown, named)):
                help = "name the code of the finding, or remove the comment"
                yield BAD_IGNORE_RULE.diagnostic(at, f"there is no code {unknown[0]}", help)
            elif not alone:
                yield _Rule(at, named, number, number)
            else:
                yield _Rule(at, named, number, _end_of_reach(lines, number, whole_document=is_before_text))
        if line.startswith(("---", "...")):
            is_before_text = True
        elif line.strip() and not alone:
            is_before_text = False


def _end_of_reach(lines: list[str], start: int, *, whole_document: bool) -> int:
    """Return the last line that a comment on line `start` is about."""
    seen_text = False
    for number in range(start + 1, len(lines) + 1):
        line = lines[number - 1]
        if line.startswith(("---", "...")):
            if seen_text or not whole_document:
                return number - 1
        elif line.strip() and not line.lstrip().startswith("#"):
            seen_text = True
            if not whole_document:
                return number
    return len(lines)


def _configured_rules(content: bytes) -> Iterator[_Rule | Diagnostic]:
    import tomllib

    text = content.decode("utf-8", "replace")
    try:
        configured = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        place = _TOML_PLACE.search(str(problem))
        line, column = (int(place.group(1)), int(place.group(2))) if place else (1, 1)
        message = f"{CONFIGURATION_FILE} is not TOML: {_TOML_PLACE.sub('', str(problem))}"
        yield BAD_IGNORE_RULE.diagnostic(Position(CONFIGURATION_FILE, line, column), message, "correct it")
        return
    ignored: Any = configured.pop("ignore", {})
    configured.pop("defaults", None)  # of the command line: `compiler.cli.root`
    for key in configured:
        yield _bad_entry(text, key, f"{CONFIGURATION_FILE} has no [{key}]")
    if not isinstance(ignored, dict):
        yield _bad_entry(text, "ignore", "ignore is not a table of codes")
        return
    for code, patterns in ignored.items():
        yield _configured_rule(text, code, [patterns] if isinstance(patterns, str) else patterns)


def _configured_rule(text: str, code: str, patterns: Any) -> _Rule | Diagnostic:
    if not _CODE.fullmatch(code):
        return _bad_entry(text, code, f"{code!r} is not a code")
    if _is_unknown(code):
        return _bad_entry(text, code, f"there is no code {code}")
    if not isinstance(patterns, list) or not all(isinstance(each, str) for each in patterns):
        return _bad_entry(text, code, f"{code} has no list of patterns")
    try:
        return _Rule(_entry_position(text, code), frozenset((code,)), patterns=path_patterns(patterns))
    except ValueError:
        return _bad_entry(text, code, f"{code} has a pattern that is not in gitignore's syntax")


def _is_unknown(code: str) -> bool:
    """Return whether no rule has the code. All rules are imported only for one that was not met yet."""
    return code not in RULES and code not in all_rules()


def _bad_entry(text: str, key: str, message: str) -> Diagnostic:
    help = 'write [ignore] and below it GP213 = ["jobs/legacy/"]'
    return BAD_IGNORE_RULE.diagnostic(_entry_position(text, key), message, help)


def _entry_position(text: str, key: str) -> Position:
    for number, line in enumerate(text.split("\n"), start=1):
        if re.match(rf'\s*\[?"?{re.escape(key)}\b', line):
            return Position(CONFIGURATION_FILE, number, 1)
    return Position(CONFIGURATION_FILE, 1, 1)

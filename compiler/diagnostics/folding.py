"""One cause, one message: findings for people, with the consequences of an error folded into it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from compiler.diagnostics.diagnostic import RULES, Diagnostic

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

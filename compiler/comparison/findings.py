"""Findings of two revisions: which are new, which are fixed, and of which only a number differs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from compiler.diagnostics.diagnostic import Diagnostic
from compiler.reading.one_document import GENERATED_NAME

_NUMBER = re.compile(r"\d[\d.,]*")
_Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FindingChanges:
    """changed: the same finding with another number, before and after."""

    new: tuple[Diagnostic, ...] = ()
    changed: tuple[tuple[Diagnostic, Diagnostic], ...] = ()
    mended: tuple[Diagnostic, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.new or self.changed or self.mended)


NO_CHANGES = FindingChanges()


def finding_changes(base: Iterable[Diagnostic], head: Iterable[Diagnostic]) -> FindingChanges:
    """What differs between the findings. One that only moved to another line is the same."""
    before, after = _by_subject(base), _by_subject(head)
    new = [finding for key, finding in after.items() if key not in before]
    mended = [finding for key, finding in before.items() if key not in after]
    changed = []
    for finding in tuple(new):
        former = next((each for each in mended if _subject(each, masked=True) == _subject(finding, masked=True)), None)
        if former is not None:
            changed.append((former, finding))
            new.remove(finding)
            mended.remove(former)
    return FindingChanges(tuple(new), tuple(changed), tuple(mended))


def _by_subject(findings: Iterable[Diagnostic]) -> dict[_Key, Diagnostic]:
    """By what they are about. The name of a job that has generateName is no finding: the jobs show it."""
    names = (GENERATED_NAME.code, "info")
    return {_subject(each): each for each in findings if (each.code, each.severity) != names}


def _subject(finding: Diagnostic, *, masked: bool = False) -> _Key:
    message = _NUMBER.sub("#", finding.message) if masked else finding.message
    return finding.code, finding.severity, finding.object, finding.position.file, message

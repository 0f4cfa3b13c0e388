"""Findings of two revisions: which are new, which are fixed, and of which only a number differs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from compiler.diagnostics.diagnostic import Diagnostic
from compiler.explain.caveats import LIVE_REQUESTS
from compiler.reading.one_document import GENERATED_NAME

_NUMBER = re.compile(r"\d[\d.,]*")
_LEFT_OUT = (GENERATED_NAME.code, LIVE_REQUESTS.code)
"""Infos that a change of the repository cannot cause, or that the jobs show."""
_OF_REPOSITORY = "GP357"
"""One finding a repository, shown at the first object that it is about."""
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
    """Return the differences between the findings. One that only moved to another line or file is the same. Where
    numbers or words differ, at the same field of an object, it is changed."""
    before, after = _by_subject(base), _by_subject(head)
    new = [finding for key, finding in after.items() if key not in before]
    mended = [finding for key, finding in before.items() if key not in after]
    for finding in [each for each in new if not each.object]:
        moved = next((each for each in mended if _in_any_folder(each) == _in_any_folder(finding)), None)
        if moved is not None:
            new.remove(finding)
            mended.remove(moved)
    changed = []
    for same in (_masked_subject, _field_of):
        for finding in tuple(new):
            former = next((each for each in mended if same(each) == same(finding)), None)
            if former is not None:
                changed.append((former, finding))
                new.remove(finding)
                mended.remove(former)
    return FindingChanges(tuple(new), tuple(changed), tuple(mended))


def _in_any_folder(finding: Diagnostic) -> _Key:
    """Return the finding on a file, whatever folder holds it."""
    return finding.code, finding.severity, finding.object, finding.message, PurePosixPath(finding.position.file).name


def _masked_subject(finding: Diagnostic) -> _Key:
    return _subject(finding, masked=True)


def _field_of(finding: Diagnostic) -> tuple[object, ...]:
    return finding.code, *_place(finding), *finding.path


def _by_subject(findings: Iterable[Diagnostic]) -> dict[_Key, Diagnostic]:
    """Return the findings by their subjects."""
    return {_subject(each): each for each in findings if not _is_left_out(each)}


def _is_left_out(finding: Diagnostic) -> bool:
    return finding.severity == "info" and finding.code in _LEFT_OUT


def _subject(finding: Diagnostic, *, masked: bool = False) -> _Key:
    message = _NUMBER.sub("#", finding.message) if masked else finding.message
    if finding.code == _OF_REPOSITORY:
        return finding.code, "" if masked else message
    return finding.code, finding.severity, *_place(finding), message


def _place(finding: Diagnostic) -> _Key:
    """Return the object, wherever it is written; without one the file."""
    return (finding.object, "") if finding.object else ("", finding.position.file)

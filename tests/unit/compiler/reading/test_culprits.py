"""Where code that works on several documents fails, those without which it works are to blame."""

from __future__ import annotations

import pytest

from compiler.diagnostics.diagnostic import Diagnostic
from compiler.reading.culprits import LeftOut, attributed, document_under_way
from compiler.syntax.documents import Document
from tests.builders.specs import document

DOCUMENTS = [document("Job", f"j{number}") for number in range(9)]


def blamed(*groups: set[str]) -> tuple[list[str], list[str]]:
    """Whom a stage blames that fails with all documents of one of these groups, and what it returns."""
    culprits: list[str] = []

    def stage(left_out: LeftOut) -> list[str]:
        names = [each.name for each in DOCUMENTS if each.identity not in left_out]
        for group in groups:
            if group <= {*names}:
                raise ValueError(group)
        return names

    def blame(culprit: Document, error: Diagnostic) -> None:
        assert (error.code, error.object) == ("GP139", culprit.display_name)
        culprits.append(culprit.name)

    return culprits, attributed(stage, lambda: DOCUMENTS, blame)


def test_each_document_with_which_it_fails_is_blamed_and_no_other() -> None:
    names = [each.name for each in DOCUMENTS]
    assert blamed() == ([], names)
    for name in names:
        assert blamed({name}) == ([name], [each for each in names if each != name])
    assert blamed({"j7"}, {"j2"}) == (["j2", "j7"], ["j0", "j1", "j3", "j4", "j5", "j6", "j8"])


def test_of_two_that_fail_together_the_later_one_is_blamed() -> None:
    assert blamed({"j1", "j5"})[0] == ["j5"]


def test_what_fails_without_any_document_is_no_document_s_fault() -> None:
    with pytest.raises(ValueError):
        blamed(set())


def test_running_out_of_memory_is_nobody_s_fault() -> None:
    def stage(left_out: LeftOut) -> None:
        raise MemoryError

    with pytest.raises(MemoryError):
        attributed(stage, lambda: DOCUMENTS, lambda *_: None)


def test_the_document_under_way_is_the_innermost_at_hand() -> None:
    def inner(each: Document) -> None:
        raise ValueError(each.name)

    def outer(first: Document, second: Document) -> None:
        inner(first)

    with pytest.raises(ValueError) as found:
        outer(*DOCUMENTS[:2])
    assert document_under_way(found.value) is DOCUMENTS[0]
    assert document_under_way(ValueError()) is None

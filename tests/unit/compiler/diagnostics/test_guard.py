"""An exception while one document is dealt with becomes an error of that document."""

from __future__ import annotations

import json
import logging

import pytest

from compiler.diagnostics.diagnostic import Diagnostic, Position
from compiler.diagnostics.guard import Place, guarded, raise_again
from compiler.fields.quantity import parse_quantity
from compiler.syntax.documents import Document

DOCUMENT = Document("jobs/a.yaml", 7, "", {"kind": "Job", "metadata": {"name": "a"}}, {(): (9, 3)})


def _fail() -> None:
    parse_quantity("secret")


def test_an_exception_names_document_type_and_place_in_our_code_and_not_what_it_says() -> None:
    found: list[Diagnostic] = []
    with guarded(DOCUMENT, found.append):
        _fail()
    (error,) = found
    assert (error.code, error.severity, error.position) == ("GP139", "error", Position("jobs/a.yaml", 9, 3))
    assert error.object == "Job a"
    assert error.message.startswith("gangplan failed on Job a: QuantityError in compiler/fields/quantity.py:")
    assert error.message.endswith("(_amount)")
    assert "secret" not in error.message


def test_an_exception_of_a_library_is_placed_where_we_called_it() -> None:
    found: list[Diagnostic] = []
    with guarded(Place(Position("a", 1, 1)), found.append):
        json.loads("{")
    assert found[0].message == "gangplan failed on this document: JSONDecodeError in unknown code"


def test_a_recursion_without_end_is_an_error_of_the_document() -> None:
    def recurse() -> None:
        recurse()

    found: list[Diagnostic] = []
    with guarded(DOCUMENT, found.append):
        recurse()
    assert "RecursionError" in found[0].message


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt, SystemExit])
def test_what_is_no_fault_of_a_document_passes(error: type[BaseException]) -> None:
    found: list[Diagnostic] = []
    with pytest.raises(error), guarded(DOCUMENT, found.append):
        raise error
    assert found == []


def test_an_exception_passes_where_nobody_takes_the_error() -> None:
    with pytest.raises(ValueError), guarded(DOCUMENT, raise_again):
        _fail()


def test_the_traceback_goes_to_the_debug_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), guarded(DOCUMENT, lambda _: None):
        _fail()
    assert "Traceback" in caplog.text

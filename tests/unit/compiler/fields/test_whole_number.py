"""Whole numbers in texts that anybody may have written."""

from __future__ import annotations

import pytest

from compiler.fields.texts import whole_number
from compiler.validation.schedules import schedule_objection


@pytest.mark.parametrize(
    ("text", "number"), [("0", 0), ("007", 7), ("", None), ("-1", None), ("\u0663", None), ("9" * 21, None)]
)
def test_only_ascii_digits_are_a_number(text: str, number: int | None) -> None:
    assert whole_number(text) == number


def test_a_number_has_a_limit() -> None:
    assert [whole_number(text, 5) for text in ("4", "5", "60")] == [4, 5, 5]


def test_a_schedule_of_thousands_of_digits_is_invalid() -> None:
    assert schedule_objection(f"{'9' * 5000} * * * *")
    assert schedule_objection(f"*/{'9' * 5000} * * * *")

"""Durations as text."""

from __future__ import annotations

import pytest

from compiler.fields.times import parse_duration, rounded_duration_text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (45, "45 s"), (3_600, "1 h"), (5_430, "1 h 30 min"), (90_000, "1 d 1 h"), (1_814_399, "20 d 23 h")],
)
def test_a_duration_is_read_in_its_two_largest_units(seconds: int, text: str) -> None:
    assert rounded_duration_text(seconds) == text


@pytest.mark.parametrize(("text", "seconds"), [("2d", 172_800), ("1d12h", 129_600), ("90", 90), ("1.5h", 5_400)])
def test_a_duration_is_written_in_days_hours_minutes_and_seconds(text: str, seconds: int) -> None:
    assert parse_duration(text) == seconds

"""Whole numbers in texts that anybody may have written."""

from __future__ import annotations

MOST_DIGITS = 20
"""More are no count of anything, and Python refuses thousands of them."""


def whole_number(text: str) -> int | None:
    """The number that a text of decimal digits spells; None for any other text."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS else None

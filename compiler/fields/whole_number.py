"""Whole numbers in texts that anybody may have written."""

from __future__ import annotations

MOST_DIGITS = 20
"""No count has more digits, and Python refuses thousands of them."""


def whole_number(text: str, most: int = 10**MOST_DIGITS) -> int | None:
    """Return the number that a text of decimal digits spells, `most` for a larger one; None for any other text."""
    return min(int(text), most) if text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS else None

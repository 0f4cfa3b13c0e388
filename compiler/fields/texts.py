"""How values and paths of documents are written in messages; the natural order of names; whole numbers in texts."""

from __future__ import annotations

import re
from functools import lru_cache

from compiler.syntax.documents import FieldPath


def dotted_path(path: FieldPath) -> str:
    """("spec", "tasks", 0, "name") as spec.tasks[0].name."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.lstrip(".") or "the document"


def short_repr(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def as_yaml_text(value: object) -> str:
    """Return a scalar as YAML reads it in quotes."""
    return str(value).lower() if isinstance(value, bool) else str(value)


MOST_DIGITS = 20
"""No count has more digits, and Python refuses thousands of them."""


def whole_number(text: str, most: int = 10**MOST_DIGITS) -> int | None:
    """Return the number that a text of decimal digits spells, `most` for a larger one; None for any other text."""
    return min(int(text), most) if text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS else None


@lru_cache(maxsize=1 << 16)
def natural_sort_key(name: str) -> tuple[tuple[int, str | int], ...]:
    """Sort key that compares runs of digits as numbers; text sorts before digits."""
    return tuple(
        (0, part) if (number := whole_number(part)) is None else (1, number)
        for part in re.split(r"([0-9]+)", name)
        if part
    )

"""How values, paths and many names are written in messages; the natural order of names; whole numbers in texts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
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


_NUMBERED = re.compile(r"(.*?)(\d+)\Z", re.DOTALL)
MIN_RUN_LENGTH = 3
MAX_LISTED = 3
"""How many names, or other texts, a sentence lists before it counts the rest."""


def short_list(texts: Sequence[str], count: int | None = None, most: int = MAX_LISTED) -> str:
    """Return the first texts, and how many more there are of `count`; by default of the texts."""
    rest = (len(texts) if count is None else count) - most
    return ", ".join(texts[:most]) + (f" and {rest} more" if rest > 0 else "")


def count_text(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def compact_names(names: Sequence[str], max_pieces: int | None = None) -> str:
    """Names in their order, runs of consecutive numbers as "sn-05 to 08"; after `most` pieces the rest is counted."""
    pieces = list(_name_runs(names))
    shown = [text for text, _ in pieces[:max_pieces]]
    rest = sum(count for _, count in pieces[max_pieces:]) if max_pieces is not None else 0
    return ", ".join(shown) + (f" and {rest} more" if rest else "")


def _name_runs(names: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Yield pieces, each with the number of names that it represents."""
    start = 0
    while start < len(names):
        end = start + 1
        while end < len(names) and _is_consecutive(names[end - 1], names[end]):
            end += 1
        if end - start >= MIN_RUN_LENGTH:
            last = _NUMBERED.match(names[end - 1])
            yield f"{names[start]} to {last[2] if last else names[end - 1]}", end - start
        else:
            yield from ((name, 1) for name in names[start:end])
        start = end


def _is_consecutive(previous: str, following: str) -> bool:
    left, right = _NUMBERED.match(previous), _NUMBERED.match(following)
    return bool(left and right and left[1] == right[1] and int(left[2]) + 1 == int(right[2]))

"""Many names in few words: "sn-03, sn-05 to 08"."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

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

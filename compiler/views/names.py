"""Many names in few words: "sn-03, sn-05 to 08"."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_NUMBERED = re.compile(r"(.*?)(\d+)\Z", re.DOTALL)
SHORTEST_RUN = 3


def compact(names: Sequence[str], most: int | None = None) -> str:
    """Names in their order, runs of consecutive numbers as "sn-05 to 08"; after `most` pieces the rest is counted."""
    pieces = list(_runs(names))
    shown = [text for text, _ in pieces[:most]]
    rest = sum(count for _, count in pieces[most:]) if most is not None else 0
    return ", ".join(shown) + (f" and {rest} more" if rest else "")


def _runs(names: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Pieces with how many names each stands for."""
    start = 0
    while start < len(names):
        end = start + 1
        while end < len(names) and _follows(names[end - 1], names[end]):
            end += 1
        if end - start >= SHORTEST_RUN:
            last = _NUMBERED.match(names[end - 1])
            yield f"{names[start]} to {last[2] if last else names[end - 1]}", end - start
        else:
            yield from ((name, 1) for name in names[start:end])
        start = end


def _follows(before: str, after: str) -> bool:
    left, right = _NUMBERED.match(before), _NUMBERED.match(after)
    return bool(left and right and left[1] == right[1] and int(left[2]) + 1 == int(right[2]))

"""The natural order of names, in which node-2 comes before node-10."""

from __future__ import annotations

import re
from functools import lru_cache


@lru_cache(maxsize=1 << 16)
def natural_sort_key(name: str) -> tuple[tuple[int, str | int], ...]:
    """Sort key that compares runs of digits as numbers; text sorts before digits."""
    return tuple(
        (1, int(part)) if part.isdigit() and part.isascii() else (0, part)
        for part in re.split(r"([0-9]+)", name)
        if part
    )

"""The natural order of names, in which node-2 precedes node-10."""

from __future__ import annotations

import re
from functools import lru_cache

from compiler.fields.whole_number import whole_number


@lru_cache(maxsize=1 << 16)
def natural_sort_key(name: str) -> tuple[tuple[int, str | int], ...]:
    """Sort key that compares runs of digits as numbers; text sorts before digits."""
    return tuple(
        (0, part) if (number := whole_number(part)) is None else (1, number)
        for part in re.split(r"([0-9]+)", name)
        if part
    )

"""Durations as Go writes them."""

from __future__ import annotations

import re
from collections.abc import Mapping

_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")
_SECONDS: Mapping[str, float] = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}


def seconds(duration: str) -> float:
    """Go's durations ("1h30m", "600s"); 0 for what is none, as Volcano ignores it."""
    parts = _PART.findall(duration)
    return (
        sum(float(number) * _SECONDS[unit] for number, unit in parts)
        if "".join(map("".join, parts)) == duration
        else 0.0
    )

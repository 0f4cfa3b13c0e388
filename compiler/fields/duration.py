"""Durations as Go writes them."""

from __future__ import annotations

import re
from collections.abc import Mapping

_DURATION_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")
_UNIT_SECONDS: Mapping[str, float] = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}


def go_duration_seconds(duration: str) -> float:
    """Go's durations ("1h30m", "600s"); 0 for what is none, as Volcano ignores it."""
    parts = _DURATION_PART.findall(duration)
    return (
        sum(float(number) * _UNIT_SECONDS[unit] for number, unit in parts)
        if "".join(map("".join, parts)) == duration
        else 0.0
    )

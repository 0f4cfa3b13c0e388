"""Durations: as users write them, as Go writes them, and as text.

Points in time: RFC 3339 text and seconds since the epoch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from fractions import Fraction
from functools import lru_cache

_DURATION = re.compile(
    r"(?:(\d+(?:\.\d+)?)d)?(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?\Z", re.ASCII
)
_GO_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")
_GO_DURATION = re.compile(rf"[-+]?(?:0|(?:{_GO_PART.pattern})+)", re.ASCII)
_GO_UNITS: Mapping[str, float] = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}


def parse_duration(value: object) -> int:
    """Whole seconds, rounded up, of 90, "90", "90s", "1h30m", "2d". ValueError for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | str) or len(str(value)) > 32:
        raise ValueError("not a duration")
    text = str(value)
    if text.isascii() and text.isdigit():
        return int(text)
    found = _DURATION.match(text)
    if not text or found is None:
        raise ValueError("not a duration")
    days, hours, minutes, seconds = (Fraction(part or 0) for part in found.groups())
    total = days * 86_400 + hours * 3600 + minutes * 60 + seconds
    return -int(-total // 1)


def go_duration_seconds(duration: str) -> float:
    """Seconds of a duration in Go's syntax ("1h30m", "600s"); 0 for any other text, which Volcano ignores."""
    parts = _GO_PART.findall(duration)
    if "".join(map("".join, parts)) != duration:
        return 0.0
    return sum(float(number) * _GO_UNITS[unit] for number, unit in parts)


def is_go_duration(text: str) -> bool:
    """Return whether Go's time.ParseDuration reads the text."""
    return _GO_DURATION.fullmatch(text) is not None


def duration_text(seconds: int) -> str:
    """Return a duration as a user would write it into an annotation: 1h30m, 45s."""
    parts = ((seconds // 3600, "h"), (seconds // 60 % 60, "m"), (seconds % 60, "s"))
    return "".join(f"{number}{unit}" for number, unit in parts if number) or "0s"


def rounded_duration_text(seconds: int) -> str:
    """Return a duration as a person reads it, in its two largest units: 45 s, 1 h 30 min, 21 d."""
    parts = ((seconds // 86_400, "d"), (seconds // 3_600 % 24, "h"), (seconds // 60 % 60, "min"), (seconds % 60, "s"))
    first = next((i for i, (number, _) in enumerate(parts) if number), 3)
    texts = [f"{number} {unit}" for number, unit in parts[first : first + 2] if number]
    return " ".join(texts) or "0 s"


_TIMESTAMP = re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:[Zz]|[+-]\d{2}:\d{2})\Z", re.ASCII)


def parse_timestamp(value: object) -> int:
    """Seconds since the epoch of an RFC 3339 time. ValueError for anything else."""
    if not isinstance(value, str) or not _TIMESTAMP.match(value):
        raise ValueError("not a time")
    try:
        return int(datetime.fromisoformat(value.upper().replace(" ", "T")).timestamp())
    except OverflowError as problem:
        raise ValueError("not a time") from problem


def epoch_seconds(time: object) -> int | None:
    """Seconds since the epoch of a time in an API object: text, or the datetime that YAML made of it; else None."""
    if isinstance(time, str):
        return _cached_epoch_seconds(time)
    return _datetime_seconds(time) if isinstance(time, datetime) else None


@lru_cache(maxsize=100_000)
def _cached_epoch_seconds(time: str) -> int | None:
    """Cached, because the pods of a gang repeat the same few times."""
    try:
        return _datetime_seconds(datetime.fromisoformat(time))
    except ValueError:
        return None


def _datetime_seconds(moment: datetime) -> int:
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())


def rfc3339(seconds: int) -> str:
    """Seconds since the epoch as 2026-01-31T12:00:00Z."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

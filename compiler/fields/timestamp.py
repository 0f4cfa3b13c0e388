"""Points in time: RFC 3339 text and seconds since the epoch."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache

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

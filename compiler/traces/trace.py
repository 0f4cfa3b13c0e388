"""The common form of every format, and its numbers within the range of a replay: each `ValueError` has the fault."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime


class TraceError(ValueError):
    """The file is not a readable trace; the text has a line for each problem."""


@dataclass(frozen=True, slots=True)
class TraceJob:
    """One line of a trace. Times in seconds, `submit` since any moment. duration: None for a job that has not
    ended. requested: None where the trace states none.
    devices: over all pods. share: thousandths of each device. cpu (millicores) and memory (bytes): of the job. models:
    of devices that it may use, empty for any."""

    id: str
    submit: float
    duration: float | None
    requested: float | None
    devices: int
    share: int = 1000
    cpu: int = 0
    memory: int = 0
    models: tuple[str, ...] = ()
    queue: str = ""
    user: str = ""
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Trace:
    """jobs: by submission. left_out: why lines are not jobs -> their number. machines: of the cluster, if stated.
    origin: the moment from which a replay counts its seconds; the first arrival, if the trace has dates. notes: further
    assumptions of a replay, a sentence each."""

    jobs: Sequence[TraceJob]
    left_out: Mapping[str, int] = field(default_factory=dict)
    machines: int | None = None
    origin: float = 0.0
    notes: Sequence[str] = ()


MOST_SECONDS = 1e11
"""A date of the year 5138: larger values are milliseconds, or not a limit."""
MOST = 10**12
"""Largest number of devices, MiB and the like: their bytes fit 64 bits."""
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_MEMORY_UNITS = {unit: 1 << 10 * power for power, unit in enumerate("KMGTP", start=1)}


def finite(value: object, meaning: str) -> float:
    """Return a number or its text as a number. meaning: of the value, for the error."""
    try:
        found = math.nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]  # what else raises
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not math.isfinite(found):
        raise ValueError(f"invalid {meaning} {value!r}: not a number")
    return found


def seconds(value: object, meaning: str) -> float:
    """Return a moment or a duration in seconds."""
    found = finite(value, meaning)
    if abs(found) >= MOST_SECONDS:
        raise ValueError(f"invalid {meaning} {value!r}: too large. Fix: write seconds, not milliseconds")
    return found


def amount(value: object, meaning: str) -> float:
    """Return an amount of a resource; with the units K, M and G of Slurm."""
    text = re.fullmatch(r"([0-9.]+)([KMG])", value) if isinstance(value, str) else None
    found = finite(text[1], meaning) * _UNITS[text[2]] if text else finite(value, meaning)
    if abs(found) >= MOST:
        raise ValueError(f"invalid {meaning} {value!r}: too large")
    return found


def memory_bytes(text: str, meaning: str) -> int:
    """Bytes of an amount as Slurm writes it: with the units K to P, else in MiB."""
    parts = re.fullmatch(r"([0-9.]+)([KMGTP]?)", text)
    found = finite(parts[1] if parts else text, meaning) * _MEMORY_UNITS[(parts and parts[2]) or "M"]
    if abs(found) >= MOST * _MEMORY_UNITS["M"]:
        raise ValueError(f"invalid {meaning} {text!r}: too large")
    return math.ceil(found)


def whole(value: object, meaning: str) -> int:
    """Return an amount that cannot be divided."""
    found = amount(value, meaning)
    if found != int(found):
        raise ValueError(f"invalid {meaning} {value!r}: not a whole number")
    return int(found)


def moment(text: str, meaning: str) -> float:
    """Return a moment in seconds: a number, or a date of ISO 8601 (without a zone: UTC)."""
    if _is_number(text):
        return seconds(text, meaning)
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f"invalid {meaning} {text!r}: expected seconds or an ISO 8601 date") from error
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def clock(text: str, meaning: str) -> float:
    """Return a number of seconds, or [days-]hours:minutes:seconds as Slurm writes it."""
    if _is_number(text):
        return seconds(text, meaning)
    found = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+(?:\.\d+)?)", text)
    if found is None:
        raise ValueError(f"invalid {meaning} {text!r}: expected seconds or [days-]hours:minutes:seconds")
    days, hours, minutes, rest = (float(part or 0) for part in found.groups())
    return seconds(((days * 24 + hours) * 60 + minutes) * 60 + rest, meaning)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True

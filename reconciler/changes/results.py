"""What became of writes, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from reconciler.changes.diff import Change
from reconciler.changes.pods import Eviction, GateLift

PodOutcome = Literal["done", "refused", "retry", "left", "put off"]
"""left: it is under way, and how it ends is another result. put off: it was not begun. retry: it failed for now, or how
it ended is not known."""


ChangeOutcome = Literal[PodOutcome, "conflict", "fight"]


UNANSWERED = ("left", "put off")


@dataclass(frozen=True, slots=True)
class ChangeResult:
    """What became of a change. retry_after: seconds until it is worth another try. is_takeover: fields were taken from
    other managers that were not ours before."""

    change: Change
    outcome: ChangeOutcome
    message: str = ""
    retry_after: float = 0.0
    is_takeover: bool = False


class GateResult(NamedTuple):
    """What became of the gate of one pod. gang: the key of its job. message: why it is not lifted."""

    gang: str
    lift: GateLift
    outcome: PodOutcome
    message: str = ""


class EvictionResult(NamedTuple):
    """What became of an eviction. retry_after: seconds until it is worth another try."""

    eviction: Eviction
    outcome: PodOutcome
    message: str = ""
    retry_after: float = 0.0


WriteResult: TypeAlias = ChangeResult | GateResult | EvictionResult

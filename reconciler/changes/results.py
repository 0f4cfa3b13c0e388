"""What became of writes, as data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from reconciler.changes.diff import Change
from reconciler.changes.events import ObjectEvent
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


def events_of_results(results: Iterable[ChangeResult]) -> Iterator[ObjectEvent]:
    """What became of changes, on the objects themselves."""
    for result in results:
        change = result.change
        if change.live is None:
            continue
        if result.outcome in ("conflict", "refused", "fight"):
            yield ObjectEvent(change.live, "NotApplied", result.message, True)
        elif result.outcome == "done" and change.action in ("update", "in-place") and result.message:
            done = "taken over" if result.is_takeover else "put back"
            yield ObjectEvent(change.live, "Corrected", f"{done}: {result.message}", False)
        elif result.outcome == "done" and change.action == "replace" and not change.run_digest:
            yield ObjectEvent(change.live, "Replaced", f"deleted, to be created again: {change.reason}", False)

"""What became of writes, and what is reported of objects and of the whole, as data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from reconciler.changes.diff import Change
from reconciler.changes.pods import Eviction, GateLift
from reconciler.cluster.objects import Object, ref_of

MAX_TEXTS = 5
"""Sentences that a condition says at most."""


class ObjectEvent(NamedTuple):
    object: Object
    reason: str
    message: str
    is_warning: bool


@dataclass(frozen=True, slots=True)
class Condition:
    """As in Kubernetes: whether it holds, a short reason for machines and a sentence for people."""

    type: str
    status: bool
    reason: str
    message: str = ""

    @classmethod
    def of_texts(
        cls, name: str, texts: Sequence[str], without: str, with_texts: str, *, holds: bool = True
    ) -> Condition:
        """One that `holds`, or does not, where there are sentences. without, with_texts: the reason without and with
        them."""
        return cls(name, bool(texts) == holds, with_texts if texts else without, summary(texts))


def summary(texts: Sequence[str]) -> str:
    more = len(texts) - MAX_TEXTS
    return "; ".join(texts[:MAX_TEXTS]) + (f"; and {more} more" if more > 0 else "")


PodOutcome = Literal["done", "refused", "retry", "left", "put off"]
"""left: it is under way, and how it ends is another result. put off: it was not begun. retry: it failed for now, or how
it ended is not known."""
ChangeOutcome = Literal[PodOutcome, "conflict", "fight"]
UNANSWERED = ("left", "put off")


@dataclass(frozen=True, slots=True)
class ChangeResult:
    """What became of a change. retry_after: in seconds. is_takeover: fields of others were taken that were not ours."""

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


@dataclass(frozen=True, slots=True)
class Effects:
    """What a part did; the report is made of the sum. results: of changes. held: what is not done, with the reason in
    each. lifted: Ref.key of a job -> pods that were given their nodes. evicted: the pods, as text."""

    results: tuple[ChangeResult, ...] = ()
    held: tuple[Change, ...] = ()
    lifted: Mapping[str, int] = field(default_factory=dict)
    evicted: tuple[str, ...] = ()
    events: tuple[ObjectEvent, ...] = ()

    def __add__(self, other: Effects) -> Effects:
        return Effects(
            (*self.results, *other.results),
            (*self.held, *other.held),
            Counter(self.lifted) + Counter(other.lifted),
            (*self.evicted, *other.evicted),
            (*self.events, *other.events),
        )

    @classmethod
    def of_event(cls, item: Object, reason: str, message: str, is_warning: bool) -> Effects:
        return cls(events=(ObjectEvent(item, reason, message, is_warning),))

    @classmethod
    def of_eviction(cls, eviction: Eviction) -> Effects:
        event = ObjectEvent(eviction.pod, eviction.reason, eviction.message, True)
        return cls(evicted=(str(ref_of(eviction.pod)),), events=(event,))


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

"""What is to be written and may be, what became of it, and what is reported of it, as data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, TypeAlias

from compiler.emit.manifest import Manifest
from reconciler.changes.diff import Change
from reconciler.changes.pods import Eviction, GateLift
from reconciler.cluster.objects import Object

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


@dataclass(frozen=True, slots=True)
class Changes:
    """due: to be written. held: what is not done, with the reason in each. obstructed: of objects that could not be
    looked at, as well. declared: Ref.key of all that the plan has, also where no manifest of it can be made. suspended:
    Ref.key of what is left alone. manifests: Ref.key -> what the object is to be in the cluster."""

    due: tuple[Change, ...] = ()
    held: tuple[Change, ...] = ()
    obstructed: tuple[Change, ...] = ()
    declared: Set[str] = frozenset()
    suspended: Set[str] = frozenset()
    manifests: Mapping[str, Manifest] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PrunePlan:
    """changes: what is deleted. releases: what existed before us and is given back. held_changes: what would be
    deleted, with the reason in each. leaving: deleted and not gone yet. vanished_keys: of the inventory, whose object
    is not seen any more.

    obstacles: why nothing is deleted now but containers, which wait for their own releases. excess: why so much may not
    die at once, replacements included. waits_for_release: whether an annotation would let more be deleted. counts:
    against what is deleted later; what an annotation released does not.
    """

    changes: tuple[Change, ...] = ()
    releases: tuple[Change, ...] = ()
    held_changes: tuple[Change, ...] = ()
    leaving: tuple[Change, ...] = ()
    vanished_keys: tuple[str, ...] = ()
    obstacles: tuple[str, ...] = ()
    excess: tuple[str, ...] = ()
    waits_for_release: bool = False
    counts: bool = True

    def holding(self, reason_of: Callable[[Change], str]) -> PrunePlan:
        """The plan, where what this gives a reason for is held, be it to be deleted or given back."""
        left = (*self.changes, *self.releases)
        held = {each.ref.key: replace(each, action="held", reason=why) for each in left if (why := reason_of(each))}
        return replace(
            self,
            changes=tuple(change for change in self.changes if change.ref.key not in held),
            releases=tuple(change for change in self.releases if change.ref.key not in held),
            held_changes=(*self.held_changes, *held.values()),
        )


@dataclass(frozen=True, slots=True)
class Allowed:
    """What of the changes may be made, and what may be deleted. standstill: why nothing at all may be written."""

    changes: Changes = field(default_factory=Changes)
    prune_plan: PrunePlan = field(default_factory=PrunePlan)
    standstill: str = ""

    def conditions(self) -> Iterator[Condition]:
        """Why objects that left the repository stay, and how many."""
        lost, held = self.standstill, Counter(change.reason for change in self.prune_plan.held_changes)
        yield Condition("InventoryLost", bool(lost), "Held" if lost else "Present", lost)
        texts = (f"{count} object{'s' if count > 1 else ''}: {reason}" for reason, count in held.most_common(MAX_TEXTS))
        yield Condition("PruneHeld", bool(held), "Held" if held else "None", "; ".join(texts))

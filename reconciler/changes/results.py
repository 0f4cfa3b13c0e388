"""Data of a pass: changes that are due and allowed, their results, and the report."""

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
"""Most sentences in a condition."""


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
        """Return one that `holds`, or does not, where there are sentences. without, with_texts: the reason without and
        with them."""
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
    """The result of a change. retry_after: in seconds. is_takeover: fields of other managers were taken over."""

    change: Change
    outcome: ChangeOutcome
    message: str = ""
    retry_after: float = 0.0
    is_takeover: bool = False


class GateResult(NamedTuple):
    """The result of lifting the gate of one pod. gang: the key of its job. message: why it is not lifted."""

    gang: str
    lift: GateLift
    outcome: PodOutcome
    message: str = ""


class EvictionResult(NamedTuple):
    """The result of an eviction. retry_after: seconds until another attempt is worthwhile."""

    eviction: Eviction
    outcome: PodOutcome
    message: str = ""
    retry_after: float = 0.0


WriteResult: TypeAlias = ChangeResult | GateResult | EvictionResult


@dataclass(frozen=True, slots=True)
class Effects:
    """The effects of one part; the report is built from their sum. results: of changes. held: changes not applied, each
    with its reason. lifted: Ref.key of a job -> pods that were given their nodes. evicted: the pods, as text."""

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
    """Yield the Events about results of changes, each on its object."""
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
    """The changes of a pass, and what they were computed from.

    due: to be written. held: not applied, each with its reason. obstructed: not applied, since their objects could not
    be examined, or keep other values. declared: Ref.key of each object in the plan, also where its manifest cannot be
    built. suspended: Ref.key of suspended objects. manifests: Ref.key -> the manifest for the cluster.
    """

    due: tuple[Change, ...] = ()
    held: tuple[Change, ...] = ()
    obstructed: tuple[Change, ...] = ()
    declared: Set[str] = frozenset()
    suspended: Set[str] = frozenset()
    manifests: Mapping[str, Manifest] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PrunePlan:
    """The deletions, the releases, and those that are not made.

    changes: the deletions. releases: objects older than gangplan, which are given back. held_changes: deletions not
    made, each with its reason. leaving: deleted but still present. vanished_keys: keys in the inventory whose object is
    no longer seen. obstacles: why nothing is deleted now except containers, which wait for their own releases. excess:
    why so many may not be deleted at once, replacements included. waits_for_release: whether an annotation would allow
    more deletions. counts: against later deletions; deletions that an annotation released do not count.
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
        """Return the plan, where what this gives a reason for is held, be it to be deleted or given back."""
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
    """The allowed changes and deletions. standstill: why nothing at all may be written."""

    changes: Changes = field(default_factory=Changes)
    prune_plan: PrunePlan = field(default_factory=PrunePlan)
    standstill: str = ""

    def conditions(self) -> Iterator[Condition]:
        """Yield why objects that left the repository stay, and how many."""
        lost, held = self.standstill, Counter(change.reason for change in self.prune_plan.held_changes)
        yield Condition("InventoryLost", bool(lost), "Held" if lost else "Present", lost)
        texts = (f"{count} object{'s' if count > 1 else ''}: {reason}" for reason, count in held.most_common(MAX_TEXTS))
        yield Condition("PruneHeld", bool(held), "Held" if held else "None", "; ".join(texts))

"""What a pass is to write, and what of it may be written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace

from compiler.emit.manifest import Manifest
from reconciler.changes.diff import Change
from reconciler.changes.results import MAX_TEXTS, Condition


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

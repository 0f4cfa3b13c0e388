"""What the act of one part did, as data: the parts of a pass return it, and the report is made of the sum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from reconciler.changes.diff import Change
from reconciler.changes.events import ObjectEvent
from reconciler.changes.pods import Eviction
from reconciler.changes.results import ChangeResult
from reconciler.cluster.objects import Object, ref_of


@dataclass(frozen=True, slots=True)
class Effects:
    """results: of changes. held: what is not done, with the reason in each. lifted: Ref.key of a job -> pods that were
    given their nodes. evicted: the pods, as text."""

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
        """An Event on this object."""
        return cls(events=(ObjectEvent(item, reason, message, is_warning),))

    @classmethod
    def of_eviction(cls, eviction: Eviction) -> Effects:
        """An evicted pod, with its Event."""
        event = ObjectEvent(eviction.pod, eviction.reason, eviction.message, True)
        return cls(evicted=(str(ref_of(eviction.pod)),), events=(event,))

"""An observation of the objects that a test names, with the reconciler's own writes laid over them as its informers do
it."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from reconciler.cluster.objects import Object, ref_of, version_number
from reconciler.observation.observe import Observation
from reconciler.observation.own_writes import OwnWrites


def observed(own: OwnWrites, objects: Iterable[Object], kinds: Collection[str]) -> Observation:
    """What the watches show, and own writes. kinds: group kinds that can be read."""
    by_kind: dict[str, dict[str, Object]] = {kind: {} for kind in kinds}
    for item in sorted(objects, key=lambda item: ref_of(item).key):
        by_kind.setdefault(ref_of(item).group_kind, {})[ref_of(item).key] = item
    merged = {
        kind: own.laid_over(kind, shown, max(map(version_number, shown.values()), default=0))
        for kind, shown in by_kind.items()
    }
    everything = {key: item for shown in merged.values() for key, item in shown.items()}
    return Observation(everything, frozenset(kinds), by_kind=merged)

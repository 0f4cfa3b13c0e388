"""Jobs of ours that are there without our label. Kinds that no state needs are watched by that label, so a watch shows
such a job as gone. Decisions on data, no IO."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from reconciler.cluster.objects import Object


@dataclass(slots=True)
class UnlabelledJobs:
    """found: Ref.key -> the job, as the server gave it when it was asked by name. gone: uids of jobs of which the
    server has said that there are none."""

    found: dict[str, Object] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)

    def note_found(self, key: str, job: Object) -> None:
        self.found[key] = job

    def note_gone(self, key: str, uid: str) -> Object | None:
        """Note that the server has no such job any more; what it was, where it was found without our label before."""
        self.gone.add(uid)
        return self.found.pop(key, None)

    def keep_only(self, keys: Collection[str], uids: Collection[str]) -> None:
        """Forget jobs that the watches show again, and what is gone and not of these uids."""
        self.found = {key: job for key, job in self.found.items() if key in keys}
        self.gone &= set(uids)

    def joined_with(self, kind: str, objects: Mapping[str, Object]) -> Mapping[str, Object]:
        """The objects of a group kind, by Ref.key in the order of the keys, with those that the watch does not show."""
        more = dict(self._of_kind(kind, objects))
        return dict(sorted({**more, **objects}.items())) if more else objects

    def _of_kind(self, kind: str, shown: Mapping[str, Object]) -> Iterator[tuple[str, Object]]:
        for key, job in self.found.items():
            if key.startswith(f"{kind}/") and key not in shown:
                yield key, job

"""The ledger of our own writes: what the API server holds, or may hold by our doing, and no watch shows yet.

It is laid over the observation when a pass begins, so that plan, fingerprint, room and ownership see the same. An entry
ends by version, by deletion, or when it is certain that the write was not made; never by time.

    answered    the server returned the object at a version: ends when the watch has reached that version
    deleted     the server took the deletion: ends when the watch shows the object ending, gone, or replaced
    under way   the gate of a pod is being lifted, or the answer was lost: ends when the watch shows the pod without its
                gate or gone, or when it is certain that the patch was not made
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from compiler.cluster_state.soundness import SoundObjects
from compiler.kubernetes import is_gated, is_terminating, uid_of
from reconciler.changes.pods import GateLift
from reconciler.cluster.objects import Object, ref_of, version_number


@dataclass(frozen=True, slots=True, eq=False)
class OwnWrite:
    """One write of ours. item: what the server returned, None of a deletion. lift: of a patch without an answer.
    is_lost: nobody waits for its answer any more."""

    uid: str
    item: Object | None = None
    lift: GateLift | None = None
    is_lost: bool = False

    def is_shown_by(self, shown: Object | None, reached: int) -> bool:
        """Return whether a watch that has reached this version, and shows this object, knows of the write."""
        if self.item is not None:
            version = version_number(self.item)
            return reached >= version or (shown is not None and version_number(shown) >= version)
        is_another = shown is None or uid_of(shown) != self.uid
        if self.lift is None:
            return is_another or (shown is not None and is_terminating(shown))
        if is_another:  # the watch lags behind the pod, read elsewhere
            return max(reached, version_number(shown) if shown else 0) >= version_number(self.lift.pod)
        return shown is not None and not is_gated(shown)

    def newest(self, shown: Object | None) -> Object | None:
        """Return the object's newest state, certain or possible, where the watch shows this."""
        if self.lift is None:
            return self.item
        is_behind = shown is None or uid_of(shown) != self.uid or version_number(shown) < version_number(self.lift.pod)
        return self.lift.lifted(self.lift.pod if is_behind or shown is None else shown)


_Overlay = tuple[Mapping[str, Object], Mapping[str, OwnWrite], Mapping[str, Object]]
"""The objects of a kind as shown, the entries, and both merged; computed once for each state of both."""


@dataclass(slots=True)
class OwnWrites:
    """entries: group kind -> Ref.key -> the newest write of the object. sound: checks the objects of answers, as those
    of watches."""

    entries: dict[str, dict[str, OwnWrite]] = field(default_factory=dict)
    sound: SoundObjects = field(default_factory=SoundObjects)
    _overlays: dict[str, _Overlay] = field(default_factory=dict)

    def record_write(self, item: Object) -> None:
        self._enter(ref_of(item).key, OwnWrite(uid_of(item), dict(self.sound.look_at(item)[0])))

    def record_deletion(self, key: str, uid: str) -> None:
        self._enter(key, OwnWrite(uid))

    def begin_lift(self, lift: GateLift) -> None:
        self._enter(ref_of(lift.pod).key, OwnWrite(uid_of(lift.pod), lift=lift))

    def lose_answer(self, lift: GateLift) -> None:
        """Note that the request ended and it is not known whether the gate was lifted."""
        self._enter(ref_of(lift.pod).key, OwnWrite(uid_of(lift.pod), lift=lift, is_lost=True))

    def is_under_way(self, lift: GateLift) -> bool:
        """Return whether the request for this lift has not ended, as far as is known."""
        write = self._of_kind(ref_of(lift.pod).key).get(ref_of(lift.pod).key)
        return write is not None and write.lift is lift and not write.is_lost

    def refuse_lift(self, lift: GateLift) -> None:
        """Note that the gate was certainly not lifted: the pod is unchanged."""
        self._enter(ref_of(lift.pod).key, OwnWrite(uid_of(lift.pod), lift.pod))

    def open_lifts(self) -> Mapping[str, OwnWrite]:
        """uid of a pod -> the lift of its gate of which it is not known whether it was made."""
        return {write.uid: write for write in self.entries.get("Pod", {}).values() if write.lift is not None}

    def newest(self, key: str, shown: Object | None) -> Object | None:
        """Return one object with its entry laid over, as far as it itself shows the write."""
        write = self._of_kind(key).get(key)
        return shown if write is None or write.is_shown_by(shown, 0) else write.newest(shown)

    def deleted_uids(self) -> set[str]:
        """Return the uids of objects whose deletion the server accepted and no watch shows yet."""
        writes = (write for known in self.entries.values() for write in known.values())
        return {write.uid for write in writes if (write.item or write.lift) is None}

    def drop_kind(self, group_kind: str) -> None:
        """End the entries of a kind that the cluster does not have, or that is watched no more."""
        self.entries.pop(group_kind, None)

    def laid_over(self, group_kind: str, shown: Mapping[str, Object], reached: int) -> Mapping[str, Object]:
        """Return the objects of a kind by Ref.key with our writes, and forget the writes that the watch shows.

        shown: the watch's objects. reached: its version, read before `shown`.
        """
        known = self.entries.get(group_kind)
        if not known:
            return shown
        open_writes = {key: write for key, write in known.items() if not write.is_shown_by(shown.get(key), reached)}
        self.entries[group_kind] = open_writes
        last = self._overlays.get(group_kind)
        if last is None or last[0] is not shown or last[1] != open_writes:
            merged = dict(_merged(shown, open_writes)) if open_writes else shown
            last = self._overlays[group_kind] = shown, dict(open_writes), merged
        return last[2]

    def record_reads(self, group_kind: str, listed: Iterable[Object], shown: Mapping[str, Object]) -> None:
        """Enter a list that is newer than the watch, like our own writes.

        listed: all objects of the kind, read just now. shown: what the watch shows.
        """
        found = {ref_of(item).key: item for item in listed}
        for key, item in found.items():
            known = self._of_kind(key).get(key)
            if known is not None and known.lift is not None and not known.is_shown_by(item, 0):
                continue
            if key not in shown or version_number(item) > version_number(shown[key]):
                self.record_write(item)
        for key in shown.keys() - found.keys():
            self.record_deletion(key, uid_of(shown[key]))

    def forget_except(self, live: Collection[str]) -> None:
        """Forget all objects but these, by Ref.key, and pods: their entries end by what the watch shows."""
        for group_kind, known in self.entries.items():
            if group_kind != "Pod":
                self.entries[group_kind] = {key: write for key, write in known.items() if key in live}

    def _of_kind(self, key: str) -> dict[str, OwnWrite]:
        return self.entries.get(key.partition("/")[0], {})

    def _enter(self, key: str, write: OwnWrite) -> None:
        self.entries.setdefault(key.partition("/")[0], {})[key] = write


def _merged(shown: Mapping[str, Object], writes: Mapping[str, OwnWrite]) -> Iterator[tuple[str, Object]]:
    """Yield the objects in the order of their keys."""
    for key in sorted(shown.keys() | writes.keys()) if writes.keys() - shown.keys() else shown:
        item = shown.get(key)
        newest = writes[key].newest(item) if key in writes else item
        if newest is not None:
            yield key, newest

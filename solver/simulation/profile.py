"""Free room over time: a line of moments, with the room from each to the next."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from functools import reduce

import numpy as np
import numpy.typing as npt

from solver.problem import Role
from solver.simulation.placing import PlaceRule
from solver.simulation.room import Holds, Room
from solver.simulation.workload import Outage


class Profile:
    """times[k]: from when `rooms[k]` is free; the last holds for ever, the first is now. A later moment is kept while a
    booking begins or ends then: else the line would grow with every former booking."""

    def __init__(self, empty: Room) -> None:
        self.times, self.rooms = [0], [empty.copy()]
        self._changes = Counter[int]()

    def advance(self, now: int, up: npt.NDArray[np.bool_]) -> None:
        """Forget the past. up: nodes that take pods, but for maintenance (`close`)."""
        first = bisect_right(self.times, now) - 1
        for past in self.times[: first + 1]:
            del self._changes[past]
        del self.times[:first], self.rooms[:first]
        self.times[0] = now
        if (self.rooms[0].up != up).any():
            self.rooms = [room.with_up(up) for room in self.rooms]

    def take(self, start: int, end: int, role: Role, holds: Holds, times: int = 1) -> None:
        """Take the room of these pods from `start` to `end`, or give it back (times = -1)."""
        start = max(start, self.times[0])
        if start < end:
            first, last = self._split(start), self._split(end)
            for room in self.rooms[first:last]:
                room.take(role, holds, times)
            for moment in (end, start):
                self._note_change(moment, times)

    def close(self, outage: Outage) -> None:
        """Let the node take no pods in its maintenance."""
        start = max(outage.start, self.times[0])
        if start < outage.end:
            first, last = self._split(start), self._split(outage.end)
            self.rooms[first:last] = [room.without(frozenset({outage.node})) for room in self.rooms[first:last]]
            for moment in (outage.end, start):
                self._note_change(moment, 1)

    def _note_change(self, moment: int, times: int) -> None:
        """Something begins or ends at this moment, or no longer does (times = -1)."""
        if moment > self.times[0]:
            self._changes[moment] += times
            if not self._changes[moment]:
                del self._changes[moment]
                at = bisect_left(self.times, moment)
                del self.times[at], self.rooms[at]

    def _split(self, time: int) -> int:
        """Return the index of a slice that begins at this time; a missing one is created."""
        at = bisect_left(self.times, time)
        if at == len(self.times) or self.times[at] != time:
            self.times.insert(at, time)
            self.rooms.insert(at, self.rooms[at - 1].copy())
        return at

    def first_fit(self, duration: int, role: Role, place: PlaceRule) -> tuple[int, Holds] | None:
        """(the first moment from which the pods fit for so long at one place, that place); None where they never do."""
        for first, start in enumerate(self.times):
            rooms = self.rooms[first : bisect_left(self.times, start + duration)]
            if _may_fit(rooms, role):
                room = reduce(Room.meet, rooms)
                if room.fits(role) and (holds := place(room, role)):
                    return start, holds
        return None


def _may_fit(rooms: Sequence[Room], role: Role) -> bool:
    """Return whether all pods fit if each node holds as many as in the fullest of these rooms: no more fit in their
    meet, and without device slots just as many. Much cheaper than the meet, which most spans do not need."""
    counts = rooms[0].fit_counts(role)
    for room in rooms:
        counts = np.minimum(counts, room.fit_counts(role))
        if counts.sum() < role.replicas:
            return False
    return True

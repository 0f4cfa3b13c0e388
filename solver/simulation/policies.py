"""Policies: who starts now, and where. One small class each; the order is priority, then arrival."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Protocol

import numpy as np
import numpy.typing as npt

from solver.problem import Role
from solver.simulation.room import Holds, Room
from solver.simulation.site import NEVER, Site
from solver.simulation.workload import Outage


@dataclass(frozen=True, slots=True)
class Event:
    """The events of one moment. arrived: jobs that wait since then. ended: jobs that run no longer. nodes_changed:
    whether a node has returned, or its maintenance was announced. woken: whether the policy asked for the moment
    (`Site.wake_at`)."""

    arrived: Sequence[int]
    ended: Sequence[int]
    nodes_changed: bool = False
    woken: bool = False

    @property
    def gives_room(self) -> bool:
        """Return whether room may have been freed."""
        return bool(self.ended) or self.nodes_changed


class Policy(Protocol):
    """Decides at every event."""

    def decide(self, site: Site, event: Event) -> None:
        """Start what shall start now (`Site.start`)."""


class FirstInFirstOut:
    """Strictly in order: nothing passes a job that waits."""

    def __init__(self, place: PlaceRule) -> None:
        self.place = place

    def decide(self, site: Site, event: Event) -> None:
        while (j := site.head()) is not None and (holds := self.place(site.room_for(j), site.job(j).role)):
            site.start(j, holds)


class FirstThatFits:
    """In order, every job that fits starts: nothing is reserved, so that large jobs may starve."""

    def __init__(self, place: PlaceRule) -> None:
        self.place = place

    def decide(self, site: Site, event: Event) -> None:
        for j in site.waiting_in_order(site.room) if event.gives_room else event.arrived:
            role, room = site.job(j).role, site.room_for(j)
            if room.fits(role) and (holds := self.place(room, role)):
                site.start(j, holds)


class Easy:
    """EASY backfilling (Lifka, The ANL/IBM SP Scheduling System, 1995): the first job that does not fit gets a
    reservation, and others start now if they do not delay it: they end before it, or use nothing of the reserved room.

    The reservation is on concrete nodes and devices, as in Batsim's EASY. It is renewed when room was freed.
    """

    def __init__(self, place: PlaceRule) -> None:
        self.place = place
        self._reserved: int | None = None
        self._start = 0
        self._later: Room | None = None

    def decide(self, site: Site, event: Event) -> None:
        if event.gives_room or self._reserved is None or site.head() != self._reserved:
            self._start_in_order(site)
            self._backfill(site, site.waiting_in_order(site.room))
        else:
            self._backfill(site, event.arrived)

    def _start_in_order(self, site: Site) -> None:
        """Start from the head of the queue, and reserve for the first job that does not fit."""
        while (j := site.head()) is not None and (holds := self.place(site.room_for(j), site.job(j).role)):
            site.start(j, holds)
        self._reserved, self._later = j, None
        if j is None:
            return
        if (found := site.first_fit(j)) is not None:
            self._start, self._later = found
            role, closed = site.job(j).role, site.closed_for(j, self._start)
            self._later.take(role, self.place(self._later.without(closed), role) or ())

    def _backfill(self, site: Site, candidates: Iterable[int]) -> None:
        unreserved: Room | None = None
        for j in candidates:
            job = site.job(j)
            room = site.room_for(j)
            if j == self._reserved or not room.fits(job.role):
                continue
            if self._later is None or site.now + job.requested <= self._start:
                holds = self.place(room, job.role)
            else:
                unreserved = unreserved or site.room.meet(self._later)
                if holds := self.place(unreserved.without(room.closing), job.role):
                    self._later.take(job.role, holds)
            if holds:
                site.start(j, holds)
                unreserved = None


class Conservative:
    """Conservative backfilling: every waiting job has a reservation, and nobody delays one.

    When room is freed early, the reservations are made again one after another in the order of the queue, each without
    touching the others, as Batsim does. Else new jobs are added behind. A reservation is the first that fits, so it
    stays as long as nothing has changed before its end.
    """

    def __init__(self, place: PlaceRule) -> None:
        self.place = place
        self._profile: Profile | None = None
        self._closings_seen = 0
        self._booked: dict[int, tuple[int, int, Holds]] = {}
        self._changes: list[int] = []
        self._changes_seen: dict[int, int] = {}

    def decide(self, site: Site, event: Event) -> None:
        profile = self._profile = self._profile or Profile(site.empty)
        profile.advance(site.now, site.believed_up())
        for outage in site.closings.announced[self._closings_seen :]:
            profile.close(outage)
        self._closings_seen = len(site.closings.announced)
        waiting = self._booked.keys() - site.running.keys()
        late = [j for j in sorted(waiting) if self._booked[j][0] < site.now]
        for j in (*event.ended, *late):
            self._note_change(site, self._booked.get(j))
            self._unbook(site, profile, j)
        for j, (start, end, holds) in self._booked.items():
            if end <= site.now:  # it runs longer than requested
                self._booked[j] = start, site.now + 1, holds
                profile.take(end, site.now + 1, site.job(j).role, holds)
                self._changes.append(site.now)
        for j in list(site.waiting_in_order()) if event.gives_room else event.arrived:
            if not self._stays(site, j):
                self._book(site, profile, j)
            self._changes_seen[j] = len(self._changes)
            if j in self._booked and self._booked[j][0] == site.now:
                site.start(j, self._booked[j][2])

    def _stays(self, site: Site, j: int) -> bool:
        """Return whether the job has a reservation that would be made again as it is. Which device slots are the
        fullest, and which nodes are there, may have changed anywhere."""
        if j not in self._booked or site.workload.outages or site.workload.cluster.slot_groups:
            return False
        return min(self._changes[self._changes_seen[j] :], default=NEVER) >= self._booked[j][1]

    def _book(self, site: Site, profile: Profile, j: int) -> None:
        job, before = site.job(j), self._booked.get(j)
        self._unbook(site, profile, j)
        found = profile.first_fit(job.requested, job.role, self.place)
        if found is not None:
            start, holds = found
            self._booked[j] = start, start + job.requested, holds
            profile.take(start, start + job.requested, job.role, holds)
        if self._booked.get(j) != before:
            self._note_change(site, before)

    def _unbook(self, site: Site, profile: Profile, j: int) -> None:
        if j in self._booked:
            start, end, holds = self._booked.pop(j)
            profile.take(start, end, site.job(j).role, holds, -1)

    def _note_change(self, site: Site, left: tuple[int, int, Holds] | None) -> None:
        """This reservation is held no longer."""
        if left is not None and left[1] > site.now:
            self._changes.append(max(left[0], site.now))


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


PlaceRule = Callable[[Room, Role], Holds | None]


def lowest_numbered(room: Room, role: Role) -> Holds | None:
    """Return the first nodes with room, in the order of the cluster, as batch schedulers choose by default."""
    return _fill_in_order(room, role, np.arange(len(room.classes)))


def best_fit(room: Room, role: Role) -> Holds | None:
    """Return the nodes with the least left over: sum over resources of free_r / (largest free_r of any node when
    empty)."""
    largest = np.maximum(room.largest, 1)
    left = (room.free.amounts / largest).sum(axis=1)
    return _fill_in_order(room, role, np.argsort(left, kind="stable"))


def _fill_in_order(room: Room, role: Role, order: npt.NDArray[np.int64]) -> Holds | None:
    """As many pods as fit on each of the nodes in this order, until all are placed."""
    counts = room.fit_counts(role)[order]
    before = np.cumsum(counts) - counts
    if int(counts.sum()) < role.replicas:
        return None
    taken = np.clip(role.replicas - before, 0, counts)
    used = np.flatnonzero(taken)
    return tuple(room.hold(role, int(order[at]), int(taken[at])) for at in used)

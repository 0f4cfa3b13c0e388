"""The cluster while a workload is replayed: running jobs and their ends, waiting jobs in order, free room."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from heapq import merge

import numpy as np
import numpy.typing as npt

from solver.problem import Role
from solver.semantics.device_slots import slot_positions
from solver.simulation.room import Holds, Nodes, Room
from solver.simulation.workload import Job, Outage, Shape, Workload

Order = tuple[int, int, int]
"""(-priority, arrival, index): who is asked first."""

NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Running:
    """A job that runs since `start`. believed_end: its end by its request. rows: its lines in `Ends`."""

    start: int
    believed_end: int
    holds: Holds
    rows: tuple[int, ...]


class Ends:
    """Believed ends of running jobs, as arrays: row -> (end, node, freed amounts)."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._free_rows: list[int] = []
        self._count = 0
        self._end = np.full(64, NEVER, dtype=np.int64)
        self._node = np.zeros(64, dtype=np.int64)
        self._amounts = np.zeros((64, *room.free.amounts.shape[1:]), dtype=np.int64)
        self._slots = np.zeros((64, *room.free.slots.shape[1:]), dtype=np.int64)

    def add(self, end: int, role: Role, holds: Holds) -> tuple[int, ...]:
        """Return rows for these pods, until they are removed."""
        return tuple(self._add_row(end, role, holds, at) for at in range(len(holds)))

    def remove(self, rows: tuple[int, ...]) -> None:
        for row in rows:
            self._end[row] = NEVER
        self._free_rows.extend(rows)

    def _add_row(self, end: int, role: Role, holds: Holds, at: int) -> int:
        if not self._free_rows:
            if self._count == len(self._end):
                self._grow()
            self._free_rows.append(self._count)
            self._count += 1
        row, held = self._free_rows.pop(), holds[at]
        self._end[row], self._node[row] = end, held.node
        self._amounts[row] = np.array(role.request, dtype=np.int64) * held.pods
        self._slots[row] = 0
        for request, pods in zip(role.slot_requests, held.slots, strict=True):
            self._slots[row, request.slot_group] += np.outer(pods, request.share)
        return row

    def _grow(self) -> None:
        self._end = np.concatenate([self._end, np.full_like(self._end, NEVER)])
        self._node, self._amounts, self._slots = (
            np.concatenate([part, np.zeros_like(part)]) for part in (self._node, self._amounts, self._slots)
        )

    def _believed(self, now: int) -> npt.NDArray[np.int64]:
        """Row -> its end; what should have ended ends at once."""
        return np.maximum(self._end, now + 1)

    def moments(self, now: int) -> list[int]:
        """When something ends, ascending."""
        ends = self._believed(now)
        return sorted({*ends[ends < NEVER].tolist()})

    def room_at(self, moment: int, now: int) -> Room:
        """Return the free room at a later moment if nothing else starts."""
        return self._room_after(np.flatnonzero(self._believed(now) <= moment))

    def first_fit(self, now: int, role: Role) -> tuple[int, Room] | None:
        """Return (when all pods of the role fit if nothing else starts, the free room then); None where they never do.

        Room only grows, so the first of the sorted ends is found by halving.
        """
        live = np.flatnonzero(self._end < NEVER)
        ends = self._believed(now)[live]
        order = np.argsort(ends, kind="stable")
        live, ends = live[order], ends[order]
        after = np.flatnonzero(np.append(ends[1:] != ends[:-1], True)) + 1 if len(ends) else ends  # rows gone by an end
        low, high, found = 0, len(after), None
        while low < high:
            middle = (low + high) // 2
            room = self._room_after(live[: after[middle]])
            if room.fits(role):
                high, found = middle, (int(ends[after[middle] - 1]), room)
            else:
                low = middle + 1
        return found

    def _room_after(self, rows: np.ndarray) -> Room:
        room = self._room.copy()
        np.add.at(room.free.amounts, self._node[rows], self._amounts[rows])
        if room.free.slots.size:
            np.add.at(room.free.slots, self._node[rows], self._slots[rows])
        return room


class Site:
    """A cluster in the middle of a replay. Policies read it and call `start`; the replay calls the rest.

    held, asked: queue -> units of the device resource that its running jobs hold, and that its waiting ones request.
    """

    def __init__(self, workload: Workload) -> None:
        self.workload, self.now = workload, 0
        self.empty = Room.of_cluster(workload.cluster)
        self.room = self.empty.copy()
        self.ends = Ends(self.room)
        self.closings = Closings()
        self._views: dict[Nodes, Room] = {}
        self.running: dict[int, Running] = {}
        self.held = [0] * len(workload.cluster.queues)
        self.asked = [0] * len(workload.cluster.queues)
        self._started: list[int] = []
        self._evicted: list[tuple[int, Running]] = []
        self._wakes: list[int] = []
        self._waiting: dict[Shape, list[Order]] = {}

    def job(self, j: int) -> Job:
        return self.workload.jobs[j]

    @cached_property
    def slot_positions(self) -> list[list[tuple[int, int]]]:
        """Return node -> for each of its device slots (slot group, slots of this group before it)."""
        return slot_positions(self.workload.cluster)

    def advance(self, now: int) -> None:
        """It is later."""
        self.now = now
        self.closings.advance(now)
        if not self.closings:
            self._views.clear()

    # ---- who waits

    def order(self, j: int) -> Order:
        job = self.job(j)
        return -job.priority, job.submit, j

    def wait(self, j: int) -> None:
        insort(self._waiting.setdefault(self.job(j).shape, []), self.order(j))
        self.asked[self.job(j).queue] += self.workload.devices(j)

    def leave(self, j: int) -> None:
        """The job waits no longer."""
        shape, order = self.job(j).shape, self.order(j)
        line = self._waiting[shape]
        del line[bisect_left(line, order)]
        self.asked[self.job(j).queue] -= self.workload.devices(j)
        if not line:
            del self._waiting[shape]

    @property
    def waiting(self) -> Mapping[Shape, list[Order]]:
        """Return the waiting jobs of each shape, in order. Do not write to it."""
        return self._waiting

    def head(self) -> int | None:
        """Return the waiting job that is asked first."""
        return min((line[0] for line in self._waiting.values()), default=(0, 0, None))[2]

    def waiting_in_order(self, fits: Room | None = None) -> Iterator[int]:
        """Yield the waiting jobs; with `fits`, only those that fit it."""
        lines = ([*line] for line in self._waiting.values() if self._fits(line, fits))
        return (order[2] for order in merge(*lines))

    def _fits(self, line: list[Order], room: Room | None) -> bool:
        """Return whether the jobs of a line, which are of one shape, fit the room, if there is one to fit."""
        return room is None or room.fits(self.job(line[0][2]).role)

    # ---- what closes

    def closed_for(self, j: int, start: int) -> Nodes:
        """Return the nodes whose maintenance the job would meet if it started then, by its requested time."""
        return self.closings.nodes(start, start + self.job(j).requested) if self.closings else frozenset()

    def room_for(self, j: int) -> Room:
        """Return the free room for this job now: without the nodes that close before it would end."""
        if not (closed := self.closed_for(j, self.now)):
            return self.room
        if closed not in self._views:
            self._views[closed] = self.room.without(closed)
        return self._views[closed]

    def believed_up(self) -> npt.NDArray[np.bool_]:
        """Return node -> whether it takes pods, or will after its maintenance."""
        up = self.room.up.copy()
        up[[*self.closings.nodes(self.now, self.now + 1)]] = True
        return up

    def first_fit(self, j: int) -> tuple[int, Room] | None:
        """Return (when all pods of the job fit if nothing else starts, the free room then); None where they never do.

        With maintenance room may also shrink, so moment after moment is tried.
        """
        role = self.job(j).role
        if not self.closings:
            return self.ends.first_fit(self.now, role)
        for moment in sorted({*self.ends.moments(self.now), *self.closings.ends()}):
            room = self.ends.room_at(moment, self.now).with_up(self.believed_up())
            if room.without(self.closed_for(j, moment)).fits(role):
                return moment, room
        return None

    # ---- running jobs

    def start(self, j: int, holds: Holds) -> None:
        """Start a waiting job now."""
        job = self.job(j)
        self.leave(j)
        self.room.take(job.role, holds)
        end = self.now + job.requested
        self.running[j] = Running(self.now, end, holds, self.ends.add(end, job.role, holds))
        self.held[job.queue] += self.workload.devices(j)
        self._started.append(j)

    def take_started(self) -> list[int]:
        """Return the jobs that started since the last call."""
        found, self._started = self._started, []
        return found

    def wake_at(self, time: int) -> None:
        """Request an event at this later time."""
        self._wakes.append(time)

    def take_wakes(self) -> list[int]:
        """Return the times that were asked for since the last call."""
        found, self._wakes = self._wakes, []
        return found

    def stop(self, j: int) -> Running:
        """End a running job; its room is free."""
        ended = self.running.pop(j)
        self.held[self.job(j).queue] -= self.workload.devices(j)
        self.room.give(self.job(j).role, ended.holds)
        self.ends.remove(ended.rows)
        return ended

    def evict(self, j: int) -> None:
        """End a running job, which waits again from now on."""
        self._evicted.append((j, self.stop(j)))
        self.wait(j)

    def take_evicted(self) -> list[tuple[int, Running]]:
        """Return the jobs that were evicted since the last call, with what ran of them."""
        found, self._evicted = self._evicted, []
        return found

    def can_ever_start(self, j: int) -> bool:
        """Return whether the job fits the empty cluster."""
        return self.empty.fits(self.job(j).role)


class Closings:
    """The maintenance that was announced. announced: all of it, in the order of the announcements."""

    def __init__(self) -> None:
        self.announced: list[Outage] = []
        self._left: dict[tuple[int, int], Nodes] = {}

    def announce(self, outage: Outage) -> None:
        self.announced.append(outage)
        window = outage.start, outage.end
        self._left[window] = self._left.get(window, frozenset()) | {outage.node}

    def advance(self, now: int) -> None:
        """Forget what has ended."""
        if any(end <= now for _, end in self._left):
            self._left = {window: nodes for window, nodes in self._left.items() if window[1] > now}

    def __bool__(self) -> bool:
        """Return whether any has not ended."""
        return bool(self._left)

    def nodes(self, begin: int, end: int) -> Nodes:
        """Return the nodes that are closed at some moment from `begin` until before `end`."""
        met = (nodes for (start, until), nodes in self._left.items() if max(begin, start) < min(end, until))
        return frozenset[int]().union(*met)

    def windows(self) -> dict[int, list[tuple[int, int]]]:
        """Return node -> its times (from, to)."""
        found: dict[int, list[tuple[int, int]]] = {}
        for window, nodes in self._left.items():
            for node in nodes:
                found.setdefault(node, []).append(window)
        return found

    def ends(self) -> set[int]:
        """Return the moments at which nodes open again."""
        return {end for _, end in self._left}

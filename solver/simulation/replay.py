"""A workload replayed under a policy: event after event, until all has ended that can."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import Protocol

from solver.problem import Vector
from solver.simulation.policies import Event, Policy
from solver.simulation.room import Holds
from solver.simulation.site import Site
from solver.simulation.workload import Workload

END, ARRIVAL, DOWN, UP, WAKE, KNOWN = range(6)
"""Kinds of events, in the order in which those of one moment are handled."""


@dataclass(frozen=True, slots=True)
class Run:
    """The outcome of a job. start: of its last run. finish: None where it has not ended. lost: microseconds that it ran
    without success. Without a start the job never started."""

    start: int | None = None
    finish: int | None = None
    holds: Holds = ()
    restarts: int = 0
    lost: int = 0


@dataclass(frozen=True, slots=True)
class Span:
    """From `start` to `end`, in units of the device resource: the usage of each queue, and the requests of its waiting
    jobs. stranded: free devices while a waiting job requests no more than these: they are in the wrong places, or
    reserved."""

    start: int
    end: int
    held: Vector
    waiting: Vector
    stranded: int

    @property
    def used(self) -> int:
        """Return the usage of all queues."""
        return sum(self.held)


@dataclass(frozen=True, slots=True)
class Replay:
    """runs: as the workload's jobs. is_complete: not ended before all was done."""

    workload: Workload
    runs: Sequence[Run]
    spans: Sequence[Span]
    is_complete: bool


class Watch(Protocol):
    """Looks on while a workload is replayed."""

    def after(self, site: Site, event: Event, started: Sequence[int]) -> None:
        """This happened at this moment, and these jobs started."""


class Simulation:
    """One replay; call `run` once."""

    def __init__(self, workload: Workload, policy: Policy, watch: Watch | None = None) -> None:
        self.workload, self.policy, self.site, self.watch = workload, policy, Site(workload), watch
        self.runs = [Run() for _ in workload.jobs]
        self.spans: list[Span] = []
        self._all = workload.cluster.totals[workload.device]
        self._away = Counter[int]()
        self._generations = [0] * len(workload.jobs)
        self._events: list[tuple[int, int, int, int]] = []
        for j, job in enumerate(workload.jobs):
            self._add(job.submit, ARRIVAL, j)
        for number, outage in enumerate(workload.outages):
            self._add(outage.start, DOWN, number)
            self._add(outage.end, UP, number)
            if outage.known is not None:
                self._add(outage.known, KNOWN, number)
        self.site.advance(self._events[0][0] if self._events else 0)

    def run(self, show_progress: Callable[[int], None] = lambda ended: None, asked: Collection[int] = ()) -> Replay:
        """show_progress: called at every moment with the number of jobs that have ended. asked: ends once all these
        have started; with none of them when all is done."""
        ended, chosen = 0, {*asked}
        left = {*chosen}
        while self._events and (left or not chosen):
            show_progress(ended)
            now = self._events[0][0]
            self._note_span(now)
            self.site.advance(now)
            event = self._next_event()
            ended += len(event.ended)
            if event.arrived or event.gives_room or event.woken:
                self.policy.decide(self.site, event)
                evicted = self._note_evictions()
                event = replace(event, arrived=[*event.arrived, *evicted], ended=[*event.ended, *evicted])
            left.update(chosen.intersection(event.arrived))
            left.difference_update(self._note_starts(event))
        return self.result()

    def result(self) -> Replay:
        """Return the results so far; of an interrupted replay, up to the interruption."""
        return Replay(self.workload, self.runs, self.spans, is_complete=not self._events)

    def _add(self, time: int, kind: int, subject: int, generation: int = 0) -> None:
        heappush(self._events, (time, kind, subject, generation))

    def _next_event(self) -> Event:
        """Return all that happens at this moment, done to the site."""
        arrived, ended, changed, woken = list[int](), list[int](), False, False
        while self._events and self._events[0][0] == self.site.now:
            _, kind, subject, generation = heappop(self._events)
            if kind == END and generation == self._generations[subject]:
                self.site.stop(subject)
                self.runs[subject] = replace(self.runs[subject], finish=self.site.now)
                ended.append(subject)
            elif kind == ARRIVAL and self.site.can_ever_start(subject):
                self.site.wait(subject)
                arrived.append(subject)
            elif kind in (DOWN, UP):
                node = self.workload.outages[subject].node
                self._away[node] += 1 if kind == DOWN else -1
                self.site.room.set_up(node, not self._away[node])
                changed = changed or not self._away[node]
                lost = self._jobs_on(node) if kind == DOWN else []
                for j in lost:
                    self.site.evict(j)
                self._note_evictions()
                arrived += lost
                ended += lost
            elif kind == KNOWN:
                self.site.closings.announce(self.workload.outages[subject])
                changed = True
            woken = woken or kind == WAKE
        return Event(arrived, ended, changed, woken)

    def _jobs_on(self, node: int) -> list[int]:
        return sorted(j for j, of in self.site.running.items() if any(held.node == node for held in of.holds))

    def _note_evictions(self) -> list[int]:
        """Return the jobs that were evicted, or lost a node: all that they did is lost."""
        evicted = self.site.take_evicted()
        for j, ran in evicted:
            run = self.runs[j]
            self._generations[j] += 1
            self.runs[j] = Run(restarts=run.restarts + 1, lost=run.lost + self.site.now - ran.start)
        return [j for j, _ in evicted]

    def _note_starts(self, event: Event) -> Sequence[int]:
        now, started = self.site.now, self.site.take_started()
        for j in started:
            self.runs[j] = replace(self.runs[j], start=now, holds=self.site.running[j].holds)
            self._add(now + self.workload.jobs[j].duration, END, j, self._generations[j])
        for time in self.site.take_wakes():
            self._add(time, WAKE, 0)
        if self.workload.loses_jobs:
            for j in event.arrived:
                if j not in self.site.running:
                    self.site.leave(j)
        if self.watch is not None:
            self.watch.after(self.site, event, started)
        return started

    def _note_span(self, now: int) -> None:
        """Note the usage since the last moment."""
        if now > self.site.now:
            free = self._all - sum(self.site.held)
            least = min((self.workload.devices(line[0][2]) for line in self.site.waiting.values()), default=None)
            stranded = 0 if least is None or least > free else free
            self.spans.append(Span(self.site.now, now, tuple(self.site.held), tuple(self.site.asked), stranded))

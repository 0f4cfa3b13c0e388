"""When a waiting job starts: what the plan reserves, and the window in which it is expected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from compiler.cluster_state.run_records import StartPromise
from compiler.explain.catalogue import Catalogue
from compiler.explain.lost_starts import LostStart, lost_start
from compiler.fields.times import epoch_seconds, rfc3339
from compiler.lower.origins import Origins
from compiler.specs.gang_spec import GangSpec
from solver.plan import Decision, Plan
from solver.problem import Problem
from solver.start_windows import StartForecast, start_windows

START_SLACK = 60
"""Tolerated delay in seconds before a postponed start is reported. Starts are timed from planning, and pods need a
moment to run."""


@dataclass(frozen=True, slots=True)
class StartWindow:
    """A job is expected to start between `low` and `high`, seconds since the epoch. share: percentage of such windows
    that hold; None while too few earlier ones are known. moved: why it is after all of the window that was announced
    first; empty where it is not."""

    low: int
    high: int
    share: int | None
    moved: str = ""


@dataclass(frozen=True, slots=True)
class PlannedStart:
    """awaited_jobs: with a reservation, the jobs whose end it waits for. starts_in: seconds until then; starts_at:
    since the epoch; None where that is unknown. reserved: the start that this plan or an earlier one reserves, as a
    time. window: None where too little is known. promise: the first window, of this plan or an earlier one; kept
    once it runs."""

    awaited_jobs: tuple[str, ...] = ()
    starts_in: int | None = None
    starts_at: int | None = None
    reserved: str | None = None
    window: StartWindow | None = None
    promise: StartPromise | None = None


class PlannedStarts:
    """The starts of one plan's waiting jobs."""

    def __init__(self, problem: Problem, origins: Origins, plan: Plan, catalogue: Catalogue) -> None:
        self.problem, self.origins, self.plan, self.catalogue = problem, origins, plan, catalogue

    def of(self, spec: GangSpec, decision: Decision) -> PlannedStart:
        announced = self.origins.starts
        if decision.action != "wait":
            return PlannedStart(promise=announced.promises.get(spec.key))
        start, reservation = PlannedStart(reserved=announced.reserved.get(spec.key)), self.plan.reservation
        if reservation is not None and reservation.gang == decision.gang:
            starts_in, now = reservation.starts_in, self.origins.now
            starts_at = None if starts_in is None or now is None else now + starts_in
            reserved = start.reserved if starts_at is None else rfc3339(starts_at)
            awaited = tuple(self.problem.gangs[j].name for j in reservation.awaited_gangs)
            start = PlannedStart(awaited, starts_in, starts_at, reserved)
        return self._with_window(spec, decision, start)

    def lost(self, spec: GangSpec, decision: Decision, start: PlannedStart) -> Iterator[LostStart]:
        """Yield why a waiting job does not start at its announced time, if so."""
        announced, reservation = epoch_seconds(self.origins.starts.reserved.get(spec.key)), self.plan.reservation
        reserved = reservation is not None and reservation.gang == decision.gang
        expected = self.origins.now if start.starts_at is None else start.starts_at
        if announced is not None and not (reserved and expected is not None and expected <= announced + START_SLACK):
            yield replace(lost_start(self.problem, self.plan, decision), told=announced, at=start.starts_at)

    @cached_property
    def _forecasts(self) -> Mapping[int, StartForecast]:
        """Gang -> when it starts; empty where too few runs are known."""
        past = self.origins.starts.past_runs
        return {} if past is None or self.origins.now is None else start_windows(self.problem, self.plan, past, seed=0)

    def _with_window(self, spec: GangSpec, decision: Decision, start: PlannedStart) -> PlannedStart:
        announced, found, now = self.origins.starts, self._forecasts.get(decision.gang), self.origins.now
        promise = announced.promises.get(spec.key)
        if found is None or now is None:
            return replace(start, promise=promise)
        window = found.window
        low, middle, high, raw = (now + time for time in (window.low, window.middle, window.high, window.raw))
        by_limits = None if found.by_limits is None else now + found.by_limits
        promise = promise or StartPromise(now, low, middle, high, raw, by_limits, window.share)
        moved = ""
        if low > promise.high:
            fact = replace(lost_start(self.problem, self.plan, decision), told=promise.high, at=start.starts_at)
            moved = self.catalogue.message(decision.gang, fact).message
        expected = StartWindow(low, high, window.share, moved)
        return replace(start, window=expected, promise=promise)

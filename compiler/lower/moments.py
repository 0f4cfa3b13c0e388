"""What now is for a plan, and when its answer may change although nothing happens.

What a plan says depends on time only through comparisons: has this maintenance ended, would a job of two hours end
before the next one, has that job waited too long? Each of them turns at one moment. Between two moments every time is
as good as another, so a clock is asked only which of them has come, and the moment, not the clock, goes into the
problem.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from compiler.cluster_state.observed import ObservedState
from compiler.lower.origins import TimedEvent
from compiler.lower.victims import cooldown_end
from compiler.specs import Specs

MAX_END_DURATION_PAIRS = 20_000
"""Pairs of an expected end and a duration that are considered; beyond it a late backfill may move a reservation by as
long as nothing happened."""


def timed_events(
    specs: Specs, observed: ObservedState, gang_indices: Sequence[int], submission_times: Mapping[int, int]
) -> tuple[TimedEvent, ...]:
    """All events, past and to come, in order; their gangs are indices of the problem.

    A gang is overdue the second after its patience is over, and no earlier.
    """
    found = {TimedEvent(end, "maintenance") for node in observed.nodes for _, end in node.maintenance_windows}
    for g, j in enumerate(gang_indices):
        spec, starts = specs.gangs[j], observed.start_times.get(j)
        if starts and spec.expected_duration is not None:
            found.add(TimedEvent(min(starts) + spec.expected_duration, "end", g))
        is_waiting = observed.running_pod_count(j) < max(1, spec.minimum)
        if is_waiting and j in submission_times and j not in observed.reserved_starts:
            found.add(TimedEvent(submission_times[j] + specs.cluster.patience + 1, "patience", g))
        if (until := cooldown_end(j, spec, observed, specs.scheduler)) is not None:
            found.add(TimedEvent(until, "cooldown", g))
    ends = {event.time for event in found if event.cause == "end"}
    found |= {TimedEvent(at, "too late") for at in _too_late_times(specs, observed, gang_indices, ends)}
    return tuple(sorted(found, key=lambda event: (event.time, event.cause, -1 if event.gang is None else event.gang)))


def _too_late_times(
    specs: Specs, observed: ObservedState, gang_indices: Sequence[int], end_times: set[int]
) -> Iterator[int]:
    """From when a job that starts no longer ends before maintenance begins, or before a reservation is due, which is at
    the end of another job."""
    waiting = (specs.gangs[j] for j in gang_indices if not observed.running_pod_count(j))
    durations = {gang.expected_duration for gang in waiting if gang.expected_duration is not None}
    begins = {start for node in observed.nodes for start, _ in node.maintenance_windows}
    if len(end_times) * len(durations) > MAX_END_DURATION_PAIRS:
        end_times = set()
    for times in (begins, end_times):
        yield from (at - duration + 1 for at in times for duration in durations)


def planning_time(
    observed: ObservedState, events: Sequence[TimedEvent], submission_times: Mapping[int, int], clock: int | None
) -> int | None:
    """Now: the newest event of the state or, where there is a clock, the last event or submission that has come by
    then."""
    times = [*(event.time for event in events), *submission_times.values()]
    past = [] if clock is None else [at for at in times if at <= clock]
    return max([*past, *([] if observed.now is None else [observed.now])], default=None)


def upcoming_events(events: Sequence[TimedEvent], now: int | None, clock: int | None) -> tuple[TimedEvent, ...]:
    """Those to come at which a waiting gang may start; none without a now."""
    if now is None:
        return ()
    after = max(now, clock or now)
    return tuple(event for event in events if event.time > after and event.cause != "too late")

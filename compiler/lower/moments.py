"""From when a plan counts, and when the answer may change although nothing happens.

What a plan says depends on time only through comparisons: has this maintenance ended, would a job of two hours end
before the next one, has that job waited too long? Each of them turns at one moment. Between two moments every time is
as good as another, so a clock is asked only which of them has come, and the moment, not the clock, goes into the
problem.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from compiler.cluster_state.observed import ObservedState
from compiler.lower.origins import TimedEvent
from compiler.lower.time import running_pod_count
from compiler.lower.victims import cooldown_end
from compiler.specs import Specs

MAX_END_DURATION_PAIRS = 20_000
"""Pairs of an expected end and a duration that are looked at; beyond it a late backfill may move a reservation by as
long as nothing happened."""


def timed_events(
    specs: Specs, live: ObservedState, gang_indices: Sequence[int], submission_times: Mapping[int, int]
) -> tuple[TimedEvent, ...]:
    """All of them, past and to come, in order. chosen: the gangs of the problem. submitted: gang of the specs -> its
    age.

    A gang is late the second after its patience is over, and no earlier.
    """
    found = {TimedEvent(end, "maintenance") for node in live.nodes for _, end in node.maintenance_windows}
    for g, j in enumerate(gang_indices):
        spec, starts = specs.gangs[j], live.start_times.get(j)
        if starts and spec.expected_duration is not None:
            found.add(TimedEvent(min(starts) + spec.expected_duration, "end", g))
        if (
            j in submission_times
            and j not in live.reserved_starts
            and running_pod_count(j, live) < max(1, spec.minimum)
        ):
            found.add(TimedEvent(submission_times[j] + specs.cluster.patience + 1, "patience", g))
        if (until := cooldown_end(j, spec, live, specs.scheduler)) is not None:
            found.add(TimedEvent(until, "cooldown", g))
    found |= {
        TimedEvent(at, "too late")
        for at in _too_late_times(specs, live, gang_indices, {moment.time for moment in found if moment.cause == "end"})
    }
    return tuple(sorted(found, key=lambda m: (m.time, m.cause, -1 if m.gang is None else m.gang)))


def _too_late_times(
    specs: Specs, live: ObservedState, gang_indices: Sequence[int], end_times: set[int]
) -> Iterator[int]:
    """From when a job that starts does not end before maintenance begins any more, or before a reservation falls due,
    which it does at an end."""
    durations = {
        lasts
        for j in gang_indices
        if (lasts := specs.gangs[j].expected_duration) is not None and not running_pod_count(j, live)
    }
    begins = {start for node in live.nodes for start, _ in node.maintenance_windows}
    for times in (begins, end_times if len(end_times) * len(durations) <= MAX_END_DURATION_PAIRS else ()):
        yield from (at - lasts + 1 for at in times for lasts in durations)


def planning_time(
    live: ObservedState, events: Sequence[TimedEvent], submission_times: Mapping[int, int], clock: int | None
) -> int | None:
    """Now: the newest event or, where there is a clock, the last moment that has come by then, the newest job of the
    repository among them."""
    past = (
        []
        if clock is None
        else [at for at in (*(moment.time for moment in events), *submission_times.values()) if at <= clock]
    )
    return max([*past, *([] if live.now is None else [live.now])], default=None)


def upcoming_events(events: Sequence[TimedEvent], now: int | None, clock: int | None) -> tuple[TimedEvent, ...]:
    """Those to come at which somebody who waits may start. None without a now."""
    if now is None:
        return ()
    return tuple(moment for moment in events if moment.time > max(now, clock or now) and moment.cause != "too late")

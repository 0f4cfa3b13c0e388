"""Timed events: the present of a plan, and the moments at which its answer may change although nothing happens.

Now is when the cluster was read, or the newest event if that is later. A plan depends on it through comparisons: has
this maintenance ended, has that job waited too long? Each of them turns at one moment, at which another plan is made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from compiler.cluster_state.observed import ObservedState
from compiler.lower.origins import TimedEvent
from compiler.lower.victims import cooldown_ends
from compiler.specs.cluster_spec import Specs


def timed_events(
    specs: Specs, observed: ObservedState, gang_indices: Sequence[int], submission_times: Mapping[int, int]
) -> tuple[TimedEvent, ...]:
    """All events, past and to come, in order; their gangs are indices of the problem.

    A gang is overdue the second after its patience is over, and no earlier.
    """
    found = {TimedEvent(end, "maintenance") for node in observed.nodes for _, end in node.maintenance_windows}
    for g, j in enumerate(gang_indices):
        spec, start = specs.gangs[j], observed.started_at(j)
        if start is not None and spec.expected_duration is not None:
            found.add(TimedEvent(start + spec.expected_duration, "end", g))
        is_waiting = observed.running_pod_count(j) < max(1, spec.minimum)
        if is_waiting and j in submission_times and j not in observed.jobs.reserved_starts:
            found.add(TimedEvent(submission_times[j] + specs.cluster.patience + 1, "patience", g))
        found |= {TimedEvent(end, "cooldown", g) for end in cooldown_ends(j, spec, observed, specs.scheduler)}
    return tuple(sorted(found, key=lambda event: (event.time, event.cause, -1 if event.gang is None else event.gang)))


def upcoming_events(events: Sequence[TimedEvent], now: int | None) -> tuple[TimedEvent, ...]:
    """Return the events after `now` at which a waiting gang may start; none without a `now`."""
    return () if now is None else tuple(event for event in events if event.time > now)

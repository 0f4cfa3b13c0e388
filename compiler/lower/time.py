"""Times of gangs and nodes in seconds from now, and the moments at which a plan's answer may change although nothing
happens.

Now is when the cluster was read, or the newest event if that is later. A plan depends on it through comparisons: has
this maintenance ended, has that job waited too long? Each of them turns at one moment, at which another plan is made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from compiler.cluster_state.observed import ObservedState
from compiler.lower.origins import TimedEvent
from compiler.lower.victims import cooldown_ends
from compiler.specs.cluster_spec import Specs
from compiler.specs.gang_spec import GangSpec
from compiler.specs.node_spec import NodeSpec
from solver.problem import GangTimes


def gang_times(j: int, spec: GangSpec, observed: ObservedState, submitted_at: int | None, patience: int) -> GangTimes:
    """Return the times of a gang. duration: as the job declares. ends_in: so long after its first pod started; None
    once it should have ended.

    overdue: it does not run at its minimum, and it is promised or has waited longer than the patience. Without a state
    there is no present time, and no gang is overdue. promised: an earlier plan reserved a start, or the plan in force
    has begun to start it.
    """
    running, now = observed.running_pod_count(j), observed.now
    is_late = submitted_at is not None and now is not None and now - submitted_at > patience
    is_waiting = running < max(1, spec.minimum)
    ends_in = _remaining_seconds(j, spec, observed) if running else None
    has_begun = running > 0 and spec.key in observed.jobs.former_places
    promised = is_waiting and (has_begun or j in observed.jobs.reserved_starts)
    return GangTimes(spec.times.expected_duration, ends_in, (is_waiting and is_late) or promised, promised)


def _remaining_seconds(j: int, spec: GangSpec, observed: ObservedState) -> int | None:
    start = observed.started_at(j)
    if start is None or spec.times.expected_duration is None or observed.now is None:
        return None
    remaining = start + spec.times.expected_duration - observed.now
    return remaining if remaining > 0 else None


def maintenance_in(windows: Sequence[tuple[int, int]]) -> int | None:
    """Seconds until the next maintenance of a node with these windows, 0 during one; None if none is to come."""
    return min(start for start, _ in windows) if windows else None


def maintenance_windows(node: NodeSpec, now: int | None) -> tuple[tuple[int, int], ...]:
    """Return the node's maintenance from now on, (from, to) in seconds from now; none without a now."""
    if now is None or not node.maintenance_windows:
        return ()
    return tuple((max(0, start - now), end - now) for start, end in node.maintenance_windows if end > now)


# ---- timed events


def timed_events(
    specs: Specs, observed: ObservedState, gang_indices: Sequence[int], submission_times: Mapping[int, int]
) -> tuple[TimedEvent, ...]:
    """All events, past and to come, in order; their gangs are indices of the problem.

    A gang is overdue the second after its patience is over, and no earlier.
    """
    found = {TimedEvent(end, "maintenance") for node in observed.nodes for _, end in node.maintenance_windows}
    for g, j in enumerate(gang_indices):
        spec, start = specs.gangs[j], observed.started_at(j)
        if start is not None and spec.times.expected_duration is not None:
            found.add(TimedEvent(start + spec.times.expected_duration, "end", g))
        is_waiting = observed.running_pod_count(j) < max(1, spec.minimum)
        if is_waiting and j in submission_times and j not in observed.jobs.reserved_starts:
            found.add(TimedEvent(submission_times[j] + specs.cluster.patience + 1, "patience", g))
        found |= {TimedEvent(end, "cooldown", g) for end in cooldown_ends(j, spec, observed, specs.scheduler)}
    return tuple(sorted(found, key=lambda event: (event.time, event.cause, -1 if event.gang is None else event.gang)))


def upcoming_events(events: Sequence[TimedEvent], now: int | None) -> tuple[TimedEvent, ...]:
    """Return the events after `now` at which a waiting gang may start; none without a `now`."""
    return () if now is None else tuple(event for event in events if event.time > now)

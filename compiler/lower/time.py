"""What is known of time: how long jobs run, when those that run end, who has waited too long, when nodes close. For now
see `lower.moments`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compiler.cluster_state.observed import ObservedState
from compiler.specs import GangSpec, NodeSpec


@dataclass(frozen=True, slots=True)
class GangTimes:
    """Of one gang, in the problem's terms (`solver.problem.Gang`): seconds, and seconds from now."""

    duration: int | None = None
    ends_in: int | None = None
    overdue: bool = False


def gang_times(j: int, spec: GangSpec, live: ObservedState, submitted_at: int | None, patience: int) -> GangTimes:
    """duration: as the job says. ends: so long after its first pod started; None once it should have ended.

    overdue: it does not run whole, and was promised a start by an earlier plan or has waited longer than the patience.
    Without a state there is no now, and nobody is late.
    """
    runs = running_pod_count(j, live)
    duration, now, starts = spec.expected_duration, live.now, live.start_times.get(j)
    left = min(starts) + duration - now if runs and starts and duration is not None and now is not None else None
    late = submitted_at is not None and now is not None and now - submitted_at > patience
    waits = runs < max(1, spec.minimum)
    return GangTimes(
        duration, left if left is not None and left > 0 else None, waits and (late or j in live.reserved_starts)
    )


def running_pod_count(j: int, live: ObservedState) -> int:
    return sum(live.running_pods.get(j, {}).values())


def maintenance_in(windows: Sequence[tuple[int, int]]) -> int | None:
    """Seconds until the next maintenance of a node with these windows, 0 during one; None without any to come."""
    return min(start for start, _ in windows) if windows else None


def maintenance_windows(node: NodeSpec, now: int | None) -> tuple[tuple[int, int], ...]:
    """Its maintenance from now on, (from, to) in seconds from now; nothing without a now."""
    return (
        ()
        if now is None
        else tuple((max(0, start - now), end - now) for start, end in node.maintenance_windows if end > now)
    )

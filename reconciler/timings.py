"""The numbers by which the reconciler waits, retries and gives up, grouped by part: in one place, and smaller in tests.

Seconds where nothing else is said. A part is given its group when it is made.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GitTimings:
    """Of the poller."""

    poll_limit: float = 900.0
    """For one poll; each of its git commands has a limit of its own."""
    jitter: tuple[float, float] = (0.9, 1.1)
    """Shares of the interval between which a pause lies, so that many reconcilers do not ask a server all at once."""
    longest_pause: float = 300.0
    """For pauses while the repository cannot be fetched; the interval, where that is longer."""
    least_spacing: float = 1.0
    """From the begin of a fetch to the next, however often it is asked for."""


@dataclass(frozen=True, slots=True)
class PlanningTimings:
    """Of commits and their plans."""

    compile_retry: float = 10.0
    """Until a compile that broke down is tried again although nothing changed: doubled each time, up to the next."""
    plan_retry: float = 300.0
    """Until a plan that was refused for what the cluster holds is tried again although nothing changed."""
    refusal_retry: float = 10.0
    """Until a commit that the API server refused is asked about again: doubled with each refusal, up to the next."""
    longest_refusal_retry: float = 300.0


@dataclass(frozen=True, slots=True)
class SchedulerTimings:
    """Of Volcano. Whether its scheduler has taken a new configuration is asked after `Settings.scheduler_timeout`."""

    stalled: float = 90.0
    """Until a component that owes something and does nothing has stalled: longer than a watch on which nothing comes is
    believed (`WATCH_SILENCE` of the client)."""
    look: float = 5.0
    """Between two looks for that: each goes over all jobs and pods, and several passes of a wave follow in a second."""


@dataclass(frozen=True, slots=True)
class RequestTimings:
    """Of what operators ask for."""

    poll: float = 2.0
    """Between two looks at the ConfigMap."""
    poll_limit: float = 60.0
    """Within which one must have come."""


@dataclass(frozen=True, slots=True)
class Timings:
    """All groups."""

    git: GitTimings = GitTimings()
    planning: PlanningTimings = PlanningTimings()
    scheduler: SchedulerTimings = SchedulerTimings()
    requests: RequestTimings = RequestTimings()


TIMINGS = Timings()
"""Those of production."""

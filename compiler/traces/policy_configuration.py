"""The scheduler's configuration for the policy `volcano` of a replay."""

from __future__ import annotations

from compiler.specs.cluster_spec import SchedulerSpec
from solver.simulation.volcano_configuration import Plugin, VolcanoScheduler


def lower_scheduler(scheduler: SchedulerSpec | None, period: int) -> VolcanoScheduler:
    """Return the configuration as the policy `volcano` of a replay takes it; without one, what Volcano's chart
    installs."""
    if scheduler is None:
        return VolcanoScheduler(period=period)
    tiers = (tuple(Plugin(each.name, each.arguments, each.flags) for each in tier) for tier in scheduler.tiers)
    return VolcanoScheduler(scheduler.actions, tuple(tiers), period)

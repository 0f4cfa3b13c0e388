"""Every policy by its name, made for a workload."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from solver.options import Options
from solver.simulation.gradient import FragmentationGradient
from solver.simulation.planned import Planned
from solver.simulation.policies import (
    Conservative,
    Easy,
    FirstInFirstOut,
    FirstThatFits,
    Policy,
    best_fit,
    lowest_numbered,
)
from solver.simulation.volcano.policy import Volcano
from solver.simulation.workload import Workload


def _by_gradient(workload: Workload) -> Policy:
    roles = [job.role for job in workload.jobs]
    return FirstThatFits(FragmentationGradient(workload.cluster, roles, workload.device, workload.unit))


POLICIES: Mapping[str, Callable[[Workload], Policy]] = {
    "fifo": lambda _: FirstInFirstOut(lowest_numbered),
    "easy": lambda _: Easy(lowest_numbered),
    "conservative": lambda _: Conservative(lowest_numbered),
    "first-fit": lambda _: FirstThatFits(lowest_numbered),
    "best-fit": lambda _: FirstThatFits(best_fit),
    "fgd": _by_gradient,
    "volcano": Volcano,
    "gangplan": lambda _: Planned(Options()),
}

WITH_LIMITS = frozenset({"volcano", "gangplan"})
"""Policies that know what queues may hold."""

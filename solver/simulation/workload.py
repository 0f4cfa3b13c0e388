"""The input of a replay: jobs that arrive on a cluster, and nodes that fail or close meanwhile.

Times are integer microseconds since the start of the workload, so that sums are exact and every run gives the same
bytes. Amounts are those of the cluster's `Problem`.

The configuration of Volcano's scheduler is as in its file.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from solver.problem import PodRequest, Problem, Role

PERIOD = 1_000_000
"""Microseconds: Volcano's default."""


@dataclass(frozen=True, slots=True)
class Plugin:
    """flags: enable... flags that are given; without, a function is on."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    flags: Mapping[str, bool] = field(default_factory=dict)

    def whole(self, argument: str, default: int) -> int:
        """Return a whole number, else the default, as `GetInt` of framework/arguments.go."""
        found = self.arguments.get(argument)
        return found if type(found) is int else default


CHART_TIERS = (
    (Plugin("priority"), Plugin("gang", flags={"enablePreemptable": False}), Plugin("conformance")),
    (
        Plugin("overcommit"),
        Plugin("drf", flags={"enablePreemptable": False}),
        Plugin("predicates"),
        Plugin("proportion"),
        Plugin("nodeorder"),
        Plugin("binpack"),
    ),
)
"""The tiers that Volcano's chart installs (installer/helm/chart/volcano/config/volcano-scheduler.conf)."""


@dataclass(frozen=True, slots=True)
class VolcanoScheduler:
    """actions: in their order. period: microseconds from one cycle to the next (--schedule-period). cycles: when they
    are, where that is known, ascending; after the last of them one follows each period."""

    actions: tuple[str, ...] = ("enqueue", "allocate", "backfill")
    tiers: tuple[tuple[Plugin, ...], ...] = CHART_TIERS
    period: int = PERIOD
    cycles: tuple[int, ...] = ()

    def next_cycle(self, now: int) -> int:
        """Return the first cycle that is not before this moment."""
        at = bisect_left(self.cycles, now)
        if at < len(self.cycles):
            return self.cycles[at]
        last = self.cycles[-1] if self.cycles else 0
        return last + -(-(now - last) // self.period) * self.period

    def voters(self, flag: str, known: Collection[str]) -> tuple[tuple[str, ...], ...]:
        """Return tier by tier which of these plugins have the function that the flag switches; empty tiers are left
        out."""
        enabled = ([plugin for plugin in tier if plugin.flags.get(flag, True)] for tier in self.tiers)
        found = (tuple(plugin.name for plugin in tier if plugin.name in known) for tier in enabled)
        return tuple(tier for tier in found if tier)

    def voter(self, flag: str, name: str) -> Plugin | None:
        """Return the plugin, if it is listed and has the function; of one that is listed twice the first counts."""
        plugins = chain.from_iterable(self.tiers)
        listed = next((plugin for plugin in plugins if plugin.name == name), None)
        return listed if listed is not None and listed.flags.get(flag, True) else None


DEFAULT_SCHEDULER = VolcanoScheduler()


SECOND = 1_000_000
"""Microseconds of a second."""

Shape = tuple[PodRequest, frozenset[int], int]
"""(request of a pod, node classes open to it, pods): jobs of one shape fit at the same places."""


@dataclass(frozen=True, slots=True)
class Job:
    """All pods of `role` start together and stay for `duration`. requested: what a policy believes the duration to be,
    and no policy knows more. priority: higher first. queue: index into the cluster's queues."""

    name: str
    submit: int
    duration: int
    requested: int
    role: Role
    queue: int = 0
    priority: int = 0
    user: str = ""

    @property
    def shape(self) -> Shape:
        return self.role.pod_request, self.role.node_classes, self.role.replicas


@dataclass(frozen=True, slots=True)
class Outage:
    """Node `node` is away from `start` to `end`. Jobs that run there then begin again. known: when it was announced, as
    maintenance is; None where nobody knows before."""

    node: int
    start: int
    end: int
    known: int | None = None


@dataclass(frozen=True, slots=True)
class Workload:
    """cluster: nodes and queues; its gangs are not looked at. device: index of the resource that decides what a job's
    size is. unit: the amount of it that is one device. loses_jobs: a job that cannot start when it arrives is lost, as
    in the experiments of FGD (ATC'23). scheduler: of the policy `volcano`."""

    cluster: Problem
    jobs: Sequence[Job]
    device: int
    unit: int = 1
    outages: Sequence[Outage] = ()
    loses_jobs: bool = False
    scheduler: VolcanoScheduler = DEFAULT_SCHEDULER

    def devices(self, j: int) -> int:
        """Return the job's request of the device resource, over all pods."""
        role = self.jobs[j].role
        return role.replicas * role.request[self.device]

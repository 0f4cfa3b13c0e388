"""The input of a replay: jobs that arrive on a cluster, and nodes that fail or close meanwhile.

Times are integer microseconds since the start of the workload, so that sums are exact and every run gives the same
bytes. Amounts are those of the cluster's `Problem`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from solver.problem import PodRequest, Problem, Role
from solver.simulation.volcano_configuration import DEFAULT_SCHEDULER, VolcanoScheduler

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

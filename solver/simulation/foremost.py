"""Selects the jobs of a deep queue that a plan may start now: enough similar ones precede the others to fill all
room."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from operator import add, le

from solver.problem import Gang, Role, Vector
from solver.simulation.site import Site
from solver.simulation.workload import SECOND, Job


@dataclass(slots=True)
class _Line:
    """Jobs of one queue, priority and shape. room: how many of them fit at most. ends: requested times of the selected
    jobs, ascending."""

    room: int
    ends: list[int] = field(default_factory=list)

    def has_enough_before(self, seconds: int) -> bool:
        """Return whether as many earlier jobs as fit request no more time: a plan starts these first, whatever it
        reserves."""
        return bisect_right(self.ends, seconds) >= max(1, self.room)


class Foremost:
    """The waiting jobs of a site, without those that no plan starts now.

    Jobs of one queue, priority and shape start in order; a later one passes only if it ends before a reservation and
    earlier ones do not. A job is left out only if smaller ones before it already claim more than its queue can be
    entitled to, so that entitlements are claimed as before. In a queue with strict order none is left out, since each
    blocks those behind it.
    """

    def __init__(self, site: Site, waiting: Sequence[int]) -> None:
        """waiting: in order."""
        self.site = site
        self.jobs: list[int] = []
        self._left_out: dict[int, list[Job]] = {}
        self._lines: dict[object, _Line] = {}
        self._claims: dict[int, Counter[Vector]] = {}
        self._held = _held_amounts(site)
        for j in waiting:
            if self._is_behind(site.job(j)):
                self._left_out.setdefault(site.job(j).queue, []).append(site.job(j))
            else:
                self.jobs.append(j)

    def _is_behind(self, job: Job) -> bool:
        """Return whether the job is left out; else it claims its place in line."""
        key, seconds = (job.queue, job.priority, job.shape), requested_seconds(job)
        line = self._lines.get(key)
        if line is None:
            fits = int(self.site.room.fit_counts(job.role).sum()) // job.role.replicas
            line = self._lines[key] = _Line(fits)
        claims, demand = self._claims.setdefault(job.queue, Counter()), _demand(job)
        is_strict = self.site.workload.cluster.queues[job.queue].strict_order
        if not is_strict and line.has_enough_before(seconds) and self._are_exhausted(job.queue, demand):
            return True
        insort(line.ends, seconds)
        claims[demand] += 1
        return False

    def _are_exhausted(self, queue: int, demand: Vector) -> bool:
        """Return whether what the queue holds and what its earlier jobs that ask for no more claim is all that the
        cluster has of each resource of this demand."""
        total = self._held.get(queue, [0] * len(demand))
        for each, number in self._claims[queue].items():
            if all(map(le, each, demand)):
                total = [amount + number * more for amount, more in zip(total, each, strict=True)]
        totals = self.site.workload.cluster.totals
        return all(total[r] >= totals[r] for r, amount in enumerate(demand) if amount)

    def stand_ins(self) -> Iterator[Gang]:
        """For each queue a gang that asks for what its jobs that are left out do, and never starts: one of its pods has
        no node."""
        for queue, jobs in sorted(self._left_out.items()):
            pods = Counter[Role]()
            for job in jobs:
                pods[replace(job.role, replicas=1, minimum=1)] += job.role.replicas
            homeless = replace(next(iter(pods)), name="homeless", node_classes=frozenset())
            pods.subtract([next(iter(pods))])
            roles = [
                replace(role, name=f"pods-{t}", replicas=n, minimum=n) for t, (role, n) in enumerate(pods.items()) if n
            ]
            priority, age = min(job.priority for job in jobs), max(job.submit for job in jobs)
            yield Gang(f"waiting-{queue}", queue, priority, age, 1 + pods.total(), (*roles, homeless))


def _demand(job: Job) -> Vector:
    return tuple(amount * job.role.replicas for amount in job.role.request)


def _held_amounts(site: Site) -> dict[int, list[int]]:
    """Return queue -> what its jobs that run hold of each resource."""
    found: dict[int, list[int]] = {}
    for j in site.running:
        job = site.job(j)
        found[job.queue] = [*map(add, found.get(job.queue, [0] * len(job.role.request)), _demand(job))]
    return found


def requested_seconds(job: Job) -> int:
    """Return the requested time as a plan knows it, in whole seconds."""
    return -(-job.requested // SECOND)


def may_all_start(site: Site, waiting: Sequence[int]) -> bool:
    """Return whether the waiting jobs together request no more than the free amounts."""
    asked = [sum(amounts) for amounts in zip(*(_demand(site.job(j)) for j in waiting), strict=True)]
    free = site.room.free.amounts[site.room.up].sum(axis=0)
    return bool((free >= asked).all())

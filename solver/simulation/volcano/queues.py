"""Usage and limits of queues during Volcano's cycles, and which queue is next."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from solver.problem import Limits, Vector
from solver.semantics.entitlements import ShareBounds, capacity_deserved, source_units, water_fill
from solver.semantics.queues import PODS, accepts_gangs, flat_real_capability, queue_path, real_capability
from solver.simulation.workload import Workload

Key = tuple[float | int, ...]


class QueueAccounts:
    """held: by each queue, and with capacity's hierarchy by those below it. asked: by admitted jobs that wait. jobs: of
    the queue that have not ended. deserved: with capacity. shares: of proportion, in this cycle. Sources:
    plugins/capacity and plugins/proportion."""

    def __init__(self, workload: Workload) -> None:
        cluster, scheduler = workload.cluster, workload.scheduler
        self.cluster = cluster
        self.compared = [r for r, name in enumerate(cluster.resources) if name != PODS]
        queues, is_tree = range(len(cluster.queues)), cluster.policy.hierarchical
        self.paths = [queue_path(cluster, q) if is_tree else [q] for q in queues]
        self.opened = [accepts_gangs(cluster, q) for q in queues]
        self.held = [list(queue.used) for queue in cluster.queues]
        self.asked = [[0] * len(cluster.resources) for _ in cluster.queues]
        self.jobs = [0] * len(cluster.queues)
        self.orders = scheduler.voters("enableQueueOrder", ("proportion", "capacity"))
        self.limits_share = bool(scheduler.voters("enabledAllocatable", ("proportion",)))
        self.limits_capability = bool(scheduler.voters("enabledAllocatable", ("capacity",)))
        self._flat, self.real = flat_real_capability(cluster), real_capability(cluster)
        self.deserved = capacity_deserved(cluster)
        self._units = np.array([unit for unit in source_units(cluster) if unit], dtype=np.double)
        self._shared = [r for r, unit in enumerate(source_units(cluster)) if unit]
        self.shares: list[Vector | None] = [None] * len(cluster.queues)
        self._filled: object = None

    def take(self, queue: int, demand: Vector, times: int = 1) -> None:
        """A job of the queue starts, or ends (times = -1)."""
        for q in self.paths[queue]:
            _add(self.held[q], demand, times)

    def ask(self, queue: int, demand: Vector, times: int = 1) -> None:
        """Count an admitted job's request, or remove it when the job no longer waits (times = -1)."""
        _add(self.asked[queue], demand, times)

    def open_cycle(self) -> None:
        """Fill the shares of proportion for the present usage and requests."""
        if not (self.limits_share or any("proportion" in tier for tier in self.orders)):
            return
        queues = [q for q, jobs in enumerate(self.jobs) if jobs]
        want = [[self.held[q][r] + self.asked[q][r] for r in self._shared] for q in queues]
        if self._filled == (queues, want):
            return
        self._filled = queues, want
        wanted = np.array(want, dtype=np.double).reshape(len(queues), len(self._shared)) * self._units
        guarantees = [queue.guarantee for queue in self.cluster.queues]
        most, least = (self._rows(limits, queues) for limits in (self._flat, guarantees))
        whole = np.array([self.cluster.totals[r] for r in self._shared]) * self._units
        bounds = ShareBounds(queues, wanted, np.minimum(wanted, most), least, whole)
        weights = np.array([self.cluster.queues[q].weight for q in queues], dtype=np.double)
        filled = water_fill(bounds, weights, until_empty=not self.cluster.has_other_resources) // self._units
        self.shares = [None] * len(self.jobs)
        for q, row in zip(queues, filled.tolist(), strict=True):
            share = dict(zip(self._shared, map(int, row), strict=True))
            self.shares[q] = tuple(
                share.get(r, held + asked)  # nobody lacks pods, so that they are given as they are asked for
                for r, (held, asked) in enumerate(zip(self.held[q], self.asked[q], strict=True))
            )

    def _rows(self, limits: Sequence[Limits], queues: Sequence[int]) -> np.ndarray:
        rows = [[limits[q][r] or 0 for r in self._shared] for q in queues]
        return np.array(rows, dtype=np.double).reshape(len(queues), len(self._shared)) * self._units

    # ---- what a queue may hold

    def allows(self, queue: int, demand: Vector) -> bool:
        """Return whether the queue may hold so much more: Allocatable, pod by pod, which is the same for all of equal
        pods."""
        if not self.opened[queue]:
            return False
        share = self.shares[queue]
        if self.limits_share and (share is None or not self.fits(self.held[queue], demand, share)):
            return False
        return not self.limits_capability or all(
            self.fits(self.held[q], demand, self.real[q]) for q in self.paths[queue]
        )

    def lets_in(self, voter: str, queue: int, demand: Vector) -> bool:
        """Return whether proportion or capacity admits a job of the queue: usage, admitted and new requests are within
        the real capability."""
        if not self.opened[queue]:
            return False
        if voter == "proportion":
            return self.fits(self.held[queue], demand, self._flat[queue], self.asked[queue])
        return all(self.fits(self.held[q], demand, self.real[q], self._asked_below(q)) for q in self.paths[queue])

    def _asked_below(self, queue: int) -> Sequence[int]:
        """Return the requests of admitted jobs of the queue and its descendants."""
        below = [asked for asked, path in zip(self.asked, self.paths, strict=True) if queue in path]
        return [sum(amounts) for amounts in zip(*below, strict=True)]

    def fits(self, held: Sequence[int], demand: Vector, most: Limits, more: Sequence[int] | None = None) -> bool:
        for r in self.compared:
            limit = most[r]
            if demand[r] and limit is not None and held[r] + demand[r] + (more[r] if more else 0) > limit:
                return False
        return True

    # ---- which queue is next

    def key(self, queue: int) -> Key:
        """The queue with the smallest is next: higher priority, lower share; then the first."""
        found = list[float | int]()
        for tier in self.orders:
            for voter in tier:
                found.append(-self.cluster.queues[queue].priority)
                if voter == "proportion":
                    found.append(_share(self.held[queue], self.shares[queue] or (0,) * len(self.held[queue])))
                else:
                    for q in reversed(self.paths[queue]):
                        found += self._capacity_key(q)
        return (*found, queue)

    def _capacity_key(self, queue: int) -> tuple[float, int]:
        deserved = [amount or 0 for amount in self.deserved[queue]]
        if not any(deserved):
            return 1.0, 1
        named = [(h, d) for h, d in zip(self.held[queue], deserved, strict=True) if d]
        return max(h / d for h, d in named), 0


def _share(held: Sequence[int], deserved: Sequence[int]) -> float:
    return max((h / d if d else float(h > 0)) for h, d in zip(held, deserved, strict=True))


def _add(amounts: list[int], more: Sequence[int], times: int) -> None:
    for r, amount in enumerate(more):
        amounts[r] += times * amount

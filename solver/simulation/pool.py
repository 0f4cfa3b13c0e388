"""A replay in outline: the cluster is one pool of devices, and every job starts that fits into it and its queues.

It takes a second for 40,000 jobs and shows roughly when jobs wait under any policy that leaves no devices idle. Places,
shares of queues and requested times are left out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush

from solver.semantics.queues import queue_path
from solver.simulation.workload import Workload

Kind = tuple[int, int]
"""(queue, devices): of the jobs of one kind that wait the first is next."""


def pool_starts(workload: Workload, has_limits: bool) -> Sequence[int | None]:
    """Return job -> when it starts; None where it never does. has_limits: whether queues' capabilities count."""
    return _Pool(workload, has_limits).starts()


class _Pool:
    def __init__(self, workload: Workload, has_limits: bool) -> None:
        cluster, device = workload.cluster, workload.device
        self.jobs = workload.jobs
        self.kinds = [(job.queue, workload.devices(j)) for j, job in enumerate(workload.jobs)]
        self.free = cluster.totals[device]
        most = [queue.capability[device] if has_limits else None for queue in cluster.queues]
        self.left = {q: amount for q, amount in enumerate(most) if amount is not None}
        self.limits = [[q for q in queue_path(cluster, own) if q in self.left] for own in range(len(cluster.queues))]
        self.waiting: dict[Kind, deque[int]] = {}
        self.ends: list[tuple[int, int]] = []
        self.found: list[int | None] = [None] * len(workload.jobs)

    def starts(self) -> Sequence[int | None]:
        for j in sorted(range(len(self.jobs)), key=lambda j: self.jobs[j].submit):
            self._pass_to(self.jobs[j].submit)
            if self.kinds[j] not in self.waiting and self._fits(self.kinds[j]):
                self._start(j, self.jobs[j].submit)
            else:
                self.waiting.setdefault(self.kinds[j], deque()).append(j)
        while self.ends:
            self._pass_to(self.ends[0][0])
        return self.found

    def _pass_to(self, moment: int) -> None:
        """End runs up to this moment, and start waiting jobs in the freed room."""
        while self.ends and self.ends[0][0] <= moment:
            now = self.ends[0][0]
            while self.ends and self.ends[0][0] == now:
                self._take(self.kinds[heappop(self.ends)[1]], -1)
            while (
                first := min((line[0] for kind, line in self.waiting.items() if self._fits(kind)), default=None)
            ) is not None:
                line = self.waiting[self.kinds[first]]
                line.popleft()
                if not line:
                    del self.waiting[self.kinds[first]]
                self._start(first, now)

    def _start(self, j: int, now: int) -> None:
        self.found[j] = now
        self._take(self.kinds[j], 1)
        heappush(self.ends, (now + self.jobs[j].duration, j))

    def _fits(self, kind: Kind) -> bool:
        queue, devices = kind
        return devices <= self.free and all(devices <= self.left[q] for q in self.limits[queue])

    def _take(self, kind: Kind, times: int) -> None:
        queue, devices = kind
        self.free -= times * devices
        for q in self.limits[queue]:
            self.left[q] -= times * devices

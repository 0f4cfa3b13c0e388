"""The cluster in the eyes of one of Volcano's cycles: who has lost pods, and who has got their room."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from solver.problem import Role
from solver.semantics.device_slots import IntArray
from solver.simulation.room import Holds
from solver.simulation.site import Site
from solver.simulation.volcano.queues import QueueAccounts
from solver.simulation.volcano.scores import NodeScores

Pod = tuple[int, int]
"""(job, number of the pod in it)."""


@dataclass(frozen=True, slots=True)
class JobState:
    """came: when its podgroup was created. made: the cycle after which its pods were created. holds, nodes: where it
    runs, and the node of each pod."""

    came: int
    made: int = 0
    holds: Holds = ()
    nodes: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Operation:
    """A pod is evicted from the node (times = -1), or gets room there once that is free (times = 1)."""

    pod: Pod
    node: int
    times: int


class Session:
    """counted: node -> what nodeorder counts its pods as. left: job -> its pods. held: queue -> node -> what those of
    its pods hold that may go. done: in order. Source: framework/statement."""

    def __init__(
        self,
        site: Site,
        accounts: QueueAccounts,
        scores: NodeScores,
        running: Mapping[int, JobState],
        counted: IntArray,
    ) -> None:
        self.site, self._accounts, self._scores = site, accounts, scores
        self.running, self.counted = running, counted.copy()
        self._freed = np.zeros_like(site.room.free.amounts)
        self.left = Counter({j: len(state.nodes) for j, state in running.items()})
        self.held: dict[int, IntArray] = {}
        self.done: list[Operation] = []
        self._on: dict[int, list[Pod]] = {}

    @property
    def future(self) -> IntArray:
        """Return node -> what will be free."""
        return self.site.room.free.amounts + self._freed

    def open_to_eviction(self, jobs: Collection[int]) -> None:
        """Only these of the running jobs may lose pods."""
        for j in jobs:
            held = self.held.setdefault(self.site.job(j).queue, np.zeros_like(self._freed))
            for k, node in enumerate(self.running[j].nodes):
                self._on.setdefault(node, []).append((j, k))
                held[node] += self.request(j)

    def pods_on(self, node: int, queues: Collection[int]) -> list[Pod]:
        """Return the pods of these queues that may be evicted from the node."""
        return [pod for pod in self._on.get(node, ()) if self.site.job(pod[0]).queue in queues]

    def role(self, j: int) -> Role:
        return self.site.job(j).role

    def request(self, j: int) -> IntArray:
        """Return the request of each pod of the job."""
        return np.array(self.role(j).request, dtype=np.int64)

    def pods_without_room(self, j: int) -> list[Pod]:
        """Return the pods of a waiting job that have not got any."""
        given = {each.pod for each in self.done if each.times > 0}
        return [(j, k) for k in range(self.role(j).replicas) if (j, k) not in given]

    def evict(self, pod: Pod, node: int) -> None:
        self._do(Operation(pod, node, -1))

    def give(self, pod: Pod, node: int) -> None:
        """Give a waiting pod its room."""
        self._do(Operation(pod, node, 1))

    def _do(self, each: Operation) -> None:
        self.done.append(each)
        self._change(each, each.times)
        if each.times < 0:
            self._on[each.node].remove(each.pod)

    def undo(self, mark: int = 0) -> None:
        """Take back all but the first so many operations."""
        while len(self.done) > mark:
            each = self.done.pop()
            self._change(each, -each.times)
            if each.times < 0:
                self._on[each.node].append(each.pod)

    def _change(self, each: Operation, times: int) -> None:
        j, role = each.pod[0], self.role(each.pod[0])
        self._freed[each.node] -= times * self.request(j)
        self.counted[each.node] += times * self._scores.counted_request(role.request)
        self._accounts.take(self.site.job(j).queue, role.request, times)
        self.left[j] += times

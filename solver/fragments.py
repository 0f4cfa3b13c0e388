"""What a pod leaves in pieces: how much of the scarcest resource the rest of a batch could no longer use on a node.

After fragmentation gradient descent (Weng et al., Beware of Fragmentation, USENIX ATC'23), said of any resource.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from solver.cells import Ints
from solver.problem import Problem, Vector
from solver.room import Room

Pod = tuple[Vector, frozenset[int]]
"""(request, kinds of node that it may use)."""


class Fragments:
    """The fragments of every node of a room, for a workload that is known.

    F(node) = free_r(node) * number of the workload's pods of which the node cannot hold even one

    r: the resource of which the workload asks for the largest part of what is free; only pods that ask for it count.
    """

    def __init__(self, problem: Problem, room: Room, pods: Iterable[Pod]) -> None:
        every = Counter(pods)
        total, free = np.zeros(len(problem.resources)), room.free.amounts.sum(axis=0)
        for (request, _), number in every.items():
            total += np.array(request, dtype=np.float64) * number
        self.scarce = int(np.argmax(total / np.maximum(free, 1)))
        self.room = room
        asking = {pod: number for pod, number in every.items() if pod[0][self.scarce]}
        self._requests = np.array([request for request, _ in asking], dtype=np.int64).reshape(len(asking), len(problem.resources))
        self._pods = np.array(list(asking.values()), dtype=np.int64)
        kinds = np.array([node.kind for node in problem.nodes], dtype=np.int64)
        self._open = np.array([np.isin(kinds, sorted(allowed)) for _, allowed in asking], dtype=np.bool_).reshape(len(asking), len(kinds)).T
        self._known: dict[Vector, tuple[Ints, int]] = {}

    def rise(self, request: Vector) -> Ints:
        """Per node, by how much F rises when a pod of this request comes; of no meaning where it does not fit. Do not write to the result."""
        rises, seen = self._known.get(request, (np.zeros(len(self.room.free.amounts), dtype=np.int64), -1))
        changed = np.arange(len(self.room.free.amounts), dtype=np.int64) if seen < 0 else self.room.changed(seen)
        if len(changed):
            free = self.room.free.amounts[changed]
            rises[changed] = self._level(changed, free - np.array(request, dtype=np.int64)) - self._level(changed, free)
        self._known[request] = rises, self.room.mark()
        return rises

    def _level(self, nodes: Ints, free: Ints) -> Ints:
        held = (free[:, None, :] >= self._requests).all(axis=2) & self._open[nodes]
        level: Ints = free[:, self.scarce] * (self._pods.sum() - held @ self._pods)
        return level

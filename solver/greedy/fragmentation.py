"""What a pod leaves in pieces: how much of the scarcest resource the rest of a batch could no longer use on a node.

After fragmentation gradient descent (Weng et al., Beware of Fragmentation, USENIX ATC'23), said of any resource and any
cells.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

from solver.problem import PodRequest, Problem, SlotRequest, Vector
from solver.semantics.device_slots import FreeVectors, IntArray
from solver.state.free_nodes import FreeNodes

PodClass = tuple[PodRequest, frozenset[int]]
"""(what it asks for, kinds of node that it may use)."""

SORTS_LAST = np.iinfo(np.int64).max
"""Stands behind every cell in an order by what is free."""


def scarcest_resource(free: FreeVectors, requests: Iterable[Vector] | Mapping[Vector, int]) -> int:
    """The resource of which all requests together ask for the largest part of what is free. requests: one by one, or
    how many there are of each."""
    total = np.zeros(free.amounts.shape[1])
    for request, number in Counter(requests).items():
        total += np.array(request, dtype=np.float64) * number
    return int(np.argmax(total / np.maximum(free.amounts.sum(axis=0), 1)))


class TargetWorkload:
    """The kinds of pods that ask for the scarcest resource, and how many there are of each.

    scarce: the resource of which all pods together ask for the largest part of what is free. A pod takes from cells
    where one of its portions asks for that resource; the portion itself stands in `_portions`.
    """

    def __init__(self, problem: Problem, free: FreeVectors, pods: Iterable[PodClass] | Mapping[PodClass, int]) -> None:
        every, requests = Counter(pods), Counter[Vector]()
        for (ask, _), number in every.items():
            requests[ask.amounts] += number
        self.scarcest_resource = scarcest_resource(free, requests)
        asking = {pod: number for pod, number in every.items() if pod[0].amounts[self.scarcest_resource]}
        self.node_classes = kinds = np.array([node.node_class for node in problem.nodes], dtype=np.int64)
        self._pods = np.array(list(asking.values()), dtype=np.int64)
        self._requests = np.array([ask.amounts for ask, _ in asking], dtype=np.int64).reshape(
            len(asking), len(problem.resources)
        )
        self._eligible = (
            np.array([np.isin(kinds, sorted(allowed)) for _, allowed in asking], dtype=np.bool_)
            .reshape(len(asking), len(kinds))
            .T
        )
        wanted = [self._slot_request(ask) for ask, _ in asking]
        self._slot_requests = sorted({portion for portion in wanted if portion is not None})
        self._by_slot_group = [
            self._slot_group_arrays(division)
            for division in sorted({portion.slot_group for portion in self._slot_requests})
        ]
        self._slot_request_of = np.array(
            [len(self._slot_requests) if p is None else self._slot_requests.index(p) for p in wanted], dtype=np.int64
        )

    def _slot_request(self, ask: PodRequest) -> SlotRequest | None:
        return next((portion for portion in ask.slot_requests if portion.share[self.scarcest_resource]), None)

    def _slot_group_arrays(self, slot_group: int) -> tuple[int, IntArray, IntArray, IntArray]:
        """(division, indices of its portions, how many cells each takes, their shares: portion x resource)."""
        of = [a for a, portion in enumerate(self._slot_requests) if portion.slot_group == slot_group]
        numbers, shares = [self._slot_requests[a].number for a in of], [self._slot_requests[a].share for a in of]
        return (
            slot_group,
            np.array(of, dtype=np.int64),
            np.array(numbers, dtype=np.int64),
            np.array(shares, dtype=np.int64),
        )

    def fragmentation(self, nodes: IntArray, free: FreeVectors) -> IntArray:
        """F of these nodes, were this free on them."""
        held = self._eligible[nodes].copy()
        for r, amounts in enumerate(free.amounts.T):
            held &= amounts[:, None] >= self._requests[:, r]
        useful = np.repeat(free.amounts[:, self.scarcest_resource, None], len(self._slot_requests) + 1, axis=1)
        for division, of, numbers, shares in self._by_slot_group:
            cells = free.slots[:, division]
            holds = np.ones((len(nodes), len(of), cells.shape[1]), dtype=np.bool_)
            for asked in np.flatnonzero(shares.any(axis=0)):
                holds &= cells[:, None, :, asked] >= shares[:, asked, None]
            useful[:, of] = np.where(
                holds.sum(axis=2) >= numbers, np.einsum("npc,nc->np", holds, cells[:, :, self.scarcest_resource]), 0
            )
        level: IntArray = (
            free.amounts[:, self.scarcest_resource] * self._pods.sum()
            - (held * useful[:, self._slot_request_of]) @ self._pods
        )
        return level

    def free_after(self, free: FreeVectors, ask: PodRequest) -> FreeVectors:
        """What is left once such a pod came to each of the nodes, onto the fullest cells that hold it; of no meaning
        where it does not fit."""
        portion = self._slot_request(ask)
        left = FreeVectors(
            free.amounts - np.array(ask.amounts, dtype=np.int64), free.slots if portion is None else free.slots.copy()
        )
        if portion is not None:
            cells, share = left.slots[:, portion.slot_group], np.array(portion.share, dtype=np.int64)
            holds = (cells >= share).all(axis=2)
            fullest = np.argsort(
                np.where(holds, cells[:, :, self.scarcest_resource], SORTS_LAST), axis=1, kind="stable"
            )[:, : portion.number]
            cells[np.arange(len(cells))[:, None], fullest] -= share
        return left


class Fragmentation:
    """The fragments of every node of a room, for a workload that is known: pods one by one, or how many there are of
    each.

    F(node) = sum over the workload's pods of free_r(node) - useful_r(node, pod)

    useful_r: nothing where the node cannot hold the pod; else what is free of r on the cells that hold its share; on
    the node where it asks for no cell. r: the workload's scarcest resource.
    """

    def __init__(self, problem: Problem, room: FreeNodes, pods: Iterable[PodClass] | Mapping[PodClass, int]) -> None:
        self.free_nodes, self._workload = room, TargetWorkload(problem, room.vectors, pods)
        self._increase_cache: dict[PodRequest, tuple[IntArray, int]] = {}
        every = np.arange(len(problem.nodes), dtype=np.int64)
        self._fragmentation, self._fragmentation_mark = self._workload.fragmentation(every, room.vectors), room.mark()

    @property
    def scarcest_resource(self) -> int:
        """The resource whose fragments count."""
        return self._workload.scarcest_resource

    def increase(self, ask: PodRequest) -> IntArray:
        """Per node, by how much F rises when such a pod comes; of no meaning where it does not fit. Do not write to the
        result."""
        rises, seen = self._increase_cache.get(ask, (np.zeros(len(self._fragmentation), dtype=np.int64), -1))
        changed = (
            np.arange(len(self._fragmentation), dtype=np.int64) if seen < 0 else self.free_nodes.changed_nodes(seen)
        )
        if len(changed):
            free = self.free_nodes.vectors.at_nodes(changed)
            rises[changed] = (
                self._workload.fragmentation(changed, self._workload.free_after(free, ask))
                - self._current_fragmentation()[changed]
            )
        self._increase_cache[ask] = rises, self.free_nodes.mark()
        return rises

    def _current_fragmentation(self) -> IntArray:
        """F of every node as it is."""
        changed = self.free_nodes.changed_nodes(self._fragmentation_mark)
        if len(changed):
            self._fragmentation[changed] = self._workload.fragmentation(
                changed, self.free_nodes.vectors.at_nodes(changed)
            )
            self._fragmentation_mark = self.free_nodes.mark()
        return self._fragmentation

    def positions_by_increase(self, ask: PodRequest, nodes: IntArray) -> IntArray:
        """Positions in `nodes`, those first where F rises least; among equals those with least free, of the scarcest
        resource before all, then by kind: nodes that still tie are as good as one another, so that the order in which
        they are written decides nothing."""
        free = self.free_nodes.vectors.amounts[nodes]
        others = [free[:, r] for r in reversed(range(free.shape[1])) if r != self.scarcest_resource]
        found: IntArray = np.lexsort(
            (self._workload.node_classes[nodes], *others, free[:, self.scarcest_resource], self.increase(ask)[nodes])
        )
        return found

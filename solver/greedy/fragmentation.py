"""Fragmentation: how much of the scarcest resource of a node the rest of a batch could no longer use.

After fragmentation gradient descent (Weng et al., Beware of Fragmentation, USENIX ATC'23), for any resource and any
device slots.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

from solver.problem import PodRequest, Problem, SlotRequest
from solver.semantics.device_slots import FreeVectors, IntArray
from solver.state.free_nodes import FreeNodes

PodClass = tuple[PodRequest, frozenset[int]]
"""(request, node classes that it may use)."""

SORTS_LAST = np.iinfo(np.int64).max
"""Sorts behind every slot in an order by free amount."""


def scarcest_resource(free: FreeVectors, pods: Iterable[tuple[PodClass, int]]) -> int:
    """Return the resource of which all these pods together request the largest part of the free amount."""
    total = np.zeros(free.amounts.shape[1])
    for (request, _), number in pods:
        total += np.array(request.amounts, dtype=np.float64) * number
    return int(np.argmax(total / np.maximum(free.amounts.sum(axis=0), 1)))


class TargetWorkload:
    """The pod classes that request the scarcest resource, and the number of pods of each.

    scarcest_resource: of which all pods together request the largest part of the free amount. A pod takes it from slots
    where one of its slot requests (`_slot_request`) asks for it.
    """

    def __init__(self, problem: Problem, free: FreeVectors, pods: Iterable[PodClass] | Mapping[PodClass, int]) -> None:
        every = Counter(pods)
        self.scarcest_resource = scarcest_resource(free, every.items())
        asking = {pod: number for pod, number in every.items() if pod[0].amounts[self.scarcest_resource]}
        self.node_classes = np.array([node.node_class for node in problem.nodes], dtype=np.int64)
        shape = len(asking), len(problem.resources)
        self._pods = np.array(list(asking.values()), dtype=np.int64)
        self._requests = np.array([request.amounts for request, _ in asking], dtype=np.int64).reshape(shape)
        masks = [np.isin(self.node_classes, sorted(allowed)) for _, allowed in asking]
        self._eligible = np.array(masks, dtype=np.bool_).reshape(len(asking), len(self.node_classes)).T
        wanted = [self._slot_request(request) for request, _ in asking]
        self._slot_requests: list[SlotRequest | None] = [*sorted({a for a in wanted if a is not None}), None]
        groups = sorted({a.slot_group for a in self._slot_requests if a is not None})
        self._by_slot_group = [self._slot_group_arrays(group) for group in groups]
        self._slot_request_of = np.array([self._slot_requests.index(a) for a in wanted], dtype=np.int64)

    def _slot_request(self, request: PodRequest) -> SlotRequest | None:
        return next((a for a in request.slot_requests if a.share[self.scarcest_resource]), None)

    def _slot_group_arrays(self, group: int) -> tuple[int, IntArray, IntArray, IntArray]:
        """(slot group, indices of its requests, their numbers, their shares: request x resource)."""
        requests = ((k, a) for k, a in enumerate(self._slot_requests) if a is not None)
        own = [(k, a.number, a.share) for k, a in requests if a.slot_group == group]
        indices, numbers, shares = (np.array(column, dtype=np.int64) for column in zip(*own, strict=True))
        return group, indices, numbers, shares

    def fragmentation(self, nodes: IntArray, free: FreeVectors) -> IntArray:
        """Return F of these nodes for these free amounts."""
        r0 = self.scarcest_resource
        held = self._eligible[nodes].copy()
        for r, amounts in enumerate(free.amounts.T):
            held &= amounts[:, None] >= self._requests[:, r]
        useful = np.repeat(free.amounts[:, r0, None], len(self._slot_requests), axis=1)
        for group, indices, numbers, shares in self._by_slot_group:
            slots = free.slots[:, group]
            holds = np.ones((len(nodes), len(indices), slots.shape[1]), dtype=np.bool_)
            for asked in np.flatnonzero(shares.any(axis=0)):
                holds &= slots[:, None, :, asked] >= shares[:, asked, None]
            enough = holds.sum(axis=2) >= numbers
            useful[:, indices] = np.where(enough, np.einsum("npc,nc->np", holds, slots[:, :, r0]), 0)
        usable = (held * useful[:, self._slot_request_of]) @ self._pods
        return np.asarray(free.amounts[:, r0] * self._pods.sum() - usable)

    def free_after(self, free: FreeVectors, request: PodRequest) -> FreeVectors:
        """Return the free amounts after adding such a pod to each node, on the fullest slots that hold it; meaningless
        where it does not fit."""
        amounts, a = free.amounts - np.array(request.amounts, dtype=np.int64), self._slot_request(request)
        if a is None:
            return FreeVectors(amounts, free.slots)
        all_slots = free.slots.copy()
        slots, share = all_slots[:, a.slot_group], np.array(a.share, dtype=np.int64)
        key = np.where((slots >= share).all(axis=2), slots[:, :, self.scarcest_resource], SORTS_LAST)
        fullest = np.argsort(key, axis=1, kind="stable")[:, : a.number]
        slots[np.arange(len(slots))[:, None], fullest] -= share
        return FreeVectors(amounts, all_slots)


class Fragmentation:
    """The fragmentation of every node, for a known workload: pods one by one, or the number of each.

    F(node) = sum over the workload's pods of free_r(node) - useful_r(node, pod)

    useful_r: nothing where the node cannot hold the pod; else r's free amount on the slots that hold its share; on
    the node where it requests no slot. r: the workload's scarcest resource.
    """

    def __init__(self, problem: Problem, nodes: FreeNodes, pods: Iterable[PodClass] | Mapping[PodClass, int]) -> None:
        self.free_nodes, self.workload = nodes, TargetWorkload(problem, nodes.vectors, pods)
        self._increase_cache: dict[PodRequest, tuple[IntArray, int]] = {}
        self._every = np.arange(len(problem.nodes), dtype=np.int64)
        self._fragmentation = self.workload.fragmentation(self._every, nodes.vectors)
        self._fragmentation_mark = nodes.mark()

    def increase(self, request: PodRequest) -> IntArray:
        """Return node -> increase of F by such a pod; meaningless where it does not fit. Do not write to the result."""
        rises, seen = self._increase_cache.get(request, (np.zeros(len(self._every), dtype=np.int64), -1))
        changed = self._every if seen < 0 else self.free_nodes.changed_nodes(seen)
        if len(changed):
            after = self.workload.free_after(self.free_nodes.vectors.at_nodes(changed), request)
            rises[changed] = self.workload.fragmentation(changed, after) - self._current_fragmentation()[changed]
        self._increase_cache[request] = rises, self.free_nodes.mark()
        return rises

    def _current_fragmentation(self) -> IntArray:
        """F of every node as it is."""
        changed = self.free_nodes.changed_nodes(self._fragmentation_mark)
        if len(changed):
            free = self.free_nodes.vectors.at_nodes(changed)
            self._fragmentation[changed] = self.workload.fragmentation(changed, free)
            self._fragmentation_mark = self.free_nodes.mark()
        return self._fragmentation

    def positions_by_increase(self, request: PodRequest, nodes: IntArray) -> IntArray:
        """Positions in `nodes`, those first where F rises least; among equals those with least free, of the scarcest
        resource before all, then by node class. Nodes that still tie are as good as one another, so that the order in
        which they are written decides nothing."""
        free, scarcest = self.free_nodes.vectors.amounts[nodes], self.workload.scarcest_resource
        others = [free[:, r] for r in reversed(range(free.shape[1])) if r != scarcest]
        keys = (self.workload.node_classes[nodes], *others, free[:, scarcest])
        return np.asarray(np.lexsort((*keys, self.increase(request)[nodes])))

"""What a pod leaves in pieces: how much of the scarcest resource the rest of a batch could no longer use on a node.

After fragmentation gradient descent (Weng et al., Beware of Fragmentation, USENIX ATC'23), said of any resource and any
cells.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

from solver.problem import Ask, Portion, Problem, Vector
from solver.semantics.device_slots import Free, Ints
from solver.state.room import Room

Pod = tuple[Ask, frozenset[int]]
"""(what it asks for, kinds of node that it may use)."""

FULL = np.iinfo(np.int64).max
"""Stands behind every cell in an order by what is free."""


def scarcest(free: Free, requests: Iterable[Vector] | Mapping[Vector, int]) -> int:
    """The resource of which all requests together ask for the largest part of what is free. requests: one by one, or
    how many there are of each."""
    total = np.zeros(free.amounts.shape[1])
    for request, number in Counter(requests).items():
        total += np.array(request, dtype=np.float64) * number
    return int(np.argmax(total / np.maximum(free.amounts.sum(axis=0), 1)))


class Workload:
    """The kinds of pods that ask for the scarcest resource, and how many there are of each.

    scarce: the resource of which all pods together ask for the largest part of what is free. A pod takes from cells
    where one of its portions asks for that resource; the portion itself stands in `_portions`.
    """

    def __init__(self, problem: Problem, free: Free, pods: Iterable[Pod] | Mapping[Pod, int]) -> None:
        every, requests = Counter(pods), Counter[Vector]()
        for (ask, _), number in every.items():
            requests[ask.request] += number
        self.scarce = scarcest(free, requests)
        asking = {pod: number for pod, number in every.items() if pod[0].request[self.scarce]}
        self.kinds = kinds = np.array([node.kind for node in problem.nodes], dtype=np.int64)
        self._pods = np.array(list(asking.values()), dtype=np.int64)
        self._requests = np.array([ask.request for ask, _ in asking], dtype=np.int64).reshape(
            len(asking), len(problem.resources)
        )
        self._open = (
            np.array([np.isin(kinds, sorted(allowed)) for _, allowed in asking], dtype=np.bool_)
            .reshape(len(asking), len(kinds))
            .T
        )
        wanted = [self._portion(ask) for ask, _ in asking]
        self._portions = sorted({portion for portion in wanted if portion is not None})
        self._by_division = [
            self._together(division) for division in sorted({portion.division for portion in self._portions})
        ]
        self._portion_of = np.array(
            [len(self._portions) if p is None else self._portions.index(p) for p in wanted], dtype=np.int64
        )

    def _portion(self, ask: Ask) -> Portion | None:
        return next((portion for portion in ask.portions if portion.share[self.scarce]), None)

    def _together(self, division: int) -> tuple[int, Ints, Ints, Ints]:
        """(division, indices of its portions, how many cells each takes, their shares: portion x resource)."""
        of = [a for a, portion in enumerate(self._portions) if portion.division == division]
        numbers, shares = [self._portions[a].number for a in of], [self._portions[a].share for a in of]
        return (
            division,
            np.array(of, dtype=np.int64),
            np.array(numbers, dtype=np.int64),
            np.array(shares, dtype=np.int64),
        )

    def level(self, nodes: Ints, free: Free) -> Ints:
        """F of these nodes, were this free on them."""
        held = self._open[nodes].copy()
        for r, amounts in enumerate(free.amounts.T):
            held &= amounts[:, None] >= self._requests[:, r]
        useful = np.repeat(free.amounts[:, self.scarce, None], len(self._portions) + 1, axis=1)
        for division, of, numbers, shares in self._by_division:
            cells = free.cells[:, division]
            holds = np.ones((len(nodes), len(of), cells.shape[1]), dtype=np.bool_)
            for asked in np.flatnonzero(shares.any(axis=0)):
                holds &= cells[:, None, :, asked] >= shares[:, asked, None]
            useful[:, of] = np.where(
                holds.sum(axis=2) >= numbers, np.einsum("npc,nc->np", holds, cells[:, :, self.scarce]), 0
            )
        level: Ints = (
            free.amounts[:, self.scarce] * self._pods.sum() - (held * useful[:, self._portion_of]) @ self._pods
        )
        return level

    def after(self, free: Free, ask: Ask) -> Free:
        """What is left once such a pod came to each of the nodes, onto the fullest cells that hold it; of no meaning
        where it does not fit."""
        portion = self._portion(ask)
        left = Free(
            free.amounts - np.array(ask.request, dtype=np.int64), free.cells if portion is None else free.cells.copy()
        )
        if portion is not None:
            cells, share = left.cells[:, portion.division], np.array(portion.share, dtype=np.int64)
            holds = (cells >= share).all(axis=2)
            fullest = np.argsort(np.where(holds, cells[:, :, self.scarce], FULL), axis=1, kind="stable")[
                :, : portion.number
            ]
            cells[np.arange(len(cells))[:, None], fullest] -= share
        return left


class Fragments:
    """The fragments of every node of a room, for a workload that is known: pods one by one, or how many there are of
    each.

    F(node) = sum over the workload's pods of free_r(node) - useful_r(node, pod)

    useful_r: nothing where the node cannot hold the pod; else what is free of r on the cells that hold its share; on
    the node where it asks for no cell. r: the workload's scarcest resource.
    """

    def __init__(self, problem: Problem, room: Room, pods: Iterable[Pod] | Mapping[Pod, int]) -> None:
        self.room, self._workload = room, Workload(problem, room.free, pods)
        self._known: dict[Ask, tuple[Ints, int]] = {}
        every = np.arange(len(problem.nodes), dtype=np.int64)
        self._levels, self._seen = self._workload.level(every, room.free), room.mark()

    @property
    def scarce(self) -> int:
        """The resource whose fragments count."""
        return self._workload.scarce

    def rise(self, ask: Ask) -> Ints:
        """Per node, by how much F rises when such a pod comes; of no meaning where it does not fit. Do not write to the
        result."""
        rises, seen = self._known.get(ask, (np.zeros(len(self._levels), dtype=np.int64), -1))
        changed = np.arange(len(self._levels), dtype=np.int64) if seen < 0 else self.room.changed(seen)
        if len(changed):
            free = self.room.free.at(changed)
            rises[changed] = self._workload.level(changed, self._workload.after(free, ask)) - self._now()[changed]
        self._known[ask] = rises, self.room.mark()
        return rises

    def _now(self) -> Ints:
        """F of every node as it is."""
        changed = self.room.changed(self._seen)
        if len(changed):
            self._levels[changed] = self._workload.level(changed, self.room.free.at(changed))
            self._seen = self.room.mark()
        return self._levels

    def order(self, ask: Ask, nodes: Ints) -> Ints:
        """Positions in `nodes`, those first where F rises least; among equals those with least free, of the scarcest
        resource before all, then by kind: nodes that still tie are as good as one another, so that the order in which
        they are written decides nothing."""
        free = self.room.free.amounts[nodes]
        others = [free[:, r] for r in reversed(range(free.shape[1])) if r != self.scarce]
        found: Ints = np.lexsort((self._workload.kinds[nodes], *others, free[:, self.scarce], self.rise(ask)[nodes]))
        return found

"""Free room on the nodes while time passes: pods stay on their device slots until they end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from solver.problem import Problem, Role
from solver.semantics.device_slots import FreeVectors, IntArray, PodsPerSlot, best_fit_slots, vectors_without_foreign

Key = tuple[object, frozenset[int]]
Nodes = frozenset[int]


@dataclass(frozen=True, slots=True)
class Hold:
    """`pods` pods of a job on node `node`. slots: for each slot request of a pod, how many of them each slot serves."""

    node: int
    pods: int
    slots: tuple[PodsPerSlot, ...] = ()


Holds = tuple[Hold, ...]


class Room:
    """Free amounts and device slots, node by node. Fit counts are cached and refreshed for changed nodes only.

    classes: node -> its class. largest: the most of each resource that an empty node has. up: node -> takes pods.
    closing: nodes that take none here, since their maintenance begins too soon.
    """

    def __init__(
        self,
        free: FreeVectors,
        classes: IntArray,
        largest: IntArray,
        up: npt.NDArray[np.bool_],
        closing: Nodes = frozenset(),
        changed: list[int] | None = None,
    ) -> None:
        """changed: of the room of which this is a view."""
        self.free, self.classes, self.largest, self.up, self.closing = free, classes, largest, up, closing
        self._changed: list[int] = [] if changed is None else changed
        self._fit_counts: dict[Key, tuple[IntArray, int]] = {}

    @classmethod
    def of_cluster(cls, cluster: Problem) -> Room:
        """Return all that is free without the cluster's gangs, on nodes that are all up."""
        classes = np.array([node.node_class for node in cluster.nodes], dtype=np.int64)
        empty = vectors_without_foreign(cluster)
        return cls(empty, classes, empty.amounts.max(axis=0), np.ones(len(cluster.nodes), dtype=bool))

    def copy(self) -> Room:
        """Return an independent copy."""
        return Room(self.free.copy(), self.classes, self.largest, self.up.copy(), self.closing)

    def with_up(self, up: npt.NDArray[np.bool_]) -> Room:
        """Return the same room where other nodes take pods."""
        return Room(self.free, self.classes, self.largest, up.copy(), self.closing)

    def without(self, nodes: Nodes) -> Room:
        """Return a view of this room, which changes with it, where these nodes take no pods either."""
        if nodes <= self.closing:
            return self
        return Room(self.free, self.classes, self.largest, self.up, self.closing | nodes, self._changed)

    def meet(self, other: Room) -> Room:
        """Return the room free in both."""
        amounts = np.minimum(self.free.amounts, other.free.amounts)
        slots = np.minimum(self.free.slots, other.free.slots)
        closing = self.closing | other.closing
        return Room(FreeVectors(amounts, slots), self.classes, self.largest, self.up & other.up, closing)

    def fit_counts(self, role: Role) -> IntArray:
        """Return node -> pods of the role that it holds. Do not write to the result."""
        key = role.pod_request, role.node_classes
        if key not in self._fit_counts:
            self._fit_counts[key] = self._count(role, slice(None)), len(self._changed)
        counts, seen = self._fit_counts[key]
        if seen < len(self._changed):
            nodes = np.array([*set(self._changed[seen:])])
            counts[nodes] = self._count(role, nodes)
            self._fit_counts[key] = counts, len(self._changed)
        return counts

    def _count(self, role: Role, nodes: npt.NDArray[np.int64] | slice) -> IntArray:
        free = FreeVectors(self.free.amounts[nodes], self.free.slots[nodes])
        most = max((int(self.classes.max(initial=0)), *role.node_classes))
        is_class_open = np.zeros(most + 1, dtype=bool)  # quicker than np.isin
        is_class_open[[*role.node_classes]] = True
        up = self.up
        if self.closing:
            up = up.copy()
            up[[*self.closing]] = False
        is_open = up[nodes] & is_class_open[self.classes[nodes]]
        return np.where(is_open, free.fit_counts(role.pod_request), 0)

    def fits(self, role: Role) -> bool:
        """Return whether all pods of the role fit together."""
        return int(self.fit_counts(role).sum()) >= role.replicas

    def hold(self, role: Role, node: int, pods: int) -> Hold:
        """These pods on the fullest device slots of the node that serve them; they must fit (`fit_counts`)."""
        chosen = []
        for request in role.slot_requests:
            found = best_fit_slots(self.free.slots[node, request.slot_group], request, pods)
            if found is None:
                raise ValueError(f"node {node} cannot hold {pods} more pods of {role.name}")
            chosen.append(found)
        return Hold(node, pods, tuple(chosen))

    def take(self, role: Role, holds: Holds, times: int = 1) -> None:
        """Take the room of these pods, or give it back (times = -1)."""
        for held in holds:
            self.free.amounts[held.node] -= times * held.pods * np.array(role.request, dtype=np.int64)
            for request, pods in zip(role.slot_requests, held.slots, strict=True):
                self.free.slots[held.node, request.slot_group] -= times * np.outer(pods, request.share)
            self._changed.append(held.node)

    def give(self, role: Role, holds: Holds) -> None:
        """Give the room of these pods back."""
        self.take(role, holds, -1)

    def set_up(self, node: int, up: bool) -> None:
        """Whether the node takes pods."""
        self.up[node] = up
        self._changed.append(node)

    @property
    def version(self) -> int:
        """Changes so far (`changed_since`)."""
        return len(self._changed)

    def changed_since(self, version: int) -> list[int]:
        """Return the nodes that changed since then, ascending."""
        return sorted(set(self._changed[version:]))

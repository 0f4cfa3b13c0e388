"""The books of every baseline: free amounts of nodes, usage of queues, and waiting gangs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from solver.problem import Placement, Problem, Role, Vector
from solver.semantics.device_slots import IntArray
from solver.semantics.gang_classes import meets_minima
from solver.semantics.order import queue_priority
from solver.semantics.placements import placed_demand
from solver.semantics.topology import TopologyTree
from solver.state.free_nodes import FreeNodes, free_and_overcommitted
from solver.state.queue_books import QueueBooks

Placements = Mapping[int, tuple[Placement, ...]]


class BaselineCluster:
    """A cluster while it is filled. Gangs that run already are in it and stay.

    Raises ValueError for what the baselines do not know: subgroups, and gangs whose mix of roles is open or that run in
    part.
    """

    def __init__(self, problem: Problem) -> None:
        for gang in problem.gangs:
            if (
                gang.subgroups
                or gang.minimum != sum(role.minimum for role in gang.roles)
                or (gang.running and not meets_minima(gang))
            ):
                raise ValueError(
                    f"gang {gang.name}: the baselines know no subgroups, "
                    f"no open mix of roles and no gang that runs in part"
                )
        self.problem, self.tree = problem, TopologyTree(problem)
        self.free_nodes, self.books = FreeNodes(free_and_overcommitted(problem)[0]), QueueBooks(problem)
        self.placements: dict[int, tuple[Placement, ...]] = {
            j: gang.running for j, gang in enumerate(problem.gangs) if gang.running
        }
        self._open_nodes: dict[frozenset[int], np.ndarray] = {}

    @cached_property
    def capacity(self) -> IntArray:
        """Node x resource."""
        return np.array([n.capacity for n in self.problem.nodes], dtype=np.int64).reshape(
            len(self.problem.nodes), len(self.problem.resources)
        )

    def fit_counts(self, role: Role) -> IntArray:
        """Pods of the role that each node holds, 0 where its kind is closed to it."""
        return np.where(self.open_nodes(role), self.free_nodes.fit_counts(role.pod_request), 0)

    def open_nodes(self, role: Role) -> np.ndarray:
        """Node -> whether its kind is open to the role."""
        if role.node_classes not in self._open_nodes:
            self._open_nodes[role.node_classes] = np.isin(self.tree.node_class_of, sorted(role.node_classes))
        return self._open_nodes[role.node_classes]

    def minimum_demand(self, j: int) -> Vector:
        """Return the request with which the gang can start."""
        gang = self.problem.gangs[j]
        return placed_demand(
            gang, [Placement(t, 0, role.minimum) for t, role in enumerate(gang.roles)], len(self.problem.resources)
        )

    def gangs_in_order(self, key: Callable[[int, int], Any]) -> Iterable[int]:
        """Yield the waiting gangs, of each queue the highest priority and then the oldest first; among queues the one
        with the smallest key(queue, gang).

        Charge the ledger between two of them.
        """
        queues: dict[int, list[int]] = {}
        gangs = self.problem.gangs
        for j in sorted(
            (j for j in range(len(gangs)) if j not in self.placements),
            key=lambda j: (gangs[j].priority, -gangs[j].age, -j),
        ):
            queues.setdefault(gangs[j].queue, []).append(j)
        while queues:
            q = min(queues, key=lambda q: (key(q, queues[q][-1]), q))
            yield queues[q].pop()
            if not queues[q]:
                del queues[q]

    def queue_order_key(self, q: int, j: int) -> Any:
        """Volcano's order of queues: their own priority, then their share."""
        return -queue_priority(self.problem, q), self.books.share_order_key(q)

    def allows_gang(self, j: int) -> bool:
        return self.books.allows_amount(self.problem.gangs[j].queue, self.minimum_demand(j))

    def start_gang(self, j: int, pods: tuple[Placement, ...]) -> None:
        """Book a gang whose pods are taken from the room already."""
        gang = self.problem.gangs[j]
        self.books.charge_queue(gang.queue, placed_demand(gang, pods, len(self.problem.resources)))
        self.placements[j] = pods

    @cached_property
    def nodes_below(self) -> dict[int, IntArray]:
        """Domain -> all nodes under it."""
        members: dict[int, list[int]] = {h: [] for h in self.tree.children}
        for n, node in enumerate(self.problem.nodes):
            for h in (-1, *self.tree.path(node.leaf)):
                members[h].append(n)
        return {h: np.array(nodes, dtype=np.int64) for h, nodes in members.items()}

    @cached_property
    def domains_by_tier(self) -> list[IntArray]:
        """For each tier the domain of every node, numbered from 0."""
        lines = [self.tree.domains_by_tier(node.leaf) for node in self.problem.nodes]
        return [
            np.unique([line[level] for line in lines], return_inverse=True)[1] for level in range(len(self.tree.tiers))
        ]

"""What is still free: on the nodes (`Room`) and in the queues (`Ledger`). Both are exact integers and can take back what they gave."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from solver import hierarchy, quotas
from solver.neighbours import Neighbours
from solver.problem import Gang, Placement, Problem, Role, Vector

if TYPE_CHECKING:
    from solver.shapes import ShapeRole

PLENTY = 1 << 31
"""Slots for a pod that asks for nothing."""

Ints = npt.NDArray[np.int64]


def free_vectors(problem: Problem) -> Ints:
    """Node x resource: what is left beside foreign pods and all running pods, never below 0."""
    return np.maximum(_left(problem), 0)


def owed_vectors(problem: Problem) -> Ints:
    """Node x resource: by how much what runs exceeds the node (it shrank, or foreign pods came); 0 on most."""
    return np.maximum(-_left(problem), 0)


def _left(problem: Problem) -> Ints:
    free = np.array([n.free for n in problem.nodes], dtype=np.int64).reshape(len(problem.nodes), len(problem.resources))
    for gang in problem.gangs:
        for p in gang.running:
            free[p.node] -= np.array(gang.roles[p.role].request, dtype=np.int64) * p.pods
    return free


def slots(free: Ints, request: Vector) -> Ints:
    """Pods of `request` that each row of `free` holds alone: min over r with request_r > 0 of floor(free_r / request_r)."""
    result = np.full(len(free), PLENTY, dtype=np.int64)
    for r, amount in enumerate(request):
        if amount:
            np.minimum(result, free[:, r] // amount, out=result)
    return result


class Room:
    """Free amounts per node with undo. Slot counts per request are kept and refreshed only for nodes that changed.

    neighbours: who is where, for the relations between pods; None where none is to be minded.
    """

    def __init__(self, free: Ints, neighbours: Neighbours | None = None) -> None:
        self.free = free.copy()
        self.neighbours = None if neighbours is None else neighbours.copy()
        self._log: list[tuple[int, Vector, int]] = []
        self._slots: dict[Vector, tuple[Ints, int]] = {}

    def slots(self, request: Vector) -> Ints:
        """Pods of `request` that fit, per node. Do not write to the result."""
        known = self._slots.get(request)
        if known is None:
            known = slots(self.free, request), len(self._log)
        counts, seen = known
        if seen < len(self._log):
            changed = np.array(sorted({node for node, _, _ in self._log[seen:]}), dtype=np.intp)
            counts[changed] = slots(self.free[changed], request)
        self._slots[request] = counts, len(self._log)
        return counts

    def take(self, node: int, request: Vector, pods: int) -> None:
        """Raises ValueError when the node has not that much left."""
        self.free[node] -= np.array(request, dtype=np.int64) * pods
        self._log.append((node, request, pods))
        if (self.free[node] < 0).any():
            raise ValueError(f"node {node} cannot hold {pods} more pods of {request}")

    def put(self, node: int, role: Role | ShapeRole, pods: int) -> None:
        """As `take`, and remember who is there now; whether relations allow it is the caller's matter."""
        stamp = len(self._log)
        self.take(node, role.request, pods)
        if self.neighbours is not None:
            self.neighbours.add(role, node, pods, stamp)

    @property
    def broken(self) -> bool:
        """Whether what was put here breaks a relation."""
        return self.neighbours is not None and bool(self.neighbours.faults())

    def copy(self) -> Room:
        """The same, to be filled apart from this one."""
        return Room(self.free, self.neighbours)

    def mark(self) -> int:
        return len(self._log)

    def undo(self, mark: int) -> None:
        """Give back everything taken since `mark`."""
        for node, request, pods in reversed(self._log[mark:]):
            self.free[node] += np.array(request, dtype=np.int64) * pods
            self._log.append((node, request, -pods))
        if self.neighbours is not None:
            self.neighbours.undo(mark)

    def take_all(self, gang: Gang, placements: Iterable[Placement]) -> None:
        for p in placements:
            self.put(p.node, gang.roles[p.role], p.pods)


def add(a: Sequence[int], b: Sequence[int], times: int = 1) -> Vector:
    return tuple(x + times * y for x, y in zip(a, b, strict=True))


def demand(gang: Gang, placements: Iterable[Placement], resources: int) -> Vector:
    """What the placed pods ask for in sum."""
    total = (0,) * resources
    for p in placements:
        total = add(total, gang.roles[p.role].request, p.pods)
    return total


@dataclass(frozen=True)
class Rules:
    """What the policy makes of the queues (`quotas`), worked out when first asked for."""

    problem: Problem

    @cached_property
    def ceilings(self) -> tuple[tuple[quotas.Ceiling, ...], ...]:
        """Every limit on what queues hold, by queue."""
        every = quotas.ceilings(self.problem)
        return tuple(tuple(ceiling for ceiling in every if ceiling.queue == q) for q in range(len(self.problem.queues)))

    @cached_property
    def takes(self) -> tuple[bool, ...]:
        """Whether a queue takes anything new at all."""
        return tuple(quotas.takes(self.problem, q) for q in range(len(self.problem.queues)))

    @cached_property
    def yardsticks(self) -> tuple[quotas.Yardstick, ...]:
        """By what each queue is measured against others."""
        return quotas.yardsticks(self.problem, hierarchy.entitlements(self.problem) if self.problem.policy.drf_hierarchy else ())

    @cached_property
    def siblings(self) -> tuple[quotas.Siblings, ...]:
        return quotas.siblings(self.problem)

    @cached_property
    def lines(self) -> tuple[tuple[int, ...], ...]:
        """Queue -> the queues on its way from the top by which it is compared with others; alone itself without a tree."""
        if not self.problem.policy.measured_by_tree:
            return tuple((q,) for q in range(len(self.problem.queues)))
        return tuple(tuple(reversed(quotas.path(self.problem, q))) for q in range(len(self.problem.queues)))


class Ledger:
    """What each queue holds and may still take, along the whole path to its root.

    held[q]: by q and its descendants. direct[q]: by q itself. `need` is the verifier's rule said once more for the greedy:
    need(q) = max(guarantee(q), direct(q) + sum of need over the children), kept below capability(q) and, in sum, below the cluster's total.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem, self.rules = problem, Rules(problem)
        width = len(problem.resources)
        self.direct: list[Vector] = [q.used for q in problem.queues]
        self.children: list[list[int]] = [[] for _ in problem.queues]
        for q, queue in enumerate(problem.queues):
            if queue.parent is not None:
                self.children[queue.parent].append(q)
        self.held: list[Vector] = [(0,) * width for _ in problem.queues]
        for q, queue in enumerate(problem.queues):
            self._hold(q, queue.used)
        for gang in problem.gangs:
            self.charge(gang.queue, demand(gang, gang.running, width))
        self.total: Vector = tuple(sum(n.free[r] for n in problem.nodes) + sum(q.used[r] for q in problem.queues) for r in range(width))
        self.upward = [q for root in range(len(problem.queues)) if problem.queues[root].parent is None for q in self._below(root)]
        self._start_need = [self.needs(r) for r in range(width)]
        self._guaranteed = [r for r in range(width) if any(q.guarantee[r] for q in problem.queues)]

    def copy(self) -> Ledger:
        """The same holdings, free to be charged apart from these; what was needed before stays the reference."""
        other = copy.copy(self)
        other.direct, other.held = list(self.direct), list(self.held)
        return other

    def under(self, problem: Problem) -> Ledger:
        """The same holdings under the limits of another problem, which differs in nothing else."""
        other = self.copy()
        other.problem, other.rules = problem, Rules(problem)
        return other

    def standing(self, queue: int) -> tuple[tuple[float, int], ...]:
        """By which queues take turns, the smallest first: shares along the tree, compared where the ways of two queues part."""
        return tuple((self.rules.yardsticks[q].share(self.held[q]), q) for q in self.rules.lines[queue])

    def path(self, queue: int) -> list[int]:
        """The queue and its ancestors, itself first."""
        return quotas.path(self.problem, queue)

    def charge(self, queue: int, amount: Vector) -> None:
        self.direct[queue] = add(self.direct[queue], amount)
        self._hold(queue, amount)

    def _hold(self, queue: int, amount: Vector) -> None:
        for q in self.path(queue):
            self.held[q] = add(self.held[q], amount)

    def _below(self, root: int) -> list[int]:
        """`root` and its descendants, children first."""
        return [q for child in self.children[root] for q in self._below(child)] + [root]

    def needs(self, r: int) -> list[int]:
        """need(q) of resource r for every queue."""
        need = [0] * len(self.problem.queues)
        for q in self.upward:
            need[q] = max(self.problem.queues[q].guarantee[r] or 0, self.direct[q][r] + sum(need[c] for c in self.children[q]))
        return need

    def under_ceiling(self, ceiling: quotas.Ceiling) -> Vector:
        """What counts against a ceiling."""
        return self.held[ceiling.queue] if ceiling.tree else self.direct[ceiling.queue]

    def over_ceiling(self, queue: int, amount: Vector) -> tuple[quotas.Ceiling, int] | None:
        """The first (ceiling, resource) on the path that `amount` more would exceed."""
        for q in self.path(queue):
            for ceiling in self.rules.ceilings[q]:
                have = self.under_ceiling(ceiling)
                for r, (asked, limit) in enumerate(zip(amount, ceiling.most, strict=True)):
                    if asked and limit is not None and have[r] + asked > limit and (ceiling.tree or q == queue):
                        return ceiling, r
        return None

    def over_guarantee(self, queue: int, amount: Vector) -> tuple[int | None, int] | None:
        """The first of `over_guarantees`."""
        return next(self.over_guarantees(queue, amount), None)

    def over_guarantees(self, queue: int, amount: Vector) -> Iterator[tuple[int | None, int]]:
        """Each (queue, resource) where `amount` more would eat into other queues' guarantees; queue None for the whole cluster."""
        if not any(amount[r] for r in self._guaranteed):
            return
        after = self.copy()
        after.charge(queue, amount)
        roots = [q for q, x in enumerate(self.problem.queues) if x.parent is None]
        for r in self._guaranteed:
            if not amount[r]:
                continue
            need, before = after.needs(r), self._start_need[r]
            if sum(need[q] for q in roots) > max(self.total[r], sum(before[q] for q in roots)):
                yield None, r
            for q in self.path(queue):
                limit = self.problem.queues[q].capability[r]
                if limit is not None and need[q] > max(limit, before[q]):
                    yield q, r

    def allows(self, queue: int, amount: Vector) -> bool:
        return self.rules.takes[queue] and self.over_ceiling(queue, amount) is None and self.over_guarantee(queue, amount) is None

    def share(self, queue: int, totals: Sequence[int]) -> float:
        """Weighted dominant share: max over r of held_r / total_r, divided by the weight (Ghodsi et al., NSDI 2011)."""
        return max((h / t for h, t in zip(self.held[queue], totals, strict=True) if t), default=0.0) / self.problem.queues[queue].weight

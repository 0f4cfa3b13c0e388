"""What is still free: on the nodes (`Room`) and in the queues (`Ledger`). Both are exact integers and can take back
what they gave."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from solver.problem import Ask, Gang, Placement, Portion, Problem, Role, Vector
from solver.semantics import hierarchical_drf, queue_limits
from solver.semantics.device_slots import Counts, Free, Ints, arrange, best_fit, fewer, left
from solver.state.pod_rules import Neighbours

if TYPE_CHECKING:
    from solver.semantics.gang_classes import ShapeRole

Laid = tuple[int, tuple[Counts, ...]]
"""Pods that lie on a node's cells, and for each of their portions the counts."""


def free_vectors(problem: Problem) -> Free:
    """What is left beside foreign pods and all running pods, never below 0."""
    return balance(problem)[0]


def owed_vectors(problem: Problem) -> Ints:
    """Node x resource: by how much what runs exceeds the node (it shrank, or foreign pods came); 0 on most."""
    return balance(problem)[1]


def balance(problem: Problem) -> tuple[Free, Ints]:
    """`free_vectors` and `owed_vectors`."""
    free = left(problem)
    running = [(p.node, p.pods, gang.roles[p.role].request) for gang in problem.gangs for p in gang.running]
    if running:
        nodes, pods, requests = (np.array(column, dtype=np.int64) for column in zip(*running, strict=True))
        np.subtract.at(free.amounts, nodes, requests * pods[:, None])
    return Free(np.maximum(free.amounts, 0), free.cells), np.maximum(-free.amounts, 0)


@dataclass(frozen=True, slots=True)
class Taking:
    """One entry of a room's log: different nodes, and the pods that each gave room to.

    before: what lay on the cells of the one node, and what was free there, where the pods have portions.
    """

    nodes: Ints
    ask: Ask
    pods: Ints
    before: tuple[dict[tuple[Portion, ...], Laid], Ints] | None = None


class Room:
    """Free amounts per node with undo. Slot counts per ask are kept and refreshed only for nodes that changed.

    From which cells a pod takes its portions is open as long as the room lives: pods that came through it are laid anew
    where that is what it takes to fit another one in. neighbours: who is where, for the relations between pods; None
    where none is to be minded.
    """

    def __init__(self, free: Free, neighbours: Neighbours | None = None) -> None:
        self.free = free.copy()
        self.neighbours = None if neighbours is None else neighbours.copy()
        self.laid: dict[int, dict[tuple[Portion, ...], Laid]] = {}
        self._log: list[Taking] = []
        self._slots: dict[Ask, tuple[Ints, int]] = {}

    def copy(self) -> Room:
        """The same, to be taken further apart from this one; what was taken before cannot be undone there."""
        other = Room(self.free, self.neighbours)
        other.laid = {node: dict(laid) for node, laid in self.laid.items()}
        return other

    def slots(self, ask: Ask) -> Ints:
        """Pods of `ask` that fit, per node, with the others where they lie. Do not write to the result."""
        known = self._slots.get(ask)
        if known is None:
            known = self.free.slots(ask), len(self._log)
        counts, seen = known
        if seen < len(self._log):
            changed = self.changed(seen)
            counts[changed] = self.free.at(changed).slots(ask)
        self._slots[ask] = counts, len(self._log)
        return counts

    def take(self, node: int, ask: Ask, pods: int) -> None:
        """Raises ValueError when the node, or its cells, have not that much left. pods < 0: of those that were taken
        before, some go."""
        before = (self.laid.get(node, {}), self.free.cells[node].copy()) if ask.portions else None
        self._log.append(Taking(np.array((node,), dtype=np.int64), ask, np.array((pods,), dtype=np.int64), before))
        self.free.amounts[node] -= np.array(ask.request, dtype=np.int64) * pods
        fits = not ask.portions or self._lay(node, ask.portions, pods)
        if not fits or (self.free.amounts[node] < 0).any():
            raise ValueError(f"node {node} cannot hold {pods} more pods of {ask}")

    def fill(self, nodes: Ints, fits: Ints, ask: Ask, pods: int) -> Ints:
        """Take room for these pods from different nodes in turn, on each for as many as it fits, until there are
        enough. How many each took."""
        taken: Ints = np.clip(pods - (np.cumsum(fits) - fits), 0, fits)
        used = np.flatnonzero(taken)
        if ask.portions:
            for at in used:
                self.take(int(nodes[at]), ask, int(taken[at]))
        elif len(used):
            self._log.append(Taking(nodes[used], ask, taken[used]))
            self.free.amounts[nodes[used]] -= np.outer(taken[used], ask.request)
        return taken

    def _lay(self, node: int, portions: tuple[Portion, ...], pods: int) -> bool:
        """Put the pods onto the node's cells, or take them off; False, and nothing changed, where they do not fit."""
        laid = dict(self.laid.get(node, {}))
        there, counts = laid.pop(portions, (0, tuple((0,) * self.free.cells.shape[2] for _ in portions)))
        cells = self.free.cells[node]
        if pods < 0:
            new = tuple(fewer(of, portion.number, there + pods) for portion, of in zip(portions, counts, strict=True))
        else:
            more = [best_fit(cells[portion.division], portion, pods) for portion in portions]
            if any(found is None for found in more):
                return self._lay_anew(
                    node, {key: number for key, (number, _) in [*laid.items(), (portions, (there + pods, counts))]}
                )
            new = tuple(add(of, found) for of, found in zip(counts, more, strict=True) if found is not None)
        for portion, before, after in zip(portions, counts, new, strict=True):
            cells[portion.division] -= np.outer(np.subtract(after, before), portion.share)
        self.laid[node] = {**laid, portions: (there + pods, new)} if there + pods else laid
        return True

    def shift(self, node: int, more: Ints) -> None:
        """The cells of a node have so much more, or less: division x cell x resource. Pods that came through this room
        are laid anew where that is what it takes. Raises ValueError where they do not fit any more."""
        before = self.laid.get(node, {}), self.free.cells[node].copy()
        nothing = Ask((0,) * self.free.amounts.shape[1])
        self._log.append(Taking(np.array((node,), dtype=np.int64), nothing, np.array((0,), dtype=np.int64), before))
        self.free.cells[node] += more
        if (self.free.cells[node] < 0).any() and not self._lay_anew(
            node, {key: pods for key, (pods, _) in before[0].items()}
        ):
            raise ValueError(f"the cells of node {node} cannot spare {(-more).tolist()}")

    def _lay_anew(self, node: int, wanted: dict[tuple[Portion, ...], int]) -> bool:
        empty = self.free.cells[node].copy()
        for portions, (_, counts) in self.laid.get(node, {}).items():
            for portion, of in zip(portions, counts, strict=True):
                empty[portion.division] += np.outer(of, portion.share)
        found = None if (empty < 0).any() else arrange(empty, wanted)
        if found is None:
            return False
        for portions, new in found.items():
            for portion, of in zip(portions, new, strict=True):
                empty[portion.division] -= np.outer(of, portion.share)
        self.free.cells[node] = empty
        self.laid[node] = {portions: (wanted[portions], counts) for portions, counts in found.items()}
        return True

    def put(self, node: int, role: Role | ShapeRole, pods: int) -> None:
        """As `take`, and remember who is there now; whether relations allow it is the caller's matter."""
        stamp = len(self._log)
        self.take(node, role.ask, pods)
        if self.neighbours is not None:
            self.neighbours.add(role, node, pods, stamp)

    @property
    def broken(self) -> bool:
        """Whether what was put here breaks a relation."""
        return self.neighbours is not None and bool(self.neighbours.faults())

    def mark(self) -> int:
        return len(self._log)

    def changed(self, mark: int) -> Ints:
        """The nodes that something was taken from or given back to since `mark`, in order."""
        return (
            np.unique(np.concatenate([taking.nodes for taking in self._log[mark:]]))
            if mark < len(self._log)
            else np.array([], dtype=np.int64)
        )

    def undo(self, mark: int) -> None:
        """Give back everything taken since `mark`."""
        for taking in reversed(self._log[mark:]):
            self.free.amounts[taking.nodes] += np.outer(taking.pods, taking.ask.request)
            if taking.before is not None:
                (node,) = taking.nodes.tolist()
                self.laid[node], self.free.cells[node] = taking.before
            self._log.append(Taking(taking.nodes, taking.ask, -taking.pods))
        if self.neighbours is not None:
            self.neighbours.undo(mark)

    def take_all(self, gang: Gang, placements: Iterable[Placement]) -> None:
        """As `put` for all of these pods."""
        if self.neighbours is not None or any(role.portions for role in gang.roles):
            for p in placements:
                self.put(p.node, gang.roles[p.role], p.pods)
            return
        by_role: dict[int, dict[int, int]] = {}
        for p in placements:
            here = by_role.setdefault(p.role, {})
            here[p.node] = here.get(p.node, 0) + p.pods
        for t, here in by_role.items():
            self._take_at(
                gang.roles[t].ask, np.array([*here], dtype=np.int64), np.array([*here.values()], dtype=np.int64)
            )

    def _take_at(self, ask: Ask, nodes: Ints, pods: Ints) -> None:
        """`take` on different nodes at once, for an ask without portions."""
        self._log.append(Taking(nodes, ask, pods))
        self.free.amounts[nodes] -= np.outer(pods, ask.request)
        if (self.free.amounts[nodes] < 0).any():
            raise ValueError(f"not all of the nodes {nodes.tolist()} can hold {pods.tolist()} more pods of {ask}")

    def take_running(self, gang: Gang, placements: Iterable[Placement], times: int = 1) -> None:
        """Running pods, without their cells (`shift`), and whom relations never take for gone. times -1: they go."""
        for p in placements:
            self.take(p.node, Ask(gang.roles[p.role].request), times * p.pods)


def add(a: Sequence[int], b: Sequence[int], times: int = 1) -> Vector:
    return tuple([x + times * y for x, y in zip(a, b, strict=True)])


def demand(gang: Gang, placements: Iterable[Placement], resources: int) -> Vector:
    """What the placed pods ask for in sum."""
    pods = [0] * len(gang.roles)
    for p in placements:
        pods[p.role] += p.pods
    total = (0,) * resources
    for role, number in zip(gang.roles, pods, strict=True):
        total = add(total, role.request, number) if number else total
    return total


def _running(problem: Problem) -> list[Vector]:
    """Queue -> what the running pods of its gangs hold, descendants not included."""
    held: list[Vector] = [(0,) * len(problem.resources) for _ in problem.queues]
    for gang in problem.gangs:
        held[gang.queue] = add(held[gang.queue], demand(gang, gang.running, len(problem.resources)))
    return held


@dataclass(frozen=True)
class Rules:
    """What the policy makes of the queues (`quotas`), worked out when first asked for."""

    problem: Problem

    @cached_property
    def ceilings(self) -> tuple[tuple[queue_limits.Ceiling, ...], ...]:
        """Every limit on what queues hold, by queue."""
        every = queue_limits.ceilings(self.problem)
        return tuple(tuple(ceiling for ceiling in every if ceiling.queue == q) for q in range(len(self.problem.queues)))

    @cached_property
    def takes(self) -> tuple[bool, ...]:
        """Whether a queue takes anything new at all."""
        return tuple(queue_limits.takes(self.problem, q) for q in range(len(self.problem.queues)))

    @cached_property
    def yardsticks(self) -> tuple[queue_limits.Yardstick, ...]:
        """By what each queue is measured against others."""
        return queue_limits.yardsticks(
            self.problem, hierarchical_drf.entitlements(self.problem) if self.problem.policy.drf_hierarchy else ()
        )

    @cached_property
    def siblings(self) -> tuple[queue_limits.Siblings, ...]:
        return queue_limits.siblings(self.problem)

    @cached_property
    def lines(self) -> tuple[tuple[int, ...], ...]:
        """Queue -> the queues on its way from the top by which it is compared with others; alone itself without a tree."""
        if not self.problem.policy.measured_by_tree:
            return tuple((q,) for q in range(len(self.problem.queues)))
        return tuple(tuple(reversed(queue_limits.path(self.problem, q))) for q in range(len(self.problem.queues)))


class Ledger:
    """What each queue holds and may still take, along the whole path to its root.

    held[q]: by q and its descendants. direct[q]: by q itself. `need` is the verifier's rule said once more for the
    greedy: need(q) = max(guarantee(q), direct(q) + sum of need over the children), kept below capability(q) and, in
    sum, below the cluster's total.
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
        for q, amount in enumerate(_running(problem)):
            self.charge(q, amount)
        free = zip(*(node.free for node in problem.nodes), strict=True) if problem.nodes else [()] * width
        self.total: Vector = tuple(
            sum(column) + sum(q.used[r] for q in problem.queues) for r, column in enumerate(free)
        )
        self.upward = [
            q for root in range(len(problem.queues)) if problem.queues[root].parent is None for q in self._below(root)
        ]
        self._start = list(self.direct)
        self._start_need = [self.needs(r) for r in range(width)]
        self._guaranteed = [r for r in range(width) if any(q.guarantee[r] for q in problem.queues)]

    def copy(self) -> Ledger:
        """The same holdings, free to be charged apart from these; what was needed before stays the reference."""
        other = copy.copy(self)
        other.direct, other.held = list(self.direct), list(self.held)
        return other

    def under(self, problem: Problem) -> Ledger:
        """The same holdings, and those at the start, under the limits of another problem, which differs in nothing
        else."""
        other = self.copy()
        other.problem, other.rules = problem, Rules(problem)
        start = copy.copy(other)
        start.direct = self._start
        other._start_need = [start.needs(r) for r in range(len(problem.resources))]
        return other

    def release(self, queue: int, amount: Vector, at_start: Vector) -> None:
        """Take `amount` off what the queue holds, as though `at_start` of it had not been there at the start either."""
        self.charge(queue, tuple(-x for x in amount))
        self._start = [add(held, at_start, -1) if q == queue else held for q, held in enumerate(self._start)]
        start = copy.copy(self)
        start.direct = self._start
        self._start_need = [start.needs(r) for r in range(len(self.problem.resources))]

    def standing(self, queue: int) -> tuple[tuple[float, int], ...]:
        """By which queues take turns, the smallest first: shares along the tree, compared where the ways of two queues
        part."""
        return tuple((self.rules.yardsticks[q].share(self.held[q]), q) for q in self.rules.lines[queue])

    def path(self, queue: int) -> list[int]:
        """The queue and its ancestors, itself first."""
        return queue_limits.path(self.problem, queue)

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
            need[q] = max(
                self.problem.queues[q].guarantee[r] or 0, self.direct[q][r] + sum(need[c] for c in self.children[q])
            )
        return need

    def under_ceiling(self, ceiling: queue_limits.Ceiling) -> Vector:
        """What counts against a ceiling."""
        return self.held[ceiling.queue] if ceiling.tree else self.direct[ceiling.queue]

    def over_ceiling(self, queue: int, amount: Vector) -> tuple[queue_limits.Ceiling, int] | None:
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
        """Each (queue, resource) where `amount` more would eat into other queues' guarantees; queue None for the whole
        cluster."""
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
        return (
            self.rules.takes[queue]
            and self.over_ceiling(queue, amount) is None
            and self.over_guarantee(queue, amount) is None
        )

    def share(self, queue: int, totals: Sequence[int]) -> float:
        """Weighted dominant share: max over r of held_r / total_r, divided by the weight (Ghodsi et al., NSDI 2011)."""
        return (
            max((h / t for h, t in zip(self.held[queue], totals, strict=True) if t), default=0.0)
            / self.problem.queues[queue].weight
        )

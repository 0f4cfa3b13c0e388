"""What is still free: on the nodes (`Room`) and in the queues (`Ledger`). Both are exact integers and can take back
what they gave."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from solver.problem import Gang, Placement, PodRequest, Problem, Role, SlotRequest, Vector
from solver.semantics import hierarchical_drf, queue_limits
from solver.semantics.device_slots import (
    FreeVectors,
    IntArray,
    PodsPerSlot,
    assign_slots,
    best_fit_slots,
    counts_after_removal,
    vectors_without_foreign,
)
from solver.state.pod_rules import PodRuleCounts

if TYPE_CHECKING:
    from solver.semantics.gang_classes import ClassRole

SlotLayout = tuple[int, tuple[PodsPerSlot, ...]]
"""Pods that lie on a node's cells, and for each of their portions the counts."""


def free_vectors(problem: Problem) -> FreeVectors:
    """What is left beside foreign pods and all running pods, never below 0."""
    return free_and_overcommitted(problem)[0]


def overcommitted_vectors(problem: Problem) -> IntArray:
    """Node x resource: by how much what runs exceeds the node (it shrank, or foreign pods came); 0 on most."""
    return free_and_overcommitted(problem)[1]


def free_and_overcommitted(problem: Problem) -> tuple[FreeVectors, IntArray]:
    """`free_vectors` and `owed_vectors`."""
    free = vectors_without_foreign(problem)
    running = [(p.node, p.pods, gang.roles[p.role].request) for gang in problem.gangs for p in gang.running]
    if running:
        nodes, pods, requests = (np.array(column, dtype=np.int64) for column in zip(*running, strict=True))
        np.subtract.at(free.amounts, nodes, requests * pods[:, None])
    return FreeVectors(np.maximum(free.amounts, 0), free.slots), np.maximum(-free.amounts, 0)


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One entry of a room's log: different nodes, and the pods that each gave room to.

    before: what lay on the cells of the one node, and what was free there, where the pods have portions.
    """

    nodes: IntArray
    pod_request: PodRequest
    pods: IntArray
    slots_before: tuple[dict[tuple[SlotRequest, ...], SlotLayout], IntArray] | None = None


class FreeNodes:
    """Free amounts per node with undo. Slot counts per ask are kept and refreshed only for nodes that changed.

    From which cells a pod takes its portions is open as long as the room lives: pods that came through it are laid anew
    where that is what it takes to fit another one in. neighbours: who is where, for the relations between pods; None
    where none is to be minded.
    """

    def __init__(self, free: FreeVectors, rule_counts: PodRuleCounts | None = None) -> None:
        self.vectors = free.copy()
        self.rule_counts = None if rule_counts is None else rule_counts.copy()
        self.slot_layout: dict[int, dict[tuple[SlotRequest, ...], SlotLayout]] = {}
        self._log: list[LogEntry] = []
        self._fit_counts: dict[PodRequest, tuple[IntArray, int]] = {}

    def copy(self) -> FreeNodes:
        """The same, to be taken further apart from this one; what was taken before cannot be undone there."""
        other = FreeNodes(self.vectors, self.rule_counts)
        other.slot_layout = {node: dict(laid) for node, laid in self.slot_layout.items()}
        return other

    def fit_counts(self, ask: PodRequest) -> IntArray:
        """Pods of `ask` that fit, per node, with the others where they lie. Do not write to the result."""
        known = self._fit_counts.get(ask)
        if known is None:
            known = self.vectors.fit_counts(ask), len(self._log)
        counts, seen = known
        if seen < len(self._log):
            changed = self.changed_nodes(seen)
            counts[changed] = self.vectors.at_nodes(changed).fit_counts(ask)
        self._fit_counts[ask] = counts, len(self._log)
        return counts

    def take_pods(self, node: int, ask: PodRequest, pods: int) -> None:
        """Raises ValueError when the node, or its cells, have not that much left. pods < 0: of those that were taken
        before, some go."""
        before = (self.slot_layout.get(node, {}), self.vectors.slots[node].copy()) if ask.slot_requests else None
        self._log.append(LogEntry(np.array((node,), dtype=np.int64), ask, np.array((pods,), dtype=np.int64), before))
        self.vectors.amounts[node] -= np.array(ask.amounts, dtype=np.int64) * pods
        fits = not ask.slot_requests or self._place_on_slots(node, ask.slot_requests, pods)
        if not fits or (self.vectors.amounts[node] < 0).any():
            raise ValueError(f"node {node} cannot hold {pods} more pods of {ask}")

    def fill_nodes(self, nodes: IntArray, fits: IntArray, ask: PodRequest, pods: int) -> IntArray:
        """Take room for these pods from different nodes in turn, on each for as many as it fits, until there are
        enough. How many each took."""
        taken: IntArray = np.clip(pods - (np.cumsum(fits) - fits), 0, fits)
        used = np.flatnonzero(taken)
        if ask.slot_requests:
            for at in used:
                self.take_pods(int(nodes[at]), ask, int(taken[at]))
        elif len(used):
            self._log.append(LogEntry(nodes[used], ask, taken[used]))
            self.vectors.amounts[nodes[used]] -= np.outer(taken[used], ask.amounts)
        return taken

    def _place_on_slots(self, node: int, portions: tuple[SlotRequest, ...], pods: int) -> bool:
        """Put the pods onto the node's cells, or take them off; False, and nothing changed, where they do not fit."""
        laid = dict(self.slot_layout.get(node, {}))
        there, counts = laid.pop(portions, (0, tuple((0,) * self.vectors.slots.shape[2] for _ in portions)))
        cells = self.vectors.slots[node]
        if pods < 0:
            new = tuple(
                counts_after_removal(of, portion.number, there + pods)
                for portion, of in zip(portions, counts, strict=True)
            )
        else:
            more = [best_fit_slots(cells[portion.slot_group], portion, pods) for portion in portions]
            if any(found is None for found in more):
                return self._reassign_slots(
                    node, {key: number for key, (number, _) in [*laid.items(), (portions, (there + pods, counts))]}
                )
            new = tuple(add_vectors(of, found) for of, found in zip(counts, more, strict=True) if found is not None)
        for portion, before, after in zip(portions, counts, new, strict=True):
            cells[portion.slot_group] -= np.outer(np.subtract(after, before), portion.share)
        self.slot_layout[node] = {**laid, portions: (there + pods, new)} if there + pods else laid
        return True

    def adjust_slots(self, node: int, more: IntArray) -> None:
        """The cells of a node have so much more, or less: division x cell x resource. Pods that came through this room
        are laid anew where that is what it takes. Raises ValueError where they do not fit any more."""
        before = self.slot_layout.get(node, {}), self.vectors.slots[node].copy()
        nothing = PodRequest((0,) * self.vectors.amounts.shape[1])
        self._log.append(LogEntry(np.array((node,), dtype=np.int64), nothing, np.array((0,), dtype=np.int64), before))
        self.vectors.slots[node] += more
        if (self.vectors.slots[node] < 0).any() and not self._reassign_slots(
            node, {key: pods for key, (pods, _) in before[0].items()}
        ):
            raise ValueError(f"the cells of node {node} cannot spare {(-more).tolist()}")

    def _reassign_slots(self, node: int, wanted: dict[tuple[SlotRequest, ...], int]) -> bool:
        empty = self.vectors.slots[node].copy()
        for portions, (_, counts) in self.slot_layout.get(node, {}).items():
            for portion, of in zip(portions, counts, strict=True):
                empty[portion.slot_group] += np.outer(of, portion.share)
        found = None if (empty < 0).any() else assign_slots(empty, wanted)
        if found is None:
            return False
        for portions, new in found.items():
            for portion, of in zip(portions, new, strict=True):
                empty[portion.slot_group] -= np.outer(of, portion.share)
        self.vectors.slots[node] = empty
        self.slot_layout[node] = {portions: (wanted[portions], counts) for portions, counts in found.items()}
        return True

    def add_pods(self, node: int, role: Role | ClassRole, pods: int) -> None:
        """As `take`, and remember who is there now; whether relations allow it is the caller's matter."""
        stamp = len(self._log)
        self.take_pods(node, role.pod_request, pods)
        if self.rule_counts is not None:
            self.rule_counts.add_pods(role, node, pods, stamp)

    @property
    def breaks_pod_rules(self) -> bool:
        """Whether what was put here breaks a relation."""
        return self.rule_counts is not None and bool(self.rule_counts.violations())

    def mark(self) -> int:
        return len(self._log)

    def changed_nodes(self, mark: int) -> IntArray:
        """The nodes that something was taken from or given back to since `mark`, in order."""
        return (
            np.unique(np.concatenate([taking.nodes for taking in self._log[mark:]]))
            if mark < len(self._log)
            else np.array([], dtype=np.int64)
        )

    def undo(self, mark: int) -> None:
        """Give back everything taken since `mark`."""
        for taking in reversed(self._log[mark:]):
            self.vectors.amounts[taking.nodes] += np.outer(taking.pods, taking.pod_request.amounts)
            if taking.slots_before is not None:
                (node,) = taking.nodes.tolist()
                self.slot_layout[node], self.vectors.slots[node] = taking.slots_before
            self._log.append(LogEntry(taking.nodes, taking.pod_request, -taking.pods))
        if self.rule_counts is not None:
            self.rule_counts.undo(mark)

    def add_gang_pods(self, gang: Gang, placements: Iterable[Placement]) -> None:
        """As `put` for all of these pods."""
        if self.rule_counts is not None or any(role.slot_requests for role in gang.roles):
            for p in placements:
                self.add_pods(p.node, gang.roles[p.role], p.pods)
            return
        by_role: dict[int, dict[int, int]] = {}
        for p in placements:
            here = by_role.setdefault(p.role, {})
            here[p.node] = here.get(p.node, 0) + p.pods
        for t, here in by_role.items():
            self._take_on_nodes(
                gang.roles[t].pod_request, np.array([*here], dtype=np.int64), np.array([*here.values()], dtype=np.int64)
            )

    def _take_on_nodes(self, ask: PodRequest, nodes: IntArray, pods: IntArray) -> None:
        """`take` on different nodes at once, for an ask without portions."""
        self._log.append(LogEntry(nodes, ask, pods))
        self.vectors.amounts[nodes] -= np.outer(pods, ask.amounts)
        if (self.vectors.amounts[nodes] < 0).any():
            raise ValueError(f"not all of the nodes {nodes.tolist()} can hold {pods.tolist()} more pods of {ask}")

    def take_running_pods(self, gang: Gang, placements: Iterable[Placement], times: int = 1) -> None:
        """Running pods, without their cells (`shift`), and whom relations never take for gone. times -1: they go."""
        for p in placements:
            self.take_pods(p.node, PodRequest(gang.roles[p.role].request), times * p.pods)


def add_vectors(a: Sequence[int], b: Sequence[int], times: int = 1) -> Vector:
    return tuple([x + times * y for x, y in zip(a, b, strict=True)])


def placed_demand(gang: Gang, placements: Iterable[Placement], resources: int) -> Vector:
    """What the placed pods ask for in sum."""
    pods = [0] * len(gang.roles)
    for p in placements:
        pods[p.role] += p.pods
    total = (0,) * resources
    for role, number in zip(gang.roles, pods, strict=True):
        total = add_vectors(total, role.request, number) if number else total
    return total


def _held_by_running(problem: Problem) -> list[Vector]:
    """Queue -> what the running pods of its gangs hold, descendants not included."""
    held: list[Vector] = [(0,) * len(problem.resources) for _ in problem.queues]
    for gang in problem.gangs:
        held[gang.queue] = add_vectors(held[gang.queue], placed_demand(gang, gang.running, len(problem.resources)))
    return held


@dataclass(frozen=True)
class QueueRules:
    """What the policy makes of the queues (`quotas`), worked out when first asked for."""

    problem: Problem

    @cached_property
    def ceilings_by_queue(self) -> tuple[tuple[queue_limits.QueueCeiling, ...], ...]:
        """Every limit on what queues hold, by queue."""
        every = queue_limits.queue_ceilings(self.problem)
        return tuple(tuple(ceiling for ceiling in every if ceiling.queue == q) for q in range(len(self.problem.queues)))

    @cached_property
    def accepts_gangs(self) -> tuple[bool, ...]:
        """Whether a queue takes anything new at all."""
        return tuple(queue_limits.accepts_gangs(self.problem, q) for q in range(len(self.problem.queues)))

    @cached_property
    def share_measures(self) -> tuple[queue_limits.ShareMeasure, ...]:
        """By what each queue is measured against others."""
        return queue_limits.share_measures(
            self.problem, hierarchical_drf.entitlements(self.problem) if self.problem.policy.drf_hierarchy else ()
        )

    @cached_property
    def sibling_groups(self) -> tuple[queue_limits.SiblingQueues, ...]:
        return queue_limits.sibling_groups(self.problem)

    @cached_property
    def comparison_paths(self) -> tuple[tuple[int, ...], ...]:
        """Queue -> the queues on its way from the top by which it is compared with others; alone itself without a tree."""
        if not self.problem.policy.hierarchical:
            return tuple((q,) for q in range(len(self.problem.queues)))
        return tuple(tuple(reversed(queue_limits.queue_path(self.problem, q))) for q in range(len(self.problem.queues)))


class QueueBooks:
    """What each queue holds and may still take, along the whole path to its root.

    held[q]: by q and its descendants. direct[q]: by q itself. `need` is the verifier's rule said once more for the
    greedy: need(q) = max(guarantee(q), direct(q) + sum of need over the children), kept below capability(q) and, in
    sum, below the cluster's total.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem, self.queue_rules = problem, QueueRules(problem)
        width = len(problem.resources)
        self.direct: list[Vector] = [q.used for q in problem.queues]
        self.children: list[list[int]] = [[] for _ in problem.queues]
        for q, queue in enumerate(problem.queues):
            if queue.parent is not None:
                self.children[queue.parent].append(q)
        self.held: list[Vector] = [(0,) * width for _ in problem.queues]
        for q, queue in enumerate(problem.queues):
            self._add_held(q, queue.used)
        for q, amount in enumerate(_held_by_running(problem)):
            self.charge_queue(q, amount)
        free = zip(*(node.free for node in problem.nodes), strict=True) if problem.nodes else [()] * width
        self.cluster_total: Vector = tuple(
            sum(column) + sum(q.used[r] for q in problem.queues) for r, column in enumerate(free)
        )
        self.bottom_up = [
            q
            for root in range(len(problem.queues))
            if problem.queues[root].parent is None
            for q in self._descendants(root)
        ]
        self._initial_direct = list(self.direct)
        self._initial_needs = [self.needed_amounts(r) for r in range(width)]
        self._guaranteed_resources = [r for r in range(width) if any(q.guarantee[r] for q in problem.queues)]

    def copy(self) -> QueueBooks:
        """The same holdings, free to be charged apart from these; what was needed before stays the reference."""
        other = copy.copy(self)
        other.direct, other.held = list(self.direct), list(self.held)
        return other

    def with_problem(self, problem: Problem) -> QueueBooks:
        """The same holdings, and those at the start, under the limits of another problem, which differs in nothing
        else."""
        other = self.copy()
        other.problem, other.queue_rules = problem, QueueRules(problem)
        start = copy.copy(other)
        start.direct = self._initial_direct
        other._initial_needs = [start.needed_amounts(r) for r in range(len(problem.resources))]
        return other

    def release_amount(self, queue: int, amount: Vector, at_start: Vector) -> None:
        """Take `amount` off what the queue holds, as though `at_start` of it had not been there at the start either."""
        self.charge_queue(queue, tuple(-x for x in amount))
        self._initial_direct = [
            add_vectors(held, at_start, -1) if q == queue else held for q, held in enumerate(self._initial_direct)
        ]
        start = copy.copy(self)
        start.direct = self._initial_direct
        self._initial_needs = [start.needed_amounts(r) for r in range(len(self.problem.resources))]

    def share_order_key(self, queue: int) -> tuple[tuple[float, int], ...]:
        """By which queues take turns, the smallest first: shares along the tree, compared where the ways of two queues
        part."""
        return tuple(
            (self.queue_rules.share_measures[q].share(self.held[q]), q)
            for q in self.queue_rules.comparison_paths[queue]
        )

    def path(self, queue: int) -> list[int]:
        """The queue and its ancestors, itself first."""
        return queue_limits.queue_path(self.problem, queue)

    def charge_queue(self, queue: int, amount: Vector) -> None:
        self.direct[queue] = add_vectors(self.direct[queue], amount)
        self._add_held(queue, amount)

    def _add_held(self, queue: int, amount: Vector) -> None:
        for q in self.path(queue):
            self.held[q] = add_vectors(self.held[q], amount)

    def _descendants(self, root: int) -> list[int]:
        """`root` and its descendants, children first."""
        return [q for child in self.children[root] for q in self._descendants(child)] + [root]

    def needed_amounts(self, r: int) -> list[int]:
        """need(q) of resource r for every queue."""
        need = [0] * len(self.problem.queues)
        for q in self.bottom_up:
            need[q] = max(
                self.problem.queues[q].guarantee[r] or 0, self.direct[q][r] + sum(need[c] for c in self.children[q])
            )
        return need

    def amount_counted(self, ceiling: queue_limits.QueueCeiling) -> Vector:
        """What counts against a ceiling."""
        return self.held[ceiling.queue] if ceiling.includes_descendants else self.direct[ceiling.queue]

    def exceeded_ceiling(self, queue: int, amount: Vector) -> tuple[queue_limits.QueueCeiling, int] | None:
        """The first (ceiling, resource) on the path that `amount` more would exceed."""
        for q in self.path(queue):
            for ceiling in self.queue_rules.ceilings_by_queue[q]:
                have = self.amount_counted(ceiling)
                for r, (asked, limit) in enumerate(zip(amount, ceiling.limits, strict=True)):
                    if (
                        asked
                        and limit is not None
                        and have[r] + asked > limit
                        and (ceiling.includes_descendants or q == queue)
                    ):
                        return ceiling, r
        return None

    def violated_guarantee(self, queue: int, amount: Vector) -> tuple[int | None, int] | None:
        """The first of `over_guarantees`."""
        return next(self.violated_guarantees(queue, amount), None)

    def violated_guarantees(self, queue: int, amount: Vector) -> Iterator[tuple[int | None, int]]:
        """Each (queue, resource) where `amount` more would eat into other queues' guarantees; queue None for the whole
        cluster."""
        if not any(amount[r] for r in self._guaranteed_resources):
            return
        after = self.copy()
        after.charge_queue(queue, amount)
        roots = [q for q, x in enumerate(self.problem.queues) if x.parent is None]
        for r in self._guaranteed_resources:
            if not amount[r]:
                continue
            need, before = after.needed_amounts(r), self._initial_needs[r]
            if sum(need[q] for q in roots) > max(self.cluster_total[r], sum(before[q] for q in roots)):
                yield None, r
            for q in self.path(queue):
                limit = self.problem.queues[q].capability[r]
                if limit is not None and need[q] > max(limit, before[q]):
                    yield q, r

    def allows_amount(self, queue: int, amount: Vector) -> bool:
        return (
            self.queue_rules.accepts_gangs[queue]
            and self.exceeded_ceiling(queue, amount) is None
            and self.violated_guarantee(queue, amount) is None
        )

    def weighted_dominant_share(self, queue: int, totals: Sequence[int]) -> float:
        """Weighted dominant share: max over r of held_r / total_r, divided by the weight (Ghodsi et al., NSDI 2011)."""
        return (
            max((h / t for h, t in zip(self.held[queue], totals, strict=True) if t), default=0.0)
            / self.problem.queues[queue].weight
        )

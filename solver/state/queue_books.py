"""Usage of queues, and the amounts that they may still take: exact integers, with undo."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from solver.problem import Limits, Problem, Vector
from solver.semantics import entitlements, order, queues
from solver.semantics.entitlements import QueueCeiling, queue_ceilings
from solver.semantics.eviction_rights import deserved_limits
from solver.semantics.gang_classes import waiting_class
from solver.semantics.order import ShareMeasure, SiblingQueues
from solver.semantics.placements import add_vectors, dominant_share, negative_of
from solver.state.free_nodes import free_and_overcommitted


@dataclass(frozen=True)
class QueueRules:
    """The rules of the policy for each queue, computed on first use. held_gangs: are kept out of the cluster."""

    problem: Problem
    held_gangs: frozenset[int] = frozenset()

    @cached_property
    def ceilings_by_queue(self) -> tuple[tuple[QueueCeiling, ...], ...]:
        """Return queue -> every limit on its usage."""
        found: list[list[QueueCeiling]] = [[] for _ in self.problem.queues]
        for ceiling in queue_ceilings(self.problem, self.held_gangs):
            found[ceiling.queue].append(ceiling)
        return tuple(map(tuple, found))

    @cached_property
    def binding_ceilings(self) -> tuple[tuple[QueueCeiling, ...], ...]:
        """Return queue -> the ceilings that count what its own gangs hold, along its path."""
        found = []
        for q, own in enumerate(self.ceilings_by_queue):
            above = (c for a in queues.queue_path(self.problem, q)[1:] for c in self.ceilings_by_queue[a])
            found.append((*own, *(c for c in above if c.includes_descendants)))
        return tuple(found)

    @cached_property
    def accepts_gangs(self) -> tuple[bool, ...]:
        """Queue -> whether gangs may start there at all."""
        return tuple(queues.accepts_gangs(self.problem, q) for q in range(len(self.problem.queues)))

    @cached_property
    def deserved(self) -> tuple[Limits, ...]:
        """Return queue -> its deserved amounts when others may reclaim."""
        return deserved_limits(self.problem)

    @cached_property
    def entitled(self) -> tuple[Limits, ...]:
        """Return queue -> the amounts that it may hold before it borrows."""
        return entitlements.entitled_amounts(self.problem)

    @cached_property
    def share_measures(self) -> tuple[ShareMeasure, ...]:
        """Return queue -> the measure by which it is compared with others."""
        weights = entitlements.drf_entitlements(self.problem) if self.problem.policy.drf_hierarchy else ()
        return order.share_measures(self.problem, weights)

    @cached_property
    def sibling_groups(self) -> tuple[SiblingQueues, ...]:
        """Return the groups of queues that are compared with one another."""
        return order.sibling_groups(self.problem)

    @cached_property
    def descendants(self) -> tuple[Sequence[int], ...]:
        """Return queue -> itself and all below it."""
        found: list[list[int]] = [[] for _ in self.problem.queues]
        for q in range(len(self.problem.queues)):
            for above in queues.queue_path(self.problem, q):
                found[above].append(q)
        return tuple(found)

    @cached_property
    def comparison_paths(self) -> tuple[tuple[int, ...], ...]:
        """Return queue -> the queues from the root down to it that are compared; only itself without a hierarchy."""
        every = range(len(self.problem.queues))
        if not self.problem.policy.hierarchical:
            return tuple((q,) for q in every)
        return tuple(tuple(reversed(queues.queue_path(self.problem, q))) for q in every)

    @cached_property
    def entitlement_roots(self) -> tuple[int, ...]:
        """Return queue -> the highest queue on its path whose entitlement limits anything: what queues with different
        ones hold never counts against the same entitlement."""
        limits = [any(most is not None for most in amounts) for amounts in self.entitled]
        return tuple(next((a for a in path if limits[a]), path[-1]) for path in self.comparison_paths)


class QueueBooks:
    """Amounts held per queue, along the whole path to its root.

    held[q]: by q and its descendants. direct[q]: by q itself. Guarantees are respected as in the verifier: need(q) =
    max(guarantee(q), direct(q) + sum of need over the children) stays below capability(q) and, in sum, below the
    cluster's total, what a node lost under running pods included, or below its initial value.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem, self.queue_rules = problem, QueueRules(problem)
        nothing = (0,) * len(problem.resources)
        self.direct: list[Vector] = [nothing for _ in problem.queues]
        self.held: list[Vector] = [nothing for _ in problem.queues]
        self.children: list[list[int]] = [[] for _ in problem.queues]
        self._log: list[tuple[int, Vector]] = []
        self._min_demands: dict[int, Vector] = {}
        for q, amount in enumerate(queues.held_by_queue(problem)):
            self.charge_queue(q, tuple(amount))
            if (parent := problem.queues[q].parent) is not None:
                self.children[parent].append(q)
        self._log.clear()
        of_foreign, of_nodes = (queue.used for queue in problem.queues), (node.free for node in problem.nodes)
        lost = free_and_overcommitted(problem)[1].sum(axis=0).tolist()  # held, and in no other pod's way
        self.cluster_total: Vector = tuple(map(sum, zip(lost, *of_foreign, *of_nodes, strict=True)))
        self.roots = [q for q, queue in enumerate(problem.queues) if queue.parent is None]
        self.bottom_up = sorted(range(len(problem.queues)), key=lambda q: -len(self.path(q)))
        self._initial_direct, self._initial_needs = list(self.direct), dict[int, list[int]]()
        self._guaranteed_resources = [r for r, _ in enumerate(nothing) if any(q.guarantee[r] for q in problem.queues)]

    @classmethod
    def idle(cls, problem: Problem) -> QueueBooks:
        """Books of the cluster where nothing runs, of no gang and of no other pod."""
        nothing = (0,) * len(problem.resources)
        queues_alone = problem.with_queues(tuple(replace(queue, used=nothing) for queue in problem.queues), gangs=())
        books = cls(queues_alone)
        books.cluster_total = problem.totals
        return books

    def copy(self) -> QueueBooks:
        """Return an independent copy with the same needs at the start, which cannot undo what happened before."""
        other = copy.copy(self)
        other.direct, other.held, other._log = list(self.direct), list(self.held), []
        return other

    def with_problem(self, problem: Problem, held_gangs: frozenset[int] = frozenset()) -> QueueBooks:
        """Return the same amounts, now and at the start, under the limits of another problem that differs in nothing
        else but empty nodes and the gangs' minima, and where these gangs are held."""
        return self.with_rules(QueueRules(problem, held_gangs))

    def with_rules(self, rules: QueueRules) -> QueueBooks:
        """As `with_problem`, with the rules of the other problem."""
        other, problem = self.copy(), rules.problem
        added = add_vectors(problem.totals, self.problem.totals, -1)
        other.cluster_total = add_vectors(self.cluster_total, added)
        other.problem, other.queue_rules = problem, rules
        other._initial_needs = {}
        if problem.gangs is not self.problem.gangs:
            other._min_demands = {}
        return other

    # ---- what queues hold

    def charge_queue(self, queue: int, amount: Vector) -> None:
        """Add `amount` to what the queue and its ancestors hold."""
        self._log.append((queue, amount))
        self.direct[queue] = add_vectors(self.direct[queue], amount)
        for q in self.path(queue):
            self.held[q] = add_vectors(self.held[q], amount)

    def release_amount(self, queue: int, amount: Vector, at_start: Vector) -> None:
        """Subtract `amount` from the queue's usage, and permanently `at_start` from its initial usage."""
        self.charge_queue(queue, negative_of(amount))
        self._initial_direct = list(self._initial_direct)
        self._initial_direct[queue] = add_vectors(self._initial_direct[queue], at_start, -1)
        self._initial_needs = {}

    def min_demand(self, j: int) -> Vector:
        """Return the least request of gang j of the books' problem, in addition to its running pods; computed once."""
        if j not in self._min_demands:
            gang_class = waiting_class(j, self.problem.gangs[j])
            self._min_demands[j] = gang_class.min_demand(len(self.problem.resources))
        return self._min_demands[j]

    def mark(self) -> int:
        """Return a point to which `undo` returns."""
        return len(self._log)

    def undo(self, mark: int) -> None:
        """Take back every charge since `mark`."""
        for queue, amount in reversed(self._log[mark:]):
            self.charge_queue(queue, negative_of(amount))
        del self._log[mark:]

    def path(self, queue: int) -> list[int]:
        """Return the queue and its ancestors, itself first."""
        return queues.queue_path(self.problem, queue)

    # ---- how queues compare

    def share_order_key(self, queue: int) -> tuple[tuple[float, int], ...]:
        """The queue with the smallest key is served next: shares along the path, compared where two paths part."""
        measures = self.queue_rules.share_measures
        return tuple((measures[q].share(self.held[q]), q) for q in self.queue_rules.comparison_paths[queue])

    def weighted_dominant_share(self, queue: int, totals: Vector) -> float:
        """max over r of held_r / total_r, divided by the weight (Ghodsi et al., NSDI 2011)."""
        return dominant_share(self.held[queue], totals) / self.problem.queues[queue].weight

    def compared_amount(self, q: int) -> Vector:
        """Return a queue's usage for comparisons: with its descendants in a hierarchy, else by itself."""
        return self.held[q] if self.problem.policy.hierarchical else self.direct[q]

    def is_entitled(self, queue: int, amount: Vector) -> bool:
        """Return whether with `amount` more the queue, and those above it that are compared, hold no more than their
        entitlements."""
        return all(
            not asked or limit is None or have + asked <= limit
            for q in self.queue_rules.comparison_paths[queue]
            for have, asked, limit in zip(self.compared_amount(q), amount, self.queue_rules.entitled[q], strict=True)
        )

    def is_growth_entitled(self, queue: int, amount: Vector) -> bool:
        """Return whether `is_entitled`, and some compared queue names an entitlement to one of the resources. Without
        one, a gang's minimum may count as covered, but no growth at the cost of others' minima."""
        path, asked = self.queue_rules.comparison_paths[queue], [r for r, some in enumerate(amount) if some]
        is_named = any(self.queue_rules.entitled[q][r] is not None for q in path for r in asked)
        return is_named and self.is_entitled(queue, amount)

    # ---- what queues may take

    def allows_amount(self, queue: int, amount: Vector) -> bool:
        """Return whether the queue accepts gangs and may take `amount` more."""
        return (
            self.queue_rules.accepts_gangs[queue]
            and not self.exceeds_ceiling(queue, amount)
            and next(self.violated_guarantees(queue, amount), None) is None
        )

    def related_queues(self, queue: int) -> Sequence[int]:
        """Return the queues on whose holdings it depends what this one may take: all where anything is guaranteed, else
        those below the highest one on its path whose ceiling counts its descendants."""
        if self._guaranteed_resources:
            return range(len(self.problem.queues))
        ceilings = self.queue_rules.binding_ceilings[queue]
        counting = [ceiling.queue for ceiling in ceilings if ceiling.includes_descendants]
        return self.queue_rules.descendants[counting[-1]] if counting else (queue,)

    def amount_counted(self, ceiling: QueueCeiling) -> Vector:
        """Return the amount that counts against a ceiling."""
        return self.held[ceiling.queue] if ceiling.includes_descendants else self.direct[ceiling.queue]

    def exceeds_ceiling(self, queue: int, amount: Vector) -> bool:
        """Return whether `amount` more would exceed a ceiling on the path."""
        return any(self.is_beyond(ceiling, amount) for ceiling in self.queue_rules.binding_ceilings[queue])

    def is_beyond(self, ceiling: QueueCeiling, amount: Vector) -> bool:
        """Return whether `amount` more would exceed the ceiling."""
        entries = zip(self.amount_counted(ceiling), amount, ceiling.limits, strict=True)
        return any(asked and most is not None and have + asked > most for have, asked, most in entries)

    def holds_beyond_ceiling(self, queue: int, taken: Vector) -> bool:
        """Return whether with `taken`, which it holds, the queue exceeds a ceiling on its path."""
        mark = self.mark()
        self.charge_queue(queue, negative_of(taken))
        exceeds = self.exceeds_ceiling(queue, taken)
        self.undo(mark)
        return exceeds

    def violated_guarantees(self, queue: int, amount: Vector) -> Iterator[tuple[int | None, int]]:
        """Yield each (queue, resource) where `amount` more would break others' guarantees; None for the whole
        cluster."""
        resources = [r for r in self._guaranteed_resources if amount[r]]
        if not resources:
            return
        direct = list(self.direct)
        direct[queue] = add_vectors(direct[queue], amount)
        for r in resources:
            need, before = self._needs(direct, r), self._needs_at_start(r)
            if sum(need[q] for q in self.roots) > max(self.cluster_total[r], sum(before[q] for q in self.roots)):
                yield None, r
            for q in self.path(queue):
                limit = self.problem.queues[q].capability[r]
                if limit is not None and need[q] > max(limit, before[q]):
                    yield q, r

    def needed_amounts(self, r: int) -> list[int]:
        """Queue -> need(q) of resource r."""
        return self._needs(self.direct, r)

    def _needs(self, direct: Sequence[Vector], r: int) -> list[int]:
        need = [amount[r] for amount in direct]
        for q in self.bottom_up:
            queue = self.problem.queues[q]
            need[q] = max(queue.guarantee[r] or 0, need[q])
            if queue.parent is not None:
                need[queue.parent] += need[q]
        return need

    def _needs_at_start(self, r: int) -> list[int]:
        if r not in self._initial_needs:
            self._initial_needs[r] = self._needs(self._initial_direct, r)
        return self._initial_needs[r]

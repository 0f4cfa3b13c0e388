"""Limits of queues by brute force: shares by weight, capabilities and what a policy sets beside them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

from solver.problem import Problem, Vector
from tests.builders.proportion import Wish, proportion_shares
from tests.property.brute import running_pods


def ancestors(problem: Problem, q: int) -> list[int]:
    """The queue itself, then all above it."""
    above = problem.queues[q].parent
    return [q] + ([] if above is None else ancestors(problem, above))


def is_hierarchical(problem: Problem) -> bool:
    return problem.policy.capacity and problem.policy.capacity_hierarchy


def accepts_gangs(problem: Problem, q: int) -> bool:
    has_children = any(queue.parent == q for queue in problem.queues)
    return all(problem.queues[a].open for a in ancestors(problem, q)) and not (
        is_hierarchical(problem) and has_children
    )


def cluster_totals(problem: Problem) -> list[int]:
    return [sum(node.capacity[r] for node in problem.nodes) for r in range(len(problem.resources))]


def guarantee_of(problem: Problem, q: int, r: int) -> int:
    return problem.queues[q].guarantee[r] or 0


def real_capability(problem: Problem, q: int, r: int) -> int | None:
    """What the guarantees of others leave of a queue's capability; None for no limit."""
    if not is_hierarchical(problem):
        left = max(
            0, cluster_totals(problem)[r] - sum(guarantee_of(problem, other, r) for other in range(len(problem.queues)))
        )
        return min(
            amount
            for amount in (problem.queues[q].capability[r], left + guarantee_of(problem, q, r))
            if amount is not None
        )
    parent = problem.queues[q].parent
    if parent is None:
        return problem.queues[q].capability[r]
    named = [most for a in ancestors(problem, q) if (most := problem.queues[a].capability[r]) is not None]
    above = real_capability(problem, parent, r)
    siblings = [c for c, queue in enumerate(problem.queues) if queue.parent == parent]
    inside = (
        None
        if above is None
        else max(0, above - sum(guarantee_of(problem, c, r) for c in siblings)) + guarantee_of(problem, q, r)
    )
    return min((amount for amount in (*named[:1], inside) if amount is not None), default=None)


def demand_by_queue(problem: Problem) -> dict[int, list[int]]:
    """What each queue with jobs holds and waits for, with all replicas."""
    found = {
        q: list(queue.used)
        for q, queue in enumerate(problem.queues)
        if any(queue.used) or any(g.queue == q for g in problem.gangs)
    }
    for gang in problem.gangs:
        for t, role in enumerate(gang.roles):
            pods = max(role.replicas, sum(n for (of, _), n in running_pods(gang).items() if of == t))
            found[gang.queue] = [
                have + pods * amount for have, amount in zip(found[gang.queue], role.request, strict=True)
            ]
    return found


def proportional_shares(problem: Problem) -> dict[int, list[Fraction]]:
    """Queue with jobs -> its share by weight."""
    amounts = range(len(problem.resources))
    flat = Problem(problem.resources, problem.nodes, problem.hypernodes, problem.queues, problem.gangs)
    wishes = {
        q: Wish(
            problem.queues[q].weight,
            asked,
            [real_capability(flat, q, r) or 0 for r in amounts],
            [guarantee_of(problem, q, r) for r in amounts],
        )
        for q, asked in demand_by_queue(problem).items()
    }
    others = problem.has_other_resources
    return proportion_shares(problem.resources, cluster_totals(problem), wishes, others_remain=others)


@dataclass(frozen=True)
class QueueCeilings:
    """The limits that a policy sets beside the capabilities: (queues that count, resource, most)."""

    rows: tuple[tuple[frozenset[int], int, Fraction], ...]

    @classmethod
    def of(cls, problem: Problem, unshared: Collection[tuple[int, int]] = ()) -> QueueCeilings:
        """unshared: queues and resources without a share by weight."""
        rows: list[tuple[frozenset[int], int, Fraction]] = []
        whole = cluster_totals(problem)
        for q, r in product(range(len(problem.queues)), range(len(problem.resources))):
            if problem.policy.capacity or problem.policy.proportion:
                most = real_capability(problem, q, r)
                below = (
                    [d for d in range(len(problem.queues)) if q in ancestors(problem, d)]
                    if is_hierarchical(problem)
                    else [q]
                )
                if most is not None and most < whole[r]:
                    rows.append((frozenset(below), r, Fraction(most)))
        if problem.policy.proportion:
            for q, amounts in proportional_shares(problem).items():
                for r, share in enumerate(amounts):
                    if share < whole[r] and (q, r) not in unshared:
                        rows.append((frozenset({q}), r, share))
        return cls(tuple(rows))

    def allow_amounts(self, before: Sequence[Sequence[int]], added: Sequence[Vector]) -> bool:
        """before, added: by queue, without those below it."""
        for queues, r, most in self.rows:
            new = sum(added[q][r] for q in queues)
            if new and new + sum(before[q][r] for q in queues) > most:
                return False
        return True

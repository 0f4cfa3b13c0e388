"""Limits of queues by brute force: shares by weight, capabilities and what a policy sets in addition to them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import product

from solver.problem import Problem, Vector
from tests.builders.queue_rules import QueueRules, QueueTerms
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


@lru_cache(maxsize=4)
def queue_rules(problem: Problem) -> QueueRules[int]:
    """What the reference of queue semantics says of the problem's queues."""
    names, asked = problem.resources, demand_by_queue(problem)
    queues = {
        q: QueueTerms(
            queue.parent,
            queue.weight,
            _said(names, queue.guarantee),
            _said(names, queue.deserved),
            _said(names, queue.capability),
            _said(names, asked[q]) if q in asked else None,
        )
        for q, queue in enumerate(problem.queues)
    }
    policy = problem.policy
    plugin = "capacity" if policy.capacity else "proportion" if policy.proportion else ""
    totals = dict(zip(names, cluster_totals(problem), strict=True))
    return QueueRules(queues, totals, plugin, is_hierarchical(problem), problem.has_other_resources)


def _said(names: Sequence[str], amounts: Sequence[int | None]) -> dict[str, int]:
    return {name: amount for name, amount in zip(names, amounts, strict=True) if amount is not None}


def proportional_shares(problem: Problem) -> dict[int, list[Fraction]]:
    """Queue with jobs -> its share by weight."""
    rules = queue_rules(problem)
    return {
        q: [shares.get(name, Fraction(total)) for name, total in rules.totals.items()]
        for q, shares in rules.proportion_shares.items()
    }


@dataclass(frozen=True)
class QueueCeilings:
    """The limits that a policy sets in addition to the capabilities: (queues that count, resource, most)."""

    rows: tuple[tuple[frozenset[int], int, Fraction], ...]

    @classmethod
    def of(cls, problem: Problem, unshared: Collection[tuple[int, int]] = ()) -> QueueCeilings:
        """unshared: queues and resources without a share by weight."""
        rows: list[tuple[frozenset[int], int, Fraction]] = []
        whole, rules = cluster_totals(problem), queue_rules(problem)
        for q, r in product(range(len(problem.queues)), range(len(problem.resources))):
            if problem.policy.capacity or problem.policy.proportion:
                most = rules.real_capability(q, problem.resources[r])
                if most is not None and most < whole[r]:
                    rows.append((frozenset(rules.below(q)), r, Fraction(most)))
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

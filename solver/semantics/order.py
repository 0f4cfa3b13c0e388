"""How queues, and the gangs of one queue, are compared: shares, siblings and priorities, after Volcano's plugins.
Gangs are served by priority, overdue gangs first within one, then by age.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Sequence
from dataclasses import dataclass

from solver.problem import Gang, Placement, Problem, Vector
from solver.semantics.entitlements import capacity_deserved
from solver.semantics.placements import dominant_share, placed_demand
from solver.semantics.queues import PODS, queue_path


@dataclass(frozen=True, slots=True)
class ShareMeasure:
    """How a queue's holdings become one number: base + max over r with per_r > 0 of held_r / per_r / weight; per:
    `denominators`."""

    denominators: Vector
    weight: float
    base: float = 0.0

    def share(self, held: Sequence[int]) -> float:
        parts = (h / per for h, per in zip(held, self.denominators, strict=True) if per)
        return self.base + max(parts, default=0.0) / self.weight


@dataclass(frozen=True, slots=True)
class SiblingQueues:
    """Queues that are compared with one another. members: queue -> the queues whose gangs count as its own. name: of
    the group, in objectives."""

    name: str
    members: dict[int, frozenset[int]]


def share_measures(problem: Problem, entitlements: Sequence[float]) -> tuple[ShareMeasure, ...]:
    """Return the measures of fair shares.

    capacity         max_r held_r / deserved_r, pods among them; where nothing but pods is deserved 1 + the weighted
                     dominant share: after those that have less than they deserve, as in Volcano (where it is 1),
                     and yet fair among themselves
    drf's hierarchy  max_r held_r / total_r / entitled_q          (`drf_entitlements`)
    else             max_r held_r / total_r / weight_q            (Ghodsi et al., Dominant Resource Fairness, NSDI 2011)
    """
    whole = problem.totals
    if problem.policy.capacity:
        made = []
        for queue, amounts in zip(problem.queues, capacity_deserved(problem), strict=True):
            named = any(amount for name, amount in zip(problem.resources, amounts, strict=True) if name != PODS)
            made.append(
                ShareMeasure(tuple(amount or 0 for amount in amounts), 1)
                if named
                else ShareMeasure(whole, queue.weight, 1.0)
            )
        return tuple(made)
    if problem.policy.drf_hierarchy:
        return tuple(ShareMeasure(whole, weight) for weight in entitlements)
    return tuple(ShareMeasure(whole, queue.weight) for queue in problem.queues)


def sibling_groups(problem: Problem) -> tuple[SiblingQueues, ...]:
    """Return groups of queues, the top of the tree first: with capacity's hierarchy the children of each queue, each
    with its descendants; else all queues."""
    if not problem.policy.hierarchical:
        return (SiblingQueues("", {q: frozenset({q}) for q in range(len(problem.queues))}),)
    ways = [queue_path(problem, q) for q in range(len(problem.queues))]
    found = []
    for parent in (None, *sorted(range(len(problem.queues)), key=lambda q: (len(ways[q]), q))):
        children = [q for q, queue in enumerate(problem.queues) if queue.parent == parent]
        inside = {c: frozenset(q for q, way in enumerate(ways) if c in way) for c in children}
        found.append(
            SiblingQueues(
                "" if parent is None or len(ways[parent]) == 1 else f" in {problem.queues[parent].name}", inside
            )
        )
    return tuple(group for group in found if len(group.members) > 1)


def puts_queues_first(problem: Problem, queues: Collection[int]) -> bool:
    """Return whether entitlements precede priorities among gangs of these queues: one queue alone has no competitor."""
    return problem.policy.queues_first and len(queues) > 1


def serving_rounds(problem: Problem, priorities: Iterable[int]) -> list[frozenset[int]]:
    """Return the queue priorities that are served together where queues come first: all; where nothing can be reclaimed
    each by itself, the highest first, since Volcano then lets it overrule what queues deserve."""
    found = set(priorities)
    return [frozenset(found)] if problem.reclaim_enabled else [frozenset([p]) for p in sorted(found, reverse=True)]


def queue_priority(problem: Problem, queue: int) -> int:
    """Return the queue's priority where a plugin compares it; source: queueOrderFn of proportion and capacity."""
    return problem.queues[queue].priority if problem.policy.capacity or problem.policy.proportion else 0


def gang_dominant_share(problem: Problem, gang: Gang, pods: Sequence[Placement], whole: Vector) -> float:
    """drf's measure of one gang, by which the gangs of a queue are ordered: max_r held_r / total_r; 0 without drf.

    Source: calculateShare of pkg/scheduler/plugins/drf.
    """
    if not problem.policy.drf:
        return 0.0
    return dominant_share(placed_demand(gang, pods, len(whole)), whole)


def precedence(gang: Gang) -> int:
    """3 * priority + overdue + promised: gangs of a higher precedence are decided first."""
    return 3 * gang.priority + gang.times.overdue + gang.times.promised


def is_promised_level(value: int) -> bool:
    """Return whether this is the precedence of gangs with a start announced by an earlier plan."""
    return value % 3 == 2


def serving_order_key(problem: Problem, j: int) -> tuple[int, int, int, int]:
    """Sorts gangs by precedence, the queue's priority, age, index."""
    gang = problem.gangs[j]
    return -precedence(gang), -queue_priority(problem, gang.queue), gang.age, j


def precedence_level(problem: Problem, j: int) -> tuple[int, int]:
    """(precedence, queue priority): gangs of one level compete; those of a higher level come first."""
    return precedence(problem.gangs[j]), queue_priority(problem, problem.gangs[j].queue)


def expected_end(problem: Problem, j: int) -> int | None:
    """Return seconds until gang j is expected to end, if it runs or starts now; None where unknown."""
    return problem.gangs[j].times.ends_in if problem.gangs[j].running else problem.gangs[j].times.duration


def strict_queue_order(problem: Problem, gangs: Iterable[int]) -> list[int]:
    """Return gangs of one queue in the order in which a queue with strict order starts them."""
    return sorted(gangs, key=lambda j: (-precedence(problem.gangs[j]), problem.gangs[j].age, j))


def blocking_gangs(problem: Problem, waiting: Iterable[int], candidates: Container[int]) -> dict[int, int]:
    """Return gang of a queue with strict order -> the earliest waiting gang of that queue that is not a candidate and
    so blocks it.

    waiting: all gangs that have not started. candidates: waiting gangs that may start now.
    """
    lines: dict[int, list[int]] = {}
    for j in waiting:
        if problem.queues[problem.gangs[j].queue].strict_order:
            lines.setdefault(problem.gangs[j].queue, []).append(j)
    found: dict[int, int] = {}
    for queue in lines.values():
        held = None
        for j in strict_queue_order(problem, queue):
            if held is not None:
                found[j] = held
            elif j not in candidates:
                held = j
    return found


def eligible_in_order(problem: Problem, waiting: Sequence[int], candidates: Sequence[int]) -> list[int]:
    """Candidates not blocked by an earlier gang of the same strict queue."""
    blocked = blocking_gangs(problem, waiting, set(candidates))
    return [j for j in candidates if j not in blocked]

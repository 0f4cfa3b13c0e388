"""Queues as a tree: paths, holdings, demand, and the real capability that guarantees leave.

Pure functions of the problem, after Volcano's plugins capacity and proportion; references name Volcano's source
(v1.15). Amounts are integers in each resource's own unit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from solver.problem import Gang, Limits, Problem, Vector
from solver.semantics.gang_sizes import least_demand
from solver.semantics.placements import add_vectors

PODS = "pods"
"""The number of pods. Volcano ignores it in comparisons with limits and deserved amounts (ignoredScalarResources of
pkg/scheduler/api/resource_info.go). But a share is the largest over all resources of the total, or of the deserved
amount, and pods are one of them (calculateShare of plugins/drf, updateQueueAttrShare of plugins/capacity)."""


def held_by_queue(problem: Problem) -> list[list[int]]:
    """Return the usage of each queue before the plan, without its descendants."""
    found = [list(queue.used) for queue in problem.queues]
    for gang in problem.gangs:
        pods = [0] * len(gang.roles)
        for place in gang.running:
            pods[place.role] += place.pods
        for role, number in zip(gang.roles, pods, strict=True):
            for r, amount in enumerate(role.request if number else ()):
                found[gang.queue][r] += amount * number
    return found


@dataclass(frozen=True, slots=True)
class GangDemand:
    """A gang's demand on its queue. whole: all its replicas, or its running pods if these are more; replicas: the
    declared ones. least: the demand of its minima, None where the action enqueue ignores them."""

    queue: int
    whole: Vector
    replicas: Vector
    least: Vector | None

    @classmethod
    def of(cls, gang: Gang, width: int) -> GangDemand:
        written = [role.replicas for role in gang.roles]
        running = [sum(place.pods for place in gang.running if place.role == t) for t in range(len(written))]
        most = map(max, written, running)
        whole, replicas = (_demand_of_pods(gang, pods, width) for pods in (most, written))
        least = tuple(least_demand(gang, r) for r in range(width)) if gang.entry.enqueued_first else None
        return cls(gang.queue, whole, replicas, least)


def _demand_of_pods(gang: Gang, pods: Iterable[int], width: int) -> Vector:
    total = (0,) * width
    for role, number in zip(gang.roles, pods, strict=True):
        total = add_vectors(total, role.request, number)
    return total


def gang_demands(problem: Problem, held: Collection[int] = ()) -> Mapping[GangDemand, int]:
    """Return how many gangs but the `held` ones have each demand. Gangs are many and their demands few."""
    width = len(problem.resources)

    def number_demands() -> tuple[list[GangDemand], list[int]]:
        numbers, of_shapes, of_gangs = dict[GangDemand, int](), dict[object, int](), list[int]()
        for gang in problem.gangs:
            shape = gang.queue, gang.roles, gang.minimum, gang.running, gang.entry.enqueued_first
            if shape not in of_shapes:
                of_shapes[shape] = numbers.setdefault(GangDemand.of(gang, width), len(numbers))
            of_gangs.append(of_shapes[shape])
        return list(numbers), of_gangs

    demands, number_of = problem.memoize("demands", number_demands)
    every = problem.memoize("counted demands", lambda: Counter(number_of))
    left = every - Counter(number_of[j] for j in held) if held else every
    return {demands[number]: count for number, count in left.items()}


def demand_by_queue(problem: Problem, held: Collection[int] = ()) -> list[list[int] | None]:
    """Return the usage and waiting demand of each queue, with all replicas of its gangs except the `held` ones; None
    for a queue without any job."""
    found: list[Vector | None] = [queue.used if any(queue.used) else None for queue in problem.queues]
    for demand, number in gang_demands(problem, held).items():
        total = found[demand.queue] or (0,) * len(problem.resources)
        found[demand.queue] = add_vectors(total, demand.whole, number)
    return [None if total is None else list(total) for total in found]


def queue_path(problem: Problem, queue: int) -> list[int]:
    """Return the queue and its ancestors, itself first."""
    found, above = [queue], problem.queues[queue].parent
    while above is not None:
        found.append(above)
        above = problem.queues[above].parent
    return found


def accepts_gangs(problem: Problem, queue: int) -> bool:
    """Return whether gangs may start in the queue: it and all above it are open, and with capacity's hierarchy it has
    no children.

    Source: allocatableFn and checkJobQueuePosition of pkg/scheduler/plugins/capacity.
    """
    leaf = not problem.policy.hierarchical or all(other.parent != queue for other in problem.queues)
    return leaf and all(problem.queues[q].open for q in queue_path(problem, queue))


def real_capability(problem: Problem) -> tuple[Limits, ...]:
    """Return each capability less others' guarantees; None for no limit.

        flat        real_q = min(capability_q, max(0, total - sum of all guarantees) + guarantee_q)
        hierarchy   real_q = min(capability_q, max(0, real_parent - sum of siblings' and q's guarantees) + guarantee_q)
                    a resource that capability_q does not name is limited as at the parent; real = capability at a root

    Source: newQueueAttr, checkHierarchicalQueue and updateParentQueue of pkg/scheduler/plugins/capacity; proportion has
    the flat one.
    """
    guarantee = [tuple(g or 0 for g in queue.guarantee) for queue in problem.queues]
    if not problem.policy.hierarchical:
        return flat_real_capability(problem)
    found: dict[int, Limits] = {}
    named: dict[int, Limits] = {}
    for q in sorted(range(len(problem.queues)), key=lambda q: (len(queue_path(problem, q)), q)):
        queue = problem.queues[q]
        if queue.parent is None:
            found[q] = named[q] = queue.capability
            continue
        children = [c for c, other in enumerate(problem.queues) if other.parent == queue.parent]
        named[q] = tuple(
            above if own is None else own for own, above in zip(queue.capability, named[queue.parent], strict=True)
        )
        left = [
            None if m is None else max(0, m - sum(guarantee[c][r] for c in children))
            for r, m in enumerate(found[queue.parent])
        ]
        found[q] = tuple(
            min_limit(n, None if m is None else m + guarantee[q][r])
            for r, (n, m) in enumerate(zip(named[q], left, strict=True))
        )
    return tuple(found[q] for q in range(len(problem.queues)))


def flat_real_capability(problem: Problem) -> tuple[Vector, ...]:
    stated = tuple((queue.capability, queue.guarantee) for queue in problem.queues)
    return problem.memoize(("real", problem.totals, stated), lambda: _flat_real_capability(problem))


def _flat_real_capability(problem: Problem) -> tuple[Vector, ...]:
    guaranteed = [sum(queue.guarantee[r] or 0 for queue in problem.queues) for r in range(len(problem.resources))]
    spare = [max(0, total - taken) for total, taken in zip(problem.totals, guaranteed, strict=True)]
    return tuple(
        tuple(
            left + (g or 0) if most is None else min(most, left + (g or 0))
            for most, left, g in zip(q.capability, spare, q.guarantee, strict=True)
        )
        for q in problem.queues
    )


def min_limit(a: int | None, b: int | None) -> int | None:
    return a if b is None else b if a is None else min(a, b)

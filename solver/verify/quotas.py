"""Volcano's queue plugins, implemented a second time: no code is shared with `solver.semantics`.

Resource by resource, in decimals: slower than the model's integers, and unlikely to be wrong in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal, localcontext

from solver.problem import Problem, Queue

Amounts = dict[int, Decimal]
"""Resource -> amount, without those that nothing limits."""
DECIMAL_DIGITS = 60
"""Enough for rounds of shares of 2**62 bytes down to the resolution."""
RESOLUTION = Decimal("0.0001")
"""Of a unit. Volcano takes amounts for equal that differ by less than a tenth of its own, a thousandth of a device."""


def cluster_totals(problem: Problem) -> tuple[int, ...]:
    """The capacity of all nodes, per resource."""
    nothing = (0,) * len(problem.resources)
    return tuple(map(sum, zip(nothing, *(node.capacity for node in problem.nodes), strict=True)))


def queue_path(problem: Problem, queue: int | None) -> list[int]:
    """The queue and its ancestors, the nearest first."""
    found = []
    while queue is not None:
        found.append(queue)
        queue = problem.queues[queue].parent
    return found


def non_admitting_queues(problem: Problem) -> set[int]:
    """Queues in which no gang may get new pods: closed ones with all descendants; with capacity's hierarchy also those
    with children."""
    queues = problem.queues
    parents = {queue.parent for queue in queues if queue.parent is not None} if problem.policy.hierarchical else set()
    return parents | {q for q in range(len(queues)) if not all(queues[a].open for a in queue_path(problem, q))}


def real_capability(problem: Problem) -> Iterator[tuple[int, int, int, bool]]:
    """(queue, resource, limit, whether it counts descendants) for each limit that the guarantees of others create or
    tighten.

    One that leaves the whole cluster is none: a queue that holds more than the cluster has lost nodes, not capability.

    flat:       max(0, total - all guarantees) + its own, at most the capability
    hierarchy:  the same inside the parent's limit; there is none where no queue above names the resource
    """
    if not (problem.policy.capacity or problem.policy.proportion):
        return
    hierarchical, totals = problem.policy.hierarchical, cluster_totals(problem)
    for r in _counted_resources(problem):
        for q in range(len(problem.queues)):
            most = _hierarchical_limit(problem, q, r) if hierarchical else _flat_limit(problem, q, r, totals[r])
            if most is not None and most < totals[r]:
                yield q, r, most, hierarchical


def _counted_resources(problem: Problem) -> list[int]:
    """All resources but the number of pods, of which the plugins keep no account."""
    return [r for r, name in enumerate(problem.resources) if name != "pods"]


def _flat_limit(problem: Problem, q: int, r: int, total: int) -> int:
    queue = problem.queues[q]
    most = max(0, total - _guaranteed(problem.queues, r)) + (queue.guarantee[r] or 0)
    return min(most, most if queue.capability[r] is None else queue.capability[r] or 0)


def _guaranteed(queues: Iterable[Queue], r: int) -> int:
    return sum(queue.guarantee[r] or 0 for queue in queues)


def _hierarchical_limit(problem: Problem, q: int, r: int) -> int | None:
    """The limit of one queue along the tree, from the queue upwards."""
    queue = problem.queues[q]
    if queue.parent is None:
        return queue.capability[r]
    above = _hierarchical_limit(problem, queue.parent, r)
    named = [limit for a in queue_path(problem, q) if (limit := problem.queues[a].capability[r]) is not None]
    limits = named[:1]
    if above is not None:
        others = _guaranteed((other for other in problem.queues if other.parent == queue.parent), r)
        limits.append(max(0, above - others) + (queue.guarantee[r] or 0))
    return min(limits, default=None)


def proportional_shares(problem: Problem) -> Mapping[int, Amounts]:
    """Queue -> what it deserves by weight, for the queues that have jobs, by the proportion plugin's rounds."""
    if not problem.policy.proportion:
        return {}
    with localcontext() as context:
        context.prec = DECIMAL_DIGITS
        return _water_filled_shares(problem)


def _water_filled_shares(problem: Problem) -> Mapping[int, Amounts]:
    queues, counted, totals = problem.queues, _counted_resources(problem), cluster_totals(problem)
    asked = _requested_amounts(problem)
    left = {r: Decimal(totals[r]) for r in counted}
    guaranteed = {q: {r: Decimal(queues[q].guarantee[r] or 0) for r in counted} for q in asked}
    limit = {q: {r: Decimal(_flat_limit(problem, q, r, totals[r])) for r in counted} for q in asked}
    deserved = {q: dict.fromkeys(counted, Decimal(0)) for q in asked}
    met: set[int] = set()
    while len(met) < len(asked) and any(amount >= RESOLUTION / 10 for amount in left.values()):
        open_queues = [q for q in sorted(asked) if q not in met]
        weights = sum(queues[q].weight for q in open_queues)
        after = dict(left)
        for q in open_queues:
            part, new = Decimal(queues[q].weight) / weights, dict(deserved[q])
            for r in counted:
                new[r] = max(min(new[r] + left[r] * part, asked[q][r], limit[q][r]), guaranteed[q][r])
                after[r] -= new[r] - deserved[q][r]
            if all(new[r] >= asked[q][r] for r in counted) or new == deserved[q]:
                met.add(q)
            deserved[q] = new
        after = {r: max(Decimal(0), amount) for r, amount in after.items()}
        if after == left:
            break
        left = after
    return deserved


def _requested_amounts(problem: Problem) -> dict[int, Amounts]:
    """What each queue that has jobs runs and waits for."""
    found: dict[int, Amounts] = {}
    for q, queue in enumerate(problem.queues):
        if any(queue.used) or any(gang.queue == q for gang in problem.gangs):
            found[q] = {r: Decimal(queue.used[r]) for r in _counted_resources(problem)}
    for gang in problem.gangs:
        for t, role in enumerate(gang.roles):
            pods = max(role.replicas, sum(place.pods for place in gang.running if place.role == t))
            for r in found[gang.queue]:
                found[gang.queue][r] += pods * role.request[r]
    return found


def deserved(problem: Problem) -> list[Amounts]:
    """Queue -> what it deserves of each resource that names an amount, pods aside.

    By the proportion plugin's rounds where that decides; otherwise as declared, inside the real capability, but at
    least the guarantee.
    """
    if problem.policy.proportion:
        by_weight = proportional_shares(problem)
        return [by_weight.get(q, {}) for q in range(len(problem.queues))]
    hierarchical, totals = problem.policy.hierarchical, cluster_totals(problem)
    found: list[Amounts] = [{} for _ in problem.queues]
    for r in _counted_resources(problem):
        for q, queue in enumerate(problem.queues):
            wanted, least = queue.deserved[r], queue.guarantee[r]
            if wanted is not None or least is not None:
                limit = _hierarchical_limit(problem, q, r) if hierarchical else _flat_limit(problem, q, r, totals[r])
                inside = wanted if wanted is None or limit is None else min(wanted, limit)
                found[q][r] = Decimal(max(inside or 0, least or 0))
    return found

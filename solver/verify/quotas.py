"""Volcano's queue plugins, implemented a second time: no code is shared with `solver.semantics`.

Resource by resource: slower than the model's code, and unlikely to be wrong in the same way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache

from solver.problem import Gang, Problem, Queue

Amounts = dict[int, Decimal]
"""Resource -> amount, without unlimited ones."""
DECIMAL_DIGITS = 60
"""Enough for any number in floating point."""

SUMMED_IN_ALL_ORDERS = 8  # gains of one round

LEAST_AMOUNT = 0.1
"""Part of Volcano's own unit (a millicore, a byte, a thousandth of a device): proportion treats less as nothing."""


def cluster_totals(problem: Problem) -> tuple[int, ...]:
    """Return the capacity of all nodes, per resource."""
    alike = Counter([node.capacity for node in problem.nodes])
    return tuple(sum(capacity[r] * nodes for capacity, nodes in alike.items()) for r in range(len(problem.resources)))


def queue_path(problem: Problem, queue: int | None) -> list[int]:
    """Return the queue and its ancestors, the nearest first."""
    found = []
    while queue is not None:
        found.append(queue)
        queue = problem.queues[queue].parent
    return found


def non_admitting_queues(problem: Problem) -> set[int]:
    """Return queues in which no gang may get new pods: closed ones with all descendants; with capacity's hierarchy also
    those with children."""
    queues = problem.queues
    parents = {queue.parent for queue in queues if queue.parent is not None} if problem.policy.hierarchical else set()
    return parents | {q for q in range(len(queues)) if not all(queues[a].open for a in queue_path(problem, q))}


def real_capability(problem: Problem) -> Iterator[tuple[int, int, int, bool]]:
    """Yield (queue, resource, limit, whether it counts descendants) for each limit that the guarantees of others create
    or tighten.

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
    """Return all resources but the number of pods, of which the plugins keep no account."""
    return [r for r, name in enumerate(problem.resources) if name != "pods"]


def _flat_limit(problem: Problem, q: int, r: int, total: int) -> int:
    queue = problem.queues[q]
    most = max(0, total - _guarantee_sum(problem.queues, r)) + (queue.guarantee[r] or 0)
    return min(most, most if queue.capability[r] is None else queue.capability[r] or 0)


def _guarantee_sum(queues: Iterable[Queue], r: int) -> int:
    return sum(queue.guarantee[r] or 0 for queue in queues)


def _hierarchical_limit(problem: Problem, q: int, r: int) -> int | None:
    """Return the limit of one queue along the tree, from the queue upwards."""
    queue = problem.queues[q]
    if queue.parent is None:
        return queue.capability[r]
    above = _hierarchical_limit(problem, queue.parent, r)
    named = [limit for a in queue_path(problem, q) if (limit := problem.queues[a].capability[r]) is not None]
    limits = named[:1]
    if above is not None:
        others = _guarantee_sum((other for other in problem.queues if other.parent == queue.parent), r)
        limits.append(max(0, above - others) + (queue.guarantee[r] or 0))
    return min(limits, default=None)


def proportional_shares(problem: Problem, held: Collection[int] = ()) -> Mapping[int, Amounts]:
    """Return queue -> its deserved amounts by weight, for the queues that have jobs, by the proportion plugin's rounds,
    when these gangs are kept out of the cluster.

    In the plugin's own floating point and units, without tolerance. The plugin sums the gains of a round in any order;
    we assume the order with the largest sum.
    """
    if not problem.policy.proportion:
        return {}
    units = {r: 1 if problem.resources[r] in ("cpu", "memory") else 1000 for r in _counted_resources(problem)}
    queues, totals, asked = problem.queues, cluster_totals(problem), _requested_amounts(problem, held)
    left = {r: float(totals[r] * unit) for r, unit in units.items()}
    floor = {q: {r: float((queues[q].guarantee[r] or 0) * unit) for r, unit in units.items()} for q in asked}
    limit = {q: {r: float(_flat_limit(problem, q, r, totals[r]) * unit) for r, unit in units.items()} for q in asked}
    deserved, met = {q: dict.fromkeys(units, 0.0) for q in asked}, set[int]()
    while len(met) < len(asked):
        if not problem.has_other_resources and max(left.values(), default=0.0) < LEAST_AMOUNT:
            break
        open_queues = [q for q in sorted(asked) if q not in met]
        weights, old = sum(queues[q].weight for q in open_queues), dict(deserved)
        for q in open_queues:
            part = queues[q].weight / weights
            grown = {r: min(amount + left[r] * part, limit[q][r]) for r, amount in old[q].items()}
            deserved[q] = {r: max(min(grown[r], float(asked[q][r] * units[r])), floor[q][r]) for r in units}
            missing = [asked[q][r] * units[r] - deserved[q][r] for r in units]
            if deserved[q] == old[q] or max(missing, default=0.0) < LEAST_AMOUNT:
                met.add(q)
        gains = {r: [deserved[q][r] - old[q][r] for q in open_queues] for r in units}
        after = {r: max(0.0, amount - _most_in_sum(gains[r])) for r, amount in left.items()}
        if after == left:
            break
        left = after
    with localcontext() as context:
        context.prec = DECIMAL_DIGITS
        return {q: {r: Decimal(amounts[r]) / units[r] for r in units} for q, amounts in deserved.items()}


def _most_in_sum(gains: Iterable[float]) -> float:
    """Return the most that the sum may come to in any order of up to SUMMED_IN_ALL_ORDERS gains; else a bound on it."""
    added = sorted(gain for gain in gains if gain)
    if len(added) < 3 or all(gain == int(gain) for gain in added):
        return float(sum(map(Fraction, added)))
    if len(added) > SUMMED_IN_ALL_ORDERS:
        return float(sum(map(Fraction, added))) * (1 + len(added) * 2.0**-52)

    @cache
    def most(some: frozenset[int]) -> float:
        return max((most(some - {last}) + added[last] for last in some), default=0.0)

    return most(frozenset(range(len(added))))


def _requested_amounts(problem: Problem, held: Collection[int]) -> dict[int, dict[int, int]]:
    """Return the demand of each queue with jobs, running and waiting; held gangs, and gangs that the action enqueue
    refuses, have none."""
    found: dict[int, dict[int, int]] = {}
    for q, queue in enumerate(problem.queues):
        if any(queue.used) or any(gang.queue == q for g, gang in enumerate(problem.gangs) if g not in held):
            found[q] = {r: queue.used[r] for r in _counted_resources(problem)}
    totals = cluster_totals(problem)
    for g, gang in enumerate(problem.gangs):
        if g in held or (gang.entry.enqueued_first and _is_refused(problem, gang, totals)):
            continue
        for t, role in enumerate(gang.roles):
            pods = max(role.replicas, sum(place.pods for place in gang.running if place.role == t))
            for r in found[gang.queue]:
                found[gang.queue][r] += pods * role.request[r]
    return found


def _is_refused(problem: Problem, gang: Gang, totals: Sequence[int]) -> bool:
    """Return whether the gang's minimum is more than its queue's real capability, whichever pods make it up."""
    for r in _counted_resources(problem):
        spare = max(0, gang.minimum - sum(role.minimum for role in gang.roles))
        least = sum(role.minimum * role.request[r] for role in gang.roles)
        for request, others in sorted((role.request[r], role.replicas - role.minimum) for role in gang.roles):
            least += request * min(spare, others)
            spare -= min(spare, others)
        if least > _flat_limit(problem, gang.queue, r, totals[r]):
            return True
    return False


def deserved(problem: Problem) -> list[Amounts]:
    """Return queue -> its deserved amount of each resource with one, pods aside.

    By the proportion plugin's rounds where that decides; else as declared, inside the real capability, but at least the
    guarantee.
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

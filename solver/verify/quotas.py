"""Volcano's queue plugins, implemented a second time: no code is shared with `solver.semantics`.

Resource by resource and by name, in decimals: slower than the model's integers, and unlikely to be wrong in the same
way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal, localcontext

from solver.problem import Problem

Amounts = dict[str, Decimal]

DECIMAL_DIGITS = 60
"""Enough for rounds of shares of 2**62 bytes down to the resolution."""
RESOLUTION = Decimal("0.0001")
"""Of a unit: Volcano takes amounts for equal that differ by less than a tenth of its own unit, of which a device has a
thousand."""


def cluster_totals(problem: Problem) -> tuple[int, ...]:
    """The capacity of all nodes, per resource."""
    return (
        tuple(map(sum, zip(*(node.capacity for node in problem.nodes), strict=True)))
        if problem.nodes
        else (0,) * len(problem.resources)
    )


def non_admitting_queues(problem: Problem) -> set[int]:
    """Queues in which no gang may get new pods: closed ones with all descendants; with capacity's hierarchy also those
    with children."""
    found = (
        {queue.parent for queue in problem.queues if queue.parent is not None} if _is_hierarchical(problem) else set()
    )
    for q in range(len(problem.queues)):
        above: int | None = q
        while above is not None:
            if not problem.queues[above].open:
                found.add(q)
            above = problem.queues[above].parent
    return found


def _is_hierarchical(problem: Problem) -> bool:
    return problem.policy.capacity and problem.policy.capacity_hierarchy


def real_capability(problem: Problem) -> Iterator[tuple[int, int, int, bool]]:
    """(queue, resource, limit, whether it counts descendants) for each limit that the guarantees of others create or
    tighten.

    One that leaves the whole cluster is none: a queue that holds more than the cluster has lost nodes, not capability.

    flat:       max(0, total - all guarantees) + its own, at most the capability
    hierarchy:  the same inside the parent's limit; there is none where no queue above names the resource
    """
    if not (problem.policy.capacity or problem.policy.proportion):
        return
    for r, (name, total) in enumerate(zip(problem.resources, cluster_totals(problem), strict=True)):
        if name == "pods":
            continue
        everything = sum(queue.guarantee[r] or 0 for queue in problem.queues)
        for q, queue in enumerate(problem.queues):
            own = queue.guarantee[r] or 0
            if _is_hierarchical(problem):
                most = _hierarchical_limit(problem, q, r)
            else:
                most = max(0, total - everything) + own
                most = most if queue.capability[r] is None else min(most, queue.capability[r] or 0)
            if most is not None and most < total:
                yield q, r, most, _is_hierarchical(problem)


def _hierarchical_limit(problem: Problem, q: int, r: int) -> int | None:
    """The limit of one queue along the tree, from the queue upwards."""
    queue = problem.queues[q]
    if queue.parent is None:
        return queue.capability[r]
    above = _hierarchical_limit(problem, queue.parent, r)
    named: int | None = q
    while named is not None and problem.queues[named].capability[r] is None:
        named = problem.queues[named].parent
    limits = [] if named is None else [problem.queues[named].capability[r] or 0]
    if above is not None:
        others = sum(other.guarantee[r] or 0 for other in problem.queues if other.parent == queue.parent)
        limits.append(max(0, above - others) + (queue.guarantee[r] or 0))
    return min(limits, default=None)


def proportional_shares(problem: Problem) -> Mapping[int, Amounts]:
    """Queue -> what it deserves by weight, for the queues that have jobs, by the proportion plugin's rounds."""
    if not problem.policy.proportion:
        return {}
    with localcontext() as context:
        context.prec = DECIMAL_DIGITS
        return _water_filled_shares(problem, [name for name in problem.resources if name != "pods"])


def _water_filled_shares(problem: Problem, names: list[str]) -> Mapping[int, Amounts]:
    at = {name: problem.resources.index(name) for name in names}
    asked = _requested_amounts(problem, at)
    whole = cluster_totals(problem)
    left = {name: Decimal(whole[r]) for name, r in at.items()}
    guaranteed = {q: {name: Decimal(problem.queues[q].guarantee[r] or 0) for name, r in at.items()} for q in asked}
    ceiling: dict[int, Amounts] = {q: {} for q in asked}
    for name, r in at.items():
        spare = max(Decimal(0), left[name] - sum(queue.guarantee[r] or 0 for queue in problem.queues))
        for q in asked:
            limit = problem.queues[q].capability[r]
            real = spare + guaranteed[q][name]
            ceiling[q][name] = min(asked[q][name], real if limit is None else min(real, Decimal(limit)))
    deserved = {q: dict.fromkeys(names, Decimal(0)) for q in asked}
    met: set[int] = set()
    while len(met) < len(asked) and any(amount >= RESOLUTION / 10 for amount in left.values()):
        weights = sum(problem.queues[q].weight for q in asked if q not in met)
        after = dict(left)
        for q in [q for q in sorted(asked) if q not in met]:
            part = Decimal(problem.queues[q].weight) / weights
            new = {
                name: max(min(deserved[q][name] + left[name] * part, ceiling[q][name]), guaranteed[q][name])
                for name in names
            }
            for name in names:
                after[name] -= new[name] - deserved[q][name]
            if all(new[name] >= asked[q][name] for name in names) or new == deserved[q]:
                met.add(q)
            deserved[q] = new
        after = {name: max(Decimal(0), amount) for name, amount in after.items()}
        if after == left:
            break
        left = after
    return deserved


def _requested_amounts(problem: Problem, at: Mapping[str, int]) -> dict[int, Amounts]:
    """What each queue that has jobs runs and waits for."""
    found: dict[int, Amounts] = {}
    for q, queue in enumerate(problem.queues):
        if any(queue.used) or any(gang.queue == q for gang in problem.gangs):
            found[q] = {name: Decimal(queue.used[r]) for name, r in at.items()}
    for gang in problem.gangs:
        pods = [role.replicas for role in gang.roles]
        run = [sum(place.pods for place in gang.running if place.role == t) for t in range(len(gang.roles))]
        for name, r in at.items():
            found[gang.queue][name] += sum(
                max(p, n) * role.request[r] for p, n, role in zip(pods, run, gang.roles, strict=True)
            )
    return found


def deserved(problem: Problem) -> list[Amounts]:
    """Queue -> what it deserves of each resource that names an amount, pods aside.

    By the proportion plugin's rounds where that decides; otherwise as declared, inside the real capability, but at
    least the guarantee.
    """
    if problem.policy.proportion:
        by_weight = proportional_shares(problem)
        return [dict(by_weight.get(q, {})) for q in range(len(problem.queues))]
    found: list[Amounts] = [{} for _ in problem.queues]
    for r, (name, total) in enumerate(zip(problem.resources, cluster_totals(problem), strict=True)):
        spare = max(0, total - sum(queue.guarantee[r] or 0 for queue in problem.queues))
        for q, queue in enumerate(problem.queues):
            wanted, least, limit = queue.deserved[r], queue.guarantee[r], queue.capability[r]
            if name == "pods" or (wanted is None and least is None):
                continue
            real = (
                _hierarchical_limit(problem, q, r)
                if _is_hierarchical(problem)
                else min(spare + (least or 0), spare + (least or 0) if limit is None else limit)
            )
            inside = wanted if wanted is None or real is None else min(wanted, real)
            found[q][name] = Decimal(max(inside or 0, least or 0))
    return found

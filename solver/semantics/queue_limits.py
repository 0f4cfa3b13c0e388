"""What a queue may hold and how it is measured against others, after Volcano's plugins capacity, proportion and drf.

Pure functions of the problem. References name Volcano's source (v1.15). Amounts are integers in each resource's own
unit; what is divided by weight is counted in millionths of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from solver.problem import Gang, Limits, Placement, Problem, Vector

PODS = "pods"
"""The number of pods. Volcano leaves it out where it compares with limits and with what a queue deserves
(ignoredScalarResources of pkg/scheduler/api/resource_info.go), but a share is the largest over all resources of the
total, or of what is deserved, and pods are one of them (calculateShare of plugins/drf, updateQueueAttrShare of
plugins/capacity)."""

MICROS_PER_UNIT = 1_000_000
NEGLIGIBLE_MICROS = 10
"""Grains of a resource below which nothing is left to be shared out."""
SHARE_TOLERANCE_MICROS = 50
"""Grains by which a share may be exceeded; Volcano's own tolerance is twice that for the finest of its units, a
thousandth of a device."""


@dataclass(frozen=True, slots=True)
class QueueCeiling:
    """`queue` holds at most `most`: together with all below it (tree), or by itself alone. code: of the fact that says
    it was reached."""

    code: Literal["GW101", "GW106", "GW112"]
    queue: int
    includes_descendants: bool
    limits: Limits


@dataclass(frozen=True, slots=True)
class ShareMeasure:
    """How a queue's holdings become one number: base + max over r with per_r > 0 of held_r / per_r, divided by the
    weight."""

    denominators: Vector
    weight: float
    base: float = 0.0

    def share(self, held: Sequence[int]) -> float:
        return (
            self.base
            + max((h / t for h, t in zip(held, self.denominators, strict=True) if t), default=0.0) / self.weight
        )


@dataclass(frozen=True, slots=True)
class SiblingQueues:
    """Queues that are measured against one another. members: queue -> the queues whose gangs count as its own. name:
    what they share out."""

    name: str
    members: dict[int, frozenset[int]]


def cluster_totals(problem: Problem) -> Vector:
    """Allocatable amounts of the whole cluster."""
    return problem.totals


def held_by_queue(problem: Problem) -> list[list[int]]:
    """What each queue itself holds before the plan, descendants not included."""
    found = [list(queue.used) for queue in problem.queues]
    for gang in problem.gangs:
        for place in gang.running:
            for r, amount in enumerate(gang.roles[place.role].request):
                found[gang.queue][r] += amount * place.pods
    return found


def demand_by_queue(problem: Problem) -> list[list[int] | None]:
    """What each queue itself holds and waits for, all replicas of its gangs; None for a queue without any job."""
    found: list[list[int] | None] = [list(queue.used) if any(queue.used) else None for queue in problem.queues]
    for gang in problem.gangs:
        total = found[gang.queue] or [0] * len(problem.resources)
        for t, role in enumerate(gang.roles):
            pods = max(role.replicas, sum(place.pods for place in gang.running if place.role == t))
            total = [have + pods * amount for have, amount in zip(total, role.request, strict=True)]
        found[gang.queue] = total
    return found


def queue_path(problem: Problem, queue: int) -> list[int]:
    """The queue and its ancestors, itself first."""
    found, q = [], queue
    while True:
        found.append(q)
        parent = problem.queues[q].parent
        if parent is None:
            return found
        q = parent


def accepts_gangs(problem: Problem, queue: int) -> bool:
    """Whether gangs may start there: the queue and all above it are open, and with capacity's hierarchy it has no
    children.

    Source: allocatableFn and checkJobQueuePosition of pkg/scheduler/plugins/capacity.
    """
    leaf = not problem.policy.hierarchical or all(other.parent != queue for other in problem.queues)
    return leaf and all(problem.queues[q].open for q in queue_path(problem, queue))


# ---- what a queue may hold


def queue_ceilings(problem: Problem) -> tuple[QueueCeiling, ...]:
    """Every limit on what queues hold: capabilities, then what guarantees leave of them, then proportional shares."""
    found = [QueueCeiling("GW101", q, True, queue.capability) for q, queue in enumerate(problem.queues)]
    whole = cluster_totals(problem)
    if problem.policy.capacity or problem.policy.proportion:
        tree = problem.policy.hierarchical
        for q, most in enumerate(real_capability(problem)):
            limits = [problem.queues[above].capability for above in queue_path(problem, q)]
            tighter: list[int | None] = []
            for r, (name, m) in enumerate(zip(problem.resources, most, strict=True)):
                said = [limit[r] for limit in limits]
                looser = m is not None and (m >= whole[r] or any(s is not None and s <= m for s in said))
                tighter.append(None if name == PODS or looser else m)
            found.append(QueueCeiling("GW106", q, tree, tuple(tighter)))
    if problem.policy.proportion:
        for q, (share, wanted) in enumerate(zip(water_filled_shares(problem), demand_by_queue(problem), strict=True)):
            # A share that is the whole cluster, or all that the queue asks for, is never what holds it back.
            ends = [min(t, w) for t, w in zip(whole, wanted or whole, strict=True)]
            least = tuple(
                None if n == PODS or m >= end else m
                for n, m, end in zip(problem.resources, share or whole, ends, strict=True)
            )
            found.append(QueueCeiling("GW112", q, False, least))
    return tuple(ceiling for ceiling in found if any(amount is not None for amount in ceiling.limits))


def real_capability(problem: Problem) -> tuple[Limits, ...]:
    """What others' guarantees leave of each capability; None for no limit.

        flat        real_q = min(capability_q, max(0, total - sum of all guarantees) + guarantee_q)
        hierarchy   real_q = min(capability_q, max(0, real_parent - sum of the parent's children's guarantees) + guarantee_q)
                    a resource that capability_q does not name is limited as at the parent; real = capability at a root

    Source: newQueueAttr, checkHierarchicalQueue and updateParentQueue of pkg/scheduler/plugins/capacity; proportion has
    the flat one.
    """
    guarantee = [tuple(g or 0 for g in queue.guarantee) for queue in problem.queues]
    if not problem.policy.hierarchical:
        return _flat_real_capability(problem)
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
            _min_limit(n, None if m is None else m + guarantee[q][r])
            for r, (n, m) in enumerate(zip(named[q], left, strict=True))
        )
    return tuple(found[q] for q in range(len(problem.queues)))


def _flat_real_capability(problem: Problem) -> tuple[Vector, ...]:
    guaranteed = [sum(queue.guarantee[r] or 0 for queue in problem.queues) for r in range(len(problem.resources))]
    spare = [max(0, total - taken) for total, taken in zip(cluster_totals(problem), guaranteed, strict=True)]
    return tuple(
        tuple(
            left + (g or 0) if most is None else min(most, left + (g or 0))
            for most, left, g in zip(q.capability, spare, q.guarantee, strict=True)
        )
        for q in problem.queues
    )


def _min_limit(a: int | None, b: int | None) -> int | None:
    return a if b is None else b if a is None else min(a, b)


def water_filled_shares(problem: Problem) -> tuple[Vector | None, ...]:
    """What each queue deserves by weight, in whole units; None for a queue without jobs, which takes part in nothing.

    Rounds, each with W = sum of the weights of the queues that are not yet met, all with the same `remaining`, which is
    the cluster at first:

        d_q  =  max( min( d_q + remaining * weight_q / W, real_q, asked_q ), guarantee_q )
        met_q   when asked_q <= d_q, or d_q did not change
        remaining  =  max( 0, remaining - what the d grew ),    until it is empty or did not change

    Source: OnSessionOpen of pkg/scheduler/plugins/proportion. The tree of queues counts for nothing here.
    """
    counted = [r for r, name in enumerate(problem.resources) if name != PODS]
    guarantee, real = (
        [[(queue.guarantee[r] or 0) * MICROS_PER_UNIT for r in counted] for queue in problem.queues],
        _flat_real_capability(problem),
    )
    whole = cluster_totals(problem)
    want = {
        q: [total[r] * MICROS_PER_UNIT for r in counted]
        for q, total in enumerate(demand_by_queue(problem))
        if total is not None
    }
    most = {
        q: [min(w, real[q][r] * MICROS_PER_UNIT) for w, r in zip(wanted, counted, strict=True)]
        for q, wanted in want.items()
    }
    share = {q: [0] * len(counted) for q in want}
    unmet, remaining = list(want), [whole[r] * MICROS_PER_UNIT for r in counted]
    while unmet and any(left >= NEGLIGIBLE_MICROS for left in remaining):
        weights, before, grown = sum(problem.queues[q].weight for q in unmet), remaining, [0] * len(counted)
        for q in list(unmet):
            old, weight = share[q], problem.queues[q].weight
            new = [
                max(min(d + left * weight // weights, m), g)
                for d, left, m, g in zip(old, before, most[q], guarantee[q], strict=True)
            ]
            if new == old or all(w <= d for w, d in zip(want[q], new, strict=True)):
                unmet.remove(q)
            share[q], grown = new, [g + n - o for g, n, o in zip(grown, new, old, strict=True)]
        remaining = [max(0, left - g) for left, g in zip(before, grown, strict=True)]
        if remaining == before:
            break
    return tuple(_whole_units(problem, share[q], counted) if q in share else None for q in range(len(problem.queues)))


def _whole_units(problem: Problem, grains: Sequence[int], counted: Sequence[int]) -> Vector:
    found = [0] * len(problem.resources)
    for r, amount in zip(counted, grains, strict=True):
        found[r] = (amount + SHARE_TOLERANCE_MICROS) // MICROS_PER_UNIT
    return tuple(found)


# ---- how queues are measured against one another


def capacity_deserved(problem: Problem) -> tuple[Limits, ...]:
    """What a queue deserves with the capacity plugin: max(min(deserved_q, real_q), guarantee_q), None where neither is
    given.

    It limits nothing: others may borrow it while it lies idle. Source: newQueueAttr of pkg/scheduler/plugins/capacity.
    """
    found = []
    for queue, real in zip(problem.queues, real_capability(problem), strict=True):
        own = [None if d is None else _min_limit(d, m) for d, m in zip(queue.deserved, real, strict=True)]
        found.append(tuple(g if d is None else max(d, g or 0) for d, g in zip(own, queue.guarantee, strict=True)))
    return tuple(found)


def deserved_amounts(problem: Problem) -> tuple[Limits, ...]:
    """What each queue deserves in effect: its water-filled share with proportion, None for 0; else as with capacity."""
    if not problem.policy.proportion:
        return capacity_deserved(problem)
    nothing = (0,) * len(problem.resources)
    return tuple(tuple(amount or None for amount in share or nothing) for share in water_filled_shares(problem))


def share_measures(problem: Problem, entitlements: Sequence[float]) -> tuple[ShareMeasure, ...]:
    """By what fair shares are measured.

    capacity         max_r held_r / deserved_r, pods among them; without anything but pods deserved 1 + the weighted
    dominant share: after those
                     that have less than they deserve, as in Volcano (where it is 1), and yet fair among themselves
    drf's hierarchy  max_r held_r / total_r / entitled_q          (`entitled` of `hierarchy.entitlements`)
    else             max_r held_r / total_r / weight_q            (Ghodsi et al., Dominant Resource Fairness, NSDI 2011)
    """
    whole = cluster_totals(problem)
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
    """Groups of queues, the top of the tree first: with capacity's hierarchy the children of each queue, each with all
    below it; else all queues."""
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


def queue_priority(problem: Problem, queue: int) -> int:
    """The queue's priority where a plugin looks at it; source: queueOrderFn of proportion and capacity."""
    return problem.queues[queue].priority if problem.policy.capacity or problem.policy.proportion else 0


def gang_dominant_share(problem: Problem, gang: Gang, pods: Sequence[Placement], whole: Vector) -> float:
    """drf's measure of one gang, by which those of a queue take turns: max_r held_r / total_r; 0 where drf decides
    nothing.

    Source: calculateShare of pkg/scheduler/plugins/drf.
    """
    if not problem.policy.drf:
        return 0.0
    mine = [sum(p.pods * gang.roles[p.role].request[r] for p in pods) for r in range(len(whole))]
    return max((m / t for m, t in zip(mine, whole, strict=True) if t), default=0.0)

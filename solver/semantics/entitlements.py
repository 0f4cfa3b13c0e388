"""What a queue deserves: its declared amount with capacity, its water-filled share with proportion (drf with hierarchy:
`semantics.hierarchical_drf`).

Pure functions of the problem; references name Volcano's source (v1.15). Shares are counted in millionths of a unit.
"""

from __future__ import annotations

from collections.abc import Sequence

from solver.problem import Limits, Problem, Vector
from solver.semantics.queues import PODS, demand_by_queue, flat_real_capability, min_limit, real_capability

MICROS_PER_UNIT = 1_000_000
NEGLIGIBLE_MICROS = 10
"""Millionths of a unit below which nothing remains to be shared out."""
SHARE_TOLERANCE_MICROS = 50
"""Millionths by which a share may be exceeded; Volcano tolerates twice that of its finest unit, a thousandth of a
device."""


def water_filled_shares(problem: Problem) -> tuple[Vector | None, ...]:
    """What each queue deserves by weight, in whole units; None for a queue without jobs, which takes no part.

    Rounds, each with W = sum of the weights of the queues that are not yet met, all with the same `remaining`, which is
    the cluster at first:

        d_q  =  max( min( d_q + remaining * weight_q / W, real_q, asked_q ), guarantee_q )
        met_q   when asked_q <= d_q, or d_q did not change
        remaining  =  max( 0, remaining - what the d grew ),    until it is empty or did not change

    Source: OnSessionOpen of pkg/scheduler/plugins/proportion, which ignores the tree of queues.
    """
    counted = [r for r, name in enumerate(problem.resources) if name != PODS]
    guarantee, real = (
        [[(queue.guarantee[r] or 0) * MICROS_PER_UNIT for r in counted] for queue in problem.queues],
        flat_real_capability(problem),
    )
    whole = problem.totals
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


def _whole_units(problem: Problem, micros: Sequence[int], counted: Sequence[int]) -> Vector:
    found = [0] * len(problem.resources)
    for r, amount in zip(counted, micros, strict=True):
        found[r] = (amount + SHARE_TOLERANCE_MICROS) // MICROS_PER_UNIT
    return tuple(found)


def capacity_deserved(problem: Problem) -> tuple[Limits, ...]:
    """What a queue deserves with the capacity plugin: max(min(deserved_q, real_q), guarantee_q), None where neither is
    given.

    It limits nothing: others may borrow it while it is idle. Source: newQueueAttr of pkg/scheduler/plugins/capacity.
    """
    found = []
    for queue, real in zip(problem.queues, real_capability(problem), strict=True):
        own = [None if d is None else min_limit(d, m) for d, m in zip(queue.deserved, real, strict=True)]
        found.append(tuple(g if d is None else max(d, g or 0) for d, g in zip(own, queue.guarantee, strict=True)))
    return tuple(found)


def deserved_amounts(problem: Problem) -> tuple[Limits, ...]:
    """What each queue deserves in effect: its water-filled share with proportion, None for 0; else as with capacity."""
    if not problem.policy.proportion:
        return capacity_deserved(problem)
    nothing = (0,) * len(problem.resources)
    return tuple(tuple(amount or None for amount in share or nothing) for share in water_filled_shares(problem))

"""What a queue deserves: its declared amount with capacity, its water-filled share with proportion. And its
entitlement: what it may count on before any queue borrows.

Pure functions of the problem; references name Volcano's source (v1.15). Shares are counted in millionths of a unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from solver.problem import Limits, Problem, Vector
from solver.semantics import hierarchical_drf
from solver.semantics.queues import PODS, demand_by_queue, flat_real_capability, min_limit, real_capability

MICROS_PER_UNIT = 1_000_000
NEGLIGIBLE_MICROS = 10
"""Millionths of a unit below which nothing remains to be shared out."""
SHARE_TOLERANCE_MICROS = 50
"""Millionths by which a share may be exceeded; Volcano tolerates twice that of its finest unit, a thousandth of a
device."""


_SHARE_ROUNDING = 1e-9
"""Of the cluster: what a fair share in floating point may miss."""


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


def entitled_amounts(problem: Problem) -> tuple[Limits, ...]:
    """What each queue may hold before it borrows; None where nothing is said about a resource.

    capacity     deserved, scaled down where together more is deserved and asked for than there is; 0 of everything for
                 a queue that deserves nothing but pods, unless it has queues below it
    proportion   the water-filled share, which does not count pods
    else         the fair share of what is asked for: d_q * total[r], d_q the dominant share of `hierarchical_drf`, by
                 weight or along drf's hierarchy

    Never below the guarantee.
    """
    if problem.policy.capacity:
        found = _scaled_deserved(problem)
    elif problem.policy.proportion:
        nothing = (0,) * len(problem.resources)
        shares = (share or nothing for share in water_filled_shares(problem))
        found = [tuple(None if n == PODS else a for n, a in zip(problem.resources, s, strict=True)) for s in shares]
    else:
        fair = hierarchical_drf.entitlements(problem)
        found = [tuple(int(share * t + _SHARE_ROUNDING * t) for t in problem.totals) for share in fair]
    return tuple(
        tuple(None if amount is None else max(amount, g or 0) for amount, g in zip(amounts, q.guarantee, strict=True))
        for amounts, q in zip(found, problem.queues, strict=True)
    )


def _scaled_deserved(problem: Problem) -> list[Limits]:
    """t_r * deserved_q, t_r <= 1 the most for which  sum_q min(asked_q, t_r * deserved_q) <= total_r"""
    deserved, asked, found = capacity_deserved(problem), demand_by_queue(problem), list[Limits]()
    scale = [
        _common_scale(
            [(d[r] or 0, 0 if a is None else a[r]) for d, a in zip(deserved, asked, strict=True)], problem.totals[r]
        )
        for r in range(len(problem.resources))
    ]
    inner = {queue.parent for queue in problem.queues} if problem.policy.hierarchical else set[int | None]()
    for q, amounts in enumerate(deserved):
        named = any(amount for name, amount in zip(problem.resources, amounts, strict=True) if name != PODS)
        scaled = (None if d is None else int(d * t) for d, t in zip(amounts, scale, strict=True))
        found.append(tuple(scaled) if named else ((None,) if q in inner else (0,)) * len(amounts))
    return found


def _common_scale(deserved_and_asked: Sequence[tuple[int, int]], total: int) -> Fraction:
    """The largest t <= 1 with  sum min(asked, t * deserved) <= total: those that ask for least are met first."""
    left, open_queues = Fraction(total), sorted((Fraction(a, d), d, a) for d, a in deserved_and_asked if d)
    while open_queues:
        level = left / sum(d for _, d, _ in open_queues)
        if level >= 1 or level < open_queues[0][0]:
            return min(Fraction(1), max(Fraction(0), level))
        _, _, asked = open_queues.pop(0)
        left -= asked
    return Fraction(1)

"""The deserved amounts of a queue: declared with capacity, water-filled with proportion. And its entitlement: the
amounts it may count on before any queue borrows.

Pure functions of the problem; references name Volcano's source (v1.15).

The ceilings on what a queue may hold follow from its capability, guarantees of others and its proportional share.

Fair shares along a tree of weights (drf with `enableHierarchy`), without the starvation of naive hierarchical DRF.

Bhattacharya et al., Hierarchical Scheduling for Diverse Datacenter Workloads, SoCC 2013: the share of an inner node is
not the dominant share of its subtree's usage. Else a leaf that gets a resource without competition makes its
parent look rich, and its siblings starve. Children are scaled down to the least of them before they are summed, and
blocked ones count for nothing. Here the same is done in the fluid limit: the tree is filled continuously, and the final
share of each leaf is the weight of its queue in the model (docs/develop/decisions/0005-queues.md).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from math import fsum
from sys import float_info
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from solver.problem import Limits, Problem, Vector
from solver.semantics.placements import add_vectors
from solver.semantics.queues import (
    PODS,
    accepts_gangs,
    demand_by_queue,
    flat_real_capability,
    gang_demands,
    held_by_queue,
    min_limit,
    queue_path,
    real_capability,
)

EPSILON = 1e-12
"""Remaining amount of a resource, or of a demand, below which it counts as used up."""


@dataclass(slots=True)
class HierarchyNode:
    """A node of the tree. queue: of a leaf. children: by name; a leaf's key holds its queue as well, so that all are
    distinct."""

    weight: int
    queue: int | None = None
    children: dict[tuple[str, int | None], HierarchyNode] = field(default_factory=dict)


def build_hierarchy(problem: Problem) -> HierarchyNode:
    """Return the root of the tree with every queue at the end of its path. Where two queues give an inner node
    different weights, the first one's counts."""
    root = HierarchyNode(1)
    for q, queue in enumerate(problem.queues):
        *way, (last, own) = queue.hierarchy or ((queue.name, queue.weight),)
        at = root
        for name, weight in way:
            at = at.children.setdefault((name, None), HierarchyNode(weight))
        at.children[last, q] = HierarchyNode(own, q)
    return root


def drf_entitlements(problem: Problem) -> tuple[float, ...]:
    """Return the final dominant share of each queue were gangs divisible and nodes one pool; 1 for a queue that asks
    for nothing.

    Progressive filling: all queues with unmet demand grow at the rates of `_growth_rates`. A queue stops when its
    demand is met, or when a resource that it needs is used up; then its siblings continue with its rate. A queue asks
    for resources in the proportions of all that it holds and waits for.
    """
    whole = problem.totals
    demand = {
        q: [a / t if t else 0.0 for a, t in zip(amounts, whole, strict=True)]
        for q, amounts in enumerate(_queue_demands(problem))
    }
    top = {q: max(parts, default=0.0) for q, parts in demand.items()}
    along = {q: [part / top[q] for part in parts] for q, parts in demand.items() if top[q] > 0}
    needed = {q: [r for r, part in enumerate(parts) if part] for q, parts in along.items()}
    level, left, active = dict.fromkeys(along, 0.0), [1.0] * len(whole), sorted(along)
    root = build_hierarchy(problem)
    while active:
        rates = _growth_rates(root, along, frozenset(active))[0]
        use = [sum(rates[q] * along[q][r] for q in active) for r in range(len(whole))]
        step = min(
            [(top[q] - level[q]) / rates[q] for q in active]
            + [have / u for have, u in zip(left, use, strict=True) if u > 0]
        )
        left = [have - step * u for have, u in zip(left, use, strict=True)]
        for q in active:
            level[q] += step * rates[q]
        used_up = {r for r, have in enumerate(left) if have <= EPSILON}
        unmet = [q for q in active if top[q] - level[q] > EPSILON]
        active = [q for q in unmet if used_up.isdisjoint(needed[q])]
    return tuple(level.get(q, 1.0) for q in range(len(problem.queues)))


def _queue_demands(problem: Problem) -> list[Sequence[int]]:
    """Return the demand of each queue; only its usage if it accepts nothing new."""
    nothing = [0] * len(problem.resources)
    return [
        (all_of_it or nothing) if accepts_gangs(problem, q) else own
        for q, (all_of_it, own) in enumerate(zip(demand_by_queue(problem), held_by_queue(problem), strict=True))
    ]


def _growth_rates(
    branch: HierarchyNode, demand_directions: Mapping[int, Sequence[float]], active: frozenset[int]
) -> tuple[dict[int, float], list[float]]:
    """(queue -> its rate while the dominant share of the branch grows by 1, what the branch then takes of each
    resource).

    a branch of children c:   v = sum_c weight_c * v_c,    v and the children's rates divided by max_r v_r

    over the children that grow.
    """
    if branch.queue in active and branch.queue is not None:
        return {branch.queue: 1.0}, list(demand_directions[branch.queue])
    rates: dict[int, float] = {}
    taken: list[float] = []
    for child in branch.children.values():
        inside, vector = _growth_rates(child, demand_directions, active)
        if inside:
            rates |= {q: child.weight * rate for q, rate in inside.items()}
            taken = [have + child.weight * v for have, v in zip(taken or [0.0] * len(vector), vector, strict=True)]
    most = max(taken, default=0.0)
    return ({q: rate / most for q, rate in rates.items()}, [v / most for v in taken]) if rates else ({}, [])


FloatArray = npt.NDArray[np.double]
EMPTY_SHARE = 0.1
"""Part of a millicore, a byte, or the thousandth of any other unit: below it proportion distributes nothing more, and
counts a request as met."""

_ORDERED_AMOUNTS = 8
"""So many amounts are added in all orders."""

_SHARE_ROUNDING = 1e-9
"""Part of the cluster: the error of a fair share in floating point."""


def water_filled_shares(problem: Problem, held: Collection[int] = ()) -> tuple[Vector | None, ...]:
    """Return what each queue deserves by weight, in whole units; None for a queue without jobs, which takes no part.

    held: gangs that are kept out of the cluster, and so ask for nothing.

    Rounds, each with W = sum of the weights of the queues that are not yet met, all with the same `remaining`, which is
    the cluster at first:

        d_q  =  max( min( d_q + remaining * weight_q / W, real_q, asked_q ), guarantee_q )
        met_q   when asked_q <= d_q, or d_q did not change
        remaining  =  max( 0, remaining - what the d grew ),    until it is empty or did not change

    Resources without requests remain (memory, where no pod requests any): then it is never empty.

    In the floating point of the source, which compares without tolerance: a share that is 4 devices on paper and
    3.9999999999 there holds 3. Volcano sums in map order (`_largest_sum`); we assume the order that gives the smallest
    share.

    Source: OnSessionOpen of pkg/scheduler/plugins/proportion, which ignores the tree of queues.
    """
    if held:
        return _water_filled_shares(problem, held)
    queues = tuple((queue.weight, queue.guarantee, queue.capability, queue.used) for queue in problem.queues)
    return problem.memoize(("shares", problem.totals, queues), lambda: _water_filled_shares(problem, ()))


def _water_filled_shares(problem: Problem, held: Collection[int]) -> tuple[Vector | None, ...]:
    limits = tuple((queue.guarantee, queue.capability, queue.used) for queue in problem.queues)
    key = "share bounds", problem.totals, limits
    b = _share_bounds(problem, held) if held else problem.memoize(key, lambda: _share_bounds(problem, held))
    weights = np.array([problem.queues[q].weight for q in b.queues], dtype=np.double)
    share = water_fill(b, weights, until_empty=not problem.has_other_resources)
    found: list[Vector | None] = [None] * len(problem.queues)
    units = np.array(source_units(problem))
    amounts = np.zeros((len(b.queues), len(units)), dtype=np.int64)
    amounts[:, units > 0] = share // units[units > 0]
    for q, own in zip(b.queues, amounts.tolist(), strict=True):
        found[q] = tuple(own)
    return tuple(found)


def water_fill(b: ShareBounds, weights: FloatArray, *, until_empty: bool) -> FloatArray:
    """Return the rounds of `water_filled_shares`, in the source's units: a row for each queue with jobs. until_empty:
    nothing but the resources of the bounds is shared out."""
    share, unmet, remaining = np.zeros_like(b.want), np.arange(len(b.want)), b.whole
    while len(unmet) and (not until_empty or (remaining >= EMPTY_SHARE).any()):
        old, ratio = share[unmet], (weights[unmet] / weights[unmet].sum())[:, np.newaxis]
        new = share[unmet] = np.maximum(np.minimum(old + remaining * ratio, b.most[unmet]), b.least[unmet])
        met = (new == old).all(axis=1) | (b.want[unmet] - new < EMPTY_SHARE).all(axis=1)
        before, grown = remaining, np.array([_largest_sum(amounts) for amounts in (new - old).T.tolist()])
        unmet, remaining = unmet[~met], np.maximum(0.0, before - grown)
        if (remaining == before).all():
            break
    return share


def source_units(problem: Problem) -> list[int]:
    """Return how many of the source's units one of each resource is; 0 for pods, which it does not share out."""
    return [{"cpu": 1, "memory": 1, PODS: 0}.get(name, 1000) for name in problem.resources]


class ShareBounds(NamedTuple):
    """queues: those with jobs. For these, by resource and in the source's units: the requests, the requests within the
    real capability, the guarantee. whole: of the cluster."""

    queues: list[int]
    want: FloatArray
    most: FloatArray
    least: FloatArray
    whole: FloatArray


def _share_bounds(problem: Problem, held: Collection[int]) -> ShareBounds:
    asked, real, units = asked_amounts(problem, held), flat_real_capability(problem), source_units(problem)
    queues = [q for q, total in enumerate(asked) if total is not None]

    def rows(amounts: Iterable[Sequence[int | None]]) -> FloatArray:
        found = [[float((a or 0) * unit) for a, unit in zip(own, units, strict=True) if unit] for own in amounts]
        return np.array(found, dtype=np.double).reshape(len(found), len(units) - units.count(0))

    want = rows(asked[q] or () for q in queues)
    most, least = np.minimum(want, rows(real[q] for q in queues)), rows(problem.queues[q].guarantee for q in queues)
    return ShareBounds(queues, want, most, least, rows([problem.totals])[0])


def _largest_sum(amounts: Sequence[float]) -> float:
    """Return the largest floating-point sum of the amounts over all orders; for many amounts an upper bound."""
    some = tuple(sorted(amount for amount in amounts if amount))
    if len(some) <= 2 or all(amount.is_integer() for amount in some):
        return sum(some)
    if len(some) <= _ORDERED_AMOUNTS:
        return _largest_ordered_sum(some)
    return fsum(some) * (1 + len(some) * float_info.epsilon)


@lru_cache(maxsize=1024)
def _largest_ordered_sum(amounts: tuple[float, ...]) -> float:
    """Subset by subset, a bit for each amount: a sum of floats grows with either, so that the largest sum of a subset
    is that of the largest sums without its last amount."""
    bits = [(1 << k, amount) for k, amount in enumerate(amounts)]
    largest = [0.0]
    for subset in range(1, 1 << len(amounts)):
        largest.append(max(largest[subset ^ bit] + amount for bit, amount in bits if subset & bit))
    return largest[-1]


def asked_amounts(problem: Problem, held: Collection[int] = ()) -> list[list[int] | None]:
    """Return each queue's held and requested amounts as proportion counts them: without gangs that have no pods because
    they are held, or because Volcano's action enqueue never admits requests above the queue's real capability."""
    real, used = flat_real_capability(problem), tuple(queue.used for queue in problem.queues)
    if held:
        return _asked_amounts(problem, held, real)
    return problem.memoize(("asked", problem.totals, real, used), lambda: _asked_amounts(problem, (), real))


def _asked_amounts(problem: Problem, held: Collection[int], real: Sequence[Vector]) -> list[list[int] | None]:
    found = demand_by_queue(problem, held)
    compared = [r for r, name in enumerate(problem.resources) if name != PODS]
    for demand, number in gang_demands(problem, held).items():
        most, asked, least = real[demand.queue], found[demand.queue], demand.least
        if least is not None and asked is not None and any(least[r] > most[r] for r in compared):
            found[demand.queue] = list(add_vectors(asked, demand.replicas, -number))
    return found


def capacity_deserved(problem: Problem) -> tuple[Limits, ...]:
    """Return a queue's deserved amounts with the capacity plugin: max(min(deserved_q, real_q), guarantee_q), None where
    neither is given.

    It limits nothing: others may borrow it while it is idle. Source: newQueueAttr of pkg/scheduler/plugins/capacity.
    """
    found = []
    for queue, real in zip(problem.queues, real_capability(problem), strict=True):
        own = [None if d is None else min_limit(d, m) for d, m in zip(queue.deserved, real, strict=True)]
        found.append(tuple(g if d is None else max(d, g or 0) for d, g in zip(own, queue.guarantee, strict=True)))
    return tuple(found)


def deserved_amounts(problem: Problem) -> tuple[Limits, ...]:
    """Return each queue's deserved amounts in effect: its water-filled share with proportion, None for 0; else as with
    capacity."""
    if not problem.policy.proportion:
        return capacity_deserved(problem)
    nothing = (0,) * len(problem.resources)
    return tuple(tuple(amount or None for amount in share or nothing) for share in water_filled_shares(problem))


def entitled_amounts(problem: Problem) -> tuple[Limits, ...]:
    """Return the amounts that each queue may hold before it borrows; None for a resource without a limit.

    capacity     deserved, scaled down where together more is deserved and asked for than there is; 0 of everything for
                 a queue that deserves nothing but pods, unless it has queues below it
    proportion   the water-filled share, which does not count pods
    else         the fair share of the requests: d_q * total[r], d_q the dominant share of `drf_entitlements`, by
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
        fair = drf_entitlements(problem)
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
    """Return the largest t <= 1 with sum min(asked, t * deserved) <= total: the smallest requests are met first."""
    left, open_queues = Fraction(total), sorted((Fraction(a, d), d, a) for d, a in deserved_and_asked if d)
    while open_queues:
        level = left / sum(d for _, d, _ in open_queues)
        if level >= 1 or level < open_queues[0][0]:
            return min(Fraction(1), max(Fraction(0), level))
        _, _, asked = open_queues.pop(0)
        left -= asked
    return Fraction(1)


@dataclass(frozen=True, slots=True)
class QueueCeiling:
    """A queue holds at most `limits`: with all its descendants, or by itself alone. code: of the fact that names this
    ceiling."""

    code: Literal["GW101", "GW106", "GW112"]
    queue: int
    includes_descendants: bool
    limits: Limits


def queue_ceilings(problem: Problem, held: Collection[int] = ()) -> tuple[QueueCeiling, ...]:
    """Return every limit on what queues hold: capabilities, then what guarantees leave of them, then proportional
    shares while the `held` gangs are kept out of the cluster."""
    stated = tuple((queue.capability, queue.guarantee, queue.parent) for queue in problem.queues)
    key = "capability ceilings", problem.policy, problem.totals, stated
    found = list(problem.memoize(key, lambda: _capability_ceilings(problem)))
    if problem.policy.proportion:
        shares = zip(water_filled_shares(problem, held), asked_amounts(problem, held), strict=True)
        found += [QueueCeiling("GW112", q, False, _share_limits(problem, *each)) for q, each in enumerate(shares)]
    return tuple(ceiling for ceiling in found if any(amount is not None for amount in ceiling.limits))


def share_limits(problem: Problem, q: int) -> Limits:
    """Return the most that queue q may hold with the plugin proportion."""
    return _share_limits(problem, water_filled_shares(problem)[q], asked_amounts(problem)[q])


def _share_limits(problem: Problem, share: Vector | None, wanted: Sequence[int] | None) -> Limits:
    """A share that is the whole cluster, or all that the queue asks for, is never what holds it back."""
    whole = problem.totals
    ends = map(min, whole, wanted or whole)
    return tuple(
        None if n == PODS or m >= end else m for n, m, end in zip(problem.resources, share or whole, ends, strict=True)
    )


def _capability_ceilings(problem: Problem) -> tuple[QueueCeiling, ...]:
    """Capabilities, and what guarantees leave of them."""
    found = [QueueCeiling("GW101", q, True, queue.capability) for q, queue in enumerate(problem.queues)]
    whole = problem.totals
    if problem.policy.capacity or problem.policy.proportion:
        tree = problem.policy.hierarchical
        for q, most in enumerate(real_capability(problem)):
            limits = [problem.queues[above].capability for above in queue_path(problem, q)]
            tighter: list[int | None] = []
            for r, (name, m) in enumerate(zip(problem.resources, most, strict=True)):
                named = [limit[r] for limit in limits]
                looser = m is not None and (m >= whole[r] or any(s is not None and s <= m for s in named))
                tighter.append(None if name == PODS or looser else m)
            found.append(QueueCeiling("GW106", q, tree, tuple(tighter)))
    return tuple(found)

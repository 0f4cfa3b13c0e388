"""Fair shares along a tree of weights (drf with `enableHierarchy`), without the starvation of naive hierarchical DRF.

Bhattacharya et al., Hierarchical Scheduling for Diverse Datacenter Workloads, SoCC 2013: the share of an inner node is
not the dominant share of its subtree's usage. Else a leaf that gets a resource without competition makes its
parent look rich, and its siblings starve. Children are scaled down to the least of them before they are summed, and
blocked ones count for nothing. Here the same is done in the fluid limit: the tree is filled continuously, and the final
share of each leaf is the weight of its queue in the model (docs/develop/decisions/0005-queues.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from solver.problem import Problem
from solver.semantics.queues import accepts_gangs, demand_by_queue, held_by_queue

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


def entitlements(problem: Problem) -> tuple[float, ...]:
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

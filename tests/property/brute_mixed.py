"""What gangs can start together, and what their places cost, where everything that binds them comes at once: by trying
everything.

Cells and queues as in `brute`, policies and costs as in `optimum`, relations as in `brute_pod_rules`; besides strict
queues, domains that other queues keep, and nodes that close.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import product

from solver.problem import Problem, Vector
from tests.property.brute import (
    FreeCapacity,
    keeps_strict_order,
    meets_minima_now,
    minimal_sets,
    new_pod_sets,
    running_pods,
)
from tests.property.brute_pod_rules import GangOnNode, keeps_pod_rules
from tests.property.brute_queues import QueueCeilings, accepts_gangs, ancestors
from tests.property.optimum import Cost, Nearness, added, group_cost, opened_counts, span_cost, split_cost

_PodSpots = tuple[tuple[GangOnNode, int], ...]
_ClusterUse = tuple[tuple[Vector, ...], tuple[Vector, ...], _PodSpots]
"""What new pods take from each node, and from each queue; where those are that relations ask about."""


def excluded_nodes(problem: Problem, g: int) -> set[int]:
    """The nodes on which gang g gets no new pod: they close before it ends, or are in a domain that a queue keeps which
    is not above it."""
    gang, found = problem.gangs[g], set()
    ends = gang.times.ends_in if gang.running else gang.times.duration
    others = {
        h
        for q, queue in enumerate(problem.queues)
        if q not in ancestors(problem, gang.queue)
        for h in queue.dedicated_domains
    }
    for n, node in enumerate(problem.nodes):
        here, above = node.leaf, set[int]()
        while here is not None:
            above.add(here)
            here = problem.hypernodes[here].parent
        if above & others or (node.maintenance_in is not None and (ends is None or ends > node.maintenance_in)):
            found.add(n)
    return found


def _start_options(
    problem: Problem, room: FreeCapacity, g: int
) -> dict[tuple[tuple[Vector, ...], _PodSpots], Nearness]:
    """The ways to start gang g: what its pods take, where they are if relations ask -> how far they are torn, spread
    and unwanted, the least for each."""
    gang, closed = problem.gangs[g], excluded_nodes(problem, g)
    bound = any(role.owned_rules or role.selecting_rules for role in gang.roles)
    options = [option for option in new_pod_sets(problem, g) if closed.isdisjoint(node for _, node in option)]
    found: dict[tuple[tuple[Vector, ...], _PodSpots], Nearness] = {}
    for option in options if bound else minimal_sets(options):
        spots = tuple(((g, t, n), pods) for (t, n), pods in sorted(option.items())) if bound else ()
        pods = option + running_pods(gang)
        way, cost = (
            (room.use_of(g, option), spots),
            (
                split_cost(problem, gang, pods),
                span_cost(problem, {node for _, node in pods}),
                group_cost(problem, gang, option),
            ),
        )
        found[way] = min(cost, found.get(way, cost))
    return found


def least_costs(problem: Problem) -> dict[frozenset[int], Cost]:
    """Every set of gangs that can start together, in the order of their queues -> the least that their places cost."""
    room, ceilings = FreeCapacity(problem), QueueCeilings.of(problem)
    nothing = (0,) * len(problem.resources)
    start: _ClusterUse = (room.empty_use, (nothing,) * len(problem.queues), ())
    reached: dict[frozenset[int], dict[_ClusterUse, Nearness]] = {frozenset(): {start: (0, 0, 0)}}
    for g, gang in enumerate(problem.gangs):
        if meets_minima_now(gang) or not accepts_gangs(problem, gang.queue):
            continue
        ways = _start_options(problem, room, g)
        for admitted, states in list(reached.items()):
            more: dict[_ClusterUse, Nearness] = {}
            for ((use, charges, spots), near), ((extra, mine), own) in product(states.items(), ways.items()):
                both = tuple(tuple(map(sum, zip(a, b, strict=True))) for a, b in zip(use, extra, strict=True))
                demand = tuple(map(sum, zip(*extra, strict=True)))[: len(nothing)]
                charged = tuple(
                    tuple(map(sum, zip(v, demand, strict=True))) if q == gang.queue else v
                    for q, v in enumerate(charges)
                )
                state, cost = (both, charged, spots + mine), added(near, own)
                if state in more or (
                    room.fits_nodes(both) and room.fits_queues(charged) and ceilings.allow_amounts(room.held, charged)
                ):
                    more[state] = min(cost, more.get(state, cost))
            if more:
                reached[admitted | {g}] = more
    return _feasible_costs(problem, room, reached)


def _feasible_costs(
    problem: Problem, room: FreeCapacity, reached: Mapping[frozenset[int], Mapping[_ClusterUse, Nearness]]
) -> dict[frozenset[int], Cost]:
    """Those in order, in the states that relations allow."""
    found = {}
    for admitted, states in reached.items():
        costs = [
            (*near[:2], 0, *opened_counts(problem, room, use), near[2])
            for (use, _, spots), near in states.items()
            if keeps_pod_rules(problem, Counter(dict(spots)))
        ]
        if costs and keeps_strict_order(problem, admitted):
            found[admitted] = min(costs)
    return found

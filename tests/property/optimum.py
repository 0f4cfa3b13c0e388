"""What the best plan is worth, by trying everything: the objectives of model.md in their order, under every queue
policy.

Written from model.md and from Volcano's own rules (capacity, proportion, drf), in fractions; `brute` knows what is
feasible.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, product
from math import gcd, lcm

from solver.problem import Gang, Problem, Vector
from solver.semantics.entitlements import drf_entitlements as entitlements
from tests.builders.queue_rules import ShareMeasure
from tests.property.brute import (
    FreeCapacity,
    RoleOnNode,
    meets_minima_now,
    minimal_sets,
    new_pod_sets,
    running_pods,
    vector_sum,
)
from tests.property.brute_queues import (
    QueueCeilings,
    accepts_gangs,
    ancestors,
    cluster_totals,
    is_hierarchical,
    queue_rules,
)

_Places = frozenset[tuple[int, int]]
"""(gang, node) of new pods, where gangs have separation wishes."""

_ClusterUse = tuple[tuple[Vector, ...], tuple[Vector, ...], _Places]
"""What new pods take from each node, and from each queue, and where they are."""

PlanValue = tuple[tuple[Fraction, ...], ...]


# ---- what can start together, and how close


def span_cost(problem: Problem, pods: Iterable[int]) -> int:
    """The communication cost of a gang on these nodes: per tier the domains beyond the first, four times as much from
    tier to tier. A node without a domain of some tier counts with the one below, a node outside with itself and all the
    others outside."""
    lines = [_domains_by_tier(problem, node) for node in sorted(set(pods))]
    return sum(4**level * (len(set(domains)) - 1) for level, domains in enumerate(zip(*lines, strict=True)))


def _domains_by_tier(problem: Problem, node: int) -> list[int | None]:
    """The node's domain at every tier."""
    here = problem.nodes[node].leaf
    at: dict[int, int] = {}
    while here is not None:
        at[problem.hypernodes[here].tier] = here
        here = problem.hypernodes[here].parent
    found: list[int | None] = []
    last = problem.nodes[node].leaf
    for tier in sorted({hypernode.tier for hypernode in problem.hypernodes}):
        last = at.get(tier, last)
        found.append(last)
    return found


def split_cost(problem: Problem, gang: Gang, pods: Mapping[RoleOnNode, int]) -> int:
    """Parts of subgroups that are not whole in one domain, four times as much from tier to tier. Domains as in
    `spans`."""
    cost = 0
    for part in gang.subgroups:
        mine = {node: sum(n for (t, at), n in pods.items() if at == node and t in part.roles) for _, node in pods}
        for level in range(len({hypernode.tier for hypernode in problem.hypernodes})):
            inside: dict[int | None, int] = {}
            for node, n in mine.items():
                domain = _domains_by_tier(problem, node)[level]
                inside[domain] = inside.get(domain, 0) + n
            cost += 4**level * (sum(mine.values()) // part.size - sum(n // part.size for n in inside.values()))
    return cost


def opened_counts(problem: Problem, room: FreeCapacity, use: Sequence[Vector]) -> tuple[int, int]:
    """(whole supernodes, whole nodes) that are used now."""
    whole, fresh = set(), set()
    for n, node in enumerate(problem.nodes):
        has = [r for r, amount in enumerate(node.capacity) if amount]
        counts = [r for r in has if r in problem.device_resources] or has
        if counts and all(room.free[n][r] == node.capacity[r] for r in counts):
            whole.add(n)
            if any(use[n][r] for r in counts):
                fresh.add(n)
    supernodes = 0
    for leaf in range(len(problem.hypernodes)):
        nodes = {n for n, node in enumerate(problem.nodes) if node.leaf == leaf}
        supernodes += nodes <= whole and not nodes.isdisjoint(fresh)
    return supernodes, len(fresh)


Nearness = tuple[int, int, int]
"""Subgroups, spread, node groups."""

Cost = tuple[int, int, int, int, int, int]
"""Subgroups, spread, separations, supernodes, nodes, node groups."""


def company_cost(problem: Problem, places: _Places) -> int:
    """What separation wishes cost: for each of a gang with new pods the hypernodes of its tier that hold some of them,
    and pods of a gang that it selects, new or running, or foreign ones."""
    held = {*places, *((g, p.node) for g, gang in enumerate(problem.gangs) for p in gang.running)}

    def within(node: int, h: int) -> bool:
        at = problem.nodes[node].leaf
        while at not in (h, None):
            at = None if at is None else problem.hypernodes[at].parent
        return at == h

    return sum(
        wish.weight
        for g, gang in enumerate(problem.gangs)
        for wish in gang.separation_wishes
        for h, hypernode in enumerate(problem.hypernodes)
        if hypernode.tier == wish.tier and any(of == g and within(node, h) for of, node in places)
        if h in wish.present or any(of in wish.gangs and within(node, h) for of, node in held)
    )


def group_cost(problem: Problem, gang: Gang, new_pods: Mapping[RoleOnNode, int]) -> int:
    """How far the new pods are from the node groups that their queue wants."""
    ranks = problem.queues[gang.queue].node_group_ranks
    return sum(ranks[problem.nodes[node].node_group] * n for (_, node), n in new_pods.items()) if ranks else 0


def added(left: Nearness, right: Nearness) -> Nearness:
    return left[0] + right[0], left[1] + right[1], left[2] + right[2]


def cheapest_starts(problem: Problem, g: int) -> list[tuple[tuple[tuple[Vector, ...], _Places], Nearness]]:
    """The ways to start gang g: what its pods take from each node, and where they are; and how far they are torn,
    spread and unwanted, the least for each."""
    room, gang = FreeCapacity(problem), problem.gangs[g]
    found: dict[tuple[tuple[Vector, ...], _Places], Nearness] = {}
    wishes = any(each.separation_wishes for each in problem.gangs)
    for option in minimal_sets(new_pod_sets(problem, g)):
        use, pods = room.use_of(g, option), option + running_pods(gang)
        spread = span_cost(problem, {node for _, node in pods})
        cost = split_cost(problem, gang, pods), spread, group_cost(problem, gang, option)
        way = use, frozenset((g, node) for _, node in option) if wishes else frozenset[tuple[int, int]]()
        found[way] = min(cost, found.get(way, cost))
    return list(found.items())


def least_costs(problem: Problem) -> dict[frozenset[int], Cost]:
    """Every set of gangs that can start together (those that are kept apart) -> the least that their places cost."""
    room, ceilings = FreeCapacity(problem), QueueCeilings.of(problem)
    nothing = (0,) * len(problem.resources)
    start: _ClusterUse = ((nothing,) * len(problem.nodes), (nothing,) * len(problem.queues), frozenset())
    reached: dict[frozenset[int], dict[_ClusterUse, Nearness]] = {frozenset(): {start: (0, 0, 0)}}
    for g, gang in enumerate(problem.gangs):
        if meets_minima_now(gang) or not accepts_gangs(problem, gang.queue):
            continue
        ways = cheapest_starts(problem, g)
        for admitted, states in list(reached.items()):
            more: dict[_ClusterUse, Nearness] = {}
            for ((use, charges, places), near), ((extra, more_places), own) in product(states.items(), ways):
                both = tuple(vector_sum(a, b) for a, b in zip(use, extra, strict=True))
                demand = tuple(sum(column) for column in zip(*extra, strict=True))
                charged = tuple(
                    vector_sum(vector, demand) if q == gang.queue else vector for q, vector in enumerate(charges)
                )
                if room.fits_nodes(both) and room.fits_queues(charged) and ceilings.allow_amounts(room.held, charged):
                    cost = added(near, own)
                    after = both, charged, places | more_places
                    more[after] = min(cost, more.get(after, cost))
            if more:
                reached[admitted | {g}] = more
    return {
        admitted: min(
            (*near[:2], company_cost(problem, places), *opened_counts(problem, room, use), near[2])
            for (use, _, places), near in states.items()
        )
        for admitted, states in reached.items()
    }


# ---- what it is worth


@lru_cache(maxsize=4)
def share_measures(problem: Problem) -> list[ShareMeasure]:
    rules = queue_rules(problem)
    if problem.policy.drf_hierarchy and not problem.policy.capacity:
        return [ShareMeasure(rules.totals, weight) for weight in _fair_weights(problem)]
    return [rules.measure(q) for q in range(len(problem.queues))]


def _fair_weights(problem: Problem) -> list[Fraction]:
    return [Fraction(weight).limit_denominator(10**6) for weight in entitlements(problem)]


def sibling_groups(problem: Problem) -> list[dict[int, list[int]]]:
    """Groups of queues that are measured against one another, in order: queue -> the queues whose gangs count as its
    own."""
    everything = range(len(problem.queues))
    if not is_hierarchical(problem):
        return [{q: [q] for q in everything}]
    parents = [None, *sorted(everything, key=lambda q: (len(ancestors(problem, q)), q))]
    return [
        {
            c: [q for q in everything if c in ancestors(problem, q)]
            for c in everything
            if problem.queues[c].parent == parent
        }
        for parent in parents
    ]


def missing_demand(gang: Gang, resources: int) -> list[int]:
    """Of the pods that do not run, for gangs whose minimum is the sum of their roles'."""
    have = [sum(n for (of, _), n in running_pods(gang).items() if of == t) for t in range(len(gang.roles))]
    return [
        sum(max(0, role.minimum - n) * role.request[r] for n, role in zip(have, gang.roles, strict=True))
        for r in range(resources)
    ]


def precedence_level(problem: Problem, g: int) -> tuple[int, int]:
    """The level at which a gang is decided: its own priority, then its queue's where a plugin looks at it."""
    asks = problem.policy.capacity or problem.policy.proportion
    return problem.gangs[g].priority, problem.queues[problem.gangs[g].queue].priority if asks else 0


def objective_values(problem: Problem, started: frozenset[int]) -> PlanValue:
    """All objectives before the spread, in the policy's order."""
    asking = asking_gangs(problem)
    if problem.policy.order == "queues-first" and len({problem.gangs[g].queue for g in asking}) > 1:
        return queues_first_values(problem, started)
    return priorities_first_values(problem, started)


def asking_gangs(problem: Problem) -> list[int]:
    return [
        g for g, gang in enumerate(problem.gangs) if not meets_minima_now(gang) and accepts_gangs(problem, gang.queue)
    ]


@lru_cache(maxsize=4)
def entitled_limits(problem: Problem) -> dict[tuple[int, int], int | None]:
    """(queue, resource) -> what the queue may hold before it borrows; None where nothing is said."""
    rules, has_plugin = queue_rules(problem), problem.policy.capacity or problem.policy.proportion
    found = {}
    for q, (r, name) in product(range(len(problem.queues)), enumerate(problem.resources)):
        if has_plugin:
            found[q, r] = rules.entitlement(q, name)
        else:
            found[q, r] = max(int(_fair_weights(problem)[q] * rules.totals[name]), rules.guarantee(q, name))
    return found


def dominant_units(problem: Problem) -> dict[int, int]:
    """What gangs that ask take of the resource that is scarcest to them, in whole units as the model counts."""
    whole, asking = cluster_totals(problem), asking_gangs(problem)
    demand = {g: missing_demand(problem.gangs[g], len(whole)) for g in asking}
    shares = {
        g: [Fraction(a, t) if t else Fraction(0) for a, t in zip(d, whole, strict=True)] for g, d in demand.items()
    }
    for r in range(len(whole)):
        if all(own[r] >= max(own) for own in shares.values()):
            unit = gcd(*(d[r] for d in demand.values())) or 1
            return {g: max(1, d[r] // unit) for g, d in demand.items()}
    exact = lcm(*(max(own, default=Fraction(0)).denominator for own in shares.values()))
    scale = exact if exact <= 100_000 else 10_000
    return {g: max(1, round(scale * max(own, default=Fraction(0)))) for g, own in shares.items()}


def entitled_claims(problem: Problem, started: frozenset[int]) -> list[frozenset[int]]:
    """Every set of gangs whose entitlements cover them together, and in whose place, queue by queue, gangs of at least
    their precedence start."""
    room, whole, tree = FreeCapacity(problem), range(len(problem.resources)), is_hierarchical(problem)
    queues = range(len(problem.queues))
    below = {a: [q for q in queues if (a in ancestors(problem, q) if tree else a == q)] for a in queues}
    limits, units, asking = entitled_limits(problem), dominant_units(problem), asking_gangs(problem)
    demand = {g: missing_demand(problem.gangs[g], len(whole)) for g in asking}
    levels = {g: precedence_level(problem, g) for g in asking}

    def weight(gangs: Collection[int], like: int) -> int:
        queue = problem.gangs[like].queue
        return sum(units[g] for g in gangs if problem.gangs[g].queue == queue and levels[g] >= levels[like])

    def covered(chosen: tuple[int, ...]) -> bool:
        if any(weight(chosen, g) > weight(started, g) for g in chosen):
            return False
        for a, r in product(queues, whole):
            limit, held = limits[a, r], sum(room.held[q][r] for q in below[a])
            new = sum(demand[g][r] for g in chosen if problem.gangs[g].queue in below[a])
            if limit is not None and new and new > limit - held:
                return False
        return True

    every = (c for n in range(len(asking) + 1) for c in combinations(asking, n))
    return [frozenset(c) for c in every if covered(c)]


def queues_first_values(problem: Problem, started: frozenset[int]) -> PlanValue:
    """Level by level what the entitlements cover; the shares of all that starts; level by level what starts; age. Where
    nothing can be reclaimed all that for one priority of queues after the other."""
    asking = asking_gangs(problem)
    every = {precedence_level(problem, g)[1] for g in asking}
    rounds = [every] if problem.reclaim_enabled else [{p} for p in sorted(every, reverse=True)]
    covers = entitled_claims(problem, started)
    found: list[tuple[Fraction, ...]] = []
    for queues in rounds:
        of_round = [g for g in asking if precedence_level(problem, g)[1] in queues]
        levels = sorted({precedence_level(problem, g) for g in of_round}, reverse=True)
        entitled = {c: _level_values(problem, c, levels, shares=True) for c in covers}
        best = max(entitled.values())
        covers = [c for c in covers if entitled[c] == best]
        found += best
        everyone = started.issuperset(of_round)
        found.append((Fraction(everyone),))
        for priority in sorted(queues, reverse=True):
            counted = [g for g in asking if precedence_level(problem, g)[1] >= priority]
            mine = [g for g in counted if precedence_level(problem, g)[1] == priority]
            found += [()] if everyone else _share_values(problem, started & set(counted), mine)
        found += _level_values(problem, started, levels, shares=False)
    return (*found, (Fraction(age_objective(problem, started)),))


def _level_values(
    problem: Problem, started: frozenset[int], levels: Sequence[tuple[int, int]], shares: bool
) -> list[tuple[Fraction, ...]]:
    whole, asking = cluster_totals(problem), asking_gangs(problem)
    found: list[tuple[Fraction, ...]] = []
    for level in levels:
        here = [g for g in asking if precedence_level(problem, g) == level]
        if shares:
            everyone = started.issuperset(here)
            counted = [g for g in asking if precedence_level(problem, g) >= level]
            found.append((Fraction(everyone),))
            found += [()] if everyone else _share_values(problem, started & set(counted), here)
        placed = Fraction(0)
        for g in started & set(here):
            own = missing_demand(problem.gangs[g], len(whole))
            placed += max((Fraction(a, t) for a, t in zip(own, whole, strict=True) if t), default=Fraction(0))
        found += [(placed,), (Fraction(len(started & set(here))),)]
    return found


def _share_values(problem: Problem, started: Collection[int], competing: Sequence[int]) -> list[tuple[Fraction, ...]]:
    """For each group of siblings the sorted shares of the queues with competing gangs."""
    held, by = [list(vector) for vector in FreeCapacity(problem).held], share_measures(problem)
    for g in started:
        queue, own = problem.gangs[g].queue, missing_demand(problem.gangs[g], len(problem.resources))
        held[queue] = [have + more for have, more in zip(held[queue], own, strict=True)]
    found = []
    for group in sibling_groups(problem):
        asks = [q for q, inside in group.items() if any(problem.gangs[g].queue in inside for g in competing)]
        found.append(tuple(sorted(by[q].share(_held_below(problem, held, q)) for q in asks)) if len(asks) > 1 else ())
    return found


def is_overtaken(problem: Problem, sets: Collection[frozenset[int]], started: frozenset[int]) -> bool:
    """Whether some gang waits that could start if gangs of lower precedence in its queue did not."""
    for g in set(asking_gangs(problem)) - started:
        lower = [
            h
            for h in started
            if problem.gangs[h].queue == problem.gangs[g].queue
            and problem.gangs[h].priority < problem.gangs[g].priority
        ]
        for number in range(1, len(lower) + 1):
            if any((started - set(gone)) | {g} in sets for gone in combinations(lower, number)):
                return True
    return False


def priorities_first_values(problem: Problem, started: frozenset[int]) -> PlanValue:
    """All objectives before the spread, the highest level first: the sorted shares, group by group; the resources; the
    gangs; in the end age."""
    whole, by = cluster_totals(problem), share_measures(problem)
    held = [list(vector) for vector in FreeCapacity(problem).held]
    asking = [
        g for g, gang in enumerate(problem.gangs) if not meets_minima_now(gang) and accepts_gangs(problem, gang.queue)
    ]
    found: list[tuple[Fraction, ...]] = []
    for level in sorted({precedence_level(problem, g) for g in asking}, reverse=True):
        here = [g for g in asking if precedence_level(problem, g) == level]
        placed = Fraction(0)
        for g in sorted(started & set(here)):
            own = missing_demand(problem.gangs[g], len(whole))
            held[problem.gangs[g].queue] = [
                have + more for have, more in zip(held[problem.gangs[g].queue], own, strict=True)
            ]
            placed += max(
                (Fraction(amount, total) for amount, total in zip(own, whole, strict=True) if total),
                default=Fraction(0),
            )
        everyone = started.issuperset(here)
        found.append((Fraction(everyone),))
        for group in sibling_groups(problem):
            asks = [q for q, inside in group.items() if any(problem.gangs[g].queue in inside for g in here)]
            if len(asks) > 1 and not everyone:
                found.append(tuple(sorted(by[q].share(_held_below(problem, held, q)) for q in asks)))
            else:
                found.append(())
        found += [(placed,), (Fraction(len(started & set(here))),)]
    return (*found, (Fraction(age_objective(problem, started)),))


def _held_below(problem: Problem, held: Sequence[Sequence[int]], q: int) -> dict[str, int]:
    inside = [d for d in range(len(problem.queues)) if q in ancestors(problem, d)]
    return {name: sum(held[d][r] for d in inside) for r, name in enumerate(problem.resources)}


def age_objective(problem: Problem, started: frozenset[int]) -> int:
    """The sum of ranks: of all gangs that ask, the youngest has 1. With drf one that holds more is younger than one
    that holds less."""
    asking = [
        g for g, gang in enumerate(problem.gangs) if not meets_minima_now(gang) and accepts_gangs(problem, gang.queue)
    ]
    order = sorted(asking, key=lambda g: (_running_share(problem, g), problem.gangs[g].age, g), reverse=True)
    return sum(number for number, g in enumerate(order, 1) if g in started)


def _running_share(problem: Problem, g: int) -> Fraction:
    if not problem.policy.drf:
        return Fraction(0)
    gang = problem.gangs[g]
    mine = [
        sum(n * gang.roles[t].request[r] for (t, _), n in running_pods(gang).items())
        for r in range(len(problem.resources))
    ]
    return max(
        (Fraction(amount, total) for amount, total in zip(mine, cluster_totals(problem), strict=True) if total),
        default=Fraction(0),
    )


def best_sets(problem: Problem, sets: Iterable[frozenset[int]]) -> tuple[PlanValue, list[frozenset[int]]]:
    """The most that can be had, and who may start for it."""
    values = {started: objective_values(problem, started) for started in sets}
    most = max(values.values())
    return most, sorted((started for started, value in values.items() if value == most), key=sorted)

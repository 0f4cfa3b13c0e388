"""Relations between pods by trying everything: which sets of gangs may be admitted together, every final state looked
at.

Written from the docstring of `Relation` alone; the verifier and the solver say the same in other words.
"""

from __future__ import annotations

from collections import Counter
from itertools import product

from solver.problem import PodRule, Problem, Vector
from tests.property.brute import Room, growths, is_kept

Spot = tuple[int, int, int]
"""(gang, role, node)"""
Pod = tuple[int | None, bool, bool, bool]
"""(domain, it is new, it carries the rule, it is counted)"""


def allowed(problem: Problem, new: Counter[Spot]) -> bool:
    """Whether new pods at these spots, beside all that runs, keep every relation."""
    return all(_allowed(problem, rho, new) for rho in range(len(problem.pod_rules)))


def _allowed(problem: Problem, rho: int, new: Counter[Spot]) -> bool:
    relation = problem.pod_rules[rho]
    old = Counter({(g, p.role, p.node): p.pods for g, gang in enumerate(problem.gangs) for p in gang.running})
    pods: list[Pod] = [
        (d, False, False, True) for d, number in enumerate(relation.selected_present) for _ in range(number)
    ]
    pods += [(d, False, True, False) for d, number in enumerate(relation.owners_present) for _ in range(number)]
    for is_new, spots in ((False, old), (True, new)):
        for (g, t, node), number in spots.items():
            role = problem.gangs[g].roles[t]
            if rho in role.owned_rules or rho in role.selecting_rules:
                pods += [
                    (relation.domains[node], is_new, rho in role.owned_rules, rho in role.selecting_rules)
                ] * number
    return {"apart": _apart, "together": _together, "even": _even}[relation.rule_kind](relation, pods)


def _apart(relation: PodRule, pods: list[Pod]) -> bool:
    return not any(
        i != j and a[0] == b[0] and a[0] is not None and a[2] and b[3] and (a[1] or b[1])
        for i, a in enumerate(pods)
        for j, b in enumerate(pods)
    )


def _together(relation: PodRule, pods: list[Pod]) -> bool:
    asking = [pod for pod in pods if pod[1] and pod[2]]
    sure = {pod[0] for pod in pods if pod[3] and not (pod[1] and pod[2]) and pod[0] is not None}
    homes = {pod[0] for pod in asking}
    if not asking:
        return True
    return homes <= sure if sure else len(homes) == 1 and None not in homes and any(pod[3] for pod in asking)


def _even(relation: PodRule, pods: list[Pod]) -> bool:
    count = Counter(pod[0] for pod in pods if pod[3])
    domains = {d for d in relation.domains if d is not None}
    fewest = min(count[d] for d in domains) if domains and len(domains) >= relation.min_domains else 0
    return all(pod[0] is not None and count[pod[0]] - fewest <= relation.max_skew for pod in pods if pod[1] and pod[2])


_State = tuple[tuple[Vector, ...], tuple[Vector, ...], tuple[tuple[Spot, int], ...]]
"""What new pods take from each node, and from each queue; where those are that relations ask about."""


def related_sets(problem: Problem) -> list[frozenset[int]]:
    """Every set of gangs that can be admitted together, the kept ones always among them."""
    room = Room(problem)
    kept = frozenset(g for g, gang in enumerate(problem.gangs) if is_kept(gang))
    nothing = (0,) * len(problem.resources)
    reached: dict[frozenset[int], set[_State]] = {
        kept: {((nothing,) * len(problem.nodes), (nothing,) * len(problem.queues), ())}
    }
    for g, gang in enumerate(problem.gangs):
        if g in kept:
            continue
        options = [
            (room.use(g, option), tuple(((g, t, n), pods) for (t, n), pods in sorted(option.items())))
            for option in growths(problem, g)
        ]
        for admitted, states in list(reached.items()):
            more: set[_State] = set()
            for (use, added, spots), (extra, mine) in product(states, options):
                both = tuple(tuple(a + b for a, b in zip(x, y, strict=True)) for x, y in zip(use, extra, strict=True))
                demand = tuple(sum(column) for column in zip(*extra, strict=True))
                charged = tuple(
                    tuple(a + b for a, b in zip(v, demand, strict=True)) if q == gang.queue else v
                    for q, v in enumerate(added)
                )
                if room.nodes_hold(both) and room.queues_hold(charged):
                    more.add((both, charged, _told(problem, spots + mine)))
            if more:
                reached[admitted | {g}] = more
    return sorted(
        (
            gangs
            for gangs, states in reached.items()
            if any(allowed(problem, Counter(dict(spots))) for _, _, spots in states)
        ),
        key=sorted,
    )


def _told(problem: Problem, spots: tuple[tuple[Spot, int], ...]) -> tuple[tuple[Spot, int], ...]:
    """Only the pods that some relation asks about."""
    return tuple(
        (spot, pods)
        for spot, pods in spots
        if (role := problem.gangs[spot[0]].roles[spot[1]]).owned_rules or role.selecting_rules
    )

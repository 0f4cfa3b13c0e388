"""Relations between pods by trying everything: which sets of gangs may be admitted together, every final state looked
at.

Written from the docstring of `PodRule` alone; the verifier and the solver say the same in other words.
"""

from __future__ import annotations

from collections import Counter
from itertools import product

from solver.problem import GroupQuota, PodRule, Problem, Vector
from tests.property.brute import FreeCapacity, meets_minima_now, new_pod_sets

GangOnNode = tuple[int, int, int]
"""(gang, role, node)"""
RulePod = tuple[int | None, bool, bool, bool]
"""(domain, it is new, it carries the rule, it is counted)"""


def keeps_pod_rules(problem: Problem, new: Counter[GangOnNode], gone: Counter[GangOnNode] | None = None) -> bool:
    """Whether new pods at these spots, next to all that runs, keep every relation. gone: pods that are evicted, and no
    longer in the way of new ones; whether a spread or an affinity could do without them is not sure."""
    return all(_keeps_rule(problem, rho, new, gone or Counter()) for rho in range(len(problem.pod_rules)))


def _keeps_rule(problem: Problem, rho: int, new: Counter[GangOnNode], gone: Counter[GangOnNode]) -> bool:
    relation = problem.pod_rules[rho]
    if relation.quota is not None:
        return _keeps_quota(problem, relation, relation.quota, new)
    old = Counter({(g, p.role, p.node): p.pods for g, gang in enumerate(problem.gangs) for p in gang.running})
    if relation.rule_kind == "anti-affinity":
        old -= gone
    pods: list[RulePod] = [
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
    return {
        "anti-affinity": _keeps_anti_affinity,
        "separation": _keeps_separation,
        "affinity": _keeps_affinity,
        "spread": _keeps_spread,
    }[relation.rule_kind](relation, pods)


def _keeps_anti_affinity(pod_rule: PodRule, pods: list[RulePod]) -> bool:
    return not any(
        i != j and a[0] == b[0] and a[0] is not None and a[2] and b[3] and (a[1] or b[1])
        for i, a in enumerate(pods)
        for j, b in enumerate(pods)
    )


def _keeps_separation(pod_rule: PodRule, pods: list[RulePod]) -> bool:
    return not any(
        a[1] and a[2] and (a[0] is None or any(i != j and a[0] == b[0] and b[3] for j, b in enumerate(pods)))
        for i, a in enumerate(pods)
    )


def _keeps_quota(problem: Problem, pod_rule: PodRule, quota: GroupQuota, new: Counter[GangOnNode]) -> bool:
    held, added = Counter[int | None](dict(enumerate(pod_rule.selected_present))), Counter[int | None]()
    running = [((g, p.role, p.node), p.pods) for g, gang in enumerate(problem.gangs) for p in gang.running]
    for counts, pods in ((held, running), (added, new.items())):
        for (g, t, node), number in pods:
            if problem.gangs[g].queue == quota.queue:
                counts[pod_rule.domains[node]] += number * problem.gangs[g].roles[t].request[quota.resource]
    return all(d is None or not more or held[d] + more <= quota.limit for d, more in added.items())


def _keeps_affinity(pod_rule: PodRule, pods: list[RulePod]) -> bool:
    asking = [pod for pod in pods if pod[1] and pod[2]]
    sure = {pod[0] for pod in pods if pod[3] and pod not in asking} - {None}
    homes = {pod[0] for pod in asking}
    if not asking:
        return True
    return homes <= sure if sure else len(homes) == 1 and None not in homes and any(pod[3] for pod in asking)


def _keeps_spread(pod_rule: PodRule, pods: list[RulePod]) -> bool:
    count = Counter(pod[0] for pod in pods if pod[3])
    domains = {d for d in pod_rule.domains if d is not None}
    fewest = min(count[d] for d in domains) if domains and len(domains) >= pod_rule.min_domains else 0
    return all(pod[0] is not None and count[pod[0]] - fewest <= pod_rule.max_skew for pod in pods if pod[1] and pod[2])


_ClusterUse = tuple[tuple[Vector, ...], tuple[Vector, ...], tuple[tuple[GangOnNode, int], ...]]
"""What new pods take from each node, and from each queue; where those are that relations ask about."""


def feasible_sets_under_rules(problem: Problem) -> list[frozenset[int]]:
    """Every set of gangs that can be admitted together, the kept ones always among them."""
    room = FreeCapacity(problem)
    kept = frozenset(g for g, gang in enumerate(problem.gangs) if meets_minima_now(gang))
    nothing = (0,) * len(problem.resources)
    reached: dict[frozenset[int], set[_ClusterUse]] = {
        kept: {((nothing,) * len(problem.nodes), (nothing,) * len(problem.queues), ())}
    }
    for g, gang in enumerate(problem.gangs):
        if g in kept:
            continue
        options = [
            (room.use_of(g, option), tuple(((g, t, n), pods) for (t, n), pods in sorted(option.items())))
            for option in new_pod_sets(problem, g)
        ]
        for admitted, states in list(reached.items()):
            more: set[_ClusterUse] = set()
            for (use, added, spots), (extra, mine) in product(states, options):
                both = tuple(tuple(a + b for a, b in zip(x, y, strict=True)) for x, y in zip(use, extra, strict=True))
                demand = tuple(sum(column) for column in zip(*extra, strict=True))
                charged = tuple(
                    tuple(a + b for a, b in zip(v, demand, strict=True)) if q == gang.queue else v
                    for q, v in enumerate(added)
                )
                if room.fits_nodes(both) and room.fits_queues(charged):
                    more.add((both, charged, _pods_under_rules(problem, spots + mine)))
            if more:
                reached[admitted | {g}] = more
    return sorted(
        (
            gangs
            for gangs, states in reached.items()
            if any(keeps_pod_rules(problem, Counter(dict(spots))) for _, _, spots in states)
        ),
        key=sorted,
    )


def _pods_under_rules(
    problem: Problem, spots: tuple[tuple[GangOnNode, int], ...]
) -> tuple[tuple[GangOnNode, int], ...]:
    """Only the pods that some relation asks about."""
    return tuple(
        (spot, pods)
        for spot, pods in spots
        if (role := problem.gangs[spot[0]].roles[spot[1]]).owned_rules or role.selecting_rules
    )

"""The verifier's rules about the votes of the scheduler's plugins on victims; no code is shared with
`solver.semantics.eviction_rights` or the models.

The words of `solver.verify.evictions` hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from solver.problem import EvictionVotes, Gang
from solver.verify import quotas
from solver.verify.checked_plan import CheckedPlan, Findings, at

SHARE_TOLERANCE = Fraction(1, 10**6)


def _preemptors(x: CheckedPlan, g: int) -> Iterator[tuple[int, EvictionVotes]]:
    """Yield the preemptors of gang g, with the votes that count for each."""
    for j in x.decisions[g].evicted_for if x.evicted_pods[g] and g in x.decisions else ():
        if 0 <= j < len(x.problem.gangs):
            inside = x.problem.gangs[j].queue == x.problem.gangs[g].queue
            yield j, x.problem.preempt_votes if inside else x.problem.reclaim_votes


def gang_votes(x: CheckedPlan) -> Findings:
    """Where the plugin gang votes, no gang is evicted whole, unless it has no minimum."""
    for g in sorted(x.decisions):
        if x.problem.gangs[g].eviction.may_lose_all:
            continue
        if not x.remaining_pods[g] and any(not votes.whole_gangs for _, votes in _preemptors(x, g)):
            yield at(g, "evicted_pods"), "goes whole, though the plugin gang lets only what is above the minima go"


def share_votes(x: CheckedPlan) -> Findings:
    """Where the plugin drf votes, a victim's dominant share afterwards is at least that of each of its preemptors at
    its minima."""
    for g in sorted(x.decisions):
        for j in [j for j, votes in _preemptors(x, g) if votes.compare_shares]:
            left = x.dominant_share(x.gang_demand(g, x.remaining_pods[g]))
            least = [minimum_demand(x.problem.gangs[j], r) for r in range(len(x.totals))]
            if x.dominant_share(least) > left + SHARE_TOLERANCE:
                fault = f"keeps a smaller dominant share than gang {j} gets, which the plugin drf forbids"
                yield at(g, "evicted_pods"), fault


def minimum_demand(gang: Gang, r: int) -> int:
    """Return the least of resource r with which the gang can start: its roles' minima, then the pods up to its own that
    ask for least."""
    total, missing = 0, gang.minimum - sum(role.minimum for role in gang.roles)
    for role in sorted(gang.roles, key=lambda role: role.request[r]):
        more = max(0, min(missing, role.replicas - role.minimum))
        total, missing = total + (role.minimum + more) * role.request[r], missing - more
    return total


def maximum_demand(gang: Gang, running: Sequence[int], r: int) -> int:
    """Return the most of resource r that the gang may hold when it reaches its minima: running pods of each role, what
    its minimum misses, and then the pods up to the gang's own that ask for most."""
    sure = [max(role.minimum, pods) for role, pods in zip(gang.roles, running, strict=True)]
    more = [role.request[r] for role, n in zip(gang.roles, sure, strict=True) for _ in range(role.replicas - n)]
    missing = max(0, gang.minimum - sum(sure))
    return sum(n * role.request[r] for role, n in zip(gang.roles, sure, strict=True)) + sum(
        sorted(more, reverse=True)[:missing]
    )


def disruption_budgets(x: CheckedPlan) -> Findings:
    """No more of the pods that a budget covers are evicted than it allows."""
    for b, budget in enumerate(x.problem.disruption_budgets):
        gone = sum(x.pods_per_role(g, x.evicted_pods[g])[t] for g, t in set(budget.roles))
        if gone > budget.allowed:
            yield ("disruption_budgets", b), f"{gone} pods of {budget.name} are evicted, and {budget.allowed} may be"


def may_take_back(x: CheckedPlan, g: int, j: int) -> bool:
    """Return whether gang g runs in a domain dedicated to gang j's queue, or one above that, and to none at or above
    g's own: then j may evict it."""
    mine, theirs = (
        {h for q in x.queue_path(x.problem.gangs[gang].queue) for h in x.problem.queues[q].dedicated_domains}
        for gang in (j, g)
    )
    above = [x.hypernodes_above(node) for _, node in x.running_pods[g]]
    return any(not mine.isdisjoint(hypernodes) and theirs.isdisjoint(hypernodes) for hypernodes in above)


def may_borrow_domains(x: CheckedPlan, g: int) -> bool:
    """Return whether gang g may get pods in domains dedicated to other queues: reclaim is on and no plugin votes on it,
    the gang and its queue may be reclaimed, and no disruption budget covers it."""
    problem, gang = x.problem, x.problem.gangs[g]
    if problem.reclaim_votes.compare_shares or not problem.reclaim_votes.whole_gangs:
        return False
    if any(other == g for budget in problem.disruption_budgets for other, _ in budget.roles):
        return False
    if not gang.eviction.evictable or gang.eviction.protected:
        return False
    return problem.reclaim_enabled and problem.queues[gang.queue].reclaimable


def reclaim_ancestors(x: CheckedPlan, q: int) -> list[int]:
    """Return the queues above q, the nearest first, that `Policy.ancestor_reclaim_levels` includes."""
    return x.queue_path(q)[1 : 1 + x.problem.policy.ancestor_reclaim_levels] if x.problem.policy.hierarchical else []


def queues_to_check(x: CheckedPlan, g: int) -> set[int]:
    """Return the queues that must be able to spare what gang g loses to gangs of other queues: its own, and included
    ancestors, unless one is at the same height above the preemptor's queue."""
    found, home = set(), x.problem.gangs[g].queue
    for j, _ in _preemptors(x, g):
        queue = x.problem.gangs[j].queue
        if queue != home and not may_take_back(x, g, j):
            others = reclaim_ancestors(x, queue)
            found.add(home)
            found |= {a for i, a in enumerate(reclaim_ancestors(x, home)) if others[i : i + 1] != [a]}
    return found


def named_amounts(x: CheckedPlan, q: int) -> quotas.Amounts:
    """Return the deserved amount of queue q for each resource by which it is measured; with the plugin capacity 0 means
    undeclared."""
    deserved = x.deserved[q]
    return dict(deserved) if x.problem.policy.proportion else {r: amount for r, amount in deserved.items() if amount}


def contention(x: CheckedPlan) -> Findings:
    """Two queues with a common included ancestor take nothing from one another of which neither deserves anything."""
    for g in sorted(x.decisions):
        mine = x.problem.gangs[g].queue
        for j, _ in _preemptors(x, g):
            gang = x.problem.gangs[j]
            if gang.queue == mine or may_take_back(x, g, j):
                continue
            deserved = named_amounts(x, mine).keys() | named_amounts(x, gang.queue).keys()
            related = set(reclaim_ancestors(x, mine)) & set(reclaim_ancestors(x, gang.queue))
            if related and not any(minimum_demand(gang, r) for r in deserved):
                fault = f"goes for gang {j}, and neither queue deserves anything of what that asks for"
                yield at(g, "evicted_for"), fault


VOTE_RULES = (gang_votes, share_votes, disruption_budgets, contention)

"""The verifier's rules about the votes of the scheduler's plugins on victims; no code is shared with
`solver.semantics.eviction_rights` or the models.

The words of `solver.verify.evictions` hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from solver.problem import EvictionVotes, Gang
from solver.verify.checked_plan import CheckedPlan, Findings, PodCounts

SHARE_TOLERANCE = Fraction(1, 10**6)


def _preemptors(x: CheckedPlan, g: int) -> Iterator[tuple[int, EvictionVotes]]:
    """The preemptors of gang g, with the votes that count for each."""
    for j in x.decisions[g].evicted_for if x.evicted_pods[g] and g in x.decisions else ():
        if 0 <= j < len(x.problem.gangs):
            inside = x.problem.gangs[j].queue == x.problem.gangs[g].queue
            yield j, x.problem.preempt_votes if inside else x.problem.reclaim_votes


def gang_votes(x: CheckedPlan) -> Findings:
    """Where the plugin gang votes, no gang goes completely."""
    for g in sorted(x.decisions):
        if not x.remaining_pods[g] and any(not votes.whole_gangs for _, votes in _preemptors(x, g)):
            message = "goes whole, though the plugin gang lets only what is above the minima go"
            yield ("decisions", g, "evicted_pods"), message


def share_votes(x: CheckedPlan) -> Findings:
    """Where the plugin drf votes, a victim's dominant share afterwards is at least that of each of its preemptors at
    its minima."""
    for g in sorted(x.decisions):
        for j, votes in _preemptors(x, g):
            left = _dominant_share(x, x.problem.gangs[g], x.remaining_pods[g])
            least = (Fraction(minimum_demand(x.problem.gangs[j], r), t) for r, t in enumerate(x.totals) if t)
            if votes.compare_shares and max(least, default=Fraction(0)) > left + SHARE_TOLERANCE:
                message = f"keeps a smaller dominant share than gang {j} gets, which the plugin drf forbids"
                yield ("decisions", g, "evicted_pods"), message


def _dominant_share(x: CheckedPlan, gang: Gang, counts: PodCounts) -> Fraction:
    held = [sum(pods * gang.roles[role].request[r] for (role, _), pods in counts.items()) for r in range(len(x.totals))]
    return max((Fraction(h, t) for h, t in zip(held, x.totals, strict=True) if t), default=Fraction(0))


def minimum_demand(gang: Gang, r: int) -> int:
    """The least of resource r with which the gang can start: its roles' minima, then the pods up to its own that ask
    for least."""
    total, missing = 0, gang.minimum - sum(role.minimum for role in gang.roles)
    for role in sorted(gang.roles, key=lambda role: role.request[r]):
        more = max(0, min(missing, role.replicas - role.minimum))
        total, missing = total + (role.minimum + more) * role.request[r], missing - more
    return total


def disruption_budgets(x: CheckedPlan) -> Findings:
    """No more of the pods that a budget covers are evicted than it allows."""
    for b, budget in enumerate(x.problem.disruption_budgets):
        gone = sum(pods for g, t in set(budget.roles) for (role, _), pods in x.evicted_pods[g].items() if role == t)
        if gone > budget.allowed:
            yield ("disruption_budgets", b), f"{gone} pods of {budget.name} are evicted, and {budget.allowed} may be"


def may_take_back(x: CheckedPlan, g: int, j: int) -> bool:
    """Whether gang g runs in a domain dedicated to gang j's queue, or one above that, and to none at or above g's own:
    then j may evict it."""
    mine, theirs = (
        {h for q in x.queue_path(x.problem.gangs[gang].queue) for h in x.problem.queues[q].dedicated_domains}
        for gang in (j, g)
    )
    above = [x.hypernodes_above(node) for _, node in x.running_pods[g]]
    return any(not mine.isdisjoint(hypernodes) and theirs.isdisjoint(hypernodes) for hypernodes in above)


def may_borrow_domains(x: CheckedPlan, g: int) -> bool:
    """Whether gang g may get pods in domains dedicated to other queues: reclaim is on and no plugin votes on it, the
    gang and its queue may be reclaimed, and no disruption budget covers it."""
    problem, gang = x.problem, x.problem.gangs[g]
    voted = problem.reclaim_votes.compare_shares or not problem.reclaim_votes.whole_gangs
    covered = any(other == g for budget in problem.disruption_budgets for other, _ in budget.roles)
    return (
        problem.reclaim_enabled
        and not voted
        and not covered
        and gang.evictable
        and problem.queues[gang.queue].reclaimable
    )


def reclaim_ancestors(x: CheckedPlan, q: int) -> list[int]:
    """The queues above q, the nearest first, that `Policy.ancestor_reclaim_levels` includes."""
    policy = x.problem.policy
    found: list[int] = []
    above = x.problem.queues[q].parent if policy.capacity and policy.capacity_hierarchy else None
    while above is not None and len(found) < policy.ancestor_reclaim_levels:
        found.append(above)
        above = x.problem.queues[above].parent
    return found


def queues_to_check(x: CheckedPlan, g: int) -> set[int]:
    """The queues that must be able to spare what gang g loses to gangs of other queues: its own, and included
    ancestors, unless one is at the same height above the preemptor's queue."""
    found, home = set(), x.problem.gangs[g].queue
    for j, _ in _preemptors(x, g):
        if x.problem.gangs[j].queue != home and not may_take_back(x, g, j):
            beside = reclaim_ancestors(x, x.problem.gangs[j].queue)
            found |= {
                home,
                *(a for height, a in enumerate(reclaim_ancestors(x, home)) if beside[height : height + 1] != [a]),
            }
    return found


def contention(x: CheckedPlan) -> Findings:
    """Two queues with a common included ancestor take nothing from one another of which neither deserves anything."""
    for g in sorted(x.decisions):
        mine = x.problem.gangs[g].queue
        for j, _ in _preemptors(x, g):
            gang = x.problem.gangs[j]
            if (
                gang.queue == mine
                or may_take_back(x, g, j)
                or not set(reclaim_ancestors(x, mine)) & set(reclaim_ancestors(x, gang.queue))
            ):
                continue
            asked = {name for r, name in enumerate(x.problem.resources) if minimum_demand(gang, r)}
            if not asked & (x.deserved[mine].keys() | x.deserved[gang.queue].keys()):
                message = f"goes for gang {j}, and neither queue deserves anything of what that asks for"
                yield ("decisions", g, "evicted_for"), message


VOTE_RULES = (gang_votes, share_votes, disruption_budgets, contention)

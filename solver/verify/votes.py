"""The verifier's rules about the votes of the scheduler's plugins on victims. They share no code with
`solver.semantics.eviction_rights` or the model.

The words of `solver.verify.victims` hold. What Volcano's plugins gang, drf and capacity say is read from the problem's
own fields, and budgets from `Problem.budgets`.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from solver.problem import Gang, Votes
from solver.verify.ledger import Counts, Findings, Ledger

SAME = Fraction(1, 10**6)


def _winners(x: Ledger, g: int) -> Iterator[tuple[int, Votes]]:
    """Who gang g loses pods for, and the votes that count there."""
    for j in x.decisions[g].evicted_for if x.gone[g] and g in x.decisions else ():
        if 0 <= j < len(x.problem.gangs):
            inside = x.problem.gangs[j].queue == x.problem.gangs[g].queue
            yield j, x.problem.preempting if inside else x.problem.reclaiming


def gang_votes(x: Ledger) -> Findings:
    """Where the plugin gang votes nobody goes whole."""
    for g in sorted(x.decisions):
        if not x.stays[g] and any(not votes.whole for _, votes in _winners(x, g)):
            yield (
                ("decisions", g, "evicted"),
                "goes whole, though the plugin gang lets only what is above the minima go",
            )


def share_votes(x: Ledger) -> Findings:
    """Where the plugin drf votes, a victim's dominant share is no smaller afterwards than that of any gang that it goes
    for, at its minima."""
    for g in sorted(x.decisions):
        for j, votes in _winners(x, g):
            left = _share(x, x.problem.gangs[g], x.stays[g])
            gang = x.problem.gangs[j]
            least = [least_of(gang, r) for r in range(len(x.totals))]
            if (
                votes.shares
                and max((Fraction(a, t) for a, t in zip(least, x.totals, strict=True) if t), default=Fraction(0))
                > left + SAME
            ):
                yield (
                    ("decisions", g, "evicted"),
                    f"keeps a smaller dominant share than gang {j} gets, which the plugin drf forbids",
                )


def _share(x: Ledger, gang: Gang, counts: Counts) -> Fraction:
    held = [sum(pods * gang.roles[role].request[r] for (role, _), pods in counts.items()) for r in range(len(x.totals))]
    return max((Fraction(h, t) for h, t in zip(held, x.totals, strict=True) if t), default=Fraction(0))


def least_of(gang: Gang, r: int) -> int:
    """The least of resource r that the gang can start with: its roles' minima, then the pods up to its own that ask for
    least."""
    total, missing = 0, gang.minimum - sum(role.minimum for role in gang.roles)
    for role in sorted(gang.roles, key=lambda role: role.request[r]):
        more = max(0, min(missing, role.replicas - role.minimum))
        total, missing = total + (role.minimum + more) * role.request[r], missing - more
    return total


def budgets(x: Ledger) -> Findings:
    """Of the pods that a budget covers no more are evicted than it allows."""
    for b, budget in enumerate(x.problem.budgets):
        gone = sum(pods for g, t in set(budget.roles) for (role, _), pods in x.gone[g].items() if role == t)
        if gone > budget.allowed:
            yield ("budgets", b), f"{gone} pods of {budget.name} are evicted, and {budget.allowed} may be"


def taken_back(x: Ledger, g: int, j: int) -> bool:
    """Whether gang g runs in a domain that gang j's queue keeps, or one above that, and none at or above g's own does:
    j may have it back."""
    problem = x.problem
    mine, theirs = (set(_way_up(x, problem.gangs[one].queue)) for one in (j, g))
    kept = {h for q in mine for h in problem.queues[q].kept}
    own = {h for q in theirs for h in problem.queues[q].kept}
    above = [_around(x, node) for _, node in x.running[g]]
    return any(not kept.isdisjoint(around) and own.isdisjoint(around) for around in above)


def _way_up(x: Ledger, q: int | None) -> Iterator[int]:
    while q is not None:
        yield q
        q = x.problem.queues[q].parent


def _around(x: Ledger, node: int) -> set[int]:
    found, here = set(), x.problem.nodes[node].leaf
    while here is not None:
        found.add(here)
        here = x.problem.hypernodes[here].parent
    return found


def borrows(x: Ledger, g: int) -> bool:
    """Whether gang g may get pods in domains that others keep: reclaim is on and no plugin votes on it, the gang and
    its queue may be reclaimed, and no disruption budget covers it."""
    problem, gang = x.problem, x.problem.gangs[g]
    voted = problem.reclaiming.shares or not problem.reclaiming.whole
    covered = any(other == g for budget in problem.budgets for other, _ in budget.roles)
    return problem.reclaim and not voted and not covered and gang.evictable and problem.queues[gang.queue].reclaimable


def asked_above(x: Ledger, q: int) -> list[int]:
    """The queues above q, the nearest first, that `Policy.reclaim_levels` has asked as well."""
    policy = x.problem.policy
    found: list[int] = []
    above = x.problem.queues[q].parent if policy.capacity and policy.capacity_hierarchy else None
    while above is not None and len(found) < policy.reclaim_levels:
        found.append(above)
        above = x.problem.queues[above].parent
    return found


def gates_of(x: Ledger, g: int) -> set[int]:
    """The queues that have to be able to spare what gang g loses to gangs of other queues: its own, and those above it
    that are asked and do not stand at the same height above the winner's."""
    found, home = set(), x.problem.gangs[g].queue
    for j, _ in _winners(x, g):
        if x.problem.gangs[j].queue != home and not taken_back(x, g, j):
            beside = asked_above(x, x.problem.gangs[j].queue)
            found |= {home, *(a for height, a in enumerate(asked_above(x, home)) if beside[height : height + 1] != [a])}
    return found


def contention(x: Ledger) -> Findings:
    """Two queues below one that is asked take nothing from one another of which neither deserves anything."""
    for g in sorted(x.decisions):
        mine = x.problem.gangs[g].queue
        for j, _ in _winners(x, g):
            gang = x.problem.gangs[j]
            if (
                gang.queue == mine
                or taken_back(x, g, j)
                or not set(asked_above(x, mine)) & set(asked_above(x, gang.queue))
            ):
                continue
            asked = {name for r, name in enumerate(x.problem.resources) if least_of(gang, r)}
            if not asked & (x.deserved[mine].keys() | x.deserved[gang.queue].keys()):
                yield (
                    ("decisions", g, "evicted_for"),
                    f"goes for gang {j}, and neither queue deserves anything of what that asks for",
                )


VOTE_RULES = (gang_votes, share_votes, budgets, contention)

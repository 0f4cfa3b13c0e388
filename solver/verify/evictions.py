"""The verifier's rules about evictions; no code is shared with `solver.semantics.eviction_rights` or the models.

The words of `solver.verify` hold. A *victim* is a gang with evicted pods, a *preemptor* a gang for which pods are
evicted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from solver.plan import Decision
from solver.problem import Role, Vector
from solver.verify import quotas
from solver.verify.checked_plan import CheckedPlan, Findings, add_vector, at, is_sorted, vector_sum
from solver.verify.eviction_necessity import eviction_necessity
from solver.verify.eviction_votes import VOTE_RULES, may_take_back, minimum_demand, queues_to_check, reclaim_ancestors


def evictions(x: CheckedPlan) -> Findings:
    """Evicted pods are running ones, sorted by (role, node) and merged, and their preemptors start.

    A victim goes completely (action evict, all running pods evicted, none placed), or it is kept with exactly the rest,
    at its minima, and loses complete subgroup parts only in each of their domains.
    """
    for g, decision in sorted(x.decisions.items()):
        gone, where = decision.evicted_pods, at(g, "evicted_pods")
        if bool(gone) != bool(decision.evicted_for) or (decision.action == "evict" and not gone):
            yield where, "evicted pods and the gangs they are evicted for belong together"
        if fault := _preemptor_fault(x, decision):
            yield at(g, "evicted_for"), fault
        if not gone:
            continue
        if not is_sorted(gone):
            yield where, "not sorted by (role, node), or a pair occurs twice"
        if any(not 1 <= place.pods <= x.running_pods[g].get((place.role, place.node), 0) for place in gone):
            yield where, "more pods than run there"
        if decision.action == "evict":
            if x.remaining_pods[g] or decision.placements:
                yield where, "the gang goes, but not all of its pods do"
        elif decision.action != "keep":
            yield where, f"a gang cannot lose pods and {decision.action}"
        elif x.placed_pods[g] != x.remaining_pods[g] or not x.meets_minima(g, x.remaining_pods[g]):
            yield where, "is kept with other pods than those that are left, or below a minimum"
        elif not _loses_whole_subgroups(x, g):
            yield where, "takes a part of a subgroup and leaves the rest"


def _preemptor_fault(x: CheckedPlan, decision: Decision) -> str:
    preemptors = decision.evicted_for
    if list(preemptors) != sorted(set(preemptors)):
        return "not sorted, or one occurs twice"
    if any(j not in x.decisions or x.decisions[j].action != "start" for j in preemptors):
        return "a gang that does not start"
    return ""


def _loses_whole_subgroups(x: CheckedPlan, g: int) -> bool:
    subgroups = x.problem.gangs[g].subgroups
    lost = [(part.size, x.pods_per_part(part, x.evicted_pods[g])) for part in subgroups]
    return not any(pods % size for size, counts in lost for pods in counts.values())


def eviction_rights(x: CheckedPlan) -> Findings:
    """Only evictable gangs are victims, only of gangs that may evict, and all preemptors of a victim are in its own
    queue or none is.

    Own queue: preempt is enabled, and a victim has a lower priority than its preemptors. Other queues: reclaim is
    enabled, the victim's queue is reclaimable, and its priority is not higher; rules `reclaim_limits` and `entitlement`
    say how much. A victim that runs in a domain dedicated to its preemptor's queue goes whatever its priority, and
    whatever the queues hold (`may_take_back`).
    """
    for g, decision in sorted(x.decisions.items()):
        victim = x.problem.gangs[g]
        preemptors = [x.problem.gangs[j] for j in decision.evicted_for if 0 <= j < len(x.problem.gangs)]
        if not preemptors:
            continue
        where = at(g, "evicted_for")
        inside = {preemptor.queue == victim.queue for preemptor in preemptors}
        if not victim.evictable:
            yield where, "the gang may not be evicted"
        if not all(preemptor.may_evict for preemptor in preemptors):
            yield where, "for a gang that preempts nobody"
        if len(inside) > 1:
            yield where, "for its own queue and for others at once"
        elif inside == {True} and not (
            x.problem.preempt_enabled and all(victim.priority < preemptor.priority for preemptor in preemptors)
        ):
            yield where, "inside a queue only a gang of lower priority may be evicted, and only where preemption is on"
        elif inside == {False} and not (x.problem.reclaim_enabled and x.problem.queues[victim.queue].reclaimable):
            yield where, "across queues only a reclaimable queue's gangs may be evicted, and only where reclaim is on"
        elif inside == {False} and any(victim.priority > x.problem.gangs[j].priority for j in reclaimers(x, g)):
            yield where, "across queues no gang of higher priority may be evicted"


def reclaimers(x: CheckedPlan, g: int) -> list[int]:
    """The preemptors of gang g in other queues, without those that take back their queue's dedicated domain."""
    queue, gangs = x.problem.gangs[g].queue, x.problem.gangs
    preemptors = x.decisions[g].evicted_for if g in x.decisions else ()
    return [j for j in preemptors if 0 <= j < len(gangs) and gangs[j].queue != queue and not may_take_back(x, g, j)]


def reclaim_limits(x: CheckedPlan) -> Findings:
    """A queue that must be able to spare what gangs of other queues took (`queues_to_check`) retains, descendants
    included, its guarantees, and what it deserves of at least one resource that each of those victims returned and each
    of those preemptors asks for.

    Where it deserves something that a preemptor asks for, only that counts; where it deserves only other resources,
    these, of what each victim returned. Pods that went for gangs inside it count as held. The number of pods is no such
    resource.
    """
    named: dict[int, set[int]] = defaultdict(set)
    useful: dict[int, set[int]] = {}
    returned: dict[int, set[int]] = {}
    counted = {r for r, name in enumerate(x.problem.resources) if name != "pods"}
    for g, gang in enumerate(x.problem.gangs):
        if not x.evicted_pods[g]:
            continue
        given = _requested_resources(gang.roles[role] for role, _ in x.evicted_pods[g])
        asked = [_requested_resources(x.problem.gangs[j].roles) for j in reclaimers(x, g)]
        for q in queues_to_check(x, g):
            useful[q] = useful.get(q, counted).intersection(given, *asked)
            returned[q] = returned.get(q, counted) & given
            named[q] |= counted.intersection(set().union(*asked))
    for q, resources in sorted(useful.items()):
        due = x.deserved[q]
        held = vector_sum(vector_sum(x.allocated_amounts[q], x.new_amounts[q]), x.evicted_amounts[q], -1)
        held = vector_sum(held, _internally_evicted(x, q))
        counts = resources & due.keys() if named[q] & due.keys() else returned[q] & due.keys() if due else resources
        if not any(held[r] >= int(due.get(r, 0)) for r in counts):
            yield ("queues", q, "deserved"), "gave up more than it held above what it deserves"
        if any(amount < (least or 0) for amount, least in zip(held, x.problem.queues[q].guarantee, strict=True)):
            yield ("queues", q, "guarantee"), "gave up what it is guaranteed"


def _requested_resources(roles: Iterable[Role]) -> set[int]:
    return {r for role in roles for r, amount in enumerate(role.request) if amount}


def _internally_evicted(x: CheckedPlan, q: int) -> Vector:
    """What gangs in or below queue q lost to others in or below it, and to owners of dedicated domains."""
    found = [0] * len(x.problem.resources)
    for g, gang in enumerate(x.problem.gangs):
        if x.evicted_pods[g] and q not in queues_to_check(x, g):
            homes = [gang.queue, *(x.problem.gangs[j].queue for j in reclaimers(x, g))]
            if all(q in x.queue_path(home) for home in homes):
                add_vector(found, x.gang_demand(g, x.evicted_pods[g]))
    return tuple(found)


def entitlement(x: CheckedPlan) -> Findings:
    """A preemptor that takes from other queues leaves its own, or an included ancestor, within what that deserves of at
    least one resource that it asks for: what runs there and stays, with its own minima."""
    for j in sorted({j for g in range(len(x.problem.gangs)) for j in reclaimers(x, g)}):
        gang, own = x.problem.gangs[j], x.gang_demand(j, x.running_pods[j])
        asked = _requested_resources(gang.roles)
        within = False
        for q in (gang.queue, *reclaim_ancestors(x, gang.queue)):
            for r in asked & x.deserved[q].keys():
                stays = x.allocated_amounts[q][r] - x.evicted_amounts[q][r] - own[r]
                within |= stays + minimum_demand(gang, r) <= x.deserved[q][r] + quotas.RESOLUTION
        if not within:
            yield ("decisions", j), "takes from other queues what its own does not deserve"


EVICTION_RULES = (evictions, eviction_rights, reclaim_limits, entitlement, *VOTE_RULES, eviction_necessity)

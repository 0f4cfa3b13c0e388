"""The verifier's rules about evictions; no code is shared with `solver.semantics.eviction_rights` or the models.

The words of `solver.verify` hold. A *victim* is a gang with evicted pods, a *preemptor* a gang for which pods are
evicted.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container

from solver.plan import Decision
from solver.problem import Vector
from solver.verify.checked_plan import CheckedPlan, Findings, add_vector, at, is_sorted, vector_sum
from solver.verify.eviction_votes import (
    VOTE_RULES,
    maximum_demand,
    may_take_back,
    minimum_demand,
    named_amounts,
    queues_to_check,
    reclaim_ancestors,
)
from solver.verify.plain_search import eviction_necessity


def evictions(x: CheckedPlan) -> Findings:
    """Evicted pods are running ones, sorted by (role, node) and merged, and their preemptors start.

    A victim is evicted whole (action evict, all running pods evicted, none placed), or it is kept with exactly the
    rest, at its minima, and loses complete subgroup parts only in each of their domains; nothing where it grows in
    units of several pods.
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
        elif sum(x.problem.gangs[g].growth_unit) > 1 or not _loses_whole_subgroups(x, g):
            yield where, "takes a part of a group or subgroup and leaves the rest"


def _preemptor_fault(x: CheckedPlan, decision: Decision) -> str:
    preemptors = decision.evicted_for
    if list(preemptors) != sorted(set(preemptors)):
        return "not sorted, or one occurs twice"
    if any(j not in x.decisions or x.decisions[j].action != "start" for j in preemptors):
        return "a gang that does not start"
    return ""


def _loses_whole_subgroups(x: CheckedPlan, g: int) -> bool:
    subgroups = x.problem.gangs[g].subgroups
    lost = [(part.size, x.subgroup_pods_by_domain(part, x.evicted_pods[g])) for part in subgroups]
    return not any(pods % size for size, counts in lost for pods in counts.values())


def eviction_rights(x: CheckedPlan) -> Findings:
    """Only evictable gangs are victims, of pods that are not protected, only of gangs that may evict, and all
    preemptors of a victim are in its own queue or none is.

    Own queue: preempt is enabled, and a victim has a lower priority than its preemptors. Other queues: reclaim is
    enabled, and the victim's queue is reclaimable; rules `reclaim_limits` and `entitlement` limit how much. A victim
    that runs in a domain dedicated to its preemptor's queue is evicted whatever the queues hold (`may_take_back`).
    """
    for g, decision in sorted(x.decisions.items()):
        victim = x.problem.gangs[g]
        preemptors = [x.problem.gangs[j] for j in decision.evicted_for if 0 <= j < len(x.problem.gangs)]
        if not preemptors:
            continue
        where = at(g, "evicted_for")
        inside = {preemptor.queue == victim.queue for preemptor in preemptors}
        if not victim.eviction.evictable:
            yield where, "the gang may not be evicted"
        stay = Counter({(p.role, p.node): p.pods for p in victim.eviction.protected})
        if any(x.remaining_pods[g].get(spot, 0) < pods for spot, pods in stay.items()):
            yield where, "pods that are protected are evicted"
        if not all(preemptor.eviction.may_evict for preemptor in preemptors):
            yield where, "for a gang that preempts nobody"
        if len(inside) > 1:
            yield where, "for its own queue and for others at once"
        elif inside == {True} and not (
            x.problem.preempt_enabled and all(victim.priority < preemptor.priority for preemptor in preemptors)
        ):
            yield where, "inside a queue only a gang of lower priority may be evicted, and only where preemption is on"
        elif inside == {False} and not (x.problem.reclaim_enabled and x.problem.queues[victim.queue].reclaimable):
            yield where, "across queues only a reclaimable queue's gangs may be evicted, and only where reclaim is on"


def reclaimers(x: CheckedPlan, g: int) -> list[int]:
    """Return the preemptors of gang g in other queues, without those that take back their queue's dedicated domain."""
    queue, gangs = x.problem.gangs[g].queue, x.problem.gangs
    preemptors = x.decisions[g].evicted_for if g in x.decisions else ()
    known = (j for j in preemptors if 0 <= j < len(gangs))
    others = (j for j in known if gangs[j].queue != queue)
    return [j for j in others if not may_take_back(x, g, j)]


def reclaim_limits(x: CheckedPlan) -> Findings:
    """A queue that must be able to spare what gangs of other queues took (`queues_to_check`) retains, descendants
    included, its guarantees, and its deserved amounts, except for the last evicted unit.

    Each evicted unit, a pod or a gang, returned something that its preemptor requests, the number of pods aside. It
    was measured by what it returned and the queue deserves: by the resources of these that its preemptor lacks, if any.
    Of one of them the queue held too much until the last; of all that the queue deserves where the preemptor's right is
    partial (`rights_to_reclaim`). Pods that went for gangs inside the queue count as held.
    """
    lost: dict[int, list[tuple[int, Vector, Vector]]] = defaultdict(list)
    for g in range(len(x.problem.gangs)):
        for q in queues_to_check(x, g):
            lost[q] += [(g, *unit) for unit in _units(x, g)]
    for q, units in sorted(lost.items()):
        due = named_amounts(x, q)
        held = vector_sum(vector_sum(x.inclusive.allocated[q], x.inclusive.new[q]), x.inclusive.evicted[q], -1)
        held = vector_sum(held, _internally_evicted(x, q))
        beyond = {r for r, amount in due.items() if held[r] + max(last[r] for _, _, last in units) > int(amount)}
        if not all(_is_measured(x, g, returned, due, beyond) for g, returned, _ in units):
            yield ("queues", q, "deserved"), "gave up more than it held above what it deserves"
        if any(amount < (least or 0) for amount, least in zip(held, x.problem.queues[q].guarantee, strict=True)):
            yield ("queues", q, "guarantee"), "gave up what it is guaranteed"


def _units(x: CheckedPlan, g: int) -> list[tuple[Vector, Vector]]:
    """Return the units in which gang g is evicted, each with its possible last part: each pod, or the gang, and of that
    its largest pod, or the pods that it cannot spare."""
    gang, evicted = x.problem.gangs[g], x.evicted_pods[g]
    if x.remaining_pods[g]:
        return [(gang.roles[role].request, gang.roles[role].request) for role, _ in evicted]
    every = x.gang_demand(g, evicted)
    largest = [max(gang.roles[role].request[r] for role, _ in evicted) for r in range(len(every))]
    rest = (max(pod, _least_rest(x, g, r)) for r, pod in enumerate(largest))
    return [(every, every if gang.subgroups else tuple(rest))]


def _least_rest(x: CheckedPlan, g: int, r: int) -> int:
    """Return the least of resource r that gang g keeps when it loses pods one by one, down to its minima or to one
    pod."""
    gang, left = x.problem.gangs[g], Counter(x.running_pods[g])
    for role, node in sorted(left, key=lambda spot: gang.roles[spot[0]].request[r], reverse=True):
        while left[role, node] and left.total() > 1 and x.meets_minima(g, left - Counter([(role, node)])):
            left[role, node] -= 1
    return x.gang_demand(g, left)[r]


def _is_measured(x: CheckedPlan, g: int, returned: Vector, due: Container[int], beyond: set[int]) -> bool:
    """Return whether gang g returned something that a preemptor requests, and the queue held too much of its deserved
    part of that, in the sense of the preemptor's right."""
    given = {r for r, amount in enumerate(returned) if amount}
    measures = {r for r in given if r in due}
    for j in reclaimers(x, g):
        if rights_to_reclaim(x, j, g) == {True}:
            suffices = not measures or bool((measures & x.lacking(j) or measures) & beyond)
        else:
            suffices = measures <= beyond
        if suffices and any(minimum_demand(x.problem.gangs[j], r) and x.problem.resources[r] != "pods" for r in given):
            return True
    return False


def _internally_evicted(x: CheckedPlan, q: int) -> Vector:
    """Return the losses of gangs in or below queue q to others in or below it, and to owners of dedicated domains."""
    found = [0] * len(x.problem.resources)
    for g, gang in enumerate(x.problem.gangs):
        if x.evicted_pods[g] and q not in queues_to_check(x, g):
            homes = [gang.queue, *(x.problem.gangs[j].queue for j in reclaimers(x, g))]
            if all(q in x.queue_path(home) for home in homes):
                add_vector(found, x.gang_demand(g, x.evicted_pods[g]))
    return tuple(found)


def entitlement(x: CheckedPlan) -> Findings:
    """A preemptor that takes from other queues leaves its own, or an included ancestor that is not above both, within
    what that deserves of at least one resource that it asks for: what runs there and stays, with its own minima."""
    for g in range(len(x.problem.gangs)):
        for j in reclaimers(x, g):
            if not any(rights_to_reclaim(x, j, g)):
                yield ("decisions", j), "takes from other queues what its own does not deserve"


def rights_to_reclaim(x: CheckedPlan, j: int, g: int) -> set[bool]:
    """Return {True}: some queue stays within its deserved amounts of all resources that gang j lacks (if it deserves
    none of those: requests), so that the right to reclaim from gang g's queue is full. {True, False}: of some of them,
    so that it is partial. Else there is none."""
    gang, own = x.problem.gangs[j], x.gang_demand(j, x.running_pods[j])
    running = x.pods_per_role(j, x.running_pods[j])
    found: set[bool] = set()
    for q in {gang.queue, *reclaim_ancestors(x, gang.queue)} - set(x.queue_path(x.problem.gangs[g].queue)):
        within = {}
        for r, amount in named_amounts(x, q).items():
            if minimum_demand(gang, r):
                stays = x.inclusive.allocated[q][r] - x.inclusive.evicted[q][r] - own[r]
                within[r] = stays + maximum_demand(gang, running, r) <= amount
        counted = {within[r] for r in within if r in x.lacking(j)} or set(within.values())
        if counted == {True}:
            return counted
        found |= counted
    return found


EVICTION_RULES = (evictions, eviction_rights, reclaim_limits, entitlement, *VOTE_RULES, eviction_necessity)

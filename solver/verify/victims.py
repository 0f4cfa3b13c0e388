"""The verifier's rules about evictions, in words of their own: they share no code with
`solver.semantics.eviction_rights` or the model.

The words of `solver.verify` hold; besides, a *victim* is a gang with evicted pods, a *winner* a gang that some pod is
evicted for.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

from solver.plan import Decision
from solver.problem import Gang, Placement
from solver.verify import quotas
from solver.verify.cells import overcommitted_slots
from solver.verify.ledger import CheckedPlan, Findings, PodCounts
from solver.verify.time import excluded_nodes
from solver.verify.votes import VOTE_RULES, may_take_back, minimum_demand, queues_to_check, reclaim_ancestors


def evictions(x: CheckedPlan) -> Findings:
    """Evicted pods are running ones, sorted by (role, node) and merged, and there are gangs that they are evicted for,
    which start. A victim goes whole (action evict, all running pods evicted, none placed), or it is kept with exactly
    the rest, at its minima, what its subgroups lose being whole parts in each of their domains."""
    for g, decision in sorted(x.decisions.items()):
        where = ("decisions", g, "evicted_pods")
        if bool(decision.evicted_pods) != bool(decision.evicted_for) or (
            decision.action == "evict" and not decision.evicted_pods
        ):
            yield where, "evicted pods and the gangs they are evicted for belong together"
        if fault := _preemptor_fault(x, decision):
            yield ("decisions", g, "evicted_for"), fault
        if not decision.evicted_pods:
            continue
        keys = [(place.role, place.node) for place in decision.evicted_pods]
        if any(first >= second for first, second in pairwise(keys)):
            yield where, "not sorted by (role, node), or a pair occurs twice"
        if any(
            place.pods < 1 or place.pods > x.running_pods[g].get((place.role, place.node), 0)
            for place in decision.evicted_pods
        ):
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
    winners = decision.evicted_for
    if list(winners) != sorted(set(winners)):
        return "not sorted, or one occurs twice"
    if any(
        not 0 <= j < len(x.problem.gangs) or j not in x.decisions or x.decisions[j].action != "start" for j in winners
    ):
        return "a gang that does not start"
    return ""


def _loses_whole_subgroups(x: CheckedPlan, g: int) -> bool:
    for part in x.problem.gangs[g].subgroups:
        lost: Counter[int | None] = Counter()
        for (role, node), pods in x.evicted_pods[g].items():
            if role in part.roles:
                lost[x.domain(node, part.topology.tier) if x.is_binding(part.topology) else None] += pods
        if any(pods % part.size for pods in lost.values()):
            return False
    return True


def eviction_rights(x: CheckedPlan) -> Findings:
    """Only evictable gangs are victims, only for gangs that preempt, and all winners of a victim are in its own queue
    or none is.

    Own queue: `Problem.preempt`, and a victim has a lower priority than its winners. Other queues: `Problem.reclaim`,
    the victim's queue is reclaimable, and its priority is not higher; rules `reclaimed` and `entitlement` say how much.
    One that runs in a domain that its winner's queue keeps is given back whatever its priority, and whatever the queues
    hold (`taken_back`).
    """
    for g, decision in sorted(x.decisions.items()):
        victim = x.problem.gangs[g]
        winners = [x.problem.gangs[j] for j in decision.evicted_for if 0 <= j < len(x.problem.gangs)]
        if not winners:
            continue
        where = ("decisions", g, "evicted_for")
        inside = {winner.queue == victim.queue for winner in winners}
        if not victim.evictable:
            yield where, "the gang may not be evicted"
        if not all(winner.may_evict for winner in winners):
            yield where, "for a gang that preempts nobody"
        if len(inside) > 1:
            yield where, "for its own queue and for others at once"
        elif inside == {True} and not (
            x.problem.preempt_enabled and all(victim.priority < winner.priority for winner in winners)
        ):
            yield where, "inside a queue only a gang of lower priority may be evicted, and only where preemption is on"
        elif inside == {False} and not (x.problem.reclaim_enabled and x.problem.queues[victim.queue].reclaimable):
            yield where, "across queues only a reclaimable queue's gangs may be evicted, and only where reclaim is on"
        elif inside == {False} and any(victim.priority > x.problem.gangs[j].priority for j in reclaimers(x, g)):
            yield where, "across queues no gang of higher priority may be evicted"


def reclaimers(x: CheckedPlan, g: int) -> list[int]:
    """The gangs of other queues that gang g goes for, and that do not take back what is their queue's."""
    queue, gangs = x.problem.gangs[g].queue, x.problem.gangs
    winners = x.decisions[g].evicted_for if g in x.decisions else ()
    return [j for j in winners if 0 <= j < len(gangs) and gangs[j].queue != queue and not may_take_back(x, g, j)]


def reclaim_limits(x: CheckedPlan) -> Findings:
    """A queue that has to spare what gangs of other queues took (`gates_of`) keeps, descendants included, its
    guarantees, and what it deserves of at least one resource that each of those victims gave back and each of those
    winners asks for. Where it deserves something that a winner asks for, only that counts; where it deserves only other
    things, these, of what each victim gave back. Pods that went for gangs inside it count as still held. The number of
    pods is no such resource."""
    named: dict[int, set[int]] = defaultdict(set)
    useful: dict[int, set[int]] = {}
    back: dict[int, set[int]] = {}
    counted = {r for r, name in enumerate(x.problem.resources) if name != "pods"}
    for g, gang in enumerate(x.problem.gangs):
        if not x.evicted_pods[g]:
            continue
        given = {r for (role, _) in x.evicted_pods[g] for r, amount in enumerate(gang.roles[role].request) if amount}
        asked = [
            {r for role in x.problem.gangs[j].roles for r, amount in enumerate(role.request) if amount}
            for j in reclaimers(x, g)
        ]
        for q in queues_to_check(x, g):
            useful[q] = useful.get(q, counted).intersection(given, *asked)
            back[q] = back.get(q, counted) & given
            named[q] |= counted.intersection(set().union(*asked))
    for q, resources in sorted(useful.items()):
        queue = x.problem.queues[q]
        held = [
            b + a - gone + back
            for b, a, gone, back in zip(
                x.allocated_amounts[q], x.new_amounts[q], x.evicted_amounts[q], _internally_evicted(x, q), strict=True
            )
        ]
        due = {x.problem.resources.index(name): amount for name, amount in x.deserved[q].items()}
        counts = resources & due.keys() if named[q] & due.keys() else back[q] & due.keys() if due else resources
        if not any(held[r] >= int(due.get(r, 0)) for r in counts):
            yield ("queues", q, "deserved"), "gave up more than it held above what it deserves"
        if any(amount < (least or 0) for amount, least in zip(held, queue.guarantee, strict=True)):
            yield ("queues", q, "guarantee"), "gave up what it is guaranteed"


def _internally_evicted(x: CheckedPlan, q: int) -> list[int]:
    """What gangs below queue q, or in it, lost without it being asked: to others there, and to those who took back what
    is their queue's."""
    found = [0] * len(x.problem.resources)
    for g, gang in enumerate(x.problem.gangs):
        if (
            x.evicted_pods[g]
            and q not in queues_to_check(x, g)
            and all(
                _is_below(x, home, q) for home in (gang.queue, *(x.problem.gangs[j].queue for j in reclaimers(x, g)))
            )
        ):
            for (role, _), pods in x.evicted_pods[g].items():
                found = [sum_ + pods * amount for sum_, amount in zip(found, gang.roles[role].request, strict=True)]
    return found


def _is_below(x: CheckedPlan, q: int | None, top: int) -> bool:
    while q is not None and q != top:
        q = x.problem.queues[q].parent
    return q == top


def entitlement(x: CheckedPlan) -> Findings:
    """A winner that takes from other queues leaves its own, or one above it that is asked, of at least one resource
    that it asks for, within what that deserves: what runs there and stays, with its own minima."""
    for j in sorted({j for g in range(len(x.problem.gangs)) for j in reclaimers(x, g)}):
        gang = x.problem.gangs[j]
        own = [
            sum(pods * gang.roles[role].request[r] for (role, _), pods in x.running_pods[j].items())
            for r in range(len(x.problem.resources))
        ]
        within = False
        for q in (gang.queue, *reclaim_ancestors(x, gang.queue)):
            due = {x.problem.resources.index(name): amount for name, amount in x.deserved[q].items()}
            stays = [b - gone for b, gone in zip(x.allocated_amounts[q], x.evicted_amounts[q], strict=True)]
            asked = [r for r in due if any(role.request[r] for role in gang.roles)]
            within = within or any(
                stays[r] - own[r] + minimum_demand(gang, r) <= due[r] + quotas.RESOLUTION for r in asked
            )
        if not within:
            yield ("decisions", j), "takes from other queues what its own does not deserve"


def eviction_necessity(x: CheckedPlan) -> Findings:
    """No victim goes for nothing: with its pods back, its winners do not fit. Tried are the plan as it stands, and each
    winner placed again by a plain search; of a victim that is kept each pod is tried by itself, unless subgroups keep
    its pods together."""
    for g, decision in sorted(x.decisions.items()):
        if not x.evicted_pods[g] or any(j not in x.decisions for j in decision.evicted_for):
            continue
        apart = decision.action == "keep" and not x.problem.gangs[g].subgroups
        tries: list[PodCounts] = [{spot: 1} for spot in sorted(x.evicted_pods[g])] if apart else [x.evicted_pods[g]]
        if any(_fits_without_eviction(x, g, back, decision.evicted_for) for back in tries):
            yield ("decisions", g, "evicted_pods"), "goes, though the gangs that it goes for would fit beside it"


def _fits_without_eviction(x: CheckedPlan, g: int, restored_pods: PodCounts, preemptors: Sequence[int]) -> bool:
    """Whether a placement of the winners is easily seen while `back` of the victim's pods stay."""
    if any(True for _ in overcommitted_slots(x, {g: restored_pods})):
        return False
    free = _free_amounts(x)
    _add_to_free(free, x.problem.gangs[g], restored_pods, -1)
    queue = [list(amount) for amount in x.own_allocated_amounts]
    for other, gang in enumerate(x.problem.gangs):
        _charge_queue(queue[gang.queue], gang, x.evicted_pods[other], -1)
        _charge_queue(queue[gang.queue], gang, x.new_pods[other], 1)
    _charge_queue(queue[x.problem.gangs[g].queue], x.problem.gangs[g], restored_pods, 1)
    if not _queues_allow(x, queue, {x.problem.gangs[j].queue for j in preemptors}):
        return False
    if _is_non_negative(free):
        return True
    for j in preemptors:
        _add_to_free(free, x.problem.gangs[j], x.new_pods[j], 1)
    return _is_non_negative(free) and all(_place_gang(x, free, j) for j in preemptors)


def _free_amounts(x: CheckedPlan) -> list[list[int]]:
    free = [list(node.free) for node in x.problem.nodes]
    for gang, stays, new in zip(x.problem.gangs, x.remaining_pods, x.new_pods, strict=True):
        _add_to_free(free, gang, stays, -1)
        _add_to_free(free, gang, new, -1)
    return free


def _add_to_free(free: list[list[int]], gang: Gang, pods: PodCounts, sign: int) -> None:
    for (role, node), number in pods.items():
        for r, amount in enumerate(gang.roles[role].request):
            free[node][r] += sign * number * amount


def _charge_queue(total: list[int], gang: Gang, pods: PodCounts, sign: int) -> None:
    for (role, _), number in pods.items():
        for r, amount in enumerate(gang.roles[role].request):
            total[r] += sign * number * amount


def _is_non_negative(free: Iterable[list[int]]) -> bool:
    return all(amount >= 0 for node in free for amount in node)


def _queues_allow(x: CheckedPlan, own: Sequence[Sequence[int]], preemptor_queues: set[int]) -> bool:
    """Capabilities on the winners' paths and guarantees, with these holdings; a broken one that was broken before the
    plan is let pass by none, so that this errs towards needing the victim."""
    held = x.with_descendants([tuple(amounts) for amounts in own])
    for q in preemptor_queues:
        path: int | None = q
        while path is not None:
            spec = x.problem.queues[path]
            if any(
                most is not None and amount > most for amount, most in zip(held[path], spec.capability, strict=True)
            ):
                return False
            path = spec.parent
    for q, r, most, tree in quotas.real_capability(x.problem):
        if (held[q][r] if tree else own[q][r]) > most:
            return False
    for q, share in quotas.proportional_shares(x.problem).items():
        if q in preemptor_queues and any(
            own[q][x.problem.resources.index(name)] > amount for name, amount in share.items()
        ):
            return False
    needed = x.needs([tuple(amounts) for amounts in own])
    for r in range(len(x.problem.resources)):
        total = sum(node.free[r] for node in x.problem.nodes) + sum(queue.used[r] for queue in x.problem.queues)
        guaranteed = any(queue.guarantee[r] for queue in x.problem.queues)
        if guaranteed and sum(needed[q][r] for q, queue in enumerate(x.problem.queues) if queue.parent is None) > total:
            return False
        if guaranteed and any(
            (cap := queue.capability[r]) is not None and needed[q][r] > cap for q, queue in enumerate(x.problem.queues)
        ):
            return False
    return True


def _place_gang(x: CheckedPlan, free: list[list[int]], j: int) -> bool:
    """The winner's minima inside one of its domains, role by role, node by node, where no other rule keeps it off;
    takes the room. False proves nothing: gangs with subgroups, running pods or portions of cells, minima above the
    roles' sum, and gangs in relations are not tried."""
    gang = x.problem.gangs[j]
    if any(role.owned_rules or role.selecting_rules or role.slot_requests for role in gang.roles):
        return False
    if gang.subgroups or gang.running or gang.minimum > sum(role.minimum for role in gang.roles):
        return False
    domains: dict[int | None, list[int]] = defaultdict(list)
    closed = excluded_nodes(x, j)
    for n in (n for n in range(len(x.problem.nodes)) if n not in closed):
        domains[
            x.domain(n, gang.topology.tier) if gang.topology is not None and x.is_binding(gang.topology) else 0
        ].append(n)
    for domain, nodes in sorted(domains.items(), key=lambda item: -1 if item[0] is None else item[0]):
        found = None if domain is None else _first_fit(x, free, gang, nodes)
        if found is not None:
            for place in found:
                _add_to_free(free, gang, {(place.role, place.node): place.pods}, -1)
            return True
    return False


def _first_fit(
    x: CheckedPlan, free: Sequence[Sequence[int]], gang: Gang, nodes: Sequence[int]
) -> list[Placement] | None:
    left = {n: list(free[n]) for n in nodes}
    found = []
    order = sorted(range(len(gang.roles)), key=lambda t: gang.roles[t].request, reverse=True)
    for t in order:
        role, missing = gang.roles[t], gang.roles[t].minimum
        for n in nodes:
            if not missing or x.problem.nodes[n].node_class not in role.node_classes:
                continue
            pods = min((have // ask for have, ask in zip(left[n], role.request, strict=True) if ask), default=missing)
            if pods := max(0, min(pods, missing)):
                left[n] = [have - ask * pods for have, ask in zip(left[n], role.request, strict=True)]
                found.append(Placement(t, n, pods))
                missing -= pods
        if missing:
            return None
    return found


VICTIM_RULES = (evictions, eviction_rights, reclaim_limits, entitlement, *VOTE_RULES, eviction_necessity)

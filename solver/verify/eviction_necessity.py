"""The verifier's rule that no eviction is unnecessary: each victim is put back, and its preemptors placed again by a
plain search."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from solver.problem import Gang, Placement, Vector
from solver.verify import quotas
from solver.verify.checked_plan import CheckedPlan, Findings, PodCounts, add_vector, needs
from solver.verify.device_slots import overcommitted_slots
from solver.verify.time import excluded_nodes


def eviction_necessity(x: CheckedPlan) -> Findings:
    """With a victim's pods back, its preemptors do not fit. Tried are the plan as it stands, and each preemptor placed
    again by a plain search; of a victim that is kept each pod by itself, unless it has subgroups."""
    for g, decision in sorted(x.decisions.items()):
        if not x.evicted_pods[g] or any(j not in x.decisions for j in decision.evicted_for):
            continue
        apart = decision.action == "keep" and not x.problem.gangs[g].subgroups
        tries: list[PodCounts] = [{spot: 1} for spot in sorted(x.evicted_pods[g])] if apart else [x.evicted_pods[g]]
        if any(_fits_without_eviction(x, g, back, decision.evicted_for) for back in tries):
            yield ("decisions", g, "evicted_pods"), "goes, though the gangs that it goes for would fit beside it"


def _fits_without_eviction(x: CheckedPlan, g: int, restored_pods: PodCounts, preemptors: Sequence[int]) -> bool:
    """Whether a plain search places the preemptors while these of the victim's pods stay."""
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
        add_vector(free[node], gang.roles[role].request, sign * number)


def _charge_queue(total: list[int], gang: Gang, pods: PodCounts, sign: int) -> None:
    for (role, _), number in pods.items():
        add_vector(total, gang.roles[role].request, sign * number)


def _is_non_negative(free: Iterable[list[int]]) -> bool:
    return all(amount >= 0 for node in free for amount in node)


def _queues_allow(x: CheckedPlan, own: Sequence[Sequence[int]], preemptor_queues: set[int]) -> bool:
    """Whether these holdings respect the ceilings of the preemptors' queues, and guarantees. A limit that was broken
    before the plan counts as broken, so that this errs towards needing the victim."""
    holdings = [tuple(amounts) for amounts in own]
    held = x.with_descendants(holdings)
    for q in {above for home in preemptor_queues for above in x.queue_path(home)}:
        if any(most is not None and h > most for h, most in zip(held[q], x.problem.queues[q].capability, strict=True)):
            return False
    if any((held if tree else own)[q][r] > most for q, r, most, tree in quotas.real_capability(x.problem)):
        return False
    shares = quotas.proportional_shares(x.problem)
    for q in preemptor_queues & shares.keys():
        if any(own[q][x.problem.resources.index(name)] > amount for name, amount in shares[q].items()):
            return False
    return not any(True for _ in _unmet_guarantees(x, needs(x.problem, holdings)))


def _unmet_guarantees(x: CheckedPlan, needed: Sequence[Vector]) -> Iterator[int]:
    queues = x.problem.queues
    for r in range(len(x.problem.resources)):
        if any(queue.guarantee[r] for queue in queues):
            total = sum(node.free[r] for node in x.problem.nodes) + sum(queue.used[r] for queue in queues)
            roots = sum(needed[q][r] for q, queue in enumerate(queues) if queue.parent is None)
            capabilities = [(needed[q][r], queue.capability[r]) for q, queue in enumerate(queues)]
            if roots > total or any(cap is not None and need > cap for need, cap in capabilities):
                yield r


def _place_gang(x: CheckedPlan, free: list[list[int]], j: int) -> bool:
    """Place the preemptor's minima inside one of its domains, role by role, node by node, where no other rule excludes
    it.

    False proves nothing: gangs with subgroups, running pods, slot requests or pod rules, or minima above the roles'
    sum, are not tried.
    """
    gang = x.problem.gangs[j]
    if any(role.owned_rules or role.selecting_rules or role.slot_requests for role in gang.roles):
        return False
    if gang.subgroups or gang.running or gang.minimum > sum(role.minimum for role in gang.roles):
        return False
    domains: dict[int | None, list[int]] = defaultdict(list)
    excluded = excluded_nodes(x, j)
    for n in range(len(x.problem.nodes)):
        if n not in excluded:
            hard = gang.topology is not None and x.is_binding(gang.topology)
            domains[x.domain(n, gang.topology.tier) if hard and gang.topology is not None else 0].append(n)
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

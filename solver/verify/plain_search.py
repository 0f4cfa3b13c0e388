"""Rules that ask a plain search for room, one gang's minima next to given pods, node by node, within what queues may
hold: where all is proven, what fits has started; and no eviction is unnecessary."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from solver.facts import Undecided
from solver.problem import Gang, Vector
from solver.verify import quotas
from solver.verify.capacity import overcommitted_slots
from solver.verify.checked_plan import (
    CheckedPlan,
    Findings,
    PodCounts,
    add_vector,
    at,
    fitting_pods,
    has_plain_minima,
    vector_sum,
)
from solver.verify.pod_rules import is_in_the_way
from solver.verify.queues import guarantee_shortfalls
from solver.verify.time import excluded_nodes


def idle_room(x: CheckedPlan) -> Findings:
    """In a plan of which every batch is proven no gang waits undecided whose minima a plain search places next to it,
    within what its queues may hold. Any other reason names who is served first, or the shortage."""
    if x.plan.hit_time_limit or any(batch.verdict != "proven" for batch in x.plan.batches):
        return
    undecided = [g for g, decision in sorted(x.decisions.items()) if decision.facts == (Undecided(),)]
    if not undecided:
        return
    refused = quotas.non_admitting_queues(x.problem)
    free = [list(node.free) for node in x.problem.nodes]
    for g, gang in enumerate(x.problem.gangs):
        for pods in (x.remaining_pods[g], x.new_pods[g]):
            _take_pods(free, gang, pods)
    after = [vector_sum(vector_sum(held, new), gone, -1) for held, new, gone in zip(*x.own, strict=True)]
    for g in undecided:
        queue, demand = x.problem.gangs[g].queue, [0] * len(x.problem.resources)
        for role in x.problem.gangs[g].roles:
            add_vector(demand, role.request, role.minimum)
        then = [vector_sum(held, tuple(demand), int(q == queue)) for q, held in enumerate(after)]
        is_allowed = queue not in refused and _queues_allow(x, then, {queue}, x.own.allocated)
        if is_allowed and _place_gang(x, [list(amounts) for amounts in free], g):
            yield at(g, "facts"), "waits undecided though all is proven and it fits next to the plan"


def eviction_necessity(x: CheckedPlan) -> Findings:
    """With a victim's pods back, its preemptors do not fit. Tried are the plan as it is, and each preemptor placed
    again by a plain search; of a victim that is kept each pod by itself, unless it has subgroups."""
    for g, decision in sorted(x.decisions.items()):
        if not x.evicted_pods[g] or any(j not in x.decisions for j in decision.evicted_for):
            continue
        apart = decision.action == "keep" and not x.problem.gangs[g].subgroups
        tries: list[PodCounts] = [{spot: 1} for spot in sorted(x.evicted_pods[g])] if apart else [x.evicted_pods[g]]
        if any(_fits_without_eviction(x, g, back, decision.evicted_for) for back in tries):
            yield at(g, "evicted_pods"), "goes, though the gangs that it goes for would fit next to it"


def _fits_without_eviction(x: CheckedPlan, g: int, restored_pods: PodCounts, preemptors: Sequence[int]) -> bool:
    """Return whether a plain search places the preemptors while these of the victim's pods stay."""
    if any(overcommitted_slots(x, {g: restored_pods})) or is_in_the_way(x, g, restored_pods):
        return False
    gangs, free = x.problem.gangs, [list(node.free) for node in x.problem.nodes]
    for j, gang in enumerate(gangs):
        for pods in (x.remaining_pods[j], x.new_pods[j]):
            _take_pods(free, gang, pods)
    _take_pods(free, gangs[g], restored_pods)
    own = [vector_sum(vector_sum(held, new), gone, -1) for held, new, gone in zip(*x.own, strict=True)]
    own[gangs[g].queue] = vector_sum(own[gangs[g].queue], x.gang_demand(g, restored_pods))
    if not _queues_allow(x, own, {gang.queue for gang, new in zip(gangs, x.new_pods, strict=True) if new}):
        return False
    if _is_non_negative(free):
        return True
    for j in preemptors:
        _take_pods(free, gangs[j], x.new_pods[j], -1)
    return _is_non_negative(free) and all(_place_gang(x, free, j) for j in preemptors)


def _is_non_negative(free: Iterable[list[int]]) -> bool:
    return all(amount >= 0 for node in free for amount in node)


# ---- the search


def _take_pods(free: list[list[int]], gang: Gang, pods: PodCounts, times: int = 1) -> None:
    for (role, node), number in pods.items():
        add_vector(free[node], gang.roles[role].request, -times * number)


def _queues_allow(
    x: CheckedPlan, own: Sequence[Vector], starting_queues: set[int], before: Sequence[Vector] | None = None
) -> bool:
    """Return whether this usage respects the ceilings of the queues in which gangs start, and guarantees. A limit that
    was broken before counts as broken, so that this errs towards no; guarantees only beyond the usage `before`."""
    held, paths = x.with_descendants(own), {above for home in starting_queues for above in x.queue_path(home)}
    for field, q, r, most, tree in x.queue_limits:
        if (field == "guarantee" or q in paths) and (held if tree else own)[q][r] > most:
            return False
    return not any(guarantee_shortfalls(x, before, own))


def _place_gang(x: CheckedPlan, free: list[list[int]], j: int) -> bool:
    """Place the gang's minima inside one of its domains, role by role, node by node, where no other rule excludes
    it. False proves nothing: only gangs with plain minima and without running pods are tried."""
    gang = x.problem.gangs[j]
    if gang.running or not has_plain_minima(gang):
        return False
    excluded = excluded_nodes(x, j)
    for nodes in x.domain_node_sets(gang.topology):
        found = _first_fit(x, free, gang, [n for n in nodes if n not in excluded])
        if found is not None:
            _take_pods(free, gang, found)
            return True
    return False


def _first_fit(x: CheckedPlan, free: Sequence[Sequence[int]], gang: Gang, nodes: Sequence[int]) -> PodCounts | None:
    left = {n: list(free[n]) for n in nodes}
    found = {}
    for t, role in sorted(enumerate(gang.roles), key=lambda item: item[1].request, reverse=True):
        missing = role.minimum
        for n in nodes:
            if not missing or x.problem.nodes[n].node_class not in role.node_classes:
                continue
            if (pods := fitting_pods(left[n], role.request, missing)) > 0:
                add_vector(left[n], role.request, -pods)
                found[t, n] = pods
                missing -= pods
        if missing:
            return None
    return found

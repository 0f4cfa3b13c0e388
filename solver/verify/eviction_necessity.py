"""The verifier's rule that no eviction is unnecessary: each victim is put back, and its preemptors placed again by a
plain search."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from solver.verify.capacity import overcommitted_slots
from solver.verify.checked_plan import CheckedPlan, Findings, PodCounts, at, vector_sum
from solver.verify.plain_search import place_gang, queues_allow, take_pods
from solver.verify.pod_rules import is_in_the_way


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
            take_pods(free, gang, pods)
    take_pods(free, gangs[g], restored_pods)
    own = [vector_sum(vector_sum(held, new), gone, -1) for held, new, gone in zip(*x.own, strict=True)]
    own[gangs[g].queue] = vector_sum(own[gangs[g].queue], x.gang_demand(g, restored_pods))
    if not queues_allow(x, own, {gang.queue for gang, new in zip(gangs, x.new_pods, strict=True) if new}):
        return False
    if _is_non_negative(free):
        return True
    for j in preemptors:
        take_pods(free, gangs[j], x.new_pods[j], -1)
    return _is_non_negative(free) and all(place_gang(x, free, j) for j in preemptors)


def _is_non_negative(free: Iterable[list[int]]) -> bool:
    return all(amount >= 0 for node in free for amount in node)

"""The verifier's rule that no gang waits for nothing: where all is proven, what fits has started."""

from __future__ import annotations

from solver.facts import Undecided
from solver.verify import quotas
from solver.verify.checked_plan import CheckedPlan, Findings, add_vector, at, vector_sum
from solver.verify.plain_search import place_gang, queues_allow, take_pods


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
            take_pods(free, gang, pods)
    after = [vector_sum(vector_sum(held, new), gone, -1) for held, new, gone in zip(*x.own, strict=True)]
    for g in undecided:
        queue, demand = x.problem.gangs[g].queue, [0] * len(x.problem.resources)
        for role in x.problem.gangs[g].roles:
            add_vector(demand, role.request, role.minimum)
        then = [vector_sum(held, tuple(demand), int(q == queue)) for q, held in enumerate(after)]
        is_allowed = queue not in refused and queues_allow(x, then, {queue}, x.own.allocated)
        if is_allowed and place_gang(x, [list(amounts) for amounts in free], g):
            yield at(g, "facts"), "waits undecided though all is proven and it fits next to the plan"

"""The verifier's rules about what queues hold; `solver.verify.quotas` reads Volcano's queue plugins for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal

from solver.problem import Vector
from solver.verify import quotas
from solver.verify.checked_plan import CheckedPlan, Findings, PlanPath, add_vector, at, needs, vector_sum

SHARE_TOLERANCE = 1e-9


def capability(x: CheckedPlan) -> Findings:
    """For each queue with its descendants, per resource: used + running - evicted + new <= capability. Above it
    already: no new pod that asks for the resource."""
    yield from _exceeded_limits(x, "capability")


def closed_queues(x: CheckedPlan) -> Findings:
    """No new pod in or below a closed queue; with capacity's hierarchy none in a queue with children."""
    refused = quotas.non_admitting_queues(x.problem)
    for g, gang in enumerate(x.problem.gangs):
        if gang.queue in refused and x.new_pods[g]:
            yield ("decisions", g, "placements"), f"gets new pods in queue {gang.queue}, which takes none"


def real_capability(x: CheckedPlan) -> Findings:
    """With capacity or proportion: as `capability`, with what the guarantees of others leave of it."""
    yield from _exceeded_limits(x, "guarantee")


def proportion(x: CheckedPlan) -> Findings:
    """With proportion: used + running + new of the queue itself <= its share by weight, held gangs asking for nothing,
    per resource, where that is less than the whole cluster. Above it already: no new pod that asks for the resource."""
    yield from _exceeded_limits(x, "deserved")


def held_gangs(x: CheckedPlan) -> Findings:
    """With proportion only, and only a gang that waits, has no pods and may be held."""
    for g in sorted(x.held_gangs):
        free_to = x.decisions[g].action == "wait" and not x.running_pods[g] and x.problem.gangs[g].entry.may_be_held
        if not free_to or not x.problem.policy.proportion:
            yield at(g, "held"), "is in the cluster, or nothing keeps it out"


def _exceeded_limits(x: CheckedPlan, of_field: str) -> Findings:
    for field, q, r, most, tree in x.queue_limits:
        before, new, gone = (amounts[q][r] for amounts in (x.inclusive if tree else x.own))
        if field == of_field and new and before - gone + new > most:
            fault = f"{most:f} {x.problem.resources[r]} for {before - gone} held and {new} new"
            yield ("queues", q, field, r), fault


def guarantees(x: CheckedPlan) -> Findings:
    """Unused guarantees stay free for their queues. With `needs` before the plan and after it, for each
    resource of which some queue is guaranteed more than 0:

        sum of need(q) over the root queues   <=  sum of room over the nodes + sum of used over the queues
        need(q)                               <=  capability(q)                        for each queue

    room: what is free, or what running pods hold where that is more. Where the need before the plan is above the limit
    already, it must not grow: new pods only where a guarantee covers them.
    """
    after = [vector_sum(vector_sum(held, new), gone, -1) for held, new, gone in zip(*x.own, strict=True)]
    for where, _, fault in guarantee_shortfalls(x, x.own.allocated, after):
        yield where, fault


def guarantee_shortfalls(
    x: CheckedPlan, before: Sequence[Vector] | None, after: Sequence[Vector]
) -> Iterator[tuple[PlanPath, int, str]]:
    """(where, resource, fault) of each limit of `guarantees` that is broken. before, after: what queues themselves
    hold; None: no limit was broken before."""
    after, queues = needs(x.problem, after), x.problem.queues
    before = [(0,) * len(x.totals)] * len(queues) if before is None else needs(x.problem, before)
    roots = [q for q, queue in enumerate(queues) if queue.parent is None]
    lost = _lost_amounts(x)
    for r, name in enumerate(x.problem.resources):
        if not any(queue.guarantee[r] for queue in queues):
            continue  # a node that holds more than is free is rule `capacity`'s matter, not a guarantee's
        total = sum(node.free[r] for node in x.problem.nodes) + lost[r] + sum(queue.used[r] for queue in queues)
        need = sum(after[q][r] for q in roots)
        if need > max(total, sum(before[q][r] for q in roots)):
            yield ("resources", r), r, f"{need} {name} held or guaranteed, more than the cluster's {total}"
        for q, queue in enumerate(queues):
            limit, need = queue.capability[r], after[q][r]
            if limit is not None and need > max(limit, before[q][r]):
                fault = f"{need} {name} held or guaranteed inside a capability of {limit}"
                yield ("queues", q, "guarantee", r), r, fault


def _lost_amounts(x: CheckedPlan) -> list[int]:
    """Resource -> what running pods hold beyond what their nodes have free, in sum."""
    over = [[-amount for amount in node.free] for node in x.problem.nodes]
    for gang, pods in zip(x.problem.gangs, x.running_pods, strict=True):
        for (role, node), count in pods.items():
            add_vector(over[node], gang.roles[role].request, count)
    return [sum(max(0, node[r]) for node in over) for r in range(len(x.totals))]


def queue_use(x: CheckedPlan) -> Findings:
    """`Plan.queues` has one entry for each queue in order.

    allocated = used + running, admitted = new - evicted, both with descendants; share = max over resources of
    (allocated + admitted) / (capacity of all nodes) / weight; deserved as computed again here, in whole units.
    """
    if [use.queue for use in x.plan.queues] != list(range(len(x.problem.queues))):
        yield ("queues",), f"there must be one entry for each of the {len(x.problem.queues)} queues, in order"
        return
    for q, use in enumerate(x.plan.queues):
        before = x.inclusive.allocated[q]
        if use.allocated != before:
            yield ("queues", q, "allocated"), f"is {use.allocated}, but {before} were held before the plan"
        more = vector_sum(x.inclusive.new[q], x.inclusive.evicted[q], -1)
        if use.admitted != more:
            yield ("queues", q, "admitted"), f"is {use.admitted}, but the plan adds {more}"
        for r, (name, claimed) in enumerate(zip(x.problem.resources, use.deserved, strict=True)):
            amount = x.deserved[q].get(r, Decimal(0))
            if name != "pods" and not amount - 1 < (claimed or 0) <= amount:
                yield ("queues", q, "deserved"), f"is {claimed} {name} instead of {amount:f}"
        share = float(x.dominant_share(vector_sum(before, more))) / x.problem.queues[q].weight
        if not abs(use.share - share) <= SHARE_TOLERANCE:
            yield ("queues", q, "share"), f"is {use.share!r} instead of {share!r}"


QUEUE_RULES = (capability, closed_queues, real_capability, proportion, held_gangs, guarantees, queue_use)

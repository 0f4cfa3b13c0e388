"""The verifier's rules about what queues hold; `solver.verify.quotas` reads Volcano's queue plugins for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal

from solver.problem import Vector
from solver.verify import quotas
from solver.verify.checked_plan import CheckedPlan, Findings, PlanPath, needs, vector_sum

SHARE_TOLERANCE = 1e-9


def capability(x: CheckedPlan) -> Findings:
    """For each queue with its descendants, per resource: used + running - evicted + new <= capability. Above it
    already: no new pod that asks for the resource."""
    for q, queue in enumerate(x.problem.queues):
        for r, limit in enumerate(queue.capability):
            held = x.allocated_amounts[q][r] - x.evicted_amounts[q][r]
            if limit is not None and x.new_amounts[q][r] and held + x.new_amounts[q][r] > limit:
                message = f"{limit} {x.problem.resources[r]} for {held} held and {x.new_amounts[q][r]} new"
                yield ("queues", q, "capability", r), message


def closed_queues(x: CheckedPlan) -> Findings:
    """No new pod in or below a closed queue; with capacity's hierarchy none in a queue with children."""
    refused = quotas.non_admitting_queues(x.problem)
    for g, gang in enumerate(x.problem.gangs):
        if gang.queue in refused and x.new_pods[g]:
            yield ("decisions", g, "placements"), f"gets new pods in queue {gang.queue}, which takes none"


def real_capability(x: CheckedPlan) -> Findings:
    """With capacity or proportion: as `capability`, with what the guarantees of others leave of it."""
    for q, r, limit, tree in quotas.real_capability(x.problem):
        before, added = x.own_allocated_amounts[q][r] - x.own_evicted_amounts[q][r], x.own_new_amounts[q][r]
        if tree:
            before, added = x.allocated_amounts[q][r] - x.evicted_amounts[q][r], x.new_amounts[q][r]
        if added and before + added > limit:
            message = f"others' guarantees leave {limit} {x.problem.resources[r]} for {before} held and {added} new"
            yield ("queues", q, "guarantee", r), message


def proportion(x: CheckedPlan) -> Findings:
    """With proportion: used + running + new of the queue itself <= its share by weight, per resource, where that is
    less than the whole cluster. Above it already: no new pod that asks for the resource."""
    for q, share in sorted(quotas.proportional_shares(x.problem).items()):
        for name, most in share.items():
            r = x.problem.resources.index(name)
            held, new = x.own_allocated_amounts[q][r] - x.own_evicted_amounts[q][r], x.own_new_amounts[q][r]
            if most < x.totals[r] and new and held + new > most + quotas.RESOLUTION:
                yield ("queues", q, "deserved", r), f"{most:f} {name} deserved for {held} held and {new} new"


def guarantees(x: CheckedPlan) -> Findings:
    """What is guaranteed and not used stays free for its queue. With `needs` before the plan and after it, for each
    resource of which some queue is guaranteed more than 0:

        sum of need(q) over the root queues   <=  sum of free over the nodes + sum of used over the queues
        need(q)                               <=  capability(q)                        for each queue

    Where the need before the plan is above the limit already, it must not grow: new pods only where a guarantee covers
    them.
    """
    stays = [
        vector_sum(held, gone, -1) for held, gone in zip(x.own_allocated_amounts, x.own_evicted_amounts, strict=True)
    ]
    after = [vector_sum(held, new) for held, new in zip(stays, x.own_new_amounts, strict=True)]
    for where, _, fault in guarantee_shortfalls(x, x.own_allocated_amounts, after):
        yield where, fault


def guarantee_shortfalls(
    x: CheckedPlan, before: Sequence[Vector], after: Sequence[Vector]
) -> Iterator[tuple[PlanPath, int, str]]:
    """(where, resource, fault) of each limit of `guarantees` that these holdings break. before, after: by queue,
    without descendants."""
    earlier, later = needs(x.problem, before), needs(x.problem, after)
    roots = [q for q, queue in enumerate(x.problem.queues) if queue.parent is None]
    for r, name in enumerate(x.problem.resources):
        if not any(queue.guarantee[r] for queue in x.problem.queues):
            continue  # a node that holds more than is free is rule `capacity`'s matter, not a guarantee's
        total = sum(node.free[r] for node in x.problem.nodes) + sum(queue.used[r] for queue in x.problem.queues)
        need = sum(later[q][r] for q in roots)
        if need > max(total, sum(earlier[q][r] for q in roots)):
            yield ("resources", r), r, f"{need} {name} held or guaranteed, more than the cluster's {total}"
        for q, queue in enumerate(x.problem.queues):
            limit = queue.capability[r]
            if limit is not None and later[q][r] > max(limit, earlier[q][r]):
                yield (
                    ("queues", q, "guarantee", r),
                    r,
                    f"{later[q][r]} {name} held or guaranteed inside a capability of {limit}",
                )


def queue_use(x: CheckedPlan) -> Findings:
    """`Plan.queues` has one entry for each queue in order.

    allocated = used + running, admitted = new - evicted, both with descendants; share = max over resources of
    (allocated + admitted) / (capacity of all nodes) / weight; deserved as computed again here, in whole units.
    """
    if [use.queue for use in x.plan.queues] != list(range(len(x.problem.queues))):
        yield ("queues",), f"there must be one entry for each of the {len(x.problem.queues)} queues, in order"
        return
    due = quotas.deserved(x.problem)
    for q, use in enumerate(x.plan.queues):
        if use.allocated != x.allocated_amounts[q]:
            message = f"is {use.allocated}, but {x.allocated_amounts[q]} were held before the plan"
            yield ("queues", q, "allocated"), message
        more = vector_sum(x.new_amounts[q], x.evicted_amounts[q], -1)
        if use.admitted != more:
            yield ("queues", q, "admitted"), f"is {use.admitted}, but the plan adds {more}"
        held = vector_sum(x.allocated_amounts[q], more)
        for name, claimed in zip(x.problem.resources, use.deserved, strict=True):
            amount = due[q].get(name, Decimal(0))
            if name != "pods" and not amount - 1 < (claimed or 0) <= amount + quotas.RESOLUTION:
                yield ("queues", q, "deserved"), f"is {claimed} {name} instead of {amount:f}"
        shares = (amount / total for amount, total in zip(held, x.totals, strict=True) if total)
        share = max(shares, default=0.0) / x.problem.queues[q].weight
        if not abs(use.share - share) <= SHARE_TOLERANCE:
            yield ("queues", q, "share"), f"is {use.share!r} instead of {share!r}"

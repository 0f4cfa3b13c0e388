"""Repairs of queues: the smallest changes that let the gang be allowed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from math import gcd

from solver import repairs
from solver.diagnosis.case import GangDiagnosis
from solver.diagnosis.queue_obstacles import QueueObstacle, queue_obstacles
from solver.diagnosis.world import Family, World, with_role
from solver.facts import CapabilityLimit, ShareLimit
from solver.problem import GroupQuota
from solver.semantics.placements import add_vectors
from solver.semantics.queue_limits import share_limits
from solver.semantics.queues import queue_path
from solver.state.queue_books import QueueBooks


def with_queue_changes(case: GangDiagnosis, w: World) -> World:
    """Return the world with the queues' limits changed so that the gang is allowed; unchanged where no change is known
    that does it."""
    state, queue, amount = case.state, case.gang.queue, case.demand(w)
    now = w
    for q in queue_path(state.problem, queue):
        if not state.problem.queues[q].open:
            now = now.with_queue(repairs.OpenQueue(q), q, "open", True)
    for _ in range(state.options.budget.limit_rounds):
        ledger = case.ledger(now)
        broken = min(queue_obstacles(ledger, queue, amount), key=lambda o: o.code, default=None)
        if broken is None:
            return now
        changed = _without_limit(case, now, ledger, broken)
        if changed is None:
            return w
        now = changed
    return w


def with_smaller_shares(case: GangDiagnosis, w: World) -> World:
    """Return the world whose weight names the gangs that the plan starts and whose queues then deserve too little for
    them."""
    if not any(isinstance(change, repairs.MoreWeight) for change in w.changes):
        return w
    state, ledger, now = case.state, case.ledger(w), case.state.after.queue_books
    ledger.charge_queue(case.gang.queue, case.demand(w))
    over, gone = {q for q in range(len(state.problem.queues)) if _exceeds_share(ledger, q)}, set[int]()
    over -= {q for q in over if _exceeds_share(now, q)}
    for i in state.started_by_priority if over else ():
        q = state.problem.gangs[i].queue
        if q in over and i not in w.held_back:
            ran, has = (state.held_by_gangs([i], with_plan) for with_plan in (False, True))
            ledger.charge_queue(q, add_vectors(ran, has, -1))
            gone.add(i)
            over -= set() if _exceeds_share(ledger, q) else {q}

    def with_names(change: repairs.Repair) -> repairs.Repair:
        return (
            replace(change, gangs=tuple(sorted(gone.union(change.gangs))))
            if isinstance(change, repairs.MoreWeight)
            else change
        )

    return replace(w, changes=tuple(map(with_names, w.changes))) if gone else w


def _exceeds_share(ledger: QueueBooks, queue: int) -> bool:
    """Return whether the queue by itself holds more than it deserves by weight."""
    shares = (ceiling for ceiling in ledger.queue_rules.ceilings_by_queue[queue] if ceiling.code == ShareLimit.code)
    amounts = (pair for share in shares for pair in zip(ledger.amount_counted(share), share.limits, strict=True))
    return any(most is not None and have > most for have, most in amounts)


def open_node_groups(case: GangDiagnosis) -> list[Family[tuple[int, ...]]]:
    """Return one more node group for the queue, a family for each; all of them where one is not enough; or the nodes in
    no group, which are closed to a queue that names groups."""
    groups = tuple(g for g in case.closed_groups if g)
    ungrouped = [(0,)] if 0 in case.closed_groups else []
    sets = dict.fromkeys([*((g,) for g in groups), *([groups] if groups else []), *ungrouped])
    return [Family([some], partial(_open_node_groups, case)) for some in sets]


def _open_node_groups(case: GangDiagnosis, w: World, groups: tuple[int, ...]) -> World:
    gang, of = case.with_open_groups(w.gang, groups), case.state.group_of_class
    for r, role in enumerate(gang.roles if groups != (0,) else ()):
        gang = with_role(gang, r, node_classes=frozenset(c for c in role.node_classes if of[c]))
    return w.with_change(repairs.OpenNodeGroups(w.queue, groups), gang=gang)


def higher_group_limits(case: GangDiagnosis, w: World) -> Iterator[Family[int]]:
    """Yield a higher limit of the queue in one node group, up to all that the gang requests there."""
    if (counts := case.state.after.rule_counts) is None:
        return
    for rho in sorted({rho for role in w.gang.roles for rho in role.selecting_rules}):
        quota, rule = counts.rule(rho).quota, counts.existing_pods.pod_rules[rho]
        if quota is not None and rule.selected_present:
            amounts = [role.request[quota.resource] for role in w.gang.roles]
            most = sum(amount * role.replicas for amount, role in zip(amounts, w.gang.roles, strict=True))
            step, held = gcd(*amounts), quota.limit - int(counts.quota_room(rho)[0])
            yield Family(range(step, most + 1, step), partial(_raise_group_limit, rho, quota, held))


def _raise_group_limit(rho: int, quota: GroupQuota, held: int, w: World, more: int) -> World:
    """Return the world with the limit raised to the usage and `more`, where that is above the limit."""
    limit = max(held + more, quota.limit)
    repair = repairs.HigherGroupLimit(quota.queue, (quota.node_group,), quota.resource, limit, quota.limit)
    return w.with_change(repair, quota_limits=((rho, limit),))


def _without_limit(case: GangDiagnosis, w: World, ledger: QueueBooks, o: QueueObstacle) -> World | None:
    """Return the world with a limit changed by as little as lets the gang be allowed; None where that is not known."""
    asked = case.demand(w)[o.r]
    if o.code == CapabilityLimit.code and o.queue is not None:
        capability = ledger.problem.queues[o.queue].capability
        most = ledger.held[o.queue][o.r] + asked
        larger = tuple(most if i == o.r else x for i, x in enumerate(capability))
        repair = repairs.MoreCapability(o.queue, o.r, most - (capability[o.r] or 0))
        return w.with_queue(repair, o.queue, "capability", larger)
    if o.code == ShareLimit.code and o.queue is not None:
        return _with_weight(case, w, ledger, o.queue, o.r)
    return _with_less_guaranteed(case, w, ledger, o)


def _with_weight(case: GangDiagnosis, w: World, ledger: QueueBooks, q: int, r: int) -> World | None:
    """Return the world with the smallest weight with which the queue's share suffices, by bisection: the share grows
    with the weight."""
    state, most, now = case.state, ledger.direct[q][r] + case.demand(w)[r], ledger.problem.queues[q].weight

    def suffices(heavier: World) -> bool:
        limit = share_limits(state.queue_rules(heavier).problem, q)[r]
        return limit is None or most <= limit

    weights = range(now + 1, now * state.options.budget.weight_factor + 1)
    return Family(weights, partial(_weigh, q, now)).least(w, suffices)


def _weigh(q: int, now: int, w: World, weight: int) -> World:
    return w.with_queue(repairs.MoreWeight(q, weight, now), q, "weight", weight)


def _with_less_guaranteed(case: GangDiagnosis, w: World, ledger: QueueBooks, o: QueueObstacle) -> World | None:
    """Return the world with a smaller guarantee of the other queue that keeps most: as little less as lifts all that
    guarantees keep of the resource, by bisection, else all that it keeps."""
    problem, need = ledger.problem, ledger.needed_amounts(o.r)

    def reserved_amount(q: int) -> int:
        held = ledger.direct[q][o.r] + sum(need[c] for c in ledger.children[q])
        guaranteed = problem.queues[q].guarantee[o.r] or 0
        return guaranteed if o.is_ceiling else min(guaranteed, need[q] - held)

    q = min(o.guaranteed_queues, key=lambda q: (-reserved_amount(q), q), default=None)
    if q is None or not reserved_amount(q):
        return None

    def make(w: World, less: int) -> World:
        guarantee = enumerate(problem.queues[q].guarantee)
        smaller = tuple((x or 0) - less if r == o.r else x for r, x in guarantee)
        return w.with_queue(repairs.SmallerGuarantee(q, o.r, less), q, "guarantee", smaller)

    def suffices(then: World) -> bool:
        left = queue_obstacles(ledger.with_rules(case.state.queue_rules(then)), case.gang.queue, case.demand(w))
        return all(other.reason_key != o.reason_key for other in left)

    family = Family(range(1, reserved_amount(q) + 1), make)
    return family.least(w, suffices) or family.most(w)

"""Limits of queues: every one that would have to go for a gang to be allowed, and no other; and the smallest changes
that let it be allowed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from math import gcd

from solver import repairs
from solver.diagnosis.case import GangDiagnosis
from solver.diagnosis.diagnosis_state import DiagnosisState
from solver.diagnosis.minimal import first_sufficient
from solver.diagnosis.world import Family, World, with_role
from solver.facts import CapabilityLimit, ClosedQueue, Fact, GuaranteeReserve, ShareLimit
from solver.problem import GroupQuota, Limits, Problem, Queue, Vector
from solver.semantics.entitlements import share_limits
from solver.semantics.placements import add_vectors
from solver.semantics.queues import queue_path
from solver.state.queue_books import QueueBooks


@dataclass(frozen=True, slots=True)
class QueueObstacle:
    """A limit on resource r that the gang would break. queue: whose; None for guarantees kept in the whole cluster.

    code: of its fact. is_ceiling: one of `QueueRules.ceilings_by_queue`, else a guarantee. limit: the most that may be
    held; available: its unused part. guaranteed_queues: whose guarantees the gang meets.
    """

    code: str
    queue: int | None
    r: int
    is_ceiling: bool
    limit: int
    available: int
    guaranteed_queues: tuple[int, ...] = ()

    @property
    def reason_key(self) -> tuple[str, int, int]:
        """Return the key of the reason. All guarantees of one resource are one reason: lifting one of these limits
        lifts all."""
        return self.code, -1 if self.queue is None or self.code == GuaranteeReserve.code else self.queue, self.r


def queue_obstacles(ledger: QueueBooks, queue: int, amount: Vector) -> Iterator[QueueObstacle]:
    """Yield every ceiling and every guarantee that `amount` more would break."""
    for ceiling in ledger.queue_rules.binding_ceilings[queue]:
        q, have = ceiling.queue, ledger.amount_counted(ceiling)
        for r, (asked, most) in enumerate(zip(amount, ceiling.limits, strict=True)):
            if asked and most is not None and have[r] + asked > most:
                by_guarantees = ceiling.code == GuaranteeReserve.code
                others = _competing_guarantees(ledger.problem, q, r) if by_guarantees else ()
                yield QueueObstacle(ceiling.code, q, r, True, most, max(0, most - have[r]), others)
    then = ledger.copy()
    then.charge_queue(queue, amount)
    for at, r in ledger.violated_guarantees(queue, amount):
        others, needed = _unmet_guarantees(ledger, queue, at, r), then.needed_amounts(r)
        if not others:
            continue  # no guarantee is unmet: the capability, or the nodes, are an obstacle of their own
        if at is None:
            most, need = ledger.cluster_total[r], sum(needed[q] for q in ledger.roots)
        else:
            most, need = ledger.problem.queues[at].capability[r] or 0, needed[at]
        yield QueueObstacle(GuaranteeReserve.code, at, r, False, most, max(0, amount[r] - (need - most)), others)


def _competing_guarantees(problem: Problem, q: int, r: int) -> tuple[int, ...]:
    """Return the queues whose guarantees lower the real capability of queue q: in the flat rule all others, else its
    siblings, and those of the queues above it."""
    path = queue_path(problem, q)
    parents = {problem.queues[above].parent for above in path} - {None}
    found = []
    for c, queue in enumerate(problem.queues):
        competes = (c not in path and queue.parent in parents) if problem.policy.hierarchical else c != q
        if competes and queue.guarantee[r]:
            found.append(c)
    return tuple(found)


def _unmet_guarantees(ledger: QueueBooks, queue: int, at: int | None, r: int) -> tuple[int, ...]:
    """Return the queues outside the gang's path, and below `at` where it is one, that hold less than their
    guarantee."""
    path, found = ledger.path(queue), []
    for q, spec in enumerate(ledger.problem.queues):
        if q not in path and (at is None or at in ledger.path(q)) and ledger.held[q][r] < (spec.guarantee[r] or 0):
            found.append(q)
    return tuple(found)


def _without_obstacle(problem: Problem, queue: int, obstacle: QueueObstacle) -> Problem:
    """Return the problem without one obstacle for a gang of this queue: that capability, or the guarantees of the
    resource outside the queue's path and in the named queues. A share by weight stays."""
    r = obstacle.r
    if obstacle.code == CapabilityLimit.code:
        return _with_changed_queues(
            problem, lambda q, x: replace(x, capability=_unlimited(x.capability, r)) if q == obstacle.queue else x
        )
    if obstacle.code == GuaranteeReserve.code:
        kept = frozenset(queue_path(problem, queue)) - frozenset(obstacle.guaranteed_queues)
        return _with_changed_queues(
            problem, lambda q, x: x if q in kept else replace(x, guarantee=_unlimited(x.guarantee, r))
        )
    return problem


def _with_changed_queues(problem: Problem, change: Callable[[int, Queue], Queue]) -> Problem:
    return problem.with_queues(tuple(change(q, queue) for q, queue in enumerate(problem.queues)))


def _unlimited(limits: Limits, r: int) -> Limits:
    return tuple(None if i == r else limit for i, limit in enumerate(limits))


def binding_obstacles(
    ledger: QueueBooks, queue: int, amount: Vector, cluster: QueueBooks | None
) -> list[QueueObstacle]:
    """Return a minimal set of limits without which the gang is allowed, one for each reason and resource.

    cluster: what the cluster holds where guarantees are kept in all of it; None where that does not matter.
    Capabilities come first, then what guarantees leave, then shares by weight: each is derived from those before it,
    and is asked again without them.
    """
    found: dict[tuple[str, int, int], QueueObstacle] = {}
    while True:
        every = [o for o in queue_obstacles(ledger, queue, amount) if o.queue is not None]
        if cluster is not None:
            every += [o for o in queue_obstacles(cluster, queue, amount) if o.queue is None]
        new = [o for o in every if o.reason_key not in found]
        if not new:
            return list(found.values())
        first, problem = min(o.code for o in new), ledger.problem
        for o in _tightest_obstacles(o for o in new if o.code == first):
            found[o.reason_key] = o
            problem = _without_obstacle(problem, queue, o)
        ledger = ledger.with_problem(problem)


def _tightest_obstacles(several: Iterable[QueueObstacle]) -> list[QueueObstacle]:
    """Return the limit that leaves least for each reason and resource, with the queues of all of them."""
    found: dict[tuple[str, int, int], QueueObstacle] = {}
    for o in several:
        other = found.get(o.reason_key, o)
        tight = o if o.available < other.available else other
        queues = tuple(sorted({*o.guaranteed_queues, *other.guaranteed_queues}))
        found[o.reason_key] = replace(tight, guaranteed_queues=queues)
    return list(found.values())


@dataclass(frozen=True, slots=True)
class QueueDemand:
    """A gang's request to its queue: in addition to its running pods, and with nothing of it running."""

    queue: int
    remaining: Vector
    total: Vector


def queue_facts(
    state: DiagnosisState, ledger: QueueBooks, demand: QueueDemand, cluster: QueueBooks | None
) -> list[Fact]:
    """Return all limits to be lifted under these usages of the queues (`ledger`) and of the cluster (`cluster`)."""
    queue, idle = demand.queue, state.idle_ledger
    found: list[Fact] = []
    if not ledger.queue_rules.accepts_gangs[queue]:
        closed = (q for q in ledger.path(queue) if not ledger.problem.queues[q].open)
        found.append(ClosedQueue(next(closed, queue)))
    permanent = {}
    for o in binding_obstacles(idle, queue, demand.total, None if cluster is None else idle):
        if o.code != ShareLimit.code:
            permanent[o.reason_key] = o
    present = binding_obstacles(ledger, queue, demand.remaining, cluster)
    for o in present:
        lasting = permanent.get(o.reason_key) or _kept_capability(idle, demand, present, o)
        found.append(_queue_fact(state, ledger, demand, lasting or o, lasting is not None))
    return found


def _kept_capability(
    idle: QueueBooks, demand: QueueDemand, present: Iterable[QueueObstacle], o: QueueObstacle
) -> QueueObstacle | None:
    """Return a capability that is used up and would not suffice with nothing running either, since guarantees keep some
    of it: who has these may hold that now, and so only the capability is in the way. None where waiting may help."""
    if o.code != CapabilityLimit.code:
        return None
    problem = idle.problem
    for other in present:
        if other is not o:
            problem = _without_obstacle(problem, demand.queue, other)
    left = queue_obstacles(idle.with_problem(problem), demand.queue, demand.total)
    of_queues = (each for each in left if each.queue is not None)
    kept = [each for each in of_queues if (each.code, each.r) == (GuaranteeReserve.code, o.r)]
    if not kept:
        return None
    (tightest,) = _tightest_obstacles(kept)
    return replace(o, available=tightest.available, guaranteed_queues=tightest.guaranteed_queues)


def _queue_fact(state: DiagnosisState, ledger: QueueBooks, demand: QueueDemand, o: QueueObstacle, never: bool) -> Fact:
    asked, q = demand.total[o.r] if never else demand.remaining[o.r], demand.queue if o.queue is None else o.queue
    if o.code == GuaranteeReserve.code:
        return GuaranteeReserve(asked, o.available, q, o.r, o.guaranteed_queues, never=never)
    gangs = _started_inside(state, q) if ledger is state.after.queue_books else ()
    if o.code == ShareLimit.code:
        return ShareLimit(asked, o.available, q, o.r, o.limit, gangs, never=never)
    return CapabilityLimit(asked, o.available, q, o.r, o.limit, gangs, o.guaranteed_queues, never=never)


def _started_inside(state: DiagnosisState, q: int) -> tuple[int, ...]:
    """Return the gangs that the plan starts in a queue or below it."""
    gangs, path = state.problem.gangs, state.after.queue_books.path
    return tuple(j for j in sorted(state.started_placements) if q in path(gangs[j].queue))


# ---- repairs


def queue_changes(case: GangDiagnosis, start: World) -> Family[tuple[()]]:
    """Return what the queues lack in a world, as one change of several limits. A restart may ask for more."""
    may_lack = start.gang.running or not case.fits_queues(start)

    return Family(
        repairs.MoreCapability,
        [()] if may_lack else [],
        lambda w, _: with_queue_changes(case, w),
        kind="queue",
        finish=partial(with_smaller_shares, case),
        leaves_nodes=True,
    )


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
    return [Family(repairs.OpenNodeGroups, [some], partial(_open_node_groups, case)) for some in sets]


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
            asked = [role.request[quota.resource] for role in w.gang.roles]
            most = sum(amount * role.replicas for amount, role in zip(asked, w.gang.roles, strict=True))
            step, held = gcd(*asked), quota.limit - int(counts.quota_room(rho)[0])
            amounts = range(step, most + 1, step)
            yield Family(repairs.HigherGroupLimit, amounts, partial(_raise_group_limit, rho, quota, held))


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

    def heavier(weight: int) -> World:
        return w.with_queue(repairs.MoreWeight(q, weight, now), q, "weight", weight)

    def suffices(weight: int) -> bool:
        limit = share_limits(state.queue_rules(heavier(weight)).problem, q)[r]
        return limit is None or most <= limit

    least = first_sufficient(range(now + 1, now * state.options.budget.weight_factor + 1), suffices)
    return None if least is None else heavier(least)


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

    def make(less: int) -> World:
        guarantee = enumerate(problem.queues[q].guarantee)
        smaller = tuple((x or 0) - less if r == o.r else x for r, x in guarantee)
        return w.with_queue(repairs.SmallerGuarantee(q, o.r, less), q, "guarantee", smaller)

    def suffices(less: int) -> bool:
        rules = case.state.queue_rules(make(less))
        left = queue_obstacles(ledger.with_rules(rules), case.gang.queue, case.demand(w))
        return all(other.reason_key != o.reason_key for other in left)

    most = reserved_amount(q)
    return make(first_sufficient(range(1, most + 1), suffices) or most)

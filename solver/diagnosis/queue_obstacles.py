"""The catalogue of obstacles in queues: every limit that would have to go for a gang to be allowed, and no other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from solver.diagnosis.diagnosis_state import DiagnosisState
from solver.facts import CapabilityLimit, ClosedQueue, Fact, GuaranteeReserve, ShareLimit
from solver.problem import Limits, Problem, Queue, Vector
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


def without_obstacle(problem: Problem, queue: int, obstacle: QueueObstacle) -> Problem:
    """Return the problem without one obstacle for a gang of this queue: that capability, or the guarantees of the
    resource outside the queue's path and in the named queues. A share by weight stays."""
    r = obstacle.r
    if obstacle.code == CapabilityLimit.code:
        return _with_changed_queues(
            problem, lambda q, x: replace(x, capability=_without_limit(x.capability, r)) if q == obstacle.queue else x
        )
    if obstacle.code == GuaranteeReserve.code:
        kept = frozenset(queue_path(problem, queue)) - frozenset(obstacle.guaranteed_queues)
        return _with_changed_queues(
            problem, lambda q, x: x if q in kept else replace(x, guarantee=_without_limit(x.guarantee, r))
        )
    return problem


def _with_changed_queues(problem: Problem, change: Callable[[int, Queue], Queue]) -> Problem:
    return problem.with_queues(tuple(change(q, queue) for q, queue in enumerate(problem.queues)))


def _without_limit(limits: Limits, r: int) -> Limits:
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
            problem = without_obstacle(problem, queue, o)
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
            problem = without_obstacle(problem, demand.queue, other)
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

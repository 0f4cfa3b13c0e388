"""What queues have against a gang: every limit that would have to go for it to be allowed, and no other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from solver.diagnosis.world import DiagnosisState
from solver.facts import CapabilityLimit, ClosedQueue, Fact, GuaranteeReserve, ResourceShortage, ShareLimit
from solver.problem import Limits, Problem, Queue, Vector
from solver.semantics.queue_limits import queue_path
from solver.state.queue_books import QueueBooks


@dataclass(frozen=True, slots=True)
class QueueObstacle:
    """A limit that the gang would break. queue: whose; None for what is kept for guarantees in the whole cluster.

    most: what may be held of resource r; left: how much of it is; missing: what is too little. ceiling: it is one of
    `quotas.ceilings`, else a guarantee. keepers: the queues that are guaranteed what the gang lacks, where it is kept
    for guarantees.
    """

    code: str
    queue: int | None
    r: int
    is_ceiling: bool
    limit: int
    available: int
    missing: int
    guaranteed_queues: tuple[int, ...] = ()

    @property
    def reason_key(self) -> tuple[str, int, int]:
        """All that guarantees keep of one resource is one reason, wherever it is measured: what lifts one of these
        limits lifts all of them."""
        return self.code, -1 if self.queue is None or self.code == "GW106" else self.queue, self.r


def queue_obstacles(ledger: QueueBooks, queue: int, amount: Vector) -> Iterator[QueueObstacle]:
    """Every ceiling and every guarantee that `amount` more would break."""
    for q in ledger.path(queue):
        for ceiling in ledger.queue_rules.ceilings_by_queue[q]:
            have = ledger.amount_counted(ceiling)
            for r, (asked, most) in enumerate(zip(amount, ceiling.limits, strict=True)):
                if (
                    asked
                    and most is not None
                    and have[r] + asked > most
                    and (ceiling.includes_descendants or q == queue)
                ):
                    keepers = _competing_guarantees(ledger.problem, q, r) if ceiling.code == "GW106" else ()
                    yield QueueObstacle(
                        ceiling.code, q, r, True, most, max(0, most - have[r]), have[r] + asked - most, keepers
                    )
    then = ledger.copy()
    then.charge_queue(queue, amount)
    for at, r in ledger.violated_guarantees(queue, amount):
        keepers = _unmet_guarantees(ledger, queue, at, r)
        most = ledger.cluster_total[r] if at is None else _capability_of(ledger.problem, at, r)
        missing = (
            _root_total(then.problem, then.needed_amounts(r)) if at is None else then.needed_amounts(r)[at]
        ) - most
        if keepers or at is None:  # else it is held, and the capability says so
            code = "GW106" if keepers else "GW102"  # kept for nobody: more runs than the nodes have in sum
            yield QueueObstacle(code, at, r, False, most, max(0, amount[r] - missing), missing, keepers)


def _competing_guarantees(problem: Problem, q: int, r: int) -> tuple[int, ...]:
    """The queues whose guarantees lower what `quotas.real_capability` leaves queue q: all others, also those above it,
    in the flat rule; along the tree those beside it and beside the queues above it."""
    way = queue_path(problem, q)
    beside = {problem.queues[above].parent for above in way} - {None}
    tree = problem.policy.hierarchical
    others = (
        c for c, queue in enumerate(problem.queues) if (c not in way and queue.parent in beside if tree else c != q)
    )
    return tuple(c for c in others if problem.queues[c].guarantee[r])


def _unmet_guarantees(ledger: QueueBooks, queue: int, at: int | None, r: int) -> tuple[int, ...]:
    """The queues outside the gang's path, below `at` where it is one, that together with all below them hold less than
    they are guaranteed."""
    way = ledger.path(queue)
    others = (q for q in range(len(ledger.problem.queues)) if q not in way and (at is None or at in ledger.path(q)))
    return tuple(q for q in others if ledger.held[q][r] < (ledger.problem.queues[q].guarantee[r] or 0))


def _root_total(problem: Problem, amounts: Sequence[int]) -> int:
    return sum(amounts[q] for q, queue in enumerate(problem.queues) if queue.parent is None)


def _capability_of(problem: Problem, q: int, r: int) -> int:
    return problem.queues[q].capability[r] or 0


def without_obstacle(problem: Problem, queue: int, obstacle: QueueObstacle) -> Problem:
    """The problem without one obstacle for a gang of this queue: that capability gone, or the guarantees of the
    resource: all that are outside the queue's path, and those that are named. A share by weight stays."""
    if obstacle.code == "GW101":
        return _with_changed_queues(
            problem,
            lambda q, spec: (
                replace(spec, capability=_without_limit(spec.capability, obstacle.r)) if q == obstacle.queue else spec
            ),
        )
    if obstacle.code == "GW106":
        kept = frozenset(queue_path(problem, queue)) - frozenset(obstacle.guaranteed_queues)
        return _with_changed_queues(
            problem,
            lambda q, spec: spec if q in kept else replace(spec, guarantee=_without_limit(spec.guarantee, obstacle.r)),
        )
    return problem


def _with_changed_queues(problem: Problem, change: Callable[[int, Queue], Queue]) -> Problem:
    return problem.with_queues(tuple(change(q, queue) for q, queue in enumerate(problem.queues)))


def _without_limit(limits: Limits, r: int) -> Limits:
    return tuple(None if i == r else limit for i, limit in enumerate(limits))


def binding_obstacles(
    ledger: QueueBooks, queue: int, amount: Vector, cluster: QueueBooks | None
) -> list[QueueObstacle]:
    """All that must be lifted so that the gang is allowed, one for each reason and resource; none of it can be spared.

    cluster: what holds the cluster where room is kept in all of it for guarantees; None where that does not matter.
    Capabilities first, then what guarantees leave, then shares by weight: each of them is made from those before it,
    and is asked again without them.
    """
    found: dict[tuple[str, int, int], QueueObstacle] = {}
    while new := [o for o in _queue_and_cluster_obstacles(ledger, queue, amount, cluster) if o.reason_key not in found]:
        first = min(o.code for o in new)
        problem = ledger.problem
        for o in _tightest_obstacles(o for o in new if o.code == first):
            found[o.reason_key] = o
            problem = without_obstacle(problem, queue, o)
        ledger = ledger.with_problem(problem)
    return list(found.values())


def _queue_and_cluster_obstacles(
    ledger: QueueBooks, queue: int, amount: Vector, cluster: QueueBooks | None
) -> Iterator[QueueObstacle]:
    """Obstacles in the queues, and those in the cluster, each with what is held there."""
    yield from (o for o in queue_obstacles(ledger, queue, amount) if o.queue is not None)
    if cluster is not None:
        yield from (o for o in queue_obstacles(cluster, queue, amount) if o.queue is None)


def _tightest_obstacles(several: Iterable[QueueObstacle]) -> list[QueueObstacle]:
    """Of each reason and resource the limit that leaves least, with the queues of all of them."""
    found: dict[tuple[str, int, int], QueueObstacle] = {}
    for o in several:
        other = found.get(o.reason_key, o)
        tight = o if o.available < other.available else other
        found[o.reason_key] = replace(
            tight, guaranteed_queues=tuple(sorted({*o.guaranteed_queues, *other.guaranteed_queues}))
        )
    return list(found.values())


@dataclass(frozen=True, slots=True)
class QueueDemand:
    """What a gang wants of its queue: beside its pods that run, and as a whole with nothing of it running."""

    queue: int
    remaining: Vector
    total: Vector


def queue_facts(
    state: DiagnosisState, ledger: QueueBooks, queue_demand: QueueDemand, cluster: QueueBooks | None
) -> list[Fact]:
    """GW113, GW101, GW106, GW112, and GW102 where more runs than the nodes have in sum: all that must be lifted where
    the queues hold what `ledger` says, and the cluster what `cluster` says."""
    queue, idle = queue_demand.queue, state.idle_ledger
    hopeless = {
        o.reason_key: o
        for o in binding_obstacles(idle, queue, queue_demand.total, None if cluster is None else idle)
        if o.code != "GW112"
    }
    found = []
    if not ledger.queue_rules.accepts_gangs[queue]:
        found.append(
            ClosedQueue(queue=next((q for q in ledger.path(queue) if not ledger.problem.queues[q].open), queue))
        )
    every = binding_obstacles(ledger, queue, queue_demand.remaining, cluster)
    return found + [
        _queue_fact(state, ledger, queue_demand, hopeless.get(o.reason_key, o), o.reason_key in hopeless) for o in every
    ]


def _started_inside(state: DiagnosisState, q: int) -> tuple[int, ...]:
    """The gangs that the plan starts in a queue or below it."""
    return tuple(
        j for j in sorted(state.started_placements) if q in state.ledger_after.path(state.problem.gangs[j].queue)
    )


def _queue_fact(
    state: DiagnosisState, ledger: QueueBooks, queue_demand: QueueDemand, o: QueueObstacle, never: bool
) -> Fact:
    asked = queue_demand.total[o.r] if never else queue_demand.remaining[o.r]
    if o.code == GuaranteeReserve.code:
        q = queue_demand.queue if o.queue is None else o.queue
        return GuaranteeReserve(asked, o.available, q, o.r, o.guaranteed_queues, never=never)
    if o.queue is None:
        return ResourceShortage(asked, o.available, o.r, never=never)
    gangs = _started_inside(state, o.queue) if ledger is state.ledger_after else ()
    kind = CapabilityLimit if o.code == CapabilityLimit.code else ShareLimit
    return kind(asked, o.available, o.queue, o.r, o.limit, gangs, never=never)

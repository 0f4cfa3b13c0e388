"""What queues have against a gang: every limit that would have to go for it to be allowed, and no other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from solver.diagnosis.world import World
from solver.plan import Fact
from solver.problem import Limits, Problem, Queue, Vector
from solver.semantics.queue_limits import path
from solver.state.room import Ledger


@dataclass(frozen=True, slots=True)
class Obstacle:
    """A limit that the gang would break. queue: whose; None for what is kept for guarantees in the whole cluster.

    most: what may be held of resource r; left: how much of it is; missing: what is too little. ceiling: it is one of
    `quotas.ceilings`, else a guarantee. keepers: the queues that are guaranteed what the gang lacks, where it is kept
    for guarantees.
    """

    code: str
    queue: int | None
    r: int
    ceiling: bool
    most: int
    left: int
    missing: int
    keepers: tuple[int, ...] = ()

    @property
    def key(self) -> tuple[str, int, int]:
        """All that guarantees keep of one resource is one reason, wherever it is measured: what lifts one of these
        limits lifts all of them."""
        return self.code, -1 if self.queue is None or self.code == "GW106" else self.queue, self.r


def obstacles(ledger: Ledger, queue: int, amount: Vector) -> Iterator[Obstacle]:
    """Every ceiling and every guarantee that `amount` more would break."""
    for q in ledger.path(queue):
        for ceiling in ledger.rules.ceilings[q]:
            have = ledger.under_ceiling(ceiling)
            for r, (asked, most) in enumerate(zip(amount, ceiling.most, strict=True)):
                if asked and most is not None and have[r] + asked > most and (ceiling.tree or q == queue):
                    keepers = _reserving(ledger.problem, q, r) if ceiling.code == "GW106" else ()
                    yield Obstacle(
                        ceiling.code, q, r, True, most, max(0, most - have[r]), have[r] + asked - most, keepers
                    )
    then = ledger.copy()
    then.charge(queue, amount)
    for at, r in ledger.over_guarantees(queue, amount):
        keepers = _unmet(ledger, queue, at, r)
        most = ledger.total[r] if at is None else _capability(ledger.problem, at, r)
        missing = (_sum_of_roots(then.problem, then.needs(r)) if at is None else then.needs(r)[at]) - most
        if keepers or at is None:  # else it is held, and the capability says so
            code = "GW106" if keepers else "GW102"  # kept for nobody: more runs than the nodes have in sum
            yield Obstacle(code, at, r, False, most, max(0, amount[r] - missing), missing, keepers)


def _reserving(problem: Problem, q: int, r: int) -> tuple[int, ...]:
    """The queues whose guarantees lower what `quotas.real_capability` leaves queue q: all others, also those above it,
    in the flat rule; along the tree those beside it and beside the queues above it."""
    way = path(problem, q)
    beside = {problem.queues[above].parent for above in way} - {None}
    tree = problem.policy.measured_by_tree
    others = (
        c for c, queue in enumerate(problem.queues) if (c not in way and queue.parent in beside if tree else c != q)
    )
    return tuple(c for c in others if problem.queues[c].guarantee[r])


def _unmet(ledger: Ledger, queue: int, at: int | None, r: int) -> tuple[int, ...]:
    """The queues outside the gang's path, below `at` where it is one, that together with all below them hold less than
    they are guaranteed."""
    way = ledger.path(queue)
    others = (q for q in range(len(ledger.problem.queues)) if q not in way and (at is None or at in ledger.path(q)))
    return tuple(q for q in others if ledger.held[q][r] < (ledger.problem.queues[q].guarantee[r] or 0))


def _sum_of_roots(problem: Problem, amounts: Sequence[int]) -> int:
    return sum(amounts[q] for q, queue in enumerate(problem.queues) if queue.parent is None)


def _capability(problem: Problem, q: int, r: int) -> int:
    return problem.queues[q].capability[r] or 0


def lifted(problem: Problem, queue: int, obstacle: Obstacle) -> Problem:
    """The problem without one obstacle for a gang of this queue: that capability gone, or the guarantees of the
    resource: all that are outside the queue's path, and those that are named. A share by weight stays."""
    if obstacle.code == "GW101":
        return _changed(
            problem,
            lambda q, spec: (
                replace(spec, capability=_without(spec.capability, obstacle.r)) if q == obstacle.queue else spec
            ),
        )
    if obstacle.code == "GW106":
        kept = frozenset(path(problem, queue)) - frozenset(obstacle.keepers)
        return _changed(
            problem,
            lambda q, spec: spec if q in kept else replace(spec, guarantee=_without(spec.guarantee, obstacle.r)),
        )
    return problem


def _changed(problem: Problem, change: Callable[[int, Queue], Queue]) -> Problem:
    return problem.under(tuple(change(q, queue) for q, queue in enumerate(problem.queues)))


def _without(limits: Limits, r: int) -> Limits:
    return tuple(None if i == r else limit for i, limit in enumerate(limits))


def against(ledger: Ledger, queue: int, amount: Vector, cluster: Ledger | None) -> list[Obstacle]:
    """All that must be lifted so that the gang is allowed, one for each reason and resource; none of it can be spared.

    cluster: what holds the cluster where room is kept in all of it for guarantees; None where that does not matter.
    Capabilities first, then what guarantees leave, then shares by weight: each of them is made from those before it,
    and is asked again without them.
    """
    found: dict[tuple[str, int, int], Obstacle] = {}
    while new := [o for o in _either(ledger, queue, amount, cluster) if o.key not in found]:
        first = min(o.code for o in new)
        problem = ledger.problem
        for o in _tightest(o for o in new if o.code == first):
            found[o.key] = o
            problem = lifted(problem, queue, o)
        ledger = ledger.under(problem)
    return list(found.values())


def _either(ledger: Ledger, queue: int, amount: Vector, cluster: Ledger | None) -> Iterator[Obstacle]:
    """Obstacles in the queues, and those in the cluster, each with what is held there."""
    yield from (o for o in obstacles(ledger, queue, amount) if o.queue is not None)
    if cluster is not None:
        yield from (o for o in obstacles(cluster, queue, amount) if o.queue is None)


def _tightest(several: Iterable[Obstacle]) -> list[Obstacle]:
    """Of each reason and resource the limit that leaves least, with the queues of all of them."""
    found: dict[tuple[str, int, int], Obstacle] = {}
    for o in several:
        other = found.get(o.key, o)
        tight = o if o.left < other.left else other
        found[o.key] = replace(tight, keepers=tuple(sorted({*o.keepers, *other.keepers})))
    return list(found.values())


@dataclass(frozen=True, slots=True)
class Asking:
    """What a gang wants of its queue: beside its pods that run, and as a whole with nothing of it running."""

    queue: int
    amount: Vector
    whole: Vector


def queue_facts(world: World, ledger: Ledger, asking: Asking, cluster: Ledger | None) -> list[Fact]:
    """GW113, GW101, GW106, GW112, and GW102 where more runs than the nodes have in sum: all that must be lifted where
    the queues hold what `ledger` says, and the cluster what `cluster` says."""
    queue, idle = asking.queue, world.idle
    hopeless = {
        o.key: o for o in against(idle, queue, asking.whole, None if cluster is None else idle) if o.code != "GW112"
    }
    found = []
    if not ledger.rules.takes[queue]:
        found.append(
            Fact("GW113", queue=next((q for q in ledger.path(queue) if not ledger.problem.queues[q].open), queue))
        )
    every = against(ledger, queue, asking.amount, cluster)
    return found + [_fact(world, ledger, asking, hopeless.get(o.key, o), o.key in hopeless) for o in every]


def _inside(world: World, q: int | None) -> tuple[int, ...]:
    """The gangs that the plan starts in a queue or below it."""
    return (
        ()
        if q is None
        else tuple(j for j in sorted(world.started) if q in world.after.path(world.problem.gangs[j].queue))
    )


def _fact(world: World, ledger: Ledger, asking: Asking, o: Obstacle, never: bool) -> Fact:
    asked = asking.whole[o.r] if never else asking.amount[o.r]
    if o.code == "GW106":
        q = asking.queue if o.queue is None else o.queue
        return Fact("GW106", never, queue=q, resource=o.r, asked=asked, available=o.left, queues=o.keepers)
    if o.code == "GW102":
        return Fact("GW102", never, resource=o.r, asked=asked, available=o.left)
    gangs = _inside(world, o.queue) if ledger is world.after else ()
    return Fact(o.code, never, queue=o.queue, resource=o.r, asked=asked, limit=o.most, available=o.left, gangs=gangs)

"""What queues have against a gang: every limit that would have to go for it to be allowed, and no other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from solver.plan import Fact
from solver.problem import Limits, Problem, Queue, Vector
from solver.reasons.world import World
from solver.room import Ledger


@dataclass(frozen=True, slots=True)
class Obstacle:
    """A limit that the gang would break. queue: whose; None for what is kept for guarantees in the whole cluster.

    most: what may be held of resource r; left: how much of it is; missing: what is too little. ceiling: it is one of `quotas.ceilings`, else a
    guarantee.
    """

    code: str
    queue: int | None
    r: int
    ceiling: bool
    most: int
    left: int
    missing: int

    @property
    def key(self) -> tuple[str, int, int, bool]:
        return self.code, -1 if self.queue is None else self.queue, self.r, self.ceiling


def obstacles(ledger: Ledger, queue: int, amount: Vector) -> Iterator[Obstacle]:
    """Every ceiling and every guarantee that `amount` more would break."""
    for q in ledger.path(queue):
        for ceiling in ledger.rules.ceilings[q]:
            have = ledger.under_ceiling(ceiling)
            for r, (asked, most) in enumerate(zip(amount, ceiling.most, strict=True)):
                if asked and most is not None and have[r] + asked > most and (ceiling.tree or q == queue):
                    yield Obstacle(ceiling.code, q, r, True, most, max(0, most - have[r]), have[r] + asked - most)
    then = ledger.copy()
    then.charge(queue, amount)
    for at, r in ledger.over_guarantees(queue, amount):
        most = ledger.total[r] if at is None else _capability(ledger.problem, at, r)
        need, later = (_sum_of_roots(x.problem, x.needs(r)) if at is None else x.needs(r)[at] for x in (ledger, then))
        yield Obstacle("GW106", at, r, False, most, max(0, most - need), later - most)


def _sum_of_roots(problem: Problem, amounts: Sequence[int]) -> int:
    return sum(amounts[q] for q, queue in enumerate(problem.queues) if queue.parent is None)


def _capability(problem: Problem, q: int, r: int) -> int:
    return problem.queues[q].capability[r] or 0


def lifted(problem: Problem, path: Sequence[int], obstacle: Obstacle) -> Problem:
    """The problem without one obstacle: that capability gone, or all guarantees of the resource outside the path. A share by weight stays."""
    if obstacle.code == "GW101":
        return _changed(problem, lambda q, queue: replace(queue, capability=_without(queue.capability, obstacle.r)) if q == obstacle.queue else queue)
    if obstacle.code == "GW106":
        return _changed(problem, lambda q, queue: queue if q in path else replace(queue, guarantee=_without(queue.guarantee, obstacle.r)))
    return problem


def _changed(problem: Problem, change: Callable[[int, Queue], Queue]) -> Problem:
    return problem.under(tuple(change(q, queue) for q, queue in enumerate(problem.queues)))


def _without(limits: Limits, r: int) -> Limits:
    return tuple(None if i == r else limit for i, limit in enumerate(limits))


def against(ledger: Ledger, queue: int, amount: Vector, cluster: bool = True) -> list[Obstacle]:
    """All that must be lifted so that the gang is allowed; none of it can be spared. cluster: guarantees count in the whole cluster too.

    Capabilities first, then what guarantees leave, then shares by weight: each of them is made from those before it, and is asked again without them.
    """
    found: dict[tuple[str, int, int, bool], Obstacle] = {}
    while new := [o for o in obstacles(ledger, queue, amount) if o.key not in found and (cluster or o.queue is not None)]:
        first = min(o.code for o in new)
        problem = ledger.problem
        for o in new:
            if o.code == first:
                found[o.key] = o
                problem = lifted(problem, ledger.path(queue), o)
        ledger = ledger.under(problem)
    return list(found.values())


@dataclass(frozen=True, slots=True)
class Asking:
    """What a gang wants of its queue: beside its pods that run, and as a whole with nothing of it running."""

    queue: int
    amount: Vector
    whole: Vector


def queue_facts(world: World, ledger: Ledger, asking: Asking, cluster: Ledger | None) -> list[Fact]:
    """GW113, GW101, GW106, GW112: all that must be lifted where the queues hold what `ledger` says.

    cluster: what holds the cluster where room is kept in all of it for guarantees; None where that does not matter.
    """
    queue = asking.queue
    hopeless = {o.key: o for o in against(world.idle, queue, asking.whole, cluster is not None) if o.code != "GW112"}
    found = []
    if not ledger.rules.takes[queue]:
        found.append(Fact("GW113", queue=next((q for q in ledger.path(queue) if not ledger.problem.queues[q].open), queue)))
    in_cluster = [] if cluster is None else [o for o in against(cluster, queue, asking.amount) if o.queue is None]
    every = [*(o for o in against(ledger, queue, asking.amount) if o.queue is not None), *in_cluster]
    return found + [_fact(world, ledger, asking, hopeless.get(o.key, o), o.key in hopeless) for o in every]


def _inside(world: World, q: int | None) -> tuple[int, ...]:
    """The gangs that the plan starts in a queue or below it."""
    return () if q is None else tuple(j for j in sorted(world.started) if q in world.after.path(world.problem.gangs[j].queue))


def _fact(world: World, ledger: Ledger, asking: Asking, o: Obstacle, never: bool) -> Fact:
    asked = asking.whole[o.r] if never else asking.amount[o.r]
    if o.code == "GW106":
        q = asking.queue if o.queue is None else o.queue
        return Fact("GW106", never, queue=q, resource=o.r, asked=asked, available=o.left, queues=keepers(ledger, asking.queue, o))
    gangs = _inside(world, o.queue) if ledger is world.after else ()
    return Fact(o.code, never, queue=o.queue, resource=o.r, asked=asked, limit=o.most, available=o.left, gangs=gangs)


def keepers(ledger: Ledger, queue: int, o: Obstacle) -> tuple[int, ...]:
    """The queues for whose guarantees room is kept: outside the gang's path, with more guaranteed than they and all below them need."""
    path, need = ledger.path(queue), ledger.needs(o.r)
    kept = []
    for q, spec in enumerate(ledger.problem.queues):
        held = ledger.direct[q][o.r] + sum(need[c] for c in ledger.children[q])
        reserved = spec.guarantee[o.r] or 0 if o.ceiling else need[q] - held
        if q not in path and reserved > 0 and (o.queue is None or o.ceiling or o.queue in ledger.path(q)):
            kept.append(q)
    return tuple(kept)

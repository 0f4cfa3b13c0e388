"""What may be changed about the queues: as little as lets the gang be allowed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from solver.diagnosis.queues import Obstacle, obstacles
from solver.diagnosis.trial import Bench, Trial
from solver.plan import Repair
from solver.problem import Problem, Queue
from solver.semantics.queue_limits import path
from solver.state.room import Ledger

ROUNDS = 6
"""Mending one limit may show another one behind it."""
HEAVIEST = 64
"""A queue's weight is raised to at most so many times what it is."""


def mended(bench: Bench, t: Trial) -> Trial:
    """The trial with the queues' limits changed so that the gang is allowed; the same trial where no change is known
    that does it."""
    queue, amount = bench.case.gang.queue, bench.amount(t)
    made, limits = list(t.changes), t.limits
    for change, problem in _opened(limits, queue):
        made.append(change)
        limits = problem
    for _ in range(ROUNDS):
        now = replace(t, limits=limits)
        ledger = bench.ledger(now)
        broken = min(obstacles(ledger, queue, amount), key=lambda o: o.code, default=None)
        if broken is None:
            return replace(now, changes=tuple(made))
        mend = _mend(ledger, broken, amount[broken.r])
        if mend is None:
            return t
        made.append(mend[0])
        limits = mend[1]
    return t


def _opened(problem: Problem, queue: int) -> Iterator[tuple[Repair, Problem]]:
    """GR111: every closed queue on the path is opened."""
    for q in path(problem, queue):
        if not problem.queues[q].open:
            problem = _set(problem, q, replace(problem.queues[q], open=True))
            yield Repair("GR111", queue=q), problem


def _mend(ledger: Ledger, o: Obstacle, asked: int) -> tuple[Repair, Problem] | None:
    if o.code == "GW101" and o.queue is not None:
        return _capability(ledger, o.queue, o.r, asked)
    if o.code == "GW112" and o.queue is not None:
        return _weight(ledger, o.queue, o.r, asked)
    return _guarantee(ledger, o)


def _capability(ledger: Ledger, q: int, r: int, asked: int) -> tuple[Repair, Problem]:
    """GR101: exactly what is missing."""
    spec = ledger.problem.queues[q]
    most = ledger.held[q][r] + asked
    repair = Repair("GR101", queue=q, resource=r, amount=most - (spec.capability[r] or 0))
    return repair, _set(
        ledger.problem, q, replace(spec, capability=tuple(most if i == r else x for i, x in enumerate(spec.capability)))
    )


def _weight(ledger: Ledger, q: int, r: int, asked: int) -> tuple[Repair, Problem] | None:
    """GR110: the smallest weight with which the queue's share has room, found by halving; a greater weight never gives
    a smaller share."""
    spec = ledger.problem.queues[q]

    def heavier(weight: int) -> Problem:
        return _set(ledger.problem, q, replace(spec, weight=weight))

    def enough(weight: int) -> bool:
        ceilings = ledger.under(heavier(weight)).rules.ceilings[q]
        limits = [c.most[r] for c in ceilings if c.code == "GW112"]
        return all(limit is None or ledger.direct[q][r] + asked <= limit for limit in limits)

    low, high = spec.weight + 1, spec.weight * HEAVIEST
    if not enough(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return Repair("GR110", queue=q, amount=low, now=spec.weight), heavier(low)


def _guarantee(ledger: Ledger, o: Obstacle) -> tuple[Repair, Problem] | None:
    """GR108: a smaller guarantee of another queue; of the one that keeps most, so that one change is enough where it
    can be."""
    need = ledger.needs(o.r)

    def kept(q: int) -> int:
        held = ledger.direct[q][o.r] + sum(need[c] for c in ledger.children[q])
        guaranteed = ledger.problem.queues[q].guarantee[o.r] or 0
        return guaranteed if o.ceiling else min(guaranteed, need[q] - held)

    q = min(o.keepers, key=lambda q: (-kept(q), q), default=None)
    less = 0 if q is None else min(o.missing, kept(q))
    if q is None or not less:
        return None
    spec = ledger.problem.queues[q]
    smaller = tuple((x or 0) - less if i == o.r else x for i, x in enumerate(spec.guarantee))
    return Repair("GR108", queue=q, resource=o.r, amount=less), _set(
        ledger.problem, q, replace(spec, guarantee=smaller)
    )


def _set(problem: Problem, q: int, queue: Queue) -> Problem:
    return problem.under(tuple(queue if i == q else other for i, other in enumerate(problem.queues)))

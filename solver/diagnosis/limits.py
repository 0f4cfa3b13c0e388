"""What may be changed about the queues: as little as lets the gang be allowed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from solver.diagnosis.queues import QueueObstacle, queue_obstacles
from solver.diagnosis.trial import Trial, TrialRunner
from solver.problem import Problem, Queue
from solver.repairs import MoreCapability, MoreWeight, OpenQueue, Repair, SmallerGuarantee
from solver.semantics.queue_limits import queue_path
from solver.state.queue_books import QueueBooks


def with_queue_changes(runner: TrialRunner, t: Trial) -> Trial:
    """The trial with the queues' limits changed so that the gang is allowed; the same trial where no change is known
    that does it."""
    queue, amount = runner.case.gang.queue, runner.minimum_demand(t)
    made, limits = list(t.changes), t.limits_problem
    for change, problem in _opening_repairs(limits, queue):
        made.append(change)
        limits = problem
    for _ in range(runner.case.state.options.budget.limit_rounds):
        now = replace(t, limits_problem=limits)
        ledger = runner.ledger(now)
        broken = min(queue_obstacles(ledger, queue, amount), key=lambda o: o.code, default=None)
        if broken is None:
            return replace(now, changes=tuple(made))
        mend = _limit_repair(ledger, broken, amount[broken.r], runner.case.state.options.budget.weight_factor)
        if mend is None:
            return t
        made.append(mend[0])
        limits = mend[1]
    return t


def _opening_repairs(problem: Problem, queue: int) -> Iterator[tuple[Repair, Problem]]:
    """GR111: every closed queue on the path is opened."""
    for q in queue_path(problem, queue):
        if not problem.queues[q].open:
            problem = _with_queue(problem, q, replace(problem.queues[q], open=True))
            yield OpenQueue(queue=q), problem


def _limit_repair(
    ledger: QueueBooks, o: QueueObstacle, asked: int, max_weight_factor: int
) -> tuple[Repair, Problem] | None:
    if o.code == "GW101" and o.queue is not None:
        return _capability_repair(ledger, o.queue, o.r, asked)
    if o.code == "GW112" and o.queue is not None:
        return _weight_repair(ledger, o.queue, o.r, asked, max_weight_factor)
    return _guarantee_repair(ledger, o)


def _capability_repair(ledger: QueueBooks, q: int, r: int, asked: int) -> tuple[Repair, Problem]:
    """GR101: exactly what is missing."""
    spec = ledger.problem.queues[q]
    most = ledger.held[q][r] + asked
    repair = MoreCapability(queue=q, resource=r, amount=most - (spec.capability[r] or 0))
    return repair, _with_queue(
        ledger.problem, q, replace(spec, capability=tuple(most if i == r else x for i, x in enumerate(spec.capability)))
    )


def _weight_repair(ledger: QueueBooks, q: int, r: int, asked: int, max_factor: int) -> tuple[Repair, Problem] | None:
    """GR110: the smallest weight with which the queue's share has room, found by halving; a greater weight never gives
    a smaller share."""
    spec = ledger.problem.queues[q]

    def heavier(weight: int) -> Problem:
        return _with_queue(ledger.problem, q, replace(spec, weight=weight))

    def enough(weight: int) -> bool:
        ceilings = ledger.with_problem(heavier(weight)).queue_rules.ceilings_by_queue[q]
        limits = [c.limits[r] for c in ceilings if c.code == "GW112"]
        return all(limit is None or ledger.direct[q][r] + asked <= limit for limit in limits)

    low, high = spec.weight + 1, spec.weight * max_factor
    if not enough(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return MoreWeight(queue=q, amount=low, current_amount=spec.weight), heavier(low)


def _guarantee_repair(ledger: QueueBooks, o: QueueObstacle) -> tuple[Repair, Problem] | None:
    """GR108: a smaller guarantee of another queue; of the one that keeps most, so that one change is enough where it
    can be."""
    need = ledger.needed_amounts(o.r)

    def kept(q: int) -> int:
        held = ledger.direct[q][o.r] + sum(need[c] for c in ledger.children[q])
        guaranteed = ledger.problem.queues[q].guarantee[o.r] or 0
        return guaranteed if o.is_ceiling else min(guaranteed, need[q] - held)

    q = min(o.guaranteed_queues, key=lambda q: (-kept(q), q), default=None)
    less = 0 if q is None else min(o.missing, kept(q))
    if q is None or not less:
        return None
    spec = ledger.problem.queues[q]
    smaller = tuple((x or 0) - less if i == o.r else x for i, x in enumerate(spec.guarantee))
    return SmallerGuarantee(queue=q, resource=o.r, amount=less), _with_queue(
        ledger.problem, q, replace(spec, guarantee=smaller)
    )


def _with_queue(problem: Problem, q: int, queue: Queue) -> Problem:
    return problem.with_queues(tuple(queue if i == q else other for i, other in enumerate(problem.queues)))

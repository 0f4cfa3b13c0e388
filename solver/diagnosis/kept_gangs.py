"""Why nobody is evicted for a waiting gang: the one or two obstacles without which running gangs would be evicted for
it, and unknown uses of device slots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any

from solver.diagnosis.case import GangDiagnosis
from solver.facts import Borrowing, Fact, NobodyEvicted, PrecedingGangs, StrictOrder, Undecided
from solver.plan import UnlocatedHolder
from solver.preemption.evictions import EvictionState
from solver.preemption.search import cheapest_victims
from solver.problem import Problem
from solver.repairs import AllowEviction, HigherPriority, Repair
from solver.semantics.eviction_rights import has_eviction_right
from solver.state.state import State

SERVED_FIRST = (Borrowing, PrecedingGangs, StrictOrder, Undecided)
"""With these facts running pods do not keep the gang waiting, or that is unknown."""


@dataclass(frozen=True)
class _Obstacle:
    """An obstacle that keeps running gangs from eviction; queue: whose. lift: the problem without it."""

    kind: str
    lift: Callable[[Problem], Problem]
    queue: int | None = None


def eviction_obstacles(case: GangDiagnosis, facts: Sequence[Fact]) -> tuple[NobodyEvicted, ...]:
    """Return the smallest set of obstacles, one or two, without which running gangs are evicted for this one. Empty
    where there is none, where the plan evicts, or where others are served before it."""
    problem = case.state.problem
    if case.index not in case.state.asked_evictions or not facts:
        return ()
    if any(fact.never or isinstance(fact, SERVED_FIRST) for fact in facts):
        return ()
    obstacles = list(_obstacles(problem, case.index))
    for some in [*((one,) for one in obstacles), *combinations(obstacles, 2)]:
        if victims := _victims_without(case, some):
            return tuple(NobodyEvicted(each.kind, victims, each.queue) for each in some)
    return ()


def _obstacles(problem: Problem, j: int) -> Iterator[_Obstacle]:
    """Yield the obstacles to any eviction for gang j, the most general first."""
    running = [v for v, gang in enumerate(problem.gangs) if gang.running]
    own, queues = problem.gangs[j], {problem.gangs[v].queue for v in running}
    if not own.eviction.may_evict:
        yield _Obstacle("policy", lambda p: _with_evictions(p, [j], may_evict=True))
    if "preempt" in problem.addable_evictions and own.queue in queues:
        yield _Obstacle("preempt", lambda p: replace(p, preempt_enabled=True))
    if "reclaim" in problem.addable_evictions and queues - {own.queue}:
        yield _Obstacle("reclaim", lambda p: replace(p, reclaim_enabled=True))
    for q in sorted(queues - {own.queue}):
        if not problem.queues[q].reclaimable:
            yield _Obstacle("queue", partial(_with_reclaimable, q), q)
    evictions = [problem.gangs[v].eviction for v in running]
    if any(eviction.protected or not eviction.evictable for eviction in evictions):
        yield _Obstacle("protected", lambda p: _with_evictions(p, running, evictable=True, protected=()))
    votes = problem.preempt_votes, problem.reclaim_votes
    if not all(each.whole_gangs for each in votes):
        yield _Obstacle("minima", lambda p: _with_votes(p, whole_gangs=True))
    if any(each.compare_shares for each in votes):
        yield _Obstacle("shares", lambda p: _with_votes(p, compare_shares=False))
    if problem.disruption_budgets:
        yield _Obstacle("budget", lambda p: replace(p, disruption_budgets=()))


def _with_reclaimable(q: int, problem: Problem) -> Problem:
    queues = list(problem.queues)
    queues[q] = replace(queues[q], reclaimable=True)
    return replace(problem, queues=tuple(queues))


def _with_votes(problem: Problem, **changes: bool) -> Problem:
    preempt, reclaim = (replace(votes, **changes) for votes in (problem.preempt_votes, problem.reclaim_votes))
    return replace(problem, preempt_votes=preempt, reclaim_votes=reclaim)


def _with_evictions(problem: Problem, gangs: Iterable[int], **changes: Any) -> Problem:
    """Return the problem with other eviction rights of these gangs."""
    changed = list(problem.gangs)
    for i in gangs:
        changed[i] = replace(changed[i], eviction=replace(changed[i].eviction, **changes))
    return replace(problem, gangs=tuple(changed))


def _victims_without(case: GangDiagnosis, obstacles: Sequence[_Obstacle]) -> tuple[int, ...]:
    """Return the gangs that would lose pods without these obstacles."""
    problem = case.state.after.problem
    for obstacle in obstacles:
        problem = obstacle.lift(problem)
    return proven_victims(case, case.state.after.with_gangs(problem))


def proven_victims(case: GangDiagnosis, then: State) -> tuple[int, ...]:
    """Return the gangs that would lose pods to the gang in this state; () where nobody would, or that is not known: the
    plan evicts others, the model is too large, or a limit struck."""
    state, options = case.state, case.state.options
    is_large = len(then.problem.nodes) * len(case.gang.roles) > options.budget.repair_variables
    if is_large or state.after.running != state.before.running:
        return ()
    evictions = EvictionState.initial(then.problem, then)
    if not evictions.eviction_may_help(case.index) or not case.models.spend():
        return ()
    choice = cheapest_victims(evictions, case.index, options)
    if choice is None or any(objective.verdict != "proven" for objective in choice.objectives):
        return ()
    return tuple(sorted(choice.evicted_pods))


def eviction_repair(obstacles: Sequence[NobodyEvicted]) -> Iterator[Repair]:
    """Yield the change that lifts these obstacles."""
    changes = [AllowEviction(each.obstacle, each.gangs, each.queue) for each in obstacles]
    if changes:
        yield replace(changes[0], also=tuple(changes[1:]))


def equal_priority(repairs: Sequence[Repair]) -> tuple[NobodyEvicted, ...]:
    """That nobody is evicted since no gang of its queue that runs has a lower priority: so a higher one would evict."""
    for repair in repairs:
        if isinstance(repair, HigherPriority) and repair.evicts:
            return (NobodyEvicted("priority", repair.gangs),)
    return ()


# ---- device slots


def unlocated_holders(problem: Problem, j: int) -> tuple[UnlocatedHolder, ...]:
    """Return the gangs that gang j may evict and whose pods hold unknown slots, on nodes and of groups that gang j can
    use."""
    evictable = (v for v in range(len(problem.gangs)) if has_eviction_right(problem, j, v))
    return tuple(holder for v in evictable for holder in _unlocated_slots(problem, j, v))


def _unlocated_slots(problem: Problem, j: int, v: int) -> Iterator[UnlocatedHolder]:
    usable = {wanted.slot_group: role.node_classes for role in problem.gangs[j].roles for wanted in role.slot_requests}
    victim = problem.gangs[v]
    known: Counter[tuple[int, int, int]] = Counter()
    for hold in victim.slot_holds:
        known[hold.role, hold.node, problem.nodes[hold.node].slots[hold.slot].slot_group] += hold.pods
    for place in victim.running:
        for held in victim.roles[place.role].slot_requests:
            group, needed = held.slot_group, held.number * place.pods
            is_usable = problem.nodes[place.node].node_class in usable.get(group, ())
            if is_usable and known[place.role, place.node, group] < needed:
                yield UnlocatedHolder(v, place.node, group)

"""Precedence: what the plan decides before a waiting gang, and the repairs that change it, a higher priority or a
larger entitlement of its queue."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from solver.admission.batches import entitled_in_turn, entitlement_turn
from solver.diagnosis.case import GangDiagnosis
from solver.diagnosis.kept_gangs import proven_victims
from solver.diagnosis.minimal import first_sufficient, minimal_subset, shortest_prefix
from solver.diagnosis.queue_obstacles import with_smaller_shares
from solver.diagnosis.world import Family, World
from solver.facts import Borrowing, PrecedingGangs, ShareLimit
from solver.problem import Gang, Problem, Vector
from solver.repairs import HigherPriority, MoreDeserved, MoreWeight, Repair
from solver.semantics.eviction_rights import is_reclaimable_whole, may_go_whole
from solver.semantics.gang_classes import waiting_class
from solver.semantics.order import precedence, puts_queues_first, queue_priority
from solver.semantics.placements import add_vectors


def blockers(case: GangDiagnosis, w: World) -> tuple[int, tuple[int, ...]]:
    """Return (pods of the gang that fit next to the plan, a minimal set of the plan's gangs without which all pods
    would fit), whatever their queues: of gangs that start, else of running gangs, without their growth.

    Those of the gang's priority and above are examined first, the lowest and youngest first. Growth beyond a queue's
    entitlement takes only leftovers, and is not in a gang's way. The answer is costly and the same for all queues.
    """
    state, priority = case.state, case.gang.priority

    def make() -> tuple[int, tuple[int, ...]]:
        q, gangs = case.question(w), state.problem.gangs
        order = [i for i in state.started_by_priority if gangs[i].priority >= priority]
        found = _blocking_prefix(case, w, order or state.started_by_priority) or _minimal(case, w, state.growing_gangs)
        return q.max_pods(q.state.rule_counts), tuple(sorted(found))

    return state.memoize(("blockers", priority, w), make)


def _blocking_prefix(case: GangDiagnosis, w: World, order: Sequence[int]) -> tuple[int, ...]:
    """Return the shortest prefix of `order` without which the gang fits, less the members that it does not need."""
    chosen = shortest_prefix(order, partial(_fits_without, case, w)) or tuple(order)
    return _minimal(case, w, chosen[::-1])


def _minimal(case: GangDiagnosis, w: World, gangs: tuple[int, ...]) -> tuple[int, ...]:
    """Return a minimal set of these gangs such that the gang fits without the plan's placements for them."""
    return minimal_subset(gangs, partial(_fits_without, case, w), case.state.options.budget.minimized_blockers)


def _fits_without(case: GangDiagnosis, w: World, gangs: Sequence[int]) -> bool:
    return case.question(replace(w, held_back=tuple(gangs))).placement() is not None


def preceding_gangs(case: GangDiagnosis, w: World) -> PrecedingGangs:
    """Return a minimal set of the plan's gangs without which the gang would fit."""
    most, gangs = blockers(case, w)
    return PrecedingGangs(case.question(w).gang_class.min_pods, most, gangs)


def borrowing(case: GangDiagnosis, s: World) -> Borrowing | None:
    """Return the fact that the gang would borrow, and who is served first; None where its queue's entitlement covers
    it, or where only its own queue is in its way."""
    problem, books, demand = case.state.problem, case.state.after.queue_books, case.remaining_demand
    if not is_decided_by_entitlement(problem) or books.is_entitled(case.gang.queue, demand):
        return None
    _, gangs = blockers(case, s)
    if all(problem.gangs[i].queue == case.gang.queue for i in gangs):
        return None
    short = []
    for q in reversed(books.queue_rules.comparison_paths[case.gang.queue]):
        limits = zip(demand, books.queue_rules.entitled[q], books.compared_amount(q), strict=True)
        for r, (asked, most, held) in enumerate(limits):
            if asked and most is not None and held + asked > most:
                short.append(Borrowing(asked, max(0, most - held), q, r, most, held, gangs))
    devices = problem.device_resources
    return min(short, key=lambda fact: (fact.available / fact.asked, fact.resource not in devices))


def is_decided_by_entitlement(problem: Problem) -> bool:
    return puts_queues_first(problem, problem.memoize("used queues", lambda: {gang.queue for gang in problem.gangs}))


def least_free_priority(problem: Problem, above: int) -> int:
    """Return the least priority above another that no gang has."""
    taken, found = problem.memoize("priorities", lambda: {gang.priority for gang in problem.gangs}), above + 1
    while found in taken:
        found += 1
    return found


def higher_priorities(case: GangDiagnosis) -> Family[int]:
    """Return higher priorities, each above some of the gangs that the plan starts, or equal to that of younger gangs
    like it in its queue, where age decides. None for a gang that may borrow a dedicated domain, which is lent last."""
    problem, gang, started = case.state.problem, case.gang, case.state.started_placements
    gangs = problem.gangs
    make, finish = partial(_raise_priority, case), partial(with_later_gangs, case)
    if any(queue.dedicated_domains for queue in problem.queues) and is_reclaimable_whole(problem, gang):
        return Family(HigherPriority, [], make, finish=finish)
    above = {gangs[i].priority for i in started if gangs[i].priority >= gang.priority}
    values = {least_free_priority(problem, p) for p in above}
    higher = (i for i in started if gangs[i].priority > gang.priority)
    values |= {gangs[i].priority for i in higher if _is_younger_twin(case, i)}
    return Family(HigherPriority, sorted(values), make, finish=finish)


def _takes_place(case: GangDiagnosis, raised: Gang, i: int) -> bool:
    return precedence(case.state.problem.gangs[i]) == precedence(raised) and _is_younger_twin(case, i)


def _is_younger_twin(case: GangDiagnosis, i: int) -> bool:
    """Return whether gang i has the same request, in the same queue, and is younger: with the same priority the gang
    takes its place, as nothing else distinguishes them."""
    own, other = case.gang, case.state.problem.gangs[i]
    is_promised_first = other.times.promised and not own.times.promised
    if other.queue != own.queue or (other.age, i) < (own.age, case.index) or is_promised_first:
        return False
    return waiting_class(i, other) == waiting_class(case.index, own)


def _raise_priority(case: GangDiagnosis, w: World, priority: int) -> World:
    return _before_others(case, w, w.with_change(HigherPriority(priority)), priority)


def _before_others(case: GangDiagnosis, w: World, changed: World, priority: int) -> World:
    """Return the changed world without the gangs that would then be decided later; `w` where there are none, or they
    are unknown."""
    state, later = case.state, _later_gangs(case, priority, changed)
    if len(later) == len(state.started_placements):
        return replace(changed, with_started=False)
    if not later or state.plan_frees_capacity:
        return w
    return replace(changed, held_back=tuple(sorted(later)))


def _later_gangs(case: GangDiagnosis, priority: int, w: World) -> list[int]:
    """Return the started gangs, the last first, that are decided after the gang if it has this priority and the queues
    are the world's."""
    raised = replace(case.gang, priority=priority)
    if w.changes_limits or priority in case.state.gang_priorities:
        return _gangs_behind(case, raised, w)
    # no other gang has this priority, so that age decides nothing
    key = "later", raised.queue, precedence(raised), case.remaining_demand
    return case.state.memoize(key, partial(_gangs_behind, case, raised, w))


def _gangs_behind(case: GangDiagnosis, raised: Gang, w: World) -> list[int]:
    problem = case.state.queue_rules(w).problem
    started, own = np.array(case.state.started_by_priority, dtype=np.int64), raised.queue
    below = case.state.started_below((precedence(raised), queue_priority(problem, own)))
    if raised.priority != case.gang.priority and raised.priority in case.state.gang_priorities:
        below = below | np.array([_takes_place(case, raised, i) for i in case.state.started_by_priority])
    if not is_decided_by_entitlement(problem):
        return [int(i) for i in started[below]]
    covered = _entitled_beside(case, raised, w)
    is_covered, others_covered = case.index in covered, np.isin(started, list(covered))
    queue = case.state.queue_of[started]
    queues = range(len(problem.queues))
    priorities = np.array([0 if problem.reclaim_enabled else queue_priority(problem, q) for q in queues])
    rounds, own_round = priorities[queue], priorities[own]
    in_own_round = (below | ~others_covered) if is_covered else (below & ~others_covered & (queue == own))
    later = np.where(rounds == own_round, in_own_round, rounds < own_round)
    order = np.lexsort((others_covered[later], rounds[later]))  # a stable sort, by rounds first
    return [int(i) for i in started[later][order]]


def _entitled_beside(case: GangDiagnosis, raised: Gang, w: World) -> frozenset[int]:
    """Return the started gangs, and the gang with its raised priority, that the entitlements of their queues cover."""
    state, books, started = case.state, case.state.before.queue_books, case.state.entitlement_turns
    own_turn = entitlement_turn(case.index, raised)
    if w.changes_limits:
        return frozenset(entitled_in_turn(state.books_under(w, with_plan=False), sorted([*started, own_turn])))
    roots = books.queue_rules.entitlement_roots
    root = roots[raised.queue]
    family = state.memoize(("family", root), lambda: [turn for turn in started if roots[turn[3]] == root])
    others = state.entitled_started.difference(turn[2] for turn in family)
    return others.union(entitled_in_turn(books, sorted([*family, own_turn])))


def evicting_priorities(case: GangDiagnosis) -> Family[int]:
    """Return priorities with which it starts by evicting running gangs of its own queue; the least names the plan's
    likely evictions where they are known."""
    problem, gang = case.state.problem, case.gang
    may_evict = problem.preempt_enabled and gang.eviction.may_evict
    is_known = may_evict and not gang.running and not problem.preempt_votes.compare_shares
    victims = {v: problem.gangs[v].priority for v in _own_victims(case)} if is_known else {}
    values = dict.fromkeys(least_free_priority(problem, p) for p in sorted({*victims.values()}) if p >= gang.priority)

    def evict(w: World, value: int) -> World:
        gone = tuple(v for v, priority in victims.items() if priority < value)
        return w.with_change(HigherPriority(value, evicts=True), ended_gangs=gone)

    def with_names(w: World) -> World:
        def named(change: Repair) -> Repair:
            if not isinstance(change, HigherPriority):
                return change
            return replace(change, gangs=_victims_at(case, change.amount))

        return replace(w, changes=tuple(map(named, w.changes)))

    return Family(HigherPriority, list(values), evict, finish=with_names)


def _victims_at(case: GangDiagnosis, priority: int) -> tuple[int, ...]:
    """The gangs that lose pods to the gang at this priority, once those are decided after it that then would be."""
    state, later = case.state, _later_gangs(case, priority, case.current_world)
    gangs = list(state.after.problem.gangs)
    gangs[case.index] = replace(gangs[case.index], priority=priority)
    then = state.after.without({i: state.started_placements[i] for i in later})
    return proven_victims(case, then.with_gangs(replace(then.problem, gangs=tuple(gangs))))


def _own_victims(case: GangDiagnosis) -> list[int]:
    """Return the kept gangs of its queue that a higher priority may evict whole. Gangs that lose pods to another queue
    are left out, since a victim is evicted for its own queue or for others."""
    problem, found = case.state.problem, []
    for v in sorted(case.state.kept_placements.keys() - problem.budgeted_gangs - case.state.reclaimed):
        victim = problem.gangs[v]
        if victim.queue == case.gang.queue and victim.eviction.evictable and may_go_whole(problem, case.index, v):
            found.append(v)
    return found


def with_later_gangs(case: GangDiagnosis, w: World) -> World:
    """Return the world whose priority, weight or deserved amount names the gangs that give up their room: a minimal set
    of few gangs decided later."""
    with_plan = replace(w, with_started=True)

    def suffices(some: Sequence[int]) -> bool:
        return case.lets_start(replace(with_plan, held_back=tuple(sorted(some))))

    def with_names(change: Repair) -> Repair:
        if not isinstance(change, HigherPriority | MoreDeserved | MoreWeight):
            return change
        priority = change.amount if isinstance(change, HigherPriority) else case.gang.priority
        waits = shortest_prefix(_later_gangs(case, priority, w), suffices) or ()
        few = len(waits) <= case.state.options.budget.ended_gangs
        return replace(change, gangs=tuple(sorted(minimal_subset(waits, suffices))) if few else ())

    return replace(w, changes=tuple(map(with_names, w.changes)))


def _earlier_claims(case: GangDiagnosis) -> dict[int, Vector]:
    """Return queue compared above the gang -> requests of other gangs below it that may claim it first: gangs of a
    higher precedence, and of the same one older gangs or gangs of another size, which may fill it better."""
    problem, books, mine = case.state.problem, case.state.before.queue_books, precedence(case.gang)
    paths = books.queue_rules.comparison_paths
    claims: dict[int, Vector] = dict.fromkeys(paths[case.gang.queue], (0,) * len(problem.resources))
    own = case.gang.queue, mine, books.min_demand(case.index)
    for (queue, turn, demand), ages in case.state.claimants.items():
        shared = claims.keys() & paths[queue]
        if not shared or turn < mine:
            continue
        if turn == mine and demand == case.remaining_demand:
            number = bisect_left(ages, (case.gang.age, case.index))
        else:
            number = len(ages) - ((queue, turn, demand) == own)
        for q in shared:
            claims[q] = add_vectors(claims[q], demand, number)
    return claims


def _most_deserved(problem: Problem, q: int, r: int) -> int:
    """Return the most that the queue may deserve: its capability, and what the parent deserves beyond the siblings,
    which Volcano's webhook requires of all but the root."""
    queue, limits = problem.queues[q], [problem.totals[r]]
    if (capability := queue.capability[r]) is not None:
        limits.append(capability)
    above = None if queue.parent is None else problem.queues[queue.parent]
    if above is not None and above.parent is not None:
        below = sum(other.deserved[r] or 0 for other in problem.queues if other.parent == queue.parent)
        limits.append((above.deserved[r] or 0) - below + (queue.deserved[r] or 0))
    return min(limits)


def larger_entitlement(case: GangDiagnosis, w: World, fact: Borrowing | ShareLimit) -> Family[int]:
    """Return what the queue must deserve, or weigh, so that the gang no longer borrows, even if all others that may
    claim the queue's entitlement first did so. Equal gangs get the same answer, computed for the oldest."""
    state, priority, q, r = case.state, case.gang.priority, fact.queue, fact.resource
    problem, queue = state.problem, state.problem.queues[q]
    by_weight = isinstance(fact, ShareLimit) or not problem.policy.capacity
    now = queue.weight if by_weight else (queue.deserved[r] or 0)
    most = now * state.options.budget.weight_factor if by_weight else _most_deserved(problem, q, r)
    claims = _earlier_claims(case)

    def change(w: World, number: int) -> World:
        if by_weight:
            return w.with_queue(MoreWeight(q, number, now), q, "weight", number)
        deserved = tuple(number if i == r else x for i, x in enumerate(queue.deserved))
        return w.with_queue(MoreDeserved(q, r, number, now), q, "deserved", deserved)

    def covers_claims(number: int) -> bool:
        books = state.books_under(change(w, number), with_plan=False)
        return all(
            limit is None or not own or held + claimed + own <= limit
            for above, amounts in claims.items()
            for limit, held, claimed, own in zip(
                books.queue_rules.entitled[above],
                books.compared_amount(above),
                amounts,
                case.remaining_demand,
                strict=True,
            )
        )

    least = first_sufficient(range(now + 1, most + 1), covers_claims)
    return Family(
        MoreWeight if by_weight else MoreDeserved,
        [] if least is None else range(least, most + 1),
        lambda w, number: _before_others(case, w, change(w, number), priority),
        kind="queue" if isinstance(fact, ShareLimit) else "entitlement",
        finish=lambda w: with_smaller_shares(case, with_later_gangs(case, w)),
    )

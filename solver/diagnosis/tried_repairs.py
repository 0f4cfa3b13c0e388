"""Repairs: each change was tried, and is the least of its family. One change where one suffices, else two.

In order of `Repair.rank`: what the owner can change without giving up pods; waiting; fewer pods; a higher priority; the
queues; the nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations, islice
from typing import Any

from solver.diagnosis.blocking_facts import away_nodes
from solver.diagnosis.case import GangDiagnosis, diagnosis_class
from solver.diagnosis.diagnosis_state import DiagnosisState
from solver.diagnosis.gang_changes import (
    families_with_all_pods,
    fewer_pods,
    more_nodes,
    node_kinds,
    smaller_request,
    with_fitting_requests,
    with_open_roles,
)
from solver.diagnosis.minimal import minimal_subset, shortest_prefix
from solver.diagnosis.precedence import (
    evicting_priority,
    higher_priorities,
    higher_priority,
    is_decided_by_entitlement,
    larger_entitlement,
    with_later_gangs,
)
from solver.diagnosis.question import ModelBudget
from solver.diagnosis.queue_obstacles import (
    higher_group_limits,
    open_node_groups,
    with_queue_changes,
    with_smaller_shares,
)
from solver.diagnosis.world import Family, World
from solver.facts import Borrowing, Fact, PrecedingGangs, ShareLimit, Undecided
from solver.repairs import EndOfGangs, EndOfPods, Repair, ReturnOfNodes
from solver.semantics.gang_classes import elastic_roles, meets_minima
from solver.semantics.priorities import serving_order_key


def gang_repairs(case: GangDiagnosis, facts: Sequence[Fact]) -> tuple[Repair, ...]:
    """Return a few, the cheapest first; none for a gang of which nothing is proved."""
    if any(isinstance(fact, Undecided) for fact in facts):
        return ()
    budget, start, is_never = case.state.options.budget, case.tried_world, any(fact.never for fact in facts)
    singles = islice(_single_changes(case, start, facts), budget.repairs)
    found = list({w.changes: w for w in singles}.values())  # two facts may want the same change
    enough = 1 if all(isinstance(fact, PrecedingGangs | Borrowing) for fact in facts) else budget.enough_repairs
    # Where waiting alone never helps, all obstacles are removed together.
    together = _all_in_the_way(case, start) if is_never and not found else ()
    for worlds in (together, _added_nodes(case, start), _two_changes(case, start)):
        for w in worlds if len(found) < enough else ():
            # Nothing that contains a repair which suffices without the rest.
            contains = any(set(known.changes) <= set(w.changes) for known in found)
            if len(found) <= enough and not contains and not others_may_start_instead(case, w):
                found.append(w)
    if not found or (len(found) < enough and is_never):
        found += islice(_fewer_pods_later(case, start), 1)
    changes = (with_smaller_shares(case, w).changes for w in found)
    return tuple(replace(first, also=tuple(rest)) for first, *rest in changes)


def _single_changes(case: GangDiagnosis, start: World, facts: Sequence[Fact]) -> Iterator[World]:
    """Worlds in which it starts after one kind of change, the cheapest first."""
    roles, is_allowed = range(len(start.gang.roles)), case.fits_queues(start)
    if is_allowed:
        yield from case.least_of_each(start, families_with_all_pods(case, start))
    if away := away_nodes(facts):
        yield from case.sufficient(start.with_change(ReturnOfNodes(away), returned_nodes=away))
    if not any(fact.never for fact in facts):
        yield from case.sufficient(_after_ends(case, start))
    yield from case.least_of_each(start, fewer_pods(start))
    yield from list(higher_priority(case, start)) or evicting_priority(case, start)
    for fact in facts:
        if isinstance(fact, Borrowing):
            yield from larger_entitlement(case, start, fact)
    if not is_allowed:
        beside_plan = list(case.sufficient(with_queue_changes(case, start)))
        shares = (fact for fact in facts if isinstance(fact, ShareLimit))
        yield from beside_plan or (w for fact in shares for w in larger_entitlement(case, start, fact))
        return
    yield from islice(case.least_of_each(start, open_node_groups(case)), 1)
    yield from islice(case.least_of_each(start, higher_group_limits(case, start)), 1)
    yield from case.least_of_each(start, [smaller_request(case, role, start) for role in roles])
    for role in roles:
        yield from islice(case.least_of_each(start, node_kinds(case, role, start)), 1)


def _added_nodes(case: GangDiagnosis, start: World) -> Iterator[World]:
    """More nodes, the most costly to try and to have."""
    if case.fits_queues(start):
        yield from islice(case.least_of_each(start, more_nodes(case, start)), 1)


def _all_in_the_way(case: GangDiagnosis, start: World) -> Iterator[World]:
    """Smaller pods, or other nodes for a role or several, or both, and with it what else is in the way."""
    families = (family for role in range(len(start.gang.roles)) for family in node_kinds(case, role, start))
    opened = with_open_roles(case, start)
    several = [opened] if len(opened.changes) > 1 else []
    for base in (start, *(family.most(start) for family in families), *several):
        w = with_fitting_requests(case, base)
        if w is not None and w.changes:
            yield from _completed(case, w)


def _completed(case: GangDiagnosis, w: World) -> Iterator[World]:
    """Yield the world with what the gang then lacks: room, by a wider topology, ends of gangs or fewer pods, else by
    more nodes, else by a higher priority; and what its queues lack, else with fewer pods."""
    if case.fits_nodes(w):
        allowed = list(case.sufficient(with_queue_changes(case, w)))
        yield from allowed or case.least_of_each(w, fewer_pods(w))
        return
    found = list(_with_queue_changes(case, w, families_with_all_pods(case, w)))
    if case.fits_queues(w):
        found += case.sufficient(_after_ends(case, w))
    found += _with_queue_changes(case, w, fewer_pods(w))
    found = found or list(_with_queue_changes(case, w, more_nodes(case, w)[:1]))
    yield from found or higher_priority(case, w)


def _two_changes(case: GangDiagnosis, start: World) -> Iterator[World]:
    """Two kinds of change: of the gang or the nodes and of the queues, of the gang twice, of the gang and its
    priority."""
    families = [*families_with_all_pods(case, start), *fewer_pods(start)]
    if not case.fits_queues(start) and not case.fits_nodes(start):
        yield from _with_queue_changes(case, start, [*families, *more_nodes(case, start)[:1]])
    for one, two in combinations(families, 2):
        yield from _pair(case, start, one, two)
    priorities = higher_priorities(case)
    for family in families if priorities.steps else ():
        w = family.least(start, lambda w: case.lets_start(priorities.most(w)))
        if w is not None and (raised := priorities.least(w, case.lets_start)) is not None:
            yield with_later_gangs(case, raised)


def _pair(case: GangDiagnosis, start: World, one: Family[Any], two: Family[Any]) -> Iterator[World]:
    """Yield the least second step with the greatest first one, then the least first step with that."""
    step = two.least_step(one.most(start), case.lets_start)
    if step is not None:
        both = Family(one.steps, lambda w, first: two.make(one.make(w, first), step))
        yield from case.least_of_each(start, [both])


def _fewer_pods_later(case: GangDiagnosis, start: World) -> Iterator[World]:
    """Fewer pods that start once others end, where nothing helps now and waiting alone never does."""
    for family in fewer_pods(start):
        if family.least(start, case.lets_start) is not None:
            continue  # fewer pods start now
        w = family.least(start, lambda w: any(case.sufficient(_after_ends(case, w))))
        if w is not None:
            yield _after_ends(case, w)


def _with_queue_changes(case: GangDiagnosis, w: World, families: Iterable[Family[Any]]) -> Iterator[World]:
    """Yield the least step of each family with which the gang finds room, and what the queues then lack."""
    for family in families:
        least = family.least(w, case.fits_nodes)
        if least is not None:
            yield from case.sufficient(with_queue_changes(case, least))


# ---- waiting


def _after_ends(case: GangDiagnosis, w: World) -> World:
    """Return the world after the end of a minimal set of few gangs: those after which the gang starts soonest, where
    ends are known; or of any pods where none is known to help."""
    found = _soonest_ends(case, w) or _fewest_ends(case, w)
    return w.with_change(EndOfPods(), with_running=False) if found is None else found


def _ended(case: GangDiagnosis, w: World, some: Sequence[int]) -> World:
    gone, ends = tuple(sorted(some)), case.state.expected_ends
    at = max((ends[i] for i in gone), default=0) if ends.keys() >= set(gone) else None
    return w.with_change(EndOfGangs(gone, at), ended_gangs=gone, start_delay=at or 0)


def _soonest_ends(case: GangDiagnosis, w: World) -> World | None:
    """Return the world at the soonest end after which the gang starts.

    Gangs end one after another, T_1 <= T_2 <= ...; the gang starts at the first T_k at which it fits, since more ended
    gangs leave more room. Ended gangs that it does not need are dropped, first all without pods on its nodes.
    """
    state, ends = case.state, case.state.expected_ends

    def suffices(some: Sequence[int]) -> bool:
        return case.lets_start(_ended(case, w, some))

    chosen = shortest_prefix(sorted(ends, key=lambda i: (ends[i], state.problem.gangs[i].age, i)), suffices)
    if chosen is None:
        return None
    nodes = {p.node for p in case.question(_ended(case, w, chosen)).placement() or ()}
    near = tuple(i for i in chosen if nodes & {p.node for p in state.pods_of(i, with_plan=True)})
    return _least_ends(case, w, near if len(near) < len(chosen) and near and suffices(near) else chosen)


def _fewest_ends(case: GangDiagnosis, w: World) -> World | None:
    """Return the world without running gangs, ignoring their expected ends: a single one, the smallest first, else the
    largest."""
    kept = case.state.kept_placements
    order = sorted(kept, key=lambda i: (sum(p.pods for p in kept[i]), i))
    chosen = shortest_prefix(order[::-1], lambda some: case.lets_start(_ended(case, w, some)))
    if chosen is None:
        return None
    for i in order[: case.state.options.budget.single_ends]:
        if case.lets_start(_ended(case, w, (i,))):
            return _ended(case, w, (i,))
    return _least_ends(case, w, chosen)


def _least_ends(case: GangDiagnosis, w: World, chosen: tuple[int, ...]) -> World | None:
    """After the end of a minimal part of the chosen gangs that suffices; None where that is still too many."""
    most = case.state.options.budget.ended_gangs
    if len(chosen) > 4 * most:
        return None
    least = minimal_subset(chosen, lambda some: case.lets_start(_ended(case, w, some)))
    ended = _ended(case, w, least)
    return ended if len(least) <= most and case.lets_start(ended) else None


def others_may_start_instead(case: GangDiagnosis, w: World) -> bool:
    """Return whether a gang of another class, which may be decided first, starts on the added nodes as well, or one of
    another queue grows there first. Of its own class one starts."""
    if w.added_nodes is None:
        return False
    case, state = case, case.state
    if _others_grow_first(case, w, w.added_nodes[0]):
        return True
    own = diagnosis_class(state, case.index)
    others = (i for i in _waiting_gangs(state) if diagnosis_class(state, i) != own)
    earlier = (i for i in others if _may_precede(case, i))
    rivals = (i for i in earlier if _may_use(state, i, w.added_nodes[0]))
    return any(_starts_too(state, i, w) for i in islice(rivals, state.options.budget.rivals))


def _others_grow_first(case: GangDiagnosis, w: World, n: int) -> bool:
    """Return whether the gang would borrow, and one of another queue may get more pods on nodes like this one within
    what that queue is entitled to."""
    state, books, home = case.state, case.ledger(w), case.gang.queue
    if not is_decided_by_entitlement(state.problem) or books.is_entitled(home, case.demand(w)):
        return False
    placed = (*state.kept_placements.items(), *state.started_placements.items())
    others = [(i, pods) for i, pods in placed if state.problem.gangs[i].queue != home]
    gangs = ((state.problem.gangs[i], pods) for i, pods in others)
    roles = ((gang.queue, role) for gang, pods in gangs for role in elastic_roles(gang, pods))
    node_class = state.problem.nodes[n].node_class
    return any(node_class in role.node_classes and books.is_growth_entitled(q, role.request) for q, role in roles)


def _waiting_gangs(state: DiagnosisState) -> Sequence[int]:
    """Return one of each class, in serving order."""

    def make() -> Sequence[int]:
        gangs, first = state.problem.gangs, dict[object, int]()
        new = (i for i in range(len(gangs)) if i not in state.started_placements)
        waiting = (i for i in new if not meets_minima(gangs[i]))
        for i in sorted(waiting, key=lambda i: serving_order_key(state.problem, i)):
            first.setdefault(diagnosis_class(state, i), i)
        return tuple(first.values())

    return state.memoize("waiting classes", make)


def _may_precede(case: GangDiagnosis, i: int) -> bool:
    """Return whether gang i may be decided first. A lower priority never is in one queue, nor in others unless
    entitlements decide. With equal priority in one queue a younger gang may be, which fills the room better, but not
    one of the same size."""
    gang, other = case.gang, case.state.problem.gangs[i]
    if other.queue != gang.queue:
        return other.priority >= gang.priority or is_decided_by_entitlement(case.state.problem)
    is_later = other.priority == gang.priority and (other.age, i) > (gang.age, case.index)
    if is_later and case.state.before.queue_books.min_demand(i) == case.remaining_demand:
        return False
    return other.priority >= gang.priority


def _may_use(state: DiagnosisState, i: int, n: int) -> bool:
    node_class = state.problem.nodes[n].node_class
    return any(node_class in role.node_classes for role in state.problem.gangs[i].roles)


def _starts_too(state: DiagnosisState, i: int, w: World) -> bool:
    case = GangDiagnosis(state, i, ModelBudget(0), ModelBudget(0), questions=1)
    there = replace(case.tried_world, added_nodes=w.added_nodes)
    return case.lets_start(replace(there, limits_nodes=w.limits_nodes, queue_changes=w.queue_changes))

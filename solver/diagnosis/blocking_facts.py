"""The smallest set of facts for which a gang waits: without all of them it starts, with one of them it does not.

First obstacles next to running pods, on the nodes and in the queues, which are independent. Only without any, the
plan's placements of others: a gang that cannot start anyway does not wait for gangs that got the room.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from solver.diagnosis.case import GangDiagnosis
from solver.diagnosis.minimal import smallest_sufficient
from solver.diagnosis.obstacles import Obstacle, cluster_obstacles, current_obstacles, permanent_obstacles
from solver.diagnosis.precedence import borrowing, preceding_gangs
from solver.diagnosis.queue_obstacles import QueueDemand, queue_facts
from solver.diagnosis.world import World
from solver.facts import AwayNodes, Fact, NoEligibleNode, Undecided
from solver.state.queue_books import QueueBooks

FactsAndWorld = tuple[list[Fact], World]
"""Facts, and the world without the obstacles that they state."""


def gang_facts(case: GangDiagnosis) -> tuple[Fact, ...]:
    """Return why the gang waits, permanent facts first; an over-constrained gang has no permanent ones."""
    found, world = node_facts(case)
    demand = QueueDemand(case.gang.queue, case.remaining_demand, case.total_demand)
    returned = away_nodes(found)
    ledger = case.state.ledger_with_returned(returned)
    found = [*queue_facts(case.state, ledger, demand, _cluster_ledger(case, world, returned)), *found]
    if case.gang.over_constrained:
        found = [replace(fact, never=False) for fact in found]
    return tuple(sorted(found, key=lambda fact: not fact.never)) or _plan_facts(case, demand)


def away_nodes(facts: Iterable[Fact]) -> tuple[int, ...]:
    """Return the nodes that facts name as away."""
    return next((fact.nodes for fact in facts if isinstance(fact, AwayNodes)), ())


def _cluster_ledger(case: GangDiagnosis, w: World, returned_nodes: tuple[int, ...]) -> QueueBooks | None:
    """Return the cluster's usage in a world, where guarantees are kept in all of it; None where nodes are too small
    anyway."""
    if any(role.request != was.request for role, was in zip(w.gang.roles, case.gang.roles, strict=True)):
        return None
    return case.state.ledger_with_returned(returned_nodes, w.with_running)


def node_facts(case: GangDiagnosis) -> FactsAndWorld:
    """Return the obstacles on the nodes next to running pods."""
    start = replace(case.current_world, with_started=False)
    fits = case.fits(start)
    if fits is not False:
        return ([] if fits else [Undecided()]), start
    fits_empty = case.fits(case.empty_world) is not False
    if fits_empty or (case.gang.running and case.fits(case.own_pods_world) is not False):
        return _minimal_facts(case, start, current_obstacles(case)) or ([Undecided()], start)
    return _permanent_facts(case, start)


def _plan_facts(case: GangDiagnosis, demand: QueueDemand) -> tuple[Fact, ...]:
    """Return the facts about gangs that the plan starts first, in the gang's queues and on the nodes."""
    ledger, full = case.state.after.queue_books, case.fits(case.current_world) is False
    found = queue_facts(case.state, ledger, demand, None if full else ledger)
    if full:
        found.append(borrowing(case, case.current_world) or preceding_gangs(case, case.current_world))
    return tuple(found) or (Undecided(),)


def _permanent_facts(case: GangDiagnosis, start: World) -> FactsAndWorld:
    """Return the facts that hold on the empty cluster, and those of the other obstacles. Without its requests a gang
    fits in spite of most other obstacles: they are named only where the others are not enough."""
    obstacles, empty = permanent_obstacles(case), case.empty_world
    *others, _requests = obstacles
    chosen = _smallest_set(case, empty, others) or _smallest_set(case, empty, obstacles)
    if chosen is None:
        return _infeasible_facts(case, obstacles), start
    found = [replace(o.fact(_relax_all(empty, chosen, o)), never=True) for o in chosen]
    start = _relax_all(start, chosen)
    if case.fits(start):
        return found, start
    more, world = _minimal_facts(case, start, cluster_obstacles(case)) or ([], start)
    return found + more, world


def _minimal_facts(case: GangDiagnosis, start: World, obstacles: Sequence[Obstacle]) -> FactsAndWorld | None:
    """Return the facts of the smallest set of obstacles; None where not even all of them are known to be enough."""
    chosen = _smallest_set(case, start, obstacles)
    if chosen is None:
        return None
    return [o.fact(_relax_all(start, chosen, o)) for o in chosen], _relax_all(start, chosen)


def _infeasible_facts(case: GangDiagnosis, obstacles: Sequence[Obstacle]) -> list[Fact]:
    """Return the facts of a gang that does not fit on unlimited nodes either: there are no nodes, or its subgroups
    never add up to its minimum."""
    if case.fits(_relax_all(case.empty_world, obstacles)) is not False:
        return [Undecided()]
    if case.state.problem.nodes:
        return [replace(obstacles[-1].fact(case.empty_world), never=True)]
    roles = enumerate(case.question(case.empty_world).gang_class.roles)
    return [NoEligibleNode(t, never=True) for t, role in roles if role.min_pods] or [Undecided()]


def _smallest_set(case: GangDiagnosis, start: World, obstacles: Sequence[Obstacle]) -> tuple[Obstacle, ...] | None:
    pairs = case.state.options.budget.paired_obstacles
    return smallest_sufficient(obstacles, lambda some: case.fits(_relax_all(start, some)) is True, pairs)


def _relax_all(w: World, obstacles: Iterable[Obstacle], but: Obstacle | None = None) -> World:
    """Return the world without these obstacles except `but`."""
    for obstacle in obstacles:
        if obstacle is not but:
            w = obstacle.relax(w)
    return w

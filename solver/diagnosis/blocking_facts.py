"""The smallest set of facts for which a gang waits: without all of them it starts, with one of them it does not.

First what is in its way beside what runs, on the nodes and in the queues, which are independent. Only where nothing is,
what the plan gives to others: a gang that cannot start anyway does not wait for those that got the room.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from solver.diagnosis.case import GangDiagnosis
from solver.diagnosis.diagnosis_state import Scenario
from solver.diagnosis.minimal import smallest_sufficient
from solver.diagnosis.node_facts import preceding_gangs
from solver.diagnosis.obstacles import Obstacle, cluster_obstacles, current_obstacles, permanent_obstacles
from solver.diagnosis.precedence import borrowing
from solver.diagnosis.queue_obstacles import QueueDemand, queue_facts
from solver.facts import AwayNodes, Fact, NoEligibleNode, Undecided
from solver.state.queue_books import QueueBooks

FactsAndScenario = tuple[list[Fact], Scenario]
"""Facts, and the scenario without the obstacles that they state."""


def gang_facts(case: GangDiagnosis) -> tuple[Fact, ...]:
    """Why it waits, permanent facts first; an over-constrained gang has none of these."""
    found, scenario = node_facts(case)
    demand = QueueDemand(case.gang.queue, case.remaining_demand, case.total_demand)
    returned = away_nodes(found)
    ledger = case.state.ledger_with_returned(returned)
    found = [*queue_facts(case.state, ledger, demand, _cluster_ledger(case, scenario, returned)), *found]
    if case.gang.over_constrained:
        found = [replace(fact, never=False) for fact in found]
    return tuple(sorted(found, key=lambda fact: not fact.never)) or _plan_facts(case, demand)


def away_nodes(facts: Iterable[Fact]) -> tuple[int, ...]:
    """The nodes that facts name as away."""
    return next((fact.nodes for fact in facts if isinstance(fact, AwayNodes)), ())


def _cluster_ledger(case: GangDiagnosis, s: Scenario, returned_nodes: tuple[int, ...]) -> QueueBooks | None:
    """What the cluster holds in a scenario, where guarantees are kept in all of it; None where nodes are too small
    anyway."""
    if any(role.request != was.request for role, was in zip(s.gang.roles, case.gang.roles, strict=True)):
        return None
    return case.state.ledger_with_returned(returned_nodes, s.with_running)


def node_facts(case: GangDiagnosis) -> FactsAndScenario:
    """What is in the way on the nodes beside what runs."""
    start = replace(case.current_scenario, with_started=False)
    fits = case.fits(start)
    if fits is not False:
        return ([] if fits else [Undecided()]), start
    fits_empty = case.fits(case.empty_scenario) is not False
    if fits_empty or (case.gang.running and case.fits(case.own_pods_scenario) is not False):
        return _minimal_facts(case, start, current_obstacles(case)) or ([Undecided()], start)
    return _permanent_facts(case, start)


def _plan_facts(case: GangDiagnosis, demand: QueueDemand) -> tuple[Fact, ...]:
    """The facts about gangs that the plan starts first, in the gang's queues and on the nodes."""
    ledger, full = case.state.after.queue_books, case.fits(case.current_scenario) is False
    found = queue_facts(case.state, ledger, demand, None if full else ledger)
    if full:
        found.append(borrowing(case, case.current_scenario) or preceding_gangs(case, case.current_scenario))
    return tuple(found) or (Undecided(),)


def _permanent_facts(case: GangDiagnosis, start: Scenario) -> FactsAndScenario:
    """The facts that hold on the empty cluster, and those of the other obstacles."""
    obstacles, empty = permanent_obstacles(case), case.empty_scenario
    chosen = _smallest_set(case, empty, obstacles)
    if chosen is None:
        return _infeasible_facts(case, obstacles), start
    found = [replace(o.fact(_relax_all(empty, chosen, o)), never=True) for o in chosen]
    start = _relax_all(start, chosen)
    if case.fits(start):
        return found, start
    more, scenario = _minimal_facts(case, start, cluster_obstacles(case)) or ([], start)
    return found + more, scenario


def _minimal_facts(case: GangDiagnosis, start: Scenario, obstacles: Sequence[Obstacle]) -> FactsAndScenario | None:
    """The facts of the smallest set of obstacles; None where not even all of them are known to be enough."""
    chosen = _smallest_set(case, start, obstacles)
    if chosen is None:
        return None
    return [o.fact(_relax_all(start, chosen, o)) for o in chosen], _relax_all(start, chosen)


def _infeasible_facts(case: GangDiagnosis, obstacles: Sequence[Obstacle]) -> list[Fact]:
    """The facts of a gang that does not fit on unlimited nodes either: there are none, or its subgroups never add up to
    its minimum."""
    if case.fits(_relax_all(case.empty_scenario, obstacles)) is not False:
        return [Undecided()]
    if case.state.problem.nodes:
        return [replace(obstacles[-1].fact(case.empty_scenario), never=True)]
    roles = enumerate(case.question(case.empty_scenario).gang_class.roles)
    return [NoEligibleNode(t, never=True) for t, role in roles if role.min_pods] or [Undecided()]


def _smallest_set(case: GangDiagnosis, start: Scenario, obstacles: Sequence[Obstacle]) -> tuple[Obstacle, ...] | None:
    pairs = case.state.options.budget.paired_obstacles
    return smallest_sufficient(obstacles, lambda some: case.fits(_relax_all(start, some)) is True, pairs)


def _relax_all(s: Scenario, obstacles: Iterable[Obstacle], but: Obstacle | None = None) -> Scenario:
    """The scenario without these obstacles except `but`."""
    for obstacle in obstacles:
        if obstacle is not but:
            s = obstacle.relax(s)
    return s

"""The smallest set of facts for which a gang waits: with all of them out of the way it starts, with one of them in its
way it does not.

First what is in its way beside what runs, on the nodes and in the queues, which know nothing of one another. Only where
nothing is, what the plan gives to others: a gang that cannot start anyway is not kept out by those who then got the
room.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from solver.diagnosis.families import (
    ObstacleFamily,
    cluster_obstacles,
    current_obstacles,
    permanent_obstacles,
    started_gangs_fact,
)
from solver.diagnosis.minimal import smallest_sufficient
from solver.diagnosis.queues import QueueDemand, queue_facts
from solver.diagnosis.world import GangDiagnosis, Scenario
from solver.facts import AwayNodes, Fact, NoEligibleNode, Undecided
from solver.state.queue_books import QueueBooks


def gang_facts(case: GangDiagnosis) -> tuple[Fact, ...]:
    """Why it waits; first what waiting does not help. Of a gang that is held to more than it has to be nothing is said
    for ever."""
    found, setting = node_facts(case)
    asking = QueueDemand(case.gang.queue, case.remaining_demand, case.total_demand)
    back = away_nodes(found)
    found = [
        *queue_facts(case.state, case.state.ledger_with_returned(back), asking, _cluster_ledger(case, setting, back)),
        *found,
    ]
    if case.gang.over_constrained:
        found = [replace(fact, never=False) for fact in found]
    return tuple(sorted(found, key=lambda fact: not fact.never)) or _plan_facts(case, asking)


def away_nodes(facts: Iterable[Fact]) -> tuple[int, ...]:
    """The nodes that facts name as away."""
    return next((fact.nodes for fact in facts if isinstance(fact, AwayNodes)), ())


def _cluster_ledger(case: GangDiagnosis, s: Scenario, returned_nodes: tuple[int, ...]) -> QueueBooks | None:
    """What holds the cluster, seen from a setting, where room for guarantees is kept in all of it; None where nodes are
    too small anyway. back: the nodes that are named as away."""
    if any(role.request != was.request for role, was in zip(s.gang.roles, case.gang.roles, strict=True)):
        return None
    return case.state.ledger_with_returned(returned_nodes, s.with_running)


def node_facts(case: GangDiagnosis) -> tuple[list[Fact], Scenario]:
    """What is in the way on the nodes beside what runs, and the setting without it. GW110 where no answer was proved."""
    start = replace(case.current_scenario, with_started=False)
    fits = case.fits(start)
    if fits is not False:
        return ([] if fits else [Undecided()]), start
    if case.fits(case.empty_scenario) is False and not (
        case.gang.running and case.fits(case.own_pods_scenario) is not False
    ):
        return _permanent_facts(case, start)
    return _minimal_facts(case, start, current_obstacles(case)) or ([Undecided()], start)


def _plan_facts(case: GangDiagnosis, queue_demand: QueueDemand) -> tuple[Fact, ...]:
    """What the plan gives to others before it: in its queues, and on the nodes."""
    full = case.fits(case.current_scenario) is False
    found = queue_facts(case.state, case.state.ledger_after, queue_demand, None if full else case.state.ledger_after)
    if full:
        found.append(started_gangs_fact(case, case.current_scenario))
    return tuple(found) or (Undecided(),)


def _permanent_facts(case: GangDiagnosis, start: Scenario) -> tuple[list[Fact], Scenario]:
    """What the empty cluster has against it, and then what else is in its way."""
    families = permanent_obstacles(case)
    chosen = _smallest_families(case, case.empty_scenario, families)
    if chosen is None:
        return _infeasible_facts(case, families), start
    found = [replace(family.fact(_relax_all(case.empty_scenario, chosen, family)), never=True) for family in chosen]
    start = _relax_all(start, chosen)
    if case.fits(start):
        return found, start
    more, setting = _minimal_facts(case, start, cluster_obstacles(case)) or ([], start)
    return found + more, setting


def _minimal_facts(
    case: GangDiagnosis, start: Scenario, families: Sequence[ObstacleFamily]
) -> tuple[list[Fact], Scenario] | None:
    """The facts of the smallest set of obstacles, and the setting without them; None where not even all of them are
    known to be enough."""
    chosen = _smallest_families(case, start, families)
    if chosen is None:
        return None
    return [family.fact(_relax_all(start, chosen, family)) for family in chosen], _relax_all(start, chosen)


def _infeasible_facts(case: GangDiagnosis, families: Sequence[ObstacleFamily]) -> list[Fact]:
    """Not even on nodes without limits: there are no nodes, or its subgroups never add up to what it asks for."""
    if case.fits(_relax_all(case.empty_scenario, families)) is not False:
        return [Undecided()]
    if not case.state.problem.nodes:
        return [
            NoEligibleNode(role=t, never=True)
            for t, role in enumerate(case.question(case.empty_scenario).gang_class.roles)
            if role.min_pods
        ] or [Undecided()]
    return [replace(families[-1].fact(case.empty_scenario), never=True)]


def _smallest_families(
    case: GangDiagnosis, start: Scenario, families: Sequence[ObstacleFamily]
) -> tuple[ObstacleFamily, ...] | None:
    return smallest_sufficient(
        families, lambda some: case.fits(_relax_all(start, some)) is True, case.state.options.budget.paired_obstacles
    )


def _relax_all(
    s: Scenario, families: Iterable[ObstacleFamily], except_family: ObstacleFamily | None = None
) -> Scenario:
    """The setting without these obstacles, `spare` left in place."""
    for family in families:
        if family is not except_family:
            s = family.relax(s)
    return s

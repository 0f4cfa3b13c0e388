"""Which gangs are in the way."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import replace

from solver.diagnosis.minimal import minimal_subset
from solver.diagnosis.world import GangDiagnosis, Scenario
from solver.greedy.best_fit import GreedyPlacer
from solver.placement.fit import greedy_placement


def blockers(case: GangDiagnosis, s: Scenario) -> tuple[int, tuple[int, ...]]:
    """(pods of the gang that fit beside the plan, the gangs that the plan starts without which all of it would, none of
    them to spare).

    Whose queue they are in does not matter. Those of the gang's priority and above come first into question, the lowest
    and youngest first.
    """
    world, priority = case.state, case.gang.priority
    key = (priority, s)
    if key not in world.blockers:
        q = case.question(s)
        gangs = world.problem.gangs
        order = sorted(world.started_placements, key=lambda i: (gangs[i].priority, -gangs[i].age, -i))
        order = [i for i in order if gangs[i].priority >= priority] or order
        most = GreedyPlacer(q.state.copy()).max_pods_in_domain(0, q.gang_class)
        world.blockers[key] = most, tuple(sorted(_blocking_prefix(case, s, order)))
    return world.blockers[key]


def _blocking_prefix(case: GangDiagnosis, s: Scenario, order: list[int]) -> tuple[int, ...]:
    """The shortest prefix of `order` without which the gang fits, less the members that it does not need."""
    world, q = case.state, case.question(replace(s, with_started=False))
    left = q.free.minus(world.planned_amounts)

    def fits(without: Iterable[int]) -> bool:
        free = left.copy()
        for i in without:
            world.add_planned_amounts(free, i)
        rule_counts = world.rule_counts_without(without) if s.with_pod_rules else None
        return greedy_placement(q.state.with_free(free.nonnegative(), rule_counts), 0, q.gang_class) is not None

    number = bisect_left(range(len(order)), True, key=lambda number: fits(order[:number]))
    chosen = tuple(reversed(order[:number]))
    return minimal_subset(chosen, fits) if len(chosen) <= world.options.budget.minimized_blockers else chosen

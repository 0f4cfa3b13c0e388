"""Better placements for the gangs of a batch: which neighbourhoods are searched in which order, and their bounds."""

from __future__ import annotations

from dataclasses import replace

from solver.placement import identical_pods
from solver.placement.empty_supernodes import EmptySupernodes
from solver.placement.exact import relaxed_spread_bound, single_gang_sets, solve_jointly
from solver.placement.few_gangs import FewGangs
from solver.placement.realise import repack_tighter
from solver.placement.task import PlacementTask
from solver.search.search import Limits, improve
from solver.semantics.placement_cost import PlacementCost
from solver.semantics.placements import Placements


def improve_placements(task: PlacementTask, placements: Placements) -> tuple[Placements, PlacementCost]:
    """(placements that cost no more, a lower bound on their cost)."""
    placements = repack_tighter(task, placements)
    least, cost = task.lower_bound, task.cost(placements)
    if (
        all(value <= bound for value, bound in zip(cost.values, least.values, strict=True))
        or task.options.clock.is_over()
    ):
        return placements, least
    if single_gang_sets(task, placements, placements).variable_count > task.options.budget.placement_variables:
        return _improve_large_batch(task, placements, least)
    moves, limits = EmptySupernodes(task).moves, Limits(task.options.clock)
    placements = improve(placements, task.cost, moves, limits, lambda cost: cost.supernodes <= least.supernodes)
    return (placements, least) if task.cost(placements) == least else solve_jointly(task, placements, least)


def _improve_large_batch(
    task: PlacementTask, placements: Placements, least: PlacementCost
) -> tuple[Placements, PlacementCost]:
    """A batch that is too large for one model."""
    budget, searches = task.options.budget, len(task.s.buckets) <= task.options.budget.searched_buckets
    if not searches and task.cost(placements).spread <= least.spread:
        return placements, least
    joint = identical_pods.joint_bounds(task.s, task.gang_classes, task.options)
    least = replace(least, spread=max(least.spread, joint.spread_bound))
    if joint.is_single_class:
        placements = _improve_by_class(task, placements, joint, least)
    if task.cost(placements).spread > least.spread and not task.options.clock.is_over():
        least = replace(least, spread=max(least.spread, relaxed_spread_bound(task, placements)))
    if not searches:
        return placements, least
    limits = Limits(task.options.clock, tries=budget.neighbourhoods, failures=budget.neighbourhood_failures)
    placements = improve(
        placements, task.cost, FewGangs(task).moves, limits, lambda cost: cost.values[:2] == least.values[:2]
    )
    if not joint.is_single_class:
        placements = _improve_by_class(task, placements, joint, least)
    return placements, least


def _improve_by_class(
    task: PlacementTask, placements: Placements, joint: identical_pods.JointBounds, least: PlacementCost
) -> Placements:
    cost = task.cost(placements)
    if cost.spread <= least.spread or task.options.clock.is_over():
        return placements
    found = repack_tighter(task, identical_pods.improve_spread(task, placements, joint))
    return found if task.cost(found) < cost else placements

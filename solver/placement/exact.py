"""Stage B's exact model: all gangs of a small batch, or a few gangs of a large one, placed again with the goals one
after another."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from solver.admission.admit import incumbent_values
from solver.mip.engine import FEASIBILITY_TOLERANCE, solve_model
from solver.mip.lexicographic import LexicographicSolver
from solver.mip.rows import linear
from solver.models import constraints, variables
from solver.models import placement_cost as goals
from solver.models.sets import Sets, split_buckets
from solver.options import Options
from solver.placement import bounds, identical_pods
from solver.placement.bounds import TopologyCost
from solver.placement.empty_supernodes import empty_supernodes
from solver.placement.realise import pack_buckets, placement_cost, repack_tighter
from solver.placement.vicinity import NeighbourhoodSelector
from solver.semantics.gang_classes import GangClass
from solver.semantics.placement_cost import PlacementCost, UnopenedCapacity
from solver.semantics.placements import Placements, new_placements
from solver.semantics.priorities import precedence


@dataclass(frozen=True, slots=True)
class ModelResult:
    """reached: the model's own costs, below those of the placements where stage C could not follow. proved: a bound on
    each, given those before it as they were reached. coarse: places that could not be packed."""

    placements: Placements
    model_cost: PlacementCost
    proven_bound: PlacementCost
    unpackable_buckets: tuple[int, ...] = ()


def improve_by_model(
    s: Sets,
    shapes: Mapping[int, GangClass],
    placements: Placements,
    min_costs: Mapping[int, TopologyCost],
    lower_bound: PlacementCost,
    unopened: UnopenedCapacity,
    options: Options,
) -> tuple[Placements, PlacementCost]:
    """(placements that cost no more, a lower bound): all gangs in one model where it is small; else a few vicinities,
    the other gangs held."""
    everybody = _single_gang_sets(s, shapes, placements, sorted(placements))
    if everybody.variable_count <= options.budget.placement_variables:
        placements = empty_supernodes(s, shapes, placements, lower_bound, unopened, options)
        if placement_cost(s, placements, unopened) == lower_bound:
            return placements, lower_bound
        return _solve_jointly(s, shapes, placements, lower_bound, unopened, options)
    kinds = identical_pods.joint_bounds(s, shapes, options)
    lower_bound = replace(lower_bound, spread=max(lower_bound.spread, kinds.spread_bound))
    if kinds.is_single_class:
        placements = _improve_by_class(s, shapes, placements, kinds, lower_bound, unopened, options)
    if placement_cost(s, placements, unopened).spread > lower_bound.spread:
        lower_bound = replace(
            lower_bound, spread=max(lower_bound.spread, _relaxed_spread_bound(everybody, placements, options))
        )
    placements = _improve_by_neighbourhoods(s, shapes, placements, min_costs, lower_bound, unopened, options)
    if not kinds.is_single_class:
        placements = _improve_by_class(s, shapes, placements, kinds, lower_bound, unopened, options)
    return placements, lower_bound


def _improve_by_class(
    s: Sets,
    shapes: Mapping[int, GangClass],
    placements: Placements,
    joint: identical_pods.JointBounds,
    lower_bound: PlacementCost,
    unopened: UnopenedCapacity,
    options: Options,
) -> Placements:
    """Gangs of alike pods placed anew, kind after kind."""
    cost = placement_cost(s, placements, unopened)
    if cost.spread <= lower_bound.spread:
        return placements
    again = repack_tighter(s, identical_pods.improve_spread(s, shapes, placements, joint, options), unopened, options)
    return again if placement_cost(s, again, unopened) < cost else placements


def _improve_by_neighbourhoods(
    s: Sets,
    shapes: Mapping[int, GangClass],
    placements: Placements,
    min_costs: Mapping[int, TopologyCost],
    lower_bound: PlacementCost,
    unopened: UnopenedCapacity,
    options: Options,
) -> Placements:
    """A few gangs at a time placed anew, the others held, as long as that helps."""
    cost, vain, treated = placement_cost(s, placements, unopened), 0, set[int]()
    for _ in range(options.budget.neighbourhoods):
        if cost.values[:2] == lower_bound.values[:2]:
            break  # as near as can be
        near = (
            NeighbourhoodSelector(s, shapes, placements, min_costs, options.budget).next_neighbourhood(treated)
            if vain < options.budget.neighbourhood_failures
            else None
        )
        if near is None:
            break
        treated.update(near.gangs)
        held = {j: placements[j] for j in near.gangs}
        moved = _solve_placement(
            _single_gang_sets(s, shapes, placements, near.gangs, near.buckets),
            held,
            options,
            nodes=1,
            topology_only=True,
        ).placements
        again = repack_tighter(s, {**placements, **moved}, unopened, options)
        new = placement_cost(s, again, unopened)
        placements, cost, vain = (again, new, vain) if new < cost else (placements, cost, vain + 1)
    return placements


def _relaxed_spread_bound(s: Sets, placements: Placements, options: Options) -> int:
    """The least spread of all gangs together where pods may be divided: a bound that knows that gangs share the room. 0
    where they are too many."""
    if s.variable_count > options.budget.relaxed_variables:
        return 0
    x = variables.build_variables(s, fixed_admission=True)
    constraints.add_constraints(s, x, constraints.PLACEMENT_CONSTRAINTS)
    goal = goals.spread_goal(
        s, x, incumbent_values(s, x, placements), [bounds.min_domains_per_tier(s, shape) for shape in s.gang_classes]
    )
    x.model.setObjective(linear(goal.terms))
    answer = solve_model(x.model, options, relaxation=True)
    return math.ceil(-answer.value - goal.offset - FEASIBILITY_TOLERANCE) if answer.status == "optimal" else 0


def _solve_jointly(
    s: Sets,
    shapes: Mapping[int, GangClass],
    placements: Placements,
    lower_bound: PlacementCost,
    unopened: UnopenedCapacity,
    options: Options,
) -> tuple[Placements, PlacementCost]:
    """The exact model, again over single nodes where its costs could not be reached on the nodes that its places count
    together."""
    while True:
        sets = _single_gang_sets(s, shapes, placements, sorted(placements))
        found = _solve_placement(
            sets,
            placements,
            options,
            nodes=options.budget.placement_nodes
            * max(1, options.budget.placement_variables // max(1, sets.variable_count)),
        )
        again = repack_tighter(s, found.placements, unopened, options)
        if placement_cost(s, again, unopened) < placement_cost(s, placements, unopened):
            placements = again
        value = placement_cost(s, placements, unopened)
        bound = _conditional_bound(value, found.model_cost, found.proven_bound, lower_bound)
        finer = replace(s, buckets=split_buckets(s.buckets, found.unpackable_buckets or range(len(s.buckets))))
        if (
            value <= found.model_cost
            or len(finer.buckets) == len(s.buckets)
            or _single_gang_sets(finer, shapes, placements, sorted(placements)).variable_count
            > options.budget.placement_variables
        ):
            return placements, bound
        s = finer


def _conditional_bound(
    value: PlacementCost, model_cost: PlacementCost, proven_bound: PlacementCost, lower_bound: PlacementCost
) -> PlacementCost:
    """A bound on an entry holds while those before it are what the model had them at; else what counting says."""
    found, same = [], True
    for mine, model, bound, least in zip(
        value.values, model_cost.values, proven_bound.values, lower_bound.values, strict=True
    ):
        found.append(max(bound, least) if same else least)
        same = same and mine == model
    return PlacementCost(*found)


def _single_gang_sets(
    s: Sets,
    gangs: Mapping[int, GangClass],
    placements: Placements,
    movable: Sequence[int],
    buckets: Collection[int] | None = None,
) -> Sets:
    """The same sets with each movable gang as a shape of its own, in the room that the others leave; only in these
    places, if some are named."""
    room = s.free_nodes_after({j: pods for j, pods in placements.items() if j not in movable})
    free = room.vectors
    if buckets is not None:
        outside = ~np.isin(s.bucket_of, sorted(buckets))
        free.amounts[outside], free.slots[outside] = 0, 0
    shapes = tuple(replace(gangs[j], only_gang=j) for j in movable)
    waiting = {(s.problem.gangs[j].queue, precedence(s.problem.gangs[j]), k): (j,) for k, j in enumerate(movable)}
    return Sets(s.state.with_free(free, room.rule_counts), s.buckets, shapes, waiting)


def _solve_placement(
    s: Sets, placements: Placements, options: Options, nodes: int, topology_only: bool = False
) -> ModelResult:
    """These gangs placed anew, goal after goal. nodes: of branch and bound. near_only: how near they are, whatever they
    open."""
    x = variables.build_variables(s, fixed_admission=True)
    constraints.add_constraints(s, x)
    start = incumbent_values(s, x, placements)
    wholes = UnopenedCapacity(s.problem, s.tree, s.free.amounts)
    new = {j: new_placements(s.problem.gangs[j], pods) for j, pods in placements.items()}
    wanted = [
        goals.split_subgroups_goal(s, x, start),
        goals.spread_goal(s, x, start, [bounds.min_domains_per_tier(s, shape) for shape in s.gang_classes]),
    ]
    if not topology_only:
        wanted += goals.opening_goals(s, x, start, wholes.opened_nodes(new))
    low = bounds.cost_lower_bound(
        s, {shape.only_gang: shape for shape in s.gang_classes if shape.only_gang is not None}, wholes
    )
    limited = replace(options, max_nodes=min(options.max_nodes, nodes))
    lex = LexicographicSolver(x.model, limited, start, skip_presolve=topology_only)
    reached, proved = [], []
    for goal, least in zip(wanted, low.values, strict=False):
        value, bound = lex.solve_for(replace(goal, upper_bound=min(goal.upper_bound, -float(least))))
        lex.hold_goal(goal, value)
        reached.append(-round(value))
        proved.append(-round(bound))
    filled = [0] * (len(low.values) - len(wanted))
    realised = pack_buckets(s, placements, _pods_by_bucket(s, x, lex.values), options)
    coarse = realised if isinstance(realised, tuple) else ()
    return ModelResult(
        placements if isinstance(realised, tuple) else realised,
        PlacementCost(*reached, *filled),
        PlacementCost(*proved, *filled),
        coarse,
    )


def _pods_by_bucket(
    s: Sets, x: variables.Variables, values: Mapping[str, float]
) -> dict[int, dict[tuple[int, int], int]]:
    wishes: dict[int, dict[tuple[int, int], int]] = {}
    for (k, t), pods in x.n.items():
        j = s.gang_classes[k].only_gang
        for i, terms in pods.items():
            number = round(sum(values[v.name] * c for v, c in terms))
            if number and j is not None:
                wishes.setdefault(i, {})[j, t] = number
    return wishes

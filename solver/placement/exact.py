"""The exact model of placement: gangs placed again, one objective after another, while the other gangs stay."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np

from solver.admission.admit import incumbent_values
from solver.mip.engine import FEASIBILITY_TOLERANCE, solve_model
from solver.mip.lexicographic import Goal, LexicographicSolver
from solver.mip.rows import linear
from solver.models import constraints, variables
from solver.models import placement_cost as goals
from solver.models.sets import Sets, split_buckets
from solver.models.variables import Variables
from solver.placement import bounds
from solver.placement.pack import pack_buckets, repack_tighter
from solver.placement.task import PlacementTask
from solver.semantics.placement_cost import COST_NAMES, NODE_GROUPS, SEPARATIONS, PlacementCost
from solver.semantics.placements import Placements
from solver.semantics.priorities import precedence


@dataclass(frozen=True, slots=True)
class ModelResult:
    """model_cost: below that of the placements where buckets could not be packed. proven_bound: of each entry, given
    those before it as in model_cost."""

    placements: Placements
    model_cost: PlacementCost
    proven_bound: PlacementCost
    unpackable_buckets: tuple[int, ...] = ()


def solve_jointly(
    task: PlacementTask, placements: Placements, lower_bound: PlacementCost
) -> tuple[Placements, PlacementCost]:
    """(placements that cost no more, a lower bound): all gangs in one model, again over single nodes where its cost is
    not reached on the nodes that its buckets count together."""
    most, nodes = task.options.budget.placement_variables, task.options.budget.placement_nodes
    while True:
        sets = single_gang_sets(task, placements, placements)
        found = solve_gangs(task, sets, placements, nodes * max(1, most // max(1, sets.variable_count)))
        repacked = repack_tighter(task, found.placements)
        placements = repacked if task.cost(repacked) < task.cost(placements) else placements
        value = task.cost(placements)
        buckets = split_buckets(task.s.buckets, found.unpackable_buckets or range(len(task.s.buckets)))
        is_finest = len(buckets) == len(task.s.buckets)
        task = replace(task, s=replace(task.s, buckets=buckets))
        size = single_gang_sets(task, placements, placements).variable_count
        if value <= found.model_cost or is_finest or size > most:
            return placements, _conditional_bound(value, found, lower_bound)


def _conditional_bound(value: PlacementCost, found: ModelResult, lower_bound: PlacementCost) -> PlacementCost:
    """The model bounds an entry while those before it are what the model had them at; `lower_bound` holds anyway."""
    entries, same = [], True
    rows = (value.values, found.model_cost.values, found.proven_bound.values, lower_bound.values)
    for mine, model, bound, least in zip(*rows, strict=True):
        entries.append(max(bound, least) if same else least)
        same = same and mine == model
    return PlacementCost(*entries)


def single_gang_sets(
    task: PlacementTask, placements: Placements, gangs: Collection[int], buckets: Collection[int] | None = None
) -> Sets:
    """Return sets in which each of these gangs is a class of its own, next to the others; only in these buckets, if
    given."""
    s, movable = task.s, sorted(gangs)
    state = s.state_after({j: pods for j, pods in placements.items() if j not in gangs})
    free = state.free
    if buckets is not None:
        outside = ~np.isin(s.bucket_of, sorted(buckets))
        free.amounts[outside], free.slots[outside] = 0, 0
    classes = tuple(replace(task.gang_classes[j], only_gang=j) for j in movable)
    waiting = {(s.problem.gangs[j].queue, precedence(s.problem.gangs[j]), k): (j,) for k, j in enumerate(movable)}
    before = replace(s.state.with_free(free, state.rule_counts), started=state.started)
    return Sets(before, s.buckets, classes, waiting)


def solve_gangs(
    task: PlacementTask, s: Sets, placements: Placements, nodes: int, topology_only: bool = False
) -> ModelResult:
    """Place the gangs of `s` (`single_gang_sets`) again by objectives in order. nodes: branch-and-bound nodes.
    topology_only: ignores opened nodes."""
    gangs = {gang_class.only_gang: gang_class for gang_class in s.gang_classes if gang_class.only_gang is not None}
    held = {j: placements[j] for j in gangs}
    x = variables.build_variables(s, fixed_admission=True)
    constraints.add_constraints(s, x)
    part, start = PlacementTask(s, gangs, task.options), incumbent_values(s, x, held)
    wanted = {"subgroups": goals.split_subgroups_goal(s, x, start), "spread": _spread_goal(s, x, start)}
    if not topology_only:
        if part.min_separation_costs:
            wanted[SEPARATIONS] = goals.separation_goal(s, x, start, part.held_domains)
        opening = goals.opening_goals(s, x, start, part.unopened.opened_nodes(part.new_pods(held)))
        wanted |= {goal.name: goal for goal in opening}
        wanted |= {NODE_GROUPS: goals.node_group_goal(s, x)} if part.min_node_group_costs else {}
    least = part.lower_bound
    options = replace(task.options, max_nodes=min(task.options.max_nodes, nodes))
    lex = LexicographicSolver(x.model, options, start, skip_presolve=topology_only)
    costs, proven = [0] * len(least.values), [0] * len(least.values)
    for entry, goal in ((COST_NAMES.index(name), goal) for name, goal in wanted.items()):
        upper_bound = min(goal.upper_bound, -float(least.values[entry]))
        value, bound = lex.solve_for(replace(goal, upper_bound=upper_bound))
        lex.hold_goal(goal, value)
        costs[entry], proven[entry] = -round(value), -round(bound)
    packed = pack_buckets(s, held, _pods_by_bucket(s, x, lex.values), task.options)
    unpackable, moved = (packed, held) if isinstance(packed, tuple) else ((), packed)
    return ModelResult({**placements, **moved}, PlacementCost(*costs), PlacementCost(*proven), unpackable)


def _spread_goal(s: Sets, x: Variables, start: dict[str, float]) -> Goal:
    return goals.spread_goal(s, x, start, [bounds.min_domains_per_tier(s, gang_class) for gang_class in s.gang_classes])


def _pods_by_bucket(s: Sets, x: Variables, values: Mapping[str, float]) -> dict[int, dict[tuple[int, int], int]]:
    wanted: dict[int, dict[tuple[int, int], int]] = {}
    for (k, t), pods in x.n.items():
        j = s.gang_classes[k].only_gang
        for i, terms in pods.items():
            number = round(sum(values[v.name] * c for v, c in terms))
            if number and j is not None:
                wanted.setdefault(i, {})[j, t] = number
    return wanted


def relaxed_spread_bound(task: PlacementTask, placements: Placements) -> int:
    """Return the least span of all gangs together if pods could be divided: a bound that knows that gangs share nodes.
    0 where they are too many."""
    s = single_gang_sets(task, placements, placements)
    if s.variable_count > task.options.budget.relaxed_variables:
        return 0
    x = variables.build_variables(s, fixed_admission=True)
    constraints.add_constraints(s, x, constraints.PLACEMENT_CONSTRAINTS)
    goal = _spread_goal(s, x, incumbent_values(s, x, placements))
    x.model.setObjective(linear(goal.terms))
    answer = solve_model(x.model, task.options, relaxation=True)
    return math.ceil(-answer.value - goal.offset - FEASIBILITY_TOLERANCE) if answer.status == "optimal" else 0

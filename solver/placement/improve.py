"""Better placements for the gangs of a batch: which neighbourhoods are searched in which order, and their bounds.

Two neighbourhoods are here. The gangs of an opened supernode are placed again by the greedy in supernodes that are open
anyway. And around a gang that could be nearer, a domain that would hold it and the gangs in its way are placed again by
the exact model, one objective after another, while the other gangs stay.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np

from solver.admission.admit import incumbent_values
from solver.mip.engine import FEASIBILITY_TOLERANCE, solve_model
from solver.mip.lexicographic import Goal, LexicographicSolver
from solver.mip.rows import linear
from solver.models import constraints, variables
from solver.models import placement_cost as goals
from solver.models.sets import Sets, split_buckets
from solver.models.variables import Variables
from solver.placement import bounds, identical_pods
from solver.placement.pack import pack_buckets, repack_tighter
from solver.placement.task import PlacementTask, TopologyCost
from solver.problem import PodRequest
from solver.search import Incumbent, Limits, Moves, improve
from solver.semantics.order import precedence
from solver.semantics.placement_cost import COST_NAMES, NODE_GROUPS, SEPARATIONS, PlacementCost
from solver.semantics.placements import Placements
from solver.semantics.topology import ROOT


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


class EmptySupernodes:
    """The supernode with the fewest new pods first; ranked again after an improvement."""

    def __init__(self, task: PlacementTask) -> None:
        self.task = task

    def moves(self, incumbent: Incumbent[Placements]) -> Moves[Placements]:
        placements, new_pods = incumbent.solution, Counter[int]()
        opened = self._opened_supernodes(placements)
        for pods in self.task.new_pods(placements).values():
            for p in pods:
                new_pods[int(self.task.s.tree.leaf_of[p.node])] += p.pods
        for h in sorted(opened, key=lambda h: (new_pods[h], h)):
            # The other supernodes that its gangs have opened stay open to them.
            yield partial(self._place_outside, placements, h, (self.task.unopened.unopened_supernodes - opened) | {h})
            if incumbent.solution is not placements:
                return

    def _opened_supernodes(self, placements: Placements) -> frozenset[int]:
        opened = self.task.unopened.opened_nodes(self.task.new_pods(placements))
        return frozenset(int(self.task.s.tree.leaf_of[n]) for n in opened) & self.task.unopened.unopened_supernodes

    def _place_outside(self, placements: Placements, h: int, excluded: frozenset[int]) -> Placements | None:
        """Return the gangs with new pods in supernode h placed outside the excluded supernodes."""
        s = self.task.s
        new = self.task.new_pods(placements)
        freed = [j for j, pods in new.items() if any(s.tree.leaf_of[p.node] == h for p in pods)]
        others = {j: pods for j, pods in placements.items() if j not in freed}
        state = s.state_after(others)
        closed = np.isin(s.tree.leaf_of, sorted(excluded))
        state.free.amounts[closed], state.free.slots[closed] = 0, 0
        found = self.task.place_greedily(state, freed)
        if found is None or state.free_nodes.breaks_pod_rules:
            return None
        return repack_tighter(self.task, {j: found.get(j, pods) for j, pods in placements.items()})


GangsAndBuckets = tuple[list[int], set[int]]
"""(gangs that are placed again, where they may be)."""


class FewGangs:
    """Around each gang at most once, the one with the largest excess first; ranked again after an improvement."""

    def __init__(self, task: PlacementTask) -> None:
        self.task, self._treated = task, set[int]()

    def moves(self, incumbent: Incumbent[Placements]) -> Moves[Placements]:
        placements = incumbent.solution
        selector = GangSelector(self.task, placements)
        while incumbent.solution is placements:
            near = selector.next_neighbourhood(self._treated)
            if near is None:
                return
            self._treated.update(near[0])
            yield partial(self._place_again, placements, near)

    def _place_again(self, placements: Placements, near: GangsAndBuckets) -> Placements:
        """Return the gangs placed again in these buckets by the root node of the exact model."""
        sets = single_gang_sets(self.task, placements, *near)
        return repack_tighter(self.task, solve_gangs(self.task, sets, placements, 1, topology_only=True).placements)


@dataclass(frozen=True)
class GangSelector:
    """Chooses gangs and buckets from placements."""

    task: PlacementTask
    placements: Placements
    _vacant: dict[PodRequest, list[int]] = field(default_factory=dict)

    def next_neighbourhood(self, treated: set[int]) -> GangsAndBuckets | None:
        """Around the gang, not treated yet, with the largest excess over its own bound; None where no gang has any."""
        untreated = self.placements.keys() - treated
        first = min(untreated, key=lambda j: (self._excess_keys[j], j), default=None)
        if first is None or self._excess_keys[first] >= (0, 0):
            return None
        anywhere = self._neighbourhood_of(first, set(range(len(self.task.s.buckets))))
        if len(anywhere[0]) >= self.task.options.budget.neighbourhood_gangs:
            return anywhere
        return self._neighbourhood_of(first, self._touched_buckets[first] | self._target_buckets(first))

    def _neighbourhood_of(self, first: int, near_buckets: set[int]) -> GangsAndBuckets:
        """Return the gang and the gangs that share most of these buckets with it, as many as one model holds."""
        touched, gangs, buckets = self._touched_buckets, [first], near_buckets
        near = [j for j in self.placements.keys() - {first} if touched[j] & near_buckets]

        def key(j: int) -> tuple[int, int, TopologyCost, int]:
            return -len(touched[j] & touched[first]), -len(touched[j] & near_buckets), self._excess_keys[j], j

        for j in sorted(near, key=key):
            more = buckets | touched[j]
            if self._variable_count([*gangs, j], more) > self.task.options.budget.neighbourhood_variables:
                break
            gangs.append(j)
            buckets = more
        return gangs, buckets

    def _variable_count(self, gangs: list[int], buckets: set[int]) -> int:
        """Return the pod variables of these gangs: a bucket counts for a role if pods of it fit next to all gangs, or
        if one of the gangs might leave room there."""
        left, count = buckets & set[int]().union(*(self._touched_buckets[j] for j in gangs)), 0
        untouched = buckets - left
        for j in gangs:
            for role in self.task.gang_classes[j].roles:
                vacant = self._vacant_by_bucket(role.pod_request)
                count += len(left) + sum(1 for i in untouched if vacant[i])
        return count

    def _target_buckets(self, j: int) -> set[int]:
        """Return the buckets of the lowest and emptiest domain that would hold the whole gang alone, and a few with
        most room anywhere, for gangs that make way."""
        s, roles, budget = self.task.s, self.task.gang_classes[j].roles, self.task.options.budget
        after = self.task.state_after(self.placements)
        alone, vacant = ([s.tree.domain_sum_array(at.fit_counts(role)) for role in roles] for at in (s.state, after))
        room = np.sum([np.minimum(below, role.min_pods) for below, role in zip(vacant, roles, strict=True)], axis=0)
        home = ROOT
        for tier in s.tree.tiers:
            fits = s.tree.tier_of == tier
            for below, role in zip(alone, roles, strict=True):
                fits &= below[-ROOT:] >= role.min_pods
            if fits.any():
                home = max(np.flatnonzero(fits).tolist(), key=lambda h: (room[h - ROOT], -h))
                break
        inside = set(s.bucket_of[s.tree.nodes_under(home)].tolist())
        empty = np.sum([self._vacant_by_bucket(role.pod_request) for role in roles], axis=0)
        order = np.argsort(-empty, kind="stable").tolist()
        nearest = [i for i in order if i in inside][: budget.neighbourhood_buckets]
        return {*nearest, *order[: budget.neighbourhood_spare_buckets]}

    def _vacant_by_bucket(self, request: PodRequest) -> list[int]:
        """Return bucket -> pods that fit next to all gangs."""
        if request not in self._vacant:
            free = self.task.state_after(self.placements).free_nodes
            self._vacant[request] = self.task.s.sum_per_bucket(free.fit_counts(request))
        return self._vacant[request]

    @cached_property
    def _excess_keys(self) -> dict[int, TopologyCost]:
        """Gang -> its bound less its cost: the largest excess sorts first."""
        found = {}
        for j, pods in self.placements.items():
            least, now = self.task.min_costs[j], self.task.topology_cost(j, pods)
            found[j] = least[0] - now[0], least[1] - now[1]
        return found

    @cached_property
    def _touched_buckets(self) -> dict[int, set[int]]:
        """Return gang -> the buckets of its new pods."""
        bucket_of = self.task.s.bucket_of
        return {j: {int(bucket_of[p.node]) for p in pods} for j, pods in self.task.new_pods(self.placements).items()}

"""One batch, decided in three stages: which gangs start, in which domains, on which nodes (model.md, A to C).

A floor is the gangs that a greedy starts, of a batch in which pods need nothing but a node. Its neighbourhoods: where
its gangs may go anywhere, other greedies choose all of them again, or pods are exchanged node by node.

Stage B may be solved in parts: gangs that can never meet in a leaf are placed independently of one another.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import fsum

from solver.admission.admit import Admission, admit_all, solve_admission, solve_first_goal
from solver.admission.greedy_floor import (
    GreedyFloor,
    add_gangs_that_fit,
    floor_objectives,
    greedy_floor,
    is_floor_better,
    serve_gangs,
    without_overtaking,
)
from solver.greedy.best_fit import GreedyPlacer
from solver.greedy.fragmentation import Fragmentation, PodClass
from solver.mip.executors import Mapper
from solver.mip.lexicographic import verdict_of
from solver.models.sets import Sets, coarsest_buckets, split_buckets
from solver.options import Budget, Options
from solver.placement.fit import shortage
from solver.placement.node_exchange import exchange_pods
from solver.placement.pack import pack_buckets
from solver.placement.spread import PlacementResult, gang_pods_by_bucket
from solver.placement.spread import place_admitted as spread_together
from solver.plan import Objective
from solver.problem import Problem, Vector
from solver.search import Incumbent, Limits, Moves, improve
from solver.semantics.gang_classes import gangs_by_class, may_go_anywhere, waiting_class
from solver.semantics.order import precedence
from solver.semantics.placement_cost import COST_NAMES, MOVES, NODE_GROUPS, SEPARATIONS, node_group_cost
from solver.semantics.placements import Placements, dominant_share, new_placements, placed_demand
from solver.semantics.topology import ROOT
from solver.state.state import Pods, State

BatchResult = tuple[Placements, tuple[Objective, ...]]
"""(gang that starts -> all its pods, what the objectives reached)."""


def decide_batch(
    state: State, gangs: Sequence[int], options: Options, mapper: Mapper, later: Sequence[int] = ()
) -> BatchResult:
    """Decide these gangs together, again with finer buckets as long as one proves too coarse to be packed; the greedy
    floor, if that is better. Takes nothing from the state. later: as in `Sets`."""
    gangs = _accepted_gangs(state, gangs)
    floor = greedy_floor(GreedyPlacer(state.copy(), budget=options.budget), gangs)
    s, max_variables = batch_sets(state, gangs, later), sys.maxsize
    if len(floor) < len(gangs) and may_go_anywhere(state.problem, gangs):
        floor = best_floor(state, floor, gangs, options)
        max_variables = options.budget.node_model_factor * options.budget.free_batch_variables
        if s.finest_variable_count > max_variables and (bound := unpackable_objective(s, floor, options)) is not None:
            return floor_result(s, floor_after_exchange(s, floor, gangs, options), options, mapper, bound)
    while not options.clock.is_over():
        admission = admit_all(s, gangs) if len(floor) == len(gangs) else solve_admission(s, floor, options)
        found = place_independent_groups(s, admission, floor, options, mapper)
        if not found.unpackable_buckets:
            placements = add_gangs_that_fit(s, found.placements, gangs, options.budget)
            fair = without_overtaking(s, placements, gangs, options.budget)
            if fair is not placements:
                return floor_result(s, floor if is_floor_better(s, floor, fair, options) else fair, options, mapper)
            if not admission.excludes_floor and is_floor_better(s, floor, placements, options):
                return floor_result(s, floor, options, mapper)
            recounted = _recounted_objectives(s, admission.objectives + found.objectives, placements, options)
            return placements, recounted
        finer = replace(s, buckets=split_buckets(s.buckets, found.unpackable_buckets))
        if len(finer.buckets) == len(s.buckets):
            break  # on a single node the search for device slots gave up
        if finer.variable_count > max_variables:
            floor = floor_after_exchange(s, floor, gangs, options)
            return floor_result(s, floor, options, mapper, admission.objectives[0])
        s = finer
    return floor_result(s, floor, options, mapper)


def placement_alone(state: State, j: int, options: Options, mapper: Mapper) -> Pods | None:
    """Return all pods of gang j where it fits alone, by nodes and queues. Takes nothing."""
    return None if cannot_start(state, j) else decide_batch(state, [j], options, mapper)[0].get(j)


def starts_alone(state: State, j: int, options: Options, mapper: Mapper) -> bool:
    """Return whether gang j fits alone, by nodes and queues: mostly by the greedy. Takes nothing."""
    if cannot_start(state, j):
        return False
    by_greedy = greedy_floor(GreedyPlacer(state.copy(), budget=options.budget), [j])
    return bool(by_greedy) or j in decide_batch(state, [j], options, mapper)[0]


def cannot_start(state: State, j: int) -> bool:
    """Return whether counting proves that gang j does not start even alone: by its queue or by the nodes."""
    gang = state.problem.gangs[j]
    gang_class = waiting_class(j, gang)
    least = gang_class.min_demand_by_resource(len(state.problem.resources))
    return not state.queue_books.allows_amount(gang.queue, least) or shortage(state, gang_class) is not None


def floor_result(
    s: Sets, floor: Placements, options: Options, mapper: Mapper, bound: Objective | None = None
) -> BatchResult:
    """Return the floor's gangs, placed well, and the known verdicts on their objectives. bound: the first one of a
    relaxation."""
    placed = place_independent_groups(s, Admission(tuple(sorted(floor)), {}, ()), floor, options, mapper)
    return placed.placements, floor_objectives(s, floor, options, bound) + placed.objectives


def joint_floor(state: State, gangs: Sequence[int], budget: Budget) -> GreedyFloor:
    """Return the gangs that the greedy alone starts of all these, and the order in which it serves them."""
    state = state.copy()
    gangs = _accepted_gangs(state, gangs)
    served = dict(serve_gangs(GreedyPlacer(state.copy(), budget=budget), gangs))
    started = {j: pods for j, pods in served.items() if pods is not None}
    return GreedyFloor(batch_sets(state, gangs), started, tuple(served))


def _accepted_gangs(state: State, gangs: Sequence[int]) -> list[int]:
    """Return the gangs whose queues accept gangs; the others wait and are in no model."""
    accepts = state.queue_books.queue_rules.accepts_gangs
    return [j for j in gangs if accepts[state.problem.gangs[j].queue]]


def batch_sets(state: State, gangs: Sequence[int], later: Sequence[int] = ()) -> Sets:
    """Return the sets of a batch with these gangs."""
    waiting = gangs_by_class(state.problem, gangs)
    classes = tuple(dict.fromkeys(gang_class for _, _, gang_class in waiting))
    index = {gang_class: k for k, gang_class in enumerate(classes)}
    by_class = {(q, p, index[gang_class]): js for (q, p, gang_class), js in waiting.items()}
    return Sets(state, coarsest_buckets(state.tree), classes, by_class, tuple(later))


def _recounted_objectives(
    s: Sets, objectives: tuple[Objective, ...], placements: Placements, options: Options
) -> tuple[Objective, ...]:
    """Return the sums again for the gangs that start in the end, with the bounds that were proved."""
    sums, gangs = Counter[str](), s.problem.gangs
    for key, js in s.waiting_gangs.items():
        number, label = len(placements.keys() & js), s.level_label(s.level_of[key])
        sums[f"placed[{label}]"] += s.dominant_units[key[2]] * number
        sums[f"gangs[{label}]"] += number
    new_pods = {j: new_placements(gangs[j], pods) for j, pods in placements.items()}
    held = s.state.held_domains.with_pods(new_pods)
    for j, pods in new_pods.items():
        sums[NODE_GROUPS] += node_group_cost(s.problem, gangs[j], pods)
        sums[SEPARATIONS] += held.cost(gangs[j], pods)
    costs = (NODE_GROUPS, SEPARATIONS)
    return tuple(
        verdict_of(o.name, sums[o.name], o.bound, options.gap, maximise=o.name not in costs) if o.name in sums else o
        for o in objectives
    )


@dataclass(frozen=True, slots=True)
class FloorCost:
    """The less, the more is started. started: (queue, precedence) -> (the sum of the dominant shares of its gangs, the
    dominant share of all of them together)."""

    started: Mapping[tuple[int, int], tuple[float, float]]

    @classmethod
    def of(cls, problem: Problem, floor: Placements) -> FloorCost:
        totals, demands = problem.totals, dict[tuple[int, int], list[Vector]]()
        for j, pods in floor.items():
            gang = problem.gangs[j]
            demand = placed_demand(gang, new_placements(gang, pods), len(totals))
            demands.setdefault((gang.queue, precedence(gang)), []).append(demand)
        started = {}
        for key, found in demands.items():
            # fsum is exact, so that the order of the gangs decides nothing
            each, together = (dominant_share(d, totals) for d in found), map(sum, zip(*found, strict=True))
            started[key] = fsum(each), dominant_share(together, totals)
        return cls(started)

    def __lt__(self, other: FloorCost) -> bool:
        """Return whether more of some queue and precedence is started, and less of none, by both sums."""
        for key, theirs in other.started.items():
            mine = self.started.get(key, (0.0, 0.0))
            if mine[0] < theirs[0] or mine[1] < theirs[1]:
                return False
        return self.started != other.started


def best_floor(state: State, floor: Placements, gangs: Sequence[int], options: Options) -> Placements:
    """Return the first floor of another greedy that starts more, else this one."""

    def moves(_: Incumbent[Placements]) -> Moves[Placements]:
        for placer in fragmentation_aware_placers(state, gangs, options.budget):
            yield partial(greedy_floor, placer, gangs)

    return improve(floor, partial(FloorCost.of, state.problem), moves, Limits(options.clock, improvements=1, passes=1))


def floor_after_exchange(s: Sets, floor: Placements, gangs: list[int], options: Options) -> Placements:
    """Return the floor after exchanges of pods and with the gangs that then still fit; the floor itself, if that starts
    no more."""

    def exchange() -> Placements:
        state, found = exchange_pods(s.state, floor, gangs, options)
        waiting = [j for j in gangs if j not in found]
        return {**found, **greedy_floor(GreedyPlacer(state, budget=options.budget), waiting)}

    return improve(floor, partial(FloorCost.of, s.problem), lambda _: iter([exchange]), Limits(options.clock, passes=1))


def fragmentation_aware_placers(
    state: State, gangs: Iterable[int], budget: Budget | None = None
) -> Iterator[GreedyPlacer]:
    """Two placers, each on a copy of the state, that put pods where the rest of the batch misses the room least: one
    serves the largest gangs of a queue first, between which small ones still fit, the other the oldest."""
    problem, pods = state.problem, Counter[PodClass]()
    for j in gangs:
        for role in waiting_class(j, problem.gangs[j]).roles:
            pods[role.pod_request, role.node_classes] += role.min_pods
    for largest_first in (True, False):
        own = state.copy()
        yield GreedyPlacer(own, Fragmentation(problem, own.free_nodes, pods), largest_first, budget)


def unpackable_objective(s: Sets, floor: Placements, options: Options) -> Objective | None:
    """Return the first objective of a batch, if nodes cannot hold what its buckets could: then no model of later
    objectives is worth its time."""
    admission = solve_first_goal(s, floor, options)
    packed = pack_buckets(s, admission.admitted, gang_pods_by_bucket(s, admission), options)
    return admission.objectives[0] if isinstance(packed, tuple) else None


@dataclass(frozen=True, slots=True)
class PartsTask:
    """Inputs shared by the parts; each part is some of the gangs."""

    sets: Sets
    admission: Admission
    floor: Placements
    options: Options


def place_independent_groups(
    s: Sets, admission: Admission, floor: Placements, options: Options, mapper: Mapper
) -> PlacementResult:
    """`place_admitted`, part by part. Costs and bounds add up, since no bucket is open to gangs of two parts."""
    parts = independent_groups(s, admission.admitted)
    if len(parts) < 2:
        return spread_together(s, admission, floor, options)
    work = options.budget.work_per_row * sum(len(s.pod_limits[k, t]) * s.gang_counts[k] for k, t in s.roles)
    task = PartsTask(s, admission, floor, options)
    return merge_groups(mapper.map(place_group, task, parts, work, options.clock), options)


def place_group(task: PartsTask, gangs: tuple[int, ...]) -> PlacementResult:
    """Stage B for some of the admitted gangs."""
    floor = {j: pods for j, pods in task.floor.items() if j in gangs}
    return spread_together(task.sets, replace(task.admission, admitted=gangs), floor, task.options)


def merge_groups(results: list[PlacementResult], options: Options) -> PlacementResult:
    """Return all parts as one. Where buckets of one are unpackable, all are placed again, with other buckets."""
    coarse = tuple(sorted(i for part in results for i in part.unpackable_buckets))
    if coarse:
        return PlacementResult({}, (), coarse)
    placements = {j: pods for part in results for j, pods in part.placements.items()}
    every = [o for part in results for o in part.objectives]
    by_name = {name: [o for o in every if o.name == name] for name in (MOVES, *COST_NAMES)}
    objectives = tuple(
        verdict_of(name, sum(o.value for o in found), sum(o.bound for o in found), options.gap, maximise=False)
        for name, found in by_name.items()
        if found
    )
    return PlacementResult(dict(sorted(placements.items())), objectives)


def independent_groups(s: Sets, gangs: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return the gangs in parts, the first gang's first. Node classes belong together when they share a leaf, when a
    gang may use both, or when a pod rule or a separation wish concerns gangs on both."""
    class_of = {j: k for (_, _, k), js in s.waiting_gangs.items() for j in js}
    existing, leaves = {bucket.node_class for bucket in s.buckets}, dict[int, set[int]]()
    for bucket in s.buckets:
        if bucket.leaf is not None:
            leaves.setdefault(bucket.leaf, set()).add(bucket.node_class)
    open_to, related = dict[int, set[int]](), dict[int, set[int]]()
    for k in {class_of[j] for j in gangs}:
        roles = s.gang_classes[k].roles
        open_to[k] = existing.intersection(*[frozenset().union(*(role.node_classes for role in roles))])
        for rho in {rho for role in roles for rho in (*role.owned_rules, *role.selecting_rules)}:
            related.setdefault(rho, set()).update(open_to[k])
    wishes = {j: [wish.gangs for wish in s.problem.gangs[j].separation_wishes] for j in gangs}
    for j in (j for j in gangs if wishes[j]):
        others = frozenset().union(*wishes[j]).intersection(gangs)
        related[-1 - j] = open_to[class_of[j]].union(*(open_to[class_of[other]] for other in others))
    parts: list[frozenset[int]] = []
    for classes in dict.fromkeys(map(frozenset, (*leaves.values(), *open_to.values(), *related.values()))):
        joined = classes.union(*(part for part in parts if part & classes))
        parts = [*(part for part in parts if not part & classes), joined]
    found: dict[int, list[int]] = {}
    for j in gangs:
        at = next((i for i, part in enumerate(parts) if part & open_to[class_of[j]]), ROOT)
        found.setdefault(at, []).append(j)
    return [tuple(part) for part in found.values()]

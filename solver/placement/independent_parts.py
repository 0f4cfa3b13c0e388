"""Stage B in parts: gangs that can never meet in a leaf are placed independently of one another."""

from __future__ import annotations

from dataclasses import dataclass, replace

from solver.admission.admit import Admission
from solver.mip.executors import Mapper
from solver.mip.lexicographic import verdict_of
from solver.models.sets import Sets
from solver.options import Options
from solver.placement.spread import PlacementResult
from solver.placement.spread import place_admitted as spread_together
from solver.semantics.placement_cost import COST_NAMES, MOVES
from solver.semantics.placements import Placements
from solver.semantics.topology import ROOT


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

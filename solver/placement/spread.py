"""Stage B: where the admitted gangs go. The set of gangs is fixed here; what is minimised is what their places cost
(`solver.semantics.placement_cost`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from solver.admission.admit import Admission
from solver.greedy.best_fit import GreedyPlacer
from solver.mip.lexicographic import verdict_of
from solver.models.sets import Sets
from solver.options import Options
from solver.placement import bounds
from solver.placement.bounds import TopologyCost, excess_sort_key
from solver.placement.empty_supernodes import most_constrained_first
from solver.placement.exact import improve_by_model
from solver.placement.realise import pack_buckets, placement_cost, repack_tighter
from solver.plan import Objective
from solver.problem import Placement
from solver.semantics.gang_classes import GangClass, waiting_class
from solver.semantics.placement_cost import COST_NAMES, PlacementCost, UnopenedCapacity, topology_cost
from solver.semantics.placements import Placements, merge_placements, new_placements
from solver.semantics.topology import ROOT


@dataclass(frozen=True, slots=True)
class PlacementResult:
    """placements: gang -> all its pods, running ones included. coarse: places whose pods could not be packed; then the
    placements are void."""

    placements: Placements
    objectives: tuple[Objective, ...]
    unpackable_buckets: tuple[int, ...] = ()


def place_admitted(s: Sets, admission: Admission, floor: Placements, options: Options) -> PlacementResult:
    """Node-level placements for the admitted gangs, tight ones; the greedy first, where it finds no way the floor's
    own, else the admission's.

    floor: what the greedy admitted gang by gang, in another order than here.
    """
    if not admission.admitted:
        return PlacementResult({}, ())
    shapes = classes_with_role_mix(s, admission, floor)
    placements = place_greedily(s, shapes)
    if placements is None and _floor_places_all(s, admission, floor):
        placements = {j: floor[j] for j in admission.admitted}
    if placements is None:
        realised = pack_buckets(s, admission.admitted, gang_pods_by_bucket(s, admission), options)
        if isinstance(realised, tuple):
            return PlacementResult({}, (), realised)
        placements = realised
    wholes = UnopenedCapacity(s.problem, s.tree, s.free.amounts)
    least, low = (
        {j: bounds.min_topology_cost(s, shape) for j, shape in shapes.items()},
        bounds.cost_lower_bound(s, shapes, wholes),
    )
    placements = repack_tighter(s, _improve_each_gang(s, shapes, placements, least), wholes, options)
    if any(value > best for value, best in zip(placement_cost(s, placements, wholes).values, low.values, strict=True)):
        placements, low = improve_by_model(s, shapes, placements, least, low, wholes, options)
    return PlacementResult(
        placements, _placement_objectives(s, shapes, placement_cost(s, placements, wholes), low, wholes, options)
    )


def _placement_objectives(
    s: Sets,
    shapes: Mapping[int, GangClass],
    value: PlacementCost,
    lower_bound: PlacementCost,
    unopened: UnopenedCapacity,
    options: Options,
) -> tuple[Objective, ...]:
    """The objectives that can differ between placements: no subgroups without any, nothing to open where nothing is
    whole."""
    lowest = s.tree.tiers[0] if s.tree.tiers else 0
    parts = [part.topology for shape in shapes.values() for part in shape.subgroups]
    said = (
        bool(lowest) and any(topology.mode == "soft" or topology.tier > lowest for topology in parts),
        True,
        bool(unopened.unopened_supernodes),
        bool(unopened.unopened_nodes.any()) and not s.problem.policy.spread_pods,
    )
    found = zip(COST_NAMES, value.values, lower_bound.values, said, strict=True)
    return tuple(
        verdict_of(name, reached, least, options.gap, maximise=False) for name, reached, least, here in found if here
    )


def _floor_places_all(s: Sets, admission: Admission, floor: Placements) -> bool:
    """Whether the floor places all of them, and its placements stand without those of others: where relations count,
    only if there are no others."""
    return (
        floor.keys() == set(admission.admitted)
        if s.rule_counts is not None
        else floor.keys() >= set(admission.admitted)
    )


def classes_with_role_mix(s: Sets, admission: Admission, floor: Placements) -> dict[int, GangClass]:
    """Gang -> its shape, with the mix of roles that the admission chose where it was open; the queues are charged for
    that mix."""
    found = {}
    for j in admission.admitted:
        shape = waiting_class(j, s.problem.gangs[j])
        if not shape.is_rigid:
            k = s.gang_classes.index(shape)
            pods = [
                sum(admission.pods.get((k, t, i), 0) for i in range(len(s.buckets))) for t in range(len(shape.roles))
            ]
            if not any(pods) and j in floor:
                pods = [
                    sum(p.pods for p in new_placements(s.problem.gangs[j], floor[j]) if p.role == t)
                    for t in range(len(shape.roles))
                ]
            shape = shape.with_fixed_mix(pods)
        found[j] = shape
    return found


def place_greedily(s: Sets, shapes: Mapping[int, GangClass]) -> Placements | None:
    """All of them by the greedy, the most constrained and the largest first; None when one finds no place."""
    greedy = GreedyPlacer(s.state.fixed_copy())
    found: dict[int, tuple[Placement, ...]] = {}
    for j in most_constrained_first(s, shapes):
        placed = greedy.place_gang(j, shapes[j])
        if placed is None:
            return None
        found[j] = merge_placements([*shapes[j].running_pods, *placed])
    return found


def gang_pods_by_bucket(s: Sets, admission: Admission) -> dict[int, dict[tuple[int, int], int]]:
    """Place -> (gang, role) -> pods: the counts of the admission shared out among the gangs they count, place by place
    in order.

    Sequential filling keeps subgroups whole: every domain's count is a multiple of their size, and so is every gang's.
    """
    wishes: dict[int, dict[tuple[int, int], int]] = {}
    admitted = set(admission.admitted)
    for k, shape in enumerate(s.gang_classes):
        gangs = [j for key, js in sorted(s.waiting_gangs.items()) if key[2] == k for j in js if j in admitted]
        if not gangs:
            continue
        rows = {
            h: [{i: admission.pods.get((k, t, i), 0) for i in places} for t in range(len(shape.roles))]
            for h, places in s.buckets_in[k].items()
        }
        for h, roles in rows.items():
            whole = sum(sum(r.values()) for r in roles) // shape.min_pods if shape.min_pods else 0
            here, gangs = (gangs, []) if h == ROOT else (gangs[:whole], gangs[whole:])
            for t, role in enumerate(shape.roles):
                each = role.min_pods if shape.is_rigid else sum(roles[t].values())
                supply = [(i, pods) for i, pods in roles[t].items() if pods]
                for j in here:
                    missing = each
                    while missing:
                        i, pods = supply.pop(0)
                        some = min(pods, missing)
                        missing -= some
                        wishes.setdefault(i, {})[j, t] = wishes.get(i, {}).get((j, t), 0) + some
                        if pods > some:
                            supply.insert(0, (i, pods - some))
    return wishes


def _improve_each_gang(
    s: Sets, shapes: Mapping[int, GangClass], placements: Placements, min_costs: Mapping[int, TopologyCost]
) -> Placements:
    """Take each gang that is torn or spread more than it must out and place it again, as long as that helps."""
    best = dict(placements)
    state = s.state_after(best)
    room, greedy = state.free_nodes, GreedyPlacer(state)
    improved = True
    while improved:
        improved = False
        now = {j: topology_cost(s.tree, s.problem.gangs[j], pods) for j, pods in best.items()}
        for j in sorted(
            (j for j in best if now[j] > min_costs[j]), key=lambda j: (excess_sort_key(min_costs[j], now[j]), j)
        ):
            mark = room.mark()
            for p in new_placements(s.problem.gangs[j], best[j]):
                room.add_pods(p.node, s.problem.gangs[j].roles[p.role], -p.pods)
            placed = greedy.place_gang(j, shapes[j])
            again = None if placed is None else merge_placements([*shapes[j].running_pods, *placed])
            if again is None or room.breaks_pod_rules or topology_cost(s.tree, s.problem.gangs[j], again) >= now[j]:
                room.undo(mark)
            else:
                best[j], improved = again, True
    return best

"""Stage B: where the admitted gangs go. The set of gangs is fixed here; what is minimised is what their places cost
(`solver.semantics.placement_cost`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from solver.admission.admit import Admission
from solver.greedy.best_fit import Greedy
from solver.models.lexicographic import judge
from solver.models.sets import Sets
from solver.options import Options
from solver.placement import bounds
from solver.placement.bounds import Nearness, excess
from solver.placement.empty_supernodes import in_order
from solver.placement.exact import by_model
from solver.placement.realise import cost_of, realise, repacked
from solver.plan import Objective
from solver.problem import Placement
from solver.semantics.gang_classes import Shape, shape_of
from solver.semantics.placement_cost import NAMES, Cost, Wholes, nearness
from solver.semantics.placements import Placements, fresh, merged
from solver.semantics.topology import ROOT


@dataclass(frozen=True, slots=True)
class Spread:
    """placements: gang -> all its pods, running ones included. coarse: places whose pods could not be packed; then the
    placements are void."""

    placements: Placements
    objectives: tuple[Objective, ...]
    coarse: tuple[int, ...] = ()


def spread(s: Sets, admission: Admission, floor: Placements, options: Options) -> Spread:
    """Node-level placements for the admitted gangs, tight ones; the greedy first, where it finds no way the floor's
    own, else the admission's.

    floor: what the greedy admitted gang by gang, in another order than here.
    """
    if not admission.admitted:
        return Spread({}, ())
    shapes = settled(s, admission, floor)
    placements = by_greedy(s, shapes)
    if placements is None and _serves(s, admission, floor):
        placements = {j: floor[j] for j in admission.admitted}
    if placements is None:
        realised = realise(s, admission.admitted, shared_out(s, admission), options)
        if isinstance(realised, tuple):
            return Spread({}, (), realised)
        placements = realised
    wholes = Wholes(s.problem, s.tree, s.free.amounts)
    least, low = {j: bounds.nearness(s, shape) for j, shape in shapes.items()}, bounds.bound(s, shapes, wholes)
    placements = repacked(s, _improved(s, shapes, placements, least), wholes, options)
    if any(value > best for value, best in zip(cost_of(s, placements, wholes).entries, low.entries, strict=True)):
        placements, low = by_model(s, shapes, placements, least, low, wholes, options)
    return Spread(placements, _judged(s, shapes, cost_of(s, placements, wholes), low, wholes, options))


def _judged(
    s: Sets, shapes: Mapping[int, Shape], value: Cost, low: Cost, wholes: Wholes, options: Options
) -> tuple[Objective, ...]:
    """The objectives that can differ between placements: no subgroups without any, nothing to open where nothing is
    whole."""
    lowest = s.tree.tiers[0] if s.tree.tiers else 0
    parts = [part.topology for shape in shapes.values() for part in shape.subgroups]
    said = (
        bool(lowest) and any(topology.mode == "soft" or topology.tier > lowest for topology in parts),
        True,
        bool(wholes.supernodes),
        bool(wholes.nodes.any()) and not s.problem.policy.scatter,
    )
    found = zip(NAMES, value.entries, low.entries, said, strict=True)
    return tuple(
        judge(name, reached, least, options.gap, maximise=False) for name, reached, least, here in found if here
    )


def _serves(s: Sets, admission: Admission, floor: Placements) -> bool:
    """Whether the floor places all of them, and its placements stand without those of others: where relations count,
    only if there are no others."""
    return (
        floor.keys() == set(admission.admitted) if s.neighbours is not None else floor.keys() >= set(admission.admitted)
    )


def settled(s: Sets, admission: Admission, floor: Placements) -> dict[int, Shape]:
    """Gang -> its shape, with the mix of roles that the admission chose where it was open; the queues are charged for
    that mix."""
    found = {}
    for j in admission.admitted:
        shape = shape_of(j, s.problem.gangs[j])
        if not shape.rigid:
            k = s.shapes.index(shape)
            pods = [
                sum(admission.pods.get((k, t, i), 0) for i in range(len(s.places))) for t in range(len(shape.roles))
            ]
            if not any(pods) and j in floor:
                pods = [
                    sum(p.pods for p in fresh(s.problem.gangs[j], floor[j]) if p.role == t)
                    for t in range(len(shape.roles))
                ]
            shape = shape.pinned(pods)
        found[j] = shape
    return found


def by_greedy(s: Sets, shapes: Mapping[int, Shape]) -> Placements | None:
    """All of them by the greedy, the most constrained and the largest first; None when one finds no place."""
    room = s.room()
    greedy = Greedy(s.problem, s.tree, room)
    found: dict[int, tuple[Placement, ...]] = {}
    for j in in_order(s, shapes):
        placed = greedy.place(j, shapes[j])
        if placed is None:
            return None
        found[j] = merged([*shapes[j].fixed, *placed])
    return found


def shared_out(s: Sets, admission: Admission) -> dict[int, dict[tuple[int, int], int]]:
    """Place -> (gang, role) -> pods: the counts of the admission shared out among the gangs they count, place by place
    in order.

    Sequential filling keeps subgroups whole: every domain's count is a multiple of their size, and so is every gang's.
    """
    wishes: dict[int, dict[tuple[int, int], int]] = {}
    admitted = set(admission.admitted)
    for k, shape in enumerate(s.shapes):
        gangs = [j for key, js in sorted(s.waiting.items()) if key[2] == k for j in js if j in admitted]
        if not gangs:
            continue
        rows = {
            h: [{i: admission.pods.get((k, t, i), 0) for i in places} for t in range(len(shape.roles))]
            for h, places in s.places_in[k].items()
        }
        for h, roles in rows.items():
            whole = sum(sum(r.values()) for r in roles) // shape.least if shape.least else 0
            here, gangs = (gangs, []) if h == ROOT else (gangs[:whole], gangs[whole:])
            for t, role in enumerate(shape.roles):
                each = role.need if shape.rigid else sum(roles[t].values())
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


def _improved(
    s: Sets, shapes: Mapping[int, Shape], placements: Placements, least: Mapping[int, Nearness]
) -> Placements:
    """Take each gang that is torn or spread more than it must out and place it again, as long as that helps."""
    best = dict(placements)
    room = s.room_beside(best)
    greedy = Greedy(s.problem, s.tree, room)
    improved = True
    while improved:
        improved = False
        now = {j: nearness(s.tree, s.problem.gangs[j], pods) for j, pods in best.items()}
        for j in sorted((j for j in best if now[j] > least[j]), key=lambda j: (excess(least[j], now[j]), j)):
            mark = room.mark()
            for p in fresh(s.problem.gangs[j], best[j]):
                room.put(p.node, s.problem.gangs[j].roles[p.role], -p.pods)
            placed = greedy.place(j, shapes[j])
            again = None if placed is None else merged([*shapes[j].fixed, *placed])
            if again is None or room.broken or nearness(s.tree, s.problem.gangs[j], again) >= now[j]:
                room.undo(mark)
            else:
                best[j], improved = again, True
    return best

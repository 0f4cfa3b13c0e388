"""Stage B: where the admitted gangs go. The set of gangs is fixed here; what is minimised is how far each of them is spread."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pulp

from solver.engine import solve_model
from solver.greedy import Greedy
from solver.model import constraints, variables
from solver.model.constraints import at_least, at_most
from solver.model.sets import Sets
from solver.model.variables import Vars
from solver.options import Options
from solver.order import urgency
from solver.plan import Objective
from solver.problem import Placement, Problem
from solver.room import Room
from solver.shapes import Shape, shape_of
from solver.stages.admit import Admission, Placements, incumbent
from solver.stages.lexicographic import judge
from solver.stages.pack import fresh, merged, pack
from solver.tree import ROOT, Tree

SMALL = 400
"""Variables up to which the spread of gangs is put into one model."""

ROUNDS = 8
"""Neighbourhoods that are tried where all gangs are too many for one model."""

NODES = 20
"""Branch-and-bound nodes for it: being spread a little is no reason to keep everybody waiting."""


@dataclass(frozen=True, slots=True)
class Spread:
    """placements: gang -> all its pods, running ones included. coarse: places whose pods could not be packed; then the placements are void."""

    placements: Placements
    objective: Objective | None
    coarse: tuple[int, ...] = ()


def spread(s: Sets, admission: Admission, floor: Placements, options: Options) -> Spread:
    """Node-level placements for the admitted gangs, tight ones; the greedy first, where it finds no way the floor's own, else the admission's.

    floor: what the greedy admitted gang by gang, in another order than here.
    """
    if not admission.admitted:
        return Spread({}, None)
    shapes = settled(s, admission, floor)
    least = {j: lower_bound(s, shape) for j, shape in shapes.items()}
    placements = by_greedy(s, shapes)
    if placements is None and floor.keys() >= set(admission.admitted):
        placements = {j: floor[j] for j in admission.admitted}
    if placements is None:
        realised = realise(s, admission.admitted, shared_out(s, admission), options)
        if isinstance(realised, tuple):
            return Spread({}, None, realised)
        placements = realised
    placements = _improved(s, shapes, placements, least)
    cost, bound = sum(costs(s.problem, s.tree, placements).values()), sum(least.values())
    if cost > bound:
        placements, bound = _by_model(s, shapes, placements, least, options)
        cost = sum(costs(s.problem, s.tree, placements).values())
    return Spread(placements, judge("spread", cost, bound, options.gap, maximise=False))


def settled(s: Sets, admission: Admission, floor: Placements) -> dict[int, Shape]:
    """Gang -> its shape, with the mix of roles that the admission chose where it was open; the queues are charged for that mix."""
    found = {}
    for j in admission.admitted:
        shape = shape_of(j, s.problem.gangs[j])
        if not shape.rigid:
            k = s.shapes.index(shape)
            pods = [sum(admission.pods.get((k, t, i), 0) for i in range(len(s.places))) for t in range(len(shape.roles))]
            if not any(pods) and j in floor:
                pods = [sum(p.pods for p in fresh(s.problem.gangs[j], floor[j]) if p.role == t) for t in range(len(shape.roles))]
            shape = shape.pinned(pods)
        found[j] = shape
    return found


def costs(problem: Problem, tree: Tree, placements: Placements) -> dict[int, int]:
    """Gang -> communication cost (Tree.span)."""
    return {j: tree.span(problem.nodes[p.node].leaf for p in pods) for j, pods in placements.items()}


def lower_bound(s: Sets, shape: Shape) -> int:
    """No gang of this shape is less spread than this, were it alone in the free room: at each tier the fewest domains that hold its pods.

    sum over tiers of weight * ( max min m : the m largest domains of the tier hold need_t pods of each role t,
                                             and the m with most free hold demand[r] of each resource r      -  1 )
    """
    if shape.fixed:
        return 0
    asked = [(role.need, s.reach(role.request, role.kinds)) for role in shape.roles]
    kinds = frozenset(kind for role in shape.roles for kind in role.kinds)
    asked += [(amount, s.reach_of(r, kinds)) for r, amount in enumerate(shape.demand(s.width)) if amount and shape.rigid]
    fewest = [max((_fewest(amount, tiers[level]) for amount, tiers in asked), default=1) for level in range(len(s.tree.tiers))]
    return sum(weight * max(0, m - 1) for weight, m in zip(s.tree.weights, fewest, strict=True))


def _fewest(amount: int, domains: tuple[int, ...]) -> int:
    """How many of the domains, largest first, it takes to hold the amount."""
    for number, holds in enumerate(domains):
        if amount <= 0:
            return number
        amount -= holds
    return len(domains)


def by_greedy(s: Sets, shapes: Mapping[int, Shape]) -> Placements | None:
    """All of them by the greedy, the most constrained and the largest first; None when one finds no place."""
    room = Room(s.free)
    greedy = Greedy(s.problem, s.tree, room)
    found: dict[int, tuple[Placement, ...]] = {}
    tier = {j: shape.tier if shape.tier is not None else s.tree.top + 1 for j, shape in shapes.items()}
    for j in sorted(shapes, key=lambda j: (tier[j], not shapes[j].subgroups, -_size(s, shapes[j]), j)):
        placed = greedy.place(j, shapes[j])
        if placed is None:
            return None
        found[j] = merged([*shapes[j].fixed, *placed])
    return found


def _size(s: Sets, shape: Shape) -> float:
    return max((d / t for d, t in zip(shape.demand(s.width), s.totals, strict=True) if t), default=0.0)


def shared_out(s: Sets, admission: Admission) -> dict[int, dict[tuple[int, int], int]]:
    """Place -> (gang, role) -> pods: the counts of the admission shared out among the gangs they count, place by place in order.

    Sequential filling keeps subgroups whole: every domain's count is a multiple of their size, and so is every gang's.
    """
    wishes: dict[int, dict[tuple[int, int], int]] = {}
    admitted = set(admission.admitted)
    for k, shape in enumerate(s.shapes):
        gangs = [j for key, js in sorted(s.waiting.items()) if key[2] == k for j in js if j in admitted]
        if not gangs:
            continue
        rows = {h: [{i: admission.pods.get((k, t, i), 0) for i in places} for t in range(len(shape.roles))] for h, places in s.places_in[k].items()}
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


def realise(s: Sets, gangs: Iterable[int], wishes: Mapping[int, Mapping[tuple[int, int], int]], options: Options) -> Placements | tuple[int, ...]:
    """Pack every place; the indices of those that cannot be packed if there are any."""
    room = Room(s.free)
    found: dict[int, list[Placement]] = {j: list(s.problem.gangs[j].running) for j in gangs}
    coarse = []
    for i, here in sorted(wishes.items()):
        packed = pack(s.problem, room, s.places[i], here, options)
        if packed is None:
            coarse.append(i)
            continue
        for j, pods in packed.items():
            found[j].extend(pods)
    return tuple(coarse) if coarse else {j: merged(pods) for j, pods in sorted(found.items())}


def _improved(s: Sets, shapes: Mapping[int, Shape], placements: Placements, least: Mapping[int, int]) -> Placements:
    """Take each gang that is spread more than it must out and place it again, as long as that helps."""
    best = dict(placements)
    room = Room(s.free)
    for j, pods in best.items():
        room.take_all(s.problem.gangs[j], fresh(s.problem.gangs[j], pods))
    greedy = Greedy(s.problem, s.tree, room)
    improved = True
    while improved:
        improved = False
        now = costs(s.problem, s.tree, best)
        for j in sorted((j for j in best if now[j] > least[j]), key=lambda j: (least[j] - now[j], j)):
            mark = room.mark()
            for p in fresh(s.problem.gangs[j], best[j]):
                room.take(p.node, s.problem.gangs[j].roles[p.role].request, -p.pods)
            placed = greedy.place(j, shapes[j])
            again = None if placed is None else merged([*shapes[j].fixed, *placed])
            if again is None or s.tree.span(s.problem.nodes[p.node].leaf for p in again) >= now[j]:
                room.undo(mark)
            else:
                best[j], improved = again, True
    return best


def _by_model(s: Sets, shapes: Mapping[int, Shape], placements: Placements, least: Mapping[int, int], options: Options) -> tuple[Placements, int]:
    """All gangs in one model where it is small, which also proves a bound; else a few neighbourhoods, one after another, the other gangs held."""
    bound, everyone = sum(least.values()), sorted(placements)
    sets = _singled(s, shapes, placements, everyone)
    if sum(len(places) for places in sets.limits.values()) <= SMALL:
        found, proved = _solve(sets, placements, options)
        return found, max(bound, proved)
    result = dict(placements)
    treated: set[int] = set()
    for _ in range(ROUNDS):
        movable = _neighbourhood(s, shapes, result, least, treated)
        if not movable:
            break
        treated.update(movable)
        result.update(_solve(_singled(s, shapes, result, movable), {j: result[j] for j in movable}, options)[0])
    return result, bound


def _neighbourhood(s: Sets, shapes: Mapping[int, Shape], placements: Placements, least: Mapping[int, int], treated: set[int]) -> list[int]:
    """The gang not treated yet that is spread furthest beyond what it must, and those who share leaves with it, as many as one model holds."""
    now = costs(s.problem, s.tree, placements)
    spread_out = sorted((j for j in placements if now[j] > least[j] and j not in treated), key=lambda j: (least[j] - now[j], j))
    if not spread_out:
        return []
    leaves = {j: {s.problem.nodes[p.node].leaf for p in pods} for j, pods in placements.items()}
    near = sorted(
        (j for j in placements if j != spread_out[0]),
        key=lambda j: (-len(leaves[j] & leaves[spread_out[0]]), least[j] - now[j], j),
    )
    movable: list[int] = []
    size = 0
    for j in [spread_out[0], *near]:
        size += len(s.places) * len(shapes[j].roles)
        if movable and size > SMALL:
            break
        movable.append(j)
    return sorted(movable)


def _singled(s: Sets, gangs: Mapping[int, Shape], placements: Placements, movable: list[int]) -> Sets:
    """The same sets with each movable gang as a shape of its own, in the room that the others leave."""
    room = Room(s.free)
    for j, pods in placements.items():
        if j not in movable:
            room.take_all(s.problem.gangs[j], fresh(s.problem.gangs[j], pods))
    shapes = tuple(replace(gangs[j], alone=j) for j in movable)
    waiting = {(s.problem.gangs[j].queue, urgency(s.problem.gangs[j]), k): (j,) for k, j in enumerate(movable)}
    return Sets(s.problem, s.tree, s.places, room.free, s.ledger, shapes, waiting)


def _solve(s: Sets, placements: Placements, options: Options) -> tuple[Placements, int]:
    """The spread of these gangs, and a proved lower bound on it.

    min  sum_{k, tier, d} weight_tier * e[k,tier,d]        less the first domain of each tier
    n[k,t,i] <= limit[k,t,i] * e[k, lowest tier, domain of i]      e[k, tier, d] <= e[k, tier above, domain of d]
    """
    x = variables.make(s, fixed_admission=True)
    constraints.build(s, x)
    start = incumbent(s, x, placements)
    e, cost = _touches(s, x)
    for (k, level, d), touched in e.items():
        j = s.shapes[k].alone
        leaves = {s.problem.nodes[p.node].leaf for p in placements[j]} if j is not None else set()
        start[touched.name] = float(any(s.tree.line(leaf)[level] == d for leaf in leaves))
    x.model.sense = pulp.LpMinimize
    x.model.setObjective(pulp.LpAffineExpression(cost))
    answer = solve_model(x.model, replace(options, max_nodes=min(options.max_nodes, NODES)), start, quick=True)
    ideal = sum(s.tree.weights) * len(s.shapes)
    bound = int(np.ceil(answer.bound - 1e-6)) - ideal if np.isfinite(answer.bound) else 0
    if not answer.values:
        return placements, bound
    wishes: dict[int, dict[tuple[int, int], int]] = {}
    for (k, t), pods in x.n.items():
        j = s.shapes[k].alone
        for i, terms in pods.items():
            number = round(sum(answer.values[v.name] * c for v, c in terms))
            if number and j is not None:
                wishes.setdefault(i, {})[j, t] = number
    realised = realise(s, placements, wishes, options)
    if isinstance(realised, tuple) or sum(costs(s.problem, s.tree, realised).values()) >= sum(costs(s.problem, s.tree, placements).values()):
        return placements, bound
    return realised, bound


def _touches(s: Sets, x: Vars) -> tuple[dict[tuple[int, int, int], pulp.LpVariable], dict[pulp.LpVariable, float]]:
    """Variables e[k, level, domain], their rows, and the cost of each."""
    e: dict[tuple[int, int, int], pulp.LpVariable] = {}
    cost: dict[pulp.LpVariable, float] = {}
    number = 0
    lines = {place.leaf: s.tree.line(place.leaf) for place in s.places}
    for k, shape in enumerate(s.shapes):
        leaves = {s.places[i].leaf for t in range(len(shape.roles)) for i in x.n[k, t]}
        running = {s.problem.nodes[p.node].leaf for p in shape.fixed}
        for leaf in sorted(leaves | running, key=lambda h: ROOT if h is None else h):
            line = s.tree.line(leaf)
            for level, d in enumerate(line):
                if (k, level, d) not in e:
                    e[k, level, d] = x.model.add_variable(f"e_{k}_{level}_{d + 2}", int(leaf in running), 1, cat=pulp.LpInteger)
                    cost[e[k, level, d]] = s.tree.weights[level]
                elif leaf in running:
                    e[k, level, d].lowBound = 1
            for level, (d, above) in enumerate(itertools.pairwise(line)):
                number += 1
                x.model.addConstraint(at_least([(e[k, level + 1, above], 1), (e[k, level, d], -1)], 0), f"touch_up_{number:06d}")
        for t in range(len(shape.roles)):
            for i, terms in x.n[k, t].items():
                number += 1
                low = e[k, 0, lines[s.places[i].leaf][0]] if lines[s.places[i].leaf] else None
                if low is not None and terms:
                    x.model.addConstraint(at_most([*terms, (low, -s.limits[k, t][i])], 0), f"touch_{number:06d}")
        for level in range(len(s.tree.weights)):
            number += 1
            x.model.addConstraint(at_least([(v, 1) for (of, at, _), v in e.items() if of == k and at == level], 1), f"touch_one_{number:06d}")
    return e, cost

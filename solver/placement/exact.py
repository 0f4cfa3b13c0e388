"""Stage B's exact model: all gangs of a small batch, or a few gangs of a large one, placed again with the goals one
after another."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from solver.admission.admit import incumbent
from solver.mip.engine import FEASIBILITY, solve_model
from solver.mip.rows import linear
from solver.models import constraints, variables
from solver.models import placement_cost as goals
from solver.models.lexicographic import Lexicographic
from solver.models.sets import Sets, refine
from solver.options import Options
from solver.placement import bounds, identical_pods
from solver.placement.bounds import Nearness
from solver.placement.empty_supernodes import emptied
from solver.placement.realise import cost_of, realise, repacked
from solver.placement.vicinity import Vicinities
from solver.semantics.gang_classes import Shape
from solver.semantics.placement_cost import Cost, Wholes
from solver.semantics.placements import Placements, fresh
from solver.semantics.priorities import urgency

SMALL = 400
"""Pod variables up to which gangs are put into one model."""

NODES = 20
"""Branch-and-bound nodes for a model of `SMALL` variables, more for a smaller one: being spread a little is no reason
to keep everybody waiting."""

ROUNDS = 4
"""Vicinities that are tried, each at its root only."""

VAIN = 2
"""Vicinities that may bring nothing before no more are tried."""

RELAXED = 4_000
"""Pod variables up to which the linear relaxation of all gangs together bounds their spread: a few tenths of a second."""


@dataclass(frozen=True, slots=True)
class Found:
    """reached: the model's own costs, below those of the placements where stage C could not follow. proved: a bound on
    each, given those before it as they were reached. coarse: places that could not be packed."""

    placements: Placements
    reached: Cost
    proved: Cost
    coarse: tuple[int, ...] = ()


def by_model(
    s: Sets,
    shapes: Mapping[int, Shape],
    placements: Placements,
    least: Mapping[int, Nearness],
    low: Cost,
    wholes: Wholes,
    options: Options,
) -> tuple[Placements, Cost]:
    """(placements that cost no more, a lower bound): all gangs in one model where it is small; else a few vicinities,
    the other gangs held."""
    everybody = _singled(s, shapes, placements, sorted(placements))
    if everybody.size <= SMALL:
        placements = emptied(s, shapes, placements, low, wholes, options)
        if cost_of(s, placements, wholes) == low:
            return placements, low
        return _all_in_one(s, shapes, placements, low, wholes, options)
    kinds = identical_pods.together(s, shapes, options)
    low = replace(low, spread=max(low.spread, kinds.spread))
    if kinds.uniform:
        placements = _by_kinds(s, shapes, placements, kinds, low, wholes, options)
    if cost_of(s, placements, wholes).spread > low.spread:
        low = replace(low, spread=max(low.spread, _relaxed(everybody, placements, options)))
    placements = _by_vicinities(s, shapes, placements, least, low, wholes, options)
    if not kinds.uniform:
        placements = _by_kinds(s, shapes, placements, kinds, low, wholes, options)
    return placements, low


def _by_kinds(
    s: Sets,
    shapes: Mapping[int, Shape],
    placements: Placements,
    kinds: identical_pods.Together,
    low: Cost,
    wholes: Wholes,
    options: Options,
) -> Placements:
    """Gangs of alike pods placed anew, kind after kind."""
    cost = cost_of(s, placements, wholes)
    if cost.spread <= low.spread:
        return placements
    again = repacked(s, identical_pods.improved(s, shapes, placements, kinds, options), wholes, options)
    return again if cost_of(s, again, wholes) < cost else placements


def _by_vicinities(
    s: Sets,
    shapes: Mapping[int, Shape],
    placements: Placements,
    least: Mapping[int, Nearness],
    low: Cost,
    wholes: Wholes,
    options: Options,
) -> Placements:
    """A few gangs at a time placed anew, the others held, as long as that helps."""
    cost, vain, treated = cost_of(s, placements, wholes), 0, set[int]()
    for _ in range(ROUNDS):
        if cost.entries[:2] == low.entries[:2]:
            break  # as near as can be
        near = Vicinities(s, shapes, placements, least).next(treated) if vain < VAIN else None
        if near is None:
            break
        treated.update(near.gangs)
        held = {j: placements[j] for j in near.gangs}
        moved = _solve(
            _singled(s, shapes, placements, near.gangs, near.places), held, options, nodes=1, near_only=True
        ).placements
        again = repacked(s, {**placements, **moved}, wholes, options)
        new = cost_of(s, again, wholes)
        placements, cost, vain = (again, new, vain) if new < cost else (placements, cost, vain + 1)
    return placements


def _relaxed(s: Sets, placements: Placements, options: Options) -> int:
    """The least spread of all gangs together where pods may be divided: a bound that knows that gangs share the room. 0
    where they are too many."""
    if s.size > RELAXED:
        return 0
    x = variables.make(s, fixed_admission=True)
    constraints.build(s, x, constraints.PLACEMENT)
    goal = goals.spread(s, x, incumbent(s, x, placements), [bounds.fewest(s, shape) for shape in s.shapes])
    x.model.setObjective(linear(goal.terms))
    answer = solve_model(x.model, options, relaxed=True)
    return math.ceil(-answer.value - goal.offset - FEASIBILITY) if answer.status == "optimal" else 0


def _all_in_one(
    s: Sets, shapes: Mapping[int, Shape], placements: Placements, low: Cost, wholes: Wholes, options: Options
) -> tuple[Placements, Cost]:
    """The exact model, again over single nodes where its costs could not be reached on the nodes that its places count
    together."""
    while True:
        sets = _singled(s, shapes, placements, sorted(placements))
        found = _solve(sets, placements, options, nodes=NODES * max(1, SMALL // max(1, sets.size)))
        again = repacked(s, found.placements, wholes, options)
        if cost_of(s, again, wholes) < cost_of(s, placements, wholes):
            placements = again
        value = cost_of(s, placements, wholes)
        bound = _given(value, found.reached, found.proved, low)
        finer = replace(s, places=refine(s.places, found.coarse or range(len(s.places))))
        if (
            value <= found.reached
            or len(finer.places) == len(s.places)
            or _singled(finer, shapes, placements, sorted(placements)).size > SMALL
        ):
            return placements, bound
        s = finer


def _given(value: Cost, reached: Cost, proved: Cost, low: Cost) -> Cost:
    """A bound on an entry holds while those before it are what the model had them at; else what counting says."""
    found, same = [], True
    for mine, model, bound, least in zip(value.entries, reached.entries, proved.entries, low.entries, strict=True):
        found.append(max(bound, least) if same else least)
        same = same and mine == model
    return Cost(*found)


def _singled(
    s: Sets,
    gangs: Mapping[int, Shape],
    placements: Placements,
    movable: Sequence[int],
    places: Collection[int] | None = None,
) -> Sets:
    """The same sets with each movable gang as a shape of its own, in the room that the others leave; only in these
    places, if some are named."""
    room = s.room_beside({j: pods for j, pods in placements.items() if j not in movable})
    free = room.free
    if places is not None:
        outside = ~np.isin(s.place_of, sorted(places))
        free.amounts[outside], free.cells[outside] = 0, 0
    shapes = tuple(replace(gangs[j], alone=j) for j in movable)
    waiting = {(s.problem.gangs[j].queue, urgency(s.problem.gangs[j]), k): (j,) for k, j in enumerate(movable)}
    return Sets(s.problem, s.tree, s.places, free, s.ledger, shapes, waiting, room.neighbours)


def _solve(s: Sets, placements: Placements, options: Options, nodes: int, near_only: bool = False) -> Found:
    """These gangs placed anew, goal after goal. nodes: of branch and bound. near_only: how near they are, whatever they
    open."""
    x = variables.make(s, fixed_admission=True)
    constraints.build(s, x)
    start = incumbent(s, x, placements)
    wholes = Wholes(s.problem, s.tree, s.free.amounts)
    new = {j: fresh(s.problem.gangs[j], pods) for j, pods in placements.items()}
    wanted = [goals.subgroups(s, x, start), goals.spread(s, x, start, [bounds.fewest(s, shape) for shape in s.shapes])]
    if not near_only:
        wanted += goals.opened(s, x, start, wholes.opened_nodes(new))
    low = bounds.bound(s, {shape.alone: shape for shape in s.shapes if shape.alone is not None}, wholes)
    lex = Lexicographic(x, replace(options, max_nodes=min(options.max_nodes, nodes)), start, quick=near_only)
    reached, proved = [], []
    for goal, least in zip(wanted, low.entries, strict=False):
        value, bound = lex.reach(replace(goal, top=min(goal.top, -float(least))))
        lex.hold(goal, value)
        reached.append(-round(value))
        proved.append(-round(bound))
    filled = [0] * (len(low.entries) - len(wanted))
    realised = realise(s, placements, _wishes(s, x, lex.values), options)
    coarse = realised if isinstance(realised, tuple) else ()
    return Found(
        placements if isinstance(realised, tuple) else realised, Cost(*reached, *filled), Cost(*proved, *filled), coarse
    )


def _wishes(s: Sets, x: variables.Vars, values: Mapping[str, float]) -> dict[int, dict[tuple[int, int], int]]:
    wishes: dict[int, dict[tuple[int, int], int]] = {}
    for (k, t), pods in x.n.items():
        j = s.shapes[k].alone
        for i, terms in pods.items():
            number = round(sum(values[v.name] * c for v, c in terms))
            if number and j is not None:
                wishes.setdefault(i, {})[j, t] = number
    return wishes

"""Stage A: which gangs of a batch start. Goals in the order of docs/model.md, each proved or honestly not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pulp

from solver.mip.engine import FEASIBILITY
from solver.mip.rows import at_least
from solver.models import constraints, objectives, pod_rules, variables
from solver.models.device_slots import laid_out
from solver.models.lexicographic import Lexicographic, judge, maximin, relaxed_maximin
from solver.models.objectives import Goal
from solver.models.sets import Level, Sets
from solver.models.variables import Vars
from solver.options import Options
from solver.plan import Objective
from solver.problem import Placement, Portion
from solver.semantics.device_slots import Counts
from solver.semantics.gang_classes import Shape
from solver.semantics.placements import Placements
from solver.semantics.queue_limits import Siblings
from solver.semantics.topology import ROOT
from solver.state.room import add

FEW_NODES = 100
"""Branch-and-bound nodes for questions that refine: which queues can rise above a level, which of the gangs waited
longest."""

ROOT_NODES = 1
"""For the fair shares of a model that is too large for all of them: the root mostly settles it."""

RISE = 0.5
"""A queue that is this much above a level, in the unit of `objectives.shares`, is above it."""


@dataclass(frozen=True, slots=True)
class Admission:
    """admitted: the gangs that start. pods: (shape, role, place) -> pods, a place-level assignment that realises it."""

    admitted: tuple[int, ...]
    pods: Mapping[tuple[int, int, int], int]
    objectives: tuple[Objective, ...]


def admit(s: Sets, greedy: Placements, options: Options) -> Admission:
    """Maximise goal after goal. greedy: the placements that the greedy found, the incumbent and the floor of every
    goal."""
    x = variables.make(s)
    constraints.build(s, x)
    lex = Lexicographic(x, options, incumbent(s, x, greedy))
    for level in s.levels:
        everything = objectives.placed(s, x, level)
        known = dict(lex.values)
        value, bound = lex.reach(everything)
        if bound and value < everything.top:  # where nothing can start there is nothing to share
            lex.values = known  # the greedy's shares, not those that a solution for the sum alone happens to have
            size = x.model.numVariables()
            fairly = (
                _fairly
                if size <= options.joint_variables
                else _lowest_raised
                if size <= options.share_variables
                else _as_fair_as_greedy
            )
            for group in s.ledger.rules.siblings:
                if len(s.sharing(level, group)) > 1:
                    fairly(s, x, lex, level, group)
        lex.maximise(replace(everything, top=bound))
        lex.maximise(objectives.started(s, x, level))
    last = objectives.oldest(s, x)
    lex.values |= _ranks(s, x, lex.values)
    lex.maximise(last, FEW_NODES)
    return Admission(_names(s, x, lex.values), pods_of(x, lex.values), tuple(lex.objectives))


def first_goal(s: Sets, greedy: Placements, options: Options) -> Admission:
    """What is placed of the highest level, and nothing after it."""
    x = variables.make(s)
    constraints.build(s, x)
    lex = Lexicographic(x, options, incumbent(s, x, greedy))
    lex.maximise(objectives.placed(s, x, s.levels[0]))
    return Admission(_names(s, x, lex.values), pods_of(x, lex.values), tuple(lex.objectives))


def _fairly(s: Sets, x: Vars, lex: Lexicographic, at: Level, group: Siblings) -> None:
    """Progressive filling: raise a water level under which each queue is filled as far as it asks, freeze the queues
    that hold it down, go on.

    level t:  share_q >= min(t, top_q) for all active q        top_q: the share with all its gangs of this priority

    After each level as many queues as possible are kept above it; with two queues left both ways are tried.
    """
    shares, unit = objectives.shares(s, x, at, group)
    label = f"share[{s.label(at)}]{group.name}"
    for share in shares.values():
        lex.values |= share.complete(lex.values)
        lex.settle.append(share.complete)
    active = {q: share.goal for q, share in shares.items()}
    floors = _floors(lex, active)
    for level in range(1, lex.options.fair_levels + 1):
        name = f"{label} level {level}"
        filled, proved = _fill(lex, active, floors)
        rest = {q: goal for q, goal in active.items() if goal.top > filled}
        if not rest:
            return
        reached = maximin(
            lex, list(rest.values()), name, unit, None if proved else max(goal.top for goal in rest.values())
        )
        if len(rest) == 1:
            return
        if len(rest) == 2:
            _last_two(lex, list(rest.values()), f"{label} level {level + 1}", unit)
            return
        risen = _above(lex, rest, reached, f"{label} queues above level {level}")
        if any(lex.values[b.name] < RISE for b in risen.values()):
            _which(lex, rest, risen, reached, label, level, unit)
            return
        active = {q: rest[q] for q in risen}
        if not active:
            return


def _lowest_raised(s: Sets, x: Vars, lex: Lexicographic, at: Level, group: Siblings) -> None:
    """For a large model: progressive filling as far as the level that holds some queue down, its search cut short.

    max t   share_q >= t    for all queues that ask for more than the known solution's level, the greedy's; those that
    ask for less get it all

    Where no better solution is found every queue is held at its share in the known one; else the queues above the level
    share by what is placed.
    """
    shares, unit = objectives.shares(s, x, at, group)
    for share in shares.values():
        lex.values |= share.complete(lex.values)
        lex.settle.append(share.complete)
    goals, raised = [share.goal for share in shares.values()], False
    for level in range(1, lex.options.fair_levels + 1):
        low = min((lex.value(goal) for goal in goals if lex.value(goal) < goal.top - FEASIBILITY), default=None)
        if low is None:
            break
        for goal in [goal for goal in goals if goal.top <= low]:
            lex.hold(goal, goal.top)
            goals.remove(goal)
        known = dict(lex.values)
        reached = maximin(lex, goals, f"share[{s.label(at)}]{group.name} level {level}", unit, nodes=ROOT_NODES)
        if reached <= low + FEASIBILITY * max(1.0, low):
            lex.values |= known
            break
        raised = True
        if reached < min(goal.top for goal in goals) - FEASIBILITY:
            break
    for goal in goals if not raised else ():
        lex.hold(goal, lex.value(goal))


def _as_fair_as_greedy(s: Sets, x: Vars, lex: Lexicographic, at: Level, group: Siblings) -> None:
    """For a very large model: hold every queue at its share in the known solution, the greedy's (lowest share first);
    an LP bounds the level."""
    shares, unit = objectives.shares(s, x, at, group)
    for share in shares.values():
        lex.values |= share.complete(lex.values)
        lex.settle.append(share.complete)
    short = [share.goal for share in shares.values() if lex.value(share.goal) < share.goal.top]
    if short:
        level = min(lex.value(goal) for goal in short)
        rising = [share.goal for share in shares.values() if share.goal.top > level]
        lex.record(
            f"share[{s.label(at)}]{group.name} level 1", level * unit, max(level, relaxed_maximin(lex, rising)) * unit
        )
    for share in shares.values():
        lex.hold(share.goal, lex.value(share.goal))


def _floors(lex: Lexicographic, goals: dict[int, Goal]) -> dict[int, pulp.LpVariable]:
    """A variable under each share whose lower bound holds the queue at a level."""
    floors = {}
    for q, goal in goals.items():
        floors[q] = f = lex.x.model.add_variable(f"f_{len(lex.objectives):04d}_{q}", 0, goal.top)
        lex.values[f.name] = 0.0
        lex.x.model.addConstraint(
            at_least([*goal.terms, (f, -1.0)], -goal.offset - FEASIBILITY), f"floor_{len(lex.objectives):04d}_{q}"
        )
    return floors


def _fill(lex: Lexicographic, active: dict[int, Goal], floors: dict[int, pulp.LpVariable]) -> tuple[float, bool]:
    """(the highest level among the tops that all active queues can be filled to, whether the next one was proved out of
    reach). Holds them there."""
    tops = sorted({goal.top for goal in active.values()})
    before = {q: floors[q].lowBound for q in active}
    low, high, proved = 0, len(tops), True

    def hold(level: float) -> None:
        for q, goal in active.items():
            floors[q].lowBound = max(before[q], min(level, goal.top))
            lex.values[floors[q].name] = floors[q].lowBound

    while low < high:
        middle = low if not low else (low + high) // 2  # usually not even the lowest top is within reach
        hold(tops[middle])
        found = lex.feasible([(goal, floors[q].lowBound) for q, goal in active.items()])
        low, high = (middle + 1, high) if found else (low, middle)
        proved = proved and found is not None
    hold(tops[low - 1] if low else 0.0)
    return (tops[low - 1] if low else 0.0), proved


def _last_two(lex: Lexicographic, goals: list[Goal], name: str, unit: float) -> None:
    """Of two queues held at the same level, raise whichever can rise further."""
    tried = [(*lex.reach(goal), goal) for goal in goals]
    best = max(range(2), key=lambda i: (tried[i][0], -i))
    lex.reach(tried[best][2])
    value, bound = max(lex.value(tried[best][2]), tried[best][0]), max(tried[0][1], tried[1][1])
    lex.record(name, value * unit, bound * unit)
    lex.hold(tried[best][2], lex.value(tried[best][2]))


def _above(lex: Lexicographic, active: dict[int, Goal], level: float, name: str) -> dict[int, pulp.LpVariable]:
    """Keep as many queues as possible strictly above a level: b for each that may be.

    max  sum_q b_q        share_q >= level + b_q / 2        no rise is smaller than 1 unit
    """
    x = lex.x
    risen: dict[int, pulp.LpVariable] = {}
    for q, goal in active.items():
        if goal.top < level + RISE:
            continue
        b = x.model.add_variable(f"b_{len(lex.objectives):04d}_{q}", cat=pulp.LpBinary)
        lex.values[b.name] = float(lex.value(goal) >= level + RISE)
        x.model.addConstraint(at_least([*goal.terms, (b, -RISE)], level - goal.offset - FEASIBILITY), b.name + "_row")
        risen[q] = b
    if not risen:
        return {}
    lex.maximise(Goal(name, [(b, 1.0) for b in risen.values()], len(risen), 1), FEW_NODES)
    return risen


def _which(
    lex: Lexicographic,
    goals: dict[int, Goal],
    risen: dict[int, pulp.LpVariable],
    low: float,
    label: str,
    level: int,
    unit: float,
) -> None:
    """The levels above `low` where not all queues that may be above it can be so together: which ones are is left open
    until the end.

    max t       share_q >= t - (T - low) (1 - b_q)                     the lowest of those that are above, whoever they
    are max sum c   share_q >= low + (t - low) b_q + c_q / 2,  c_q <= b_q   how many of them are above t; these are the
    b of the next level
    """
    model, top = lex.x.model, max(goals[q].top for q in risen)
    while level < lex.options.fair_levels and any(lex.values[b.name] > RISE for b in risen.values()):
        level += 1
        tag = f"{len(lex.objectives):04d}"
        t = model.add_variable(f"t_{tag}", low, top)
        reached = lex.values[t.name] = min(lex.value(goals[q]) for q, b in risen.items() if lex.values[b.name] > RISE)
        for q, b in risen.items():
            model.addConstraint(
                at_least([*goals[q].terms, (t, -1.0), (b, low - top)], low - top - goals[q].offset), f"t_{tag}_{q}"
            )
        _, bound = lex.reach(Goal(label, [(t, 1.0)], top, 0))
        reached = min(lex.value(goals[q]) for q, b in risen.items() if lex.values[b.name] > RISE)
        lex.record(f"{label} level {level}", reached * unit, bound * unit)
        above = {}
        for q, b in risen.items():
            c = above[q] = model.add_variable(f"b_{tag}_{q}", cat=pulp.LpBinary)
            lex.values[c.name] = float(lex.values[b.name] > RISE and lex.value(goals[q]) >= reached + RISE)
            least = low - goals[q].offset - FEASIBILITY
            model.addConstraint(at_least([*goals[q].terms, (b, low - reached), (c, -RISE)], least), f"b_{tag}_{q}_row")
            model.addConstraint(at_least([(b, 1.0), (c, -1.0)], 0), f"b_{tag}_{q}_under")
        lex.maximise(
            Goal(f"{label} queues above level {level}", [(c, 1.0) for c in above.values()], len(above), 1), FEW_NODES
        )
        risen = above


def incumbent(s: Sets, x: Vars, placements: Placements) -> dict[str, float]:
    """The values of all variables that say what these placements say, for every gang of the batch that has some."""
    values = {v.name: 0.0 for v in x.model.variables()}
    for key, gangs in s.waiting.items():
        values[x.y[key].name] = float(sum(1 for j in gangs if j in placements))
        k, shape = key[2], s.shapes[key[2]]
        for j in gangs:
            if j in placements:
                _add_gang(s, x, values, k, shape, _new(placements[j], shape))
    for (k, index, h), u in x.u.items():
        values[u.name] = float(_parts(s, x, values, k, index, h))
    pod_rules.settle(s, x, values)
    _set_needs(s, x, values)
    if x.m:
        values |= laid_out(s, x, _laid(s, placements))
    return values | {o.name: float(j in placements) for j, o in x.o.items()}


def _laid(s: Sets, placements: Placements) -> dict[int, dict[Portion, Counts]]:
    """Node -> portion -> cell -> pods of these placements that take their share there."""
    room = s.room_beside(placements)
    taken: dict[int, dict[Portion, Counts]] = {}
    for node, laid in room.laid.items():
        for portions, (_, counts) in laid.items():
            for portion, of in zip(portions, counts, strict=True):
                taken.setdefault(node, {})[portion] = add(taken.get(node, {}).get(portion, (0,) * len(of)), of)
    return taken


def _new(placements: tuple[Placement, ...], shape: Shape) -> dict[tuple[int, int], int]:
    """(role, node) -> pods that do not run yet."""
    fresh: dict[tuple[int, int], int] = {}
    for p in placements:
        fresh[p.role, p.node] = fresh.get((p.role, p.node), 0) + p.pods
    for p in shape.fixed:
        fresh[p.role, p.node] = fresh.get((p.role, p.node), 0) - p.pods
    return {key: pods for key, pods in fresh.items() if pods}


def _add_gang(
    s: Sets, x: Vars, values: dict[str, float], k: int, shape: Shape, fresh: dict[tuple[int, int], int]
) -> None:
    home = None
    for (t, node), pods in fresh.items():
        i = int(s.place_of[node])
        home = s.domain_at[shape.tier][i] if shape.tier is not None else ROOT
        terms = x.n[k, t].get(i, [])
        if terms and (
            home is None or terms[0][0] is not x.g.get((k, home))
        ):  # a domain of one place counts gangs, below
            values[terms[0][0].name] += pods
    if home is None and shape.fixed and shape.tier is not None:
        home = s.domains[k][0] if s.domains[k] else None
    if home is not None and (k, home) in x.g:
        values[x.g[k, home].name] += 1


def _parts(s: Sets, x: Vars, values: dict[str, float], k: int, index: int, h: int) -> int:
    part, shape = s.shapes[k].subgroups[index], s.shapes[k]
    hard = part.topology.mode == "hard" and part.topology.tier <= s.tree.top

    def at(i: int) -> int:
        found = s.domain_at[part.topology.tier][i] if hard else ROOT
        return ROOT if found is None else found

    pods = sum(values[v.name] * c for t in part.roles for i, terms in x.n[k, t].items() if at(i) == h for v, c in terms)
    if any(values[y.name] for (_, _, of), y in x.y.items() if of == k):
        pods += sum(p.pods for p in shape.fixed if p.role in part.roles and at(int(s.place_of[p.node])) == h)
    return round(pods) // part.size


def _set_needs(s: Sets, x: Vars, values: dict[str, float]) -> None:
    """w = max(guarantee, direct + batch + children's w), children first."""
    for r in sorted({r for _, r in x.w}):
        unit = max(1, s.ledger.total[r] // 1_000_000)
        for q in s.ledger.upward:
            own = sum(values[v.name] * c for v, c in constraints.taken(s, x, r, lambda of, q=q: of == q))  # type: ignore[misc]
            below = sum(values[x.w[c, r].name] for c in s.ledger.children[q])
            values[x.w[q, r].name] = max(
                (s.problem.queues[q].guarantee[r] or 0) / unit, (s.ledger.direct[q][r] + own) / unit + below
            )


def _ranks(s: Sets, x: Vars, values: dict[str, float]) -> dict[str, float]:
    """z for the known solution: the oldest of each class."""
    return {
        f"z_{j}": float(n < round(values[x.y[key].name])) for key, js in s.waiting.items() for n, j in enumerate(js)
    }


def _names(s: Sets, x: Vars, values: dict[str, float]) -> tuple[int, ...]:
    """The gangs behind the counts: the oldest of each class."""
    return tuple(sorted(j for key, js in s.waiting.items() for j in js[: round(values[x.y[key].name])]))


def pods_of(x: Vars, values: Mapping[str, float]) -> dict[tuple[int, int, int], int]:
    """(shape, role, place) -> pods of a solution."""
    found = {}
    for (k, t), places in x.n.items():
        for i, terms in places.items():
            pods = round(sum(values.get(v.name, 0.0) * c for v, c in terms))
            if pods:
                found[k, t, i] = pods
    return found


def everyone(s: Sets, gangs: list[int]) -> Admission:
    """Every gang starts: each goal is at its bound, and no model need be asked."""
    objectives = []
    for level in s.levels:
        here = [(k, len(js)) for (q, p, k), js in s.waiting.items() if s.level(q, p) == level]
        worth, number = sum(s.worth[k] * count for k, count in here), sum(count for _, count in here)
        objectives += [
            judge(f"placed[{s.label(level)}]", worth, worth, 0),
            judge(f"gangs[{s.label(level)}]", number, number, 0),
        ]
    return Admission(tuple(gangs), {}, tuple(objectives))

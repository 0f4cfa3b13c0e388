"""Stage A: which gangs of a batch start. Goals in the order of docs/model.md, each proved or honestly not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pulp

from solver.mip.engine import FEASIBILITY_TOLERANCE
from solver.mip.lexicographic import Goal, LexicographicSolver, maximise_minimum, relaxed_minimum_bound, verdict_of
from solver.mip.rows import at_least, value_of
from solver.models import constraints, objectives, pod_rules, variables
from solver.models.device_slots import slot_values
from solver.models.sets import PrecedenceLevel, Sets
from solver.models.variables import Variables
from solver.options import Options
from solver.plan import Objective
from solver.problem import Placement, SlotRequest
from solver.semantics.device_slots import PodsPerSlot
from solver.semantics.gang_classes import GangClass
from solver.semantics.placements import Placements, add_vectors
from solver.semantics.share_measures import SiblingQueues
from solver.semantics.topology import ROOT

MIN_RISE = 0.5
"""A queue that is this much above a level, in the unit of `objectives.shares`, is above it."""


@dataclass(frozen=True, slots=True)
class Admission:
    """admitted: the gangs that start. pods: (k, role, bucket) -> pods of a solution that starts them."""

    admitted: tuple[int, ...]
    pods: Mapping[tuple[int, int, int], int]
    objectives: tuple[Objective, ...]


def solve_admission(s: Sets, floor: Placements, options: Options) -> Admission:
    """Maximise goal after goal. floor: what the greedy started, the incumbent."""
    x = variables.build_variables(s)
    constraints.add_constraints(s, x)
    lex = LexicographicSolver(x.model, options, incumbent_values(s, x, floor))
    for level in s.precedence_levels:
        everything = objectives.placed_resources(s, x, level)
        known = dict(lex.values)
        value, bound = lex.solve_for(everything)
        if bound and value < everything.upper_bound:  # where nothing can start there is nothing to share
            lex.values = known  # the greedy's shares, not those that a solution for the sum alone happens to have
            size = x.model.numVariables()
            fairly = (
                _fill_progressively
                if size <= options.budget.joint_variables
                else _raise_lowest_share
                if size <= options.budget.share_variables
                else _hold_greedy_shares
            )
            for group in s.queue_books.queue_rules.sibling_groups:
                if len(s.competing_queues(level, group)) > 1:
                    fairly(s, x, lex, level, group)
        lex.maximise_and_hold(replace(everything, upper_bound=bound))
        lex.maximise_and_hold(objectives.started_gangs(s, x, level))
    last = objectives.oldest_first(s, x)
    lex.values |= _oldest_values(s, x, lex.values)
    lex.maximise_and_hold(last, lex.options.budget.refining_nodes)
    return Admission(_oldest_gangs(s, x, lex.values), pods_per_bucket(x, lex.values), tuple(lex.objectives))


def solve_first_goal(s: Sets, floor: Placements, options: Options) -> Admission:
    """The first goal only: what is placed of the highest level."""
    x = variables.build_variables(s)
    constraints.add_constraints(s, x)
    lex = LexicographicSolver(x.model, options, incumbent_values(s, x, floor))
    lex.maximise_and_hold(objectives.placed_resources(s, x, s.precedence_levels[0]))
    return Admission(_oldest_gangs(s, x, lex.values), pods_per_bucket(x, lex.values), tuple(lex.objectives))


@dataclass(frozen=True, slots=True)
class FairShares:
    """goals: queue -> its share with its gangs of one precedence level, in units of `unit`."""

    goals: dict[int, Goal]
    label: str
    unit: float


def _fair_shares(
    s: Sets, x: Variables, lex: LexicographicSolver, at: PrecedenceLevel, group: SiblingQueues
) -> FairShares:
    """The shares of these siblings, with values in the known solution."""
    shares, unit = objectives.share_goals(s, x, at, group)
    for share in shares.values():
        lex.values |= share.own_values(lex.values)
        lex.completions.append(share.own_values)
    goals = {q: share.goal for q, share in shares.items()}
    return FairShares(goals, f"share[{s.level_label(at)}]{group.name}", unit)


def _fill_progressively(
    s: Sets, x: Variables, lex: LexicographicSolver, at: PrecedenceLevel, group: SiblingQueues
) -> None:
    """Progressive filling: raise a water level under which each queue is filled as far as it asks, freeze the queues
    that hold it down, go on.

    level t:  share_q >= min(t, top_q) for all active q        top_q: the share with all its gangs of this priority

    After each level as many queues as possible are kept above it; with two queues left both ways are tried.
    """
    shares = _fair_shares(s, x, lex, at, group)
    label, unit, active = shares.label, shares.unit, shares.goals
    floors = _share_floors(lex, active)
    for level in range(1, lex.options.budget.fair_levels + 1):
        name = f"{label} level {level}"
        filled, proved = _hold_highest_top(lex, active, floors)
        rest = {q: goal for q, goal in active.items() if goal.upper_bound > filled}
        if not rest:
            return
        reached = maximise_minimum(
            lex, list(rest.values()), name, unit, None if proved else max(goal.upper_bound for goal in rest.values())
        )
        if len(rest) == 1:
            return
        if len(rest) == 2:
            _raise_last_two(lex, list(rest.values()), f"{label} level {level + 1}", unit)
            return
        risen = _maximise_queues_above(lex, rest, reached, f"{label} queues above level {level}")
        if any(lex.values[b.name] < MIN_RISE for b in risen.values()):
            _raise_some_queues(lex, shares, risen, reached, level)
            return
        active = {q: rest[q] for q in risen}
        if not active:
            return


def _raise_lowest_share(
    s: Sets, x: Variables, lex: LexicographicSolver, at: PrecedenceLevel, group: SiblingQueues
) -> None:
    """For a large model: progressive filling as far as the level that holds some queue down, its search cut short.

    max t   share_q >= t    for all queues that ask for more than the known solution's level, the greedy's; those that
    ask for less get it all

    Where no better solution is found every queue is held at its share in the known one; else the queues above the level
    share by what is placed.
    """
    shares = _fair_shares(s, x, lex, at, group)
    goals, raised = [*shares.goals.values()], False
    for level in range(1, lex.options.budget.fair_levels + 1):
        low = min(
            (lex.value_of(goal) for goal in goals if lex.value_of(goal) < goal.upper_bound - FEASIBILITY_TOLERANCE),
            default=None,
        )
        if low is None:
            break
        for goal in [goal for goal in goals if goal.upper_bound <= low]:
            lex.hold_goal(goal, goal.upper_bound)
            goals.remove(goal)
        known = dict(lex.values)
        name, nodes = f"{shares.label} level {level}", lex.options.budget.share_nodes
        reached = maximise_minimum(lex, goals, name, shares.unit, nodes=nodes)
        if reached <= low + FEASIBILITY_TOLERANCE * max(1.0, low):
            lex.values |= known
            break
        raised = True
        if reached < min(goal.upper_bound for goal in goals) - FEASIBILITY_TOLERANCE:
            break
    for goal in goals if not raised else ():
        lex.hold_goal(goal, lex.value_of(goal))


def _hold_greedy_shares(
    s: Sets, x: Variables, lex: LexicographicSolver, at: PrecedenceLevel, group: SiblingQueues
) -> None:
    """For a very large model: hold every queue at its share in the known solution, the greedy's (lowest share first);
    an LP bounds the level."""
    shares = _fair_shares(s, x, lex, at, group)
    short = [goal for goal in shares.goals.values() if lex.value_of(goal) < goal.upper_bound]
    if short:
        level = min(lex.value_of(goal) for goal in short)
        rising = [goal for goal in shares.goals.values() if goal.upper_bound > level]
        bound = max(level, relaxed_minimum_bound(lex, rising))
        lex.record_objective(f"{shares.label} level 1", level * shares.unit, bound * shares.unit)
    for goal in shares.goals.values():
        lex.hold_goal(goal, lex.value_of(goal))


def _share_floors(lex: LexicographicSolver, goals: dict[int, Goal]) -> dict[int, pulp.LpVariable]:
    """A variable under each share whose lower bound holds the queue at a level."""
    floors = {}
    for q, goal in goals.items():
        floors[q] = f = lex.model.add_variable(f"f_{len(lex.objectives):04d}_{q}", 0, goal.upper_bound)
        lex.values[f.name] = 0.0
        lex.model.addConstraint(
            at_least([*goal.terms, (f, -1.0)], -goal.offset - FEASIBILITY_TOLERANCE),
            f"floor_{len(lex.objectives):04d}_{q}",
        )
    return floors


def _hold_highest_top(
    lex: LexicographicSolver, active: dict[int, Goal], floors: dict[int, pulp.LpVariable]
) -> tuple[float, bool]:
    """(the highest level among the tops that all active queues can be filled to, whether the next one was proved out of
    reach). Holds them there."""
    tops = sorted({goal.upper_bound for goal in active.values()})
    before = {q: floors[q].lowBound for q in active}
    low, high, proved = 0, len(tops), True

    def hold(level: float) -> None:
        for q, goal in active.items():
            floors[q].lowBound = max(before[q], min(level, goal.upper_bound))
            lex.values[floors[q].name] = floors[q].lowBound

    while low < high:
        middle = low if not low else (low + high) // 2  # usually not even the lowest top is within reach
        hold(tops[middle])
        found = lex.is_feasible([(goal, floors[q].lowBound) for q, goal in active.items()])
        low, high = (middle + 1, high) if found else (low, middle)
        proved = proved and found is not None
    hold(tops[low - 1] if low else 0.0)
    return (tops[low - 1] if low else 0.0), proved


def _raise_last_two(lex: LexicographicSolver, goals: list[Goal], name: str, unit: float) -> None:
    """Of two queues held at the same level, raise whichever can rise further."""
    tried = [(*lex.solve_for(goal), goal) for goal in goals]
    best = max(range(2), key=lambda i: (tried[i][0], -i))
    lex.solve_for(tried[best][2])
    value, bound = max(lex.value_of(tried[best][2]), tried[best][0]), max(tried[0][1], tried[1][1])
    lex.record_objective(name, value * unit, bound * unit)
    lex.hold_goal(tried[best][2], lex.value_of(tried[best][2]))


def _maximise_queues_above(
    lex: LexicographicSolver, active: dict[int, Goal], level: float, name: str
) -> dict[int, pulp.LpVariable]:
    """Keep as many queues as possible strictly above a level: b for each that may be.

    max  sum_q b_q        share_q >= level + b_q / 2        no rise is smaller than 1 unit
    """
    risen: dict[int, pulp.LpVariable] = {}
    for q, goal in active.items():
        if goal.upper_bound < level + MIN_RISE:
            continue
        b = lex.model.add_variable(f"b_{len(lex.objectives):04d}_{q}", cat=pulp.LpBinary)
        lex.values[b.name] = float(lex.value_of(goal) >= level + MIN_RISE)
        lex.model.addConstraint(
            at_least([*goal.terms, (b, -MIN_RISE)], level - goal.offset - FEASIBILITY_TOLERANCE), b.name + "_row"
        )
        risen[q] = b
    if not risen:
        return {}
    lex.maximise_and_hold(
        Goal(name, [(b, 1.0) for b in risen.values()], len(risen), 1), lex.options.budget.refining_nodes
    )
    return risen


def _raise_some_queues(
    lex: LexicographicSolver, shares: FairShares, risen: dict[int, pulp.LpVariable], low: float, level: int
) -> None:
    """The levels above `low` where not all queues that may be above it can be so together: which ones are is left open
    until the end.

    max t       share_q >= t - (T - low) (1 - b_q)                          the lowest share of those that are above
    max sum c   share_q >= low + (t - low) b_q + c_q / 2,  c_q <= b_q       how many are above t: b of the next level
    """
    goals, label, unit = shares.goals, shares.label, shares.unit
    model, top = lex.model, max(goals[q].upper_bound for q in risen)
    while level < lex.options.budget.fair_levels and any(lex.values[b.name] > MIN_RISE for b in risen.values()):
        level += 1
        tag = f"{len(lex.objectives):04d}"
        t = model.add_variable(f"t_{tag}", low, top)
        reached = lex.values[t.name] = min(
            lex.value_of(goals[q]) for q, b in risen.items() if lex.values[b.name] > MIN_RISE
        )
        for q, b in risen.items():
            model.addConstraint(
                at_least([*goals[q].terms, (t, -1.0), (b, low - top)], low - top - goals[q].offset), f"t_{tag}_{q}"
            )
        _, bound = lex.solve_for(Goal(label, [(t, 1.0)], top, 0))
        reached = min(lex.value_of(goals[q]) for q, b in risen.items() if lex.values[b.name] > MIN_RISE)
        lex.record_objective(f"{label} level {level}", reached * unit, bound * unit)
        above = {}
        for q, b in risen.items():
            c = above[q] = model.add_variable(f"b_{tag}_{q}", cat=pulp.LpBinary)
            lex.values[c.name] = float(lex.values[b.name] > MIN_RISE and lex.value_of(goals[q]) >= reached + MIN_RISE)
            least = low - goals[q].offset - FEASIBILITY_TOLERANCE
            model.addConstraint(
                at_least([*goals[q].terms, (b, low - reached), (c, -MIN_RISE)], least), f"b_{tag}_{q}_row"
            )
            model.addConstraint(at_least([(b, 1.0), (c, -1.0)], 0), f"b_{tag}_{q}_under")
        lex.maximise_and_hold(
            Goal(f"{label} queues above level {level}", [(c, 1.0) for c in above.values()], len(above), 1),
            lex.options.budget.refining_nodes,
        )
        risen = above


def incumbent_values(s: Sets, x: Variables, placements: Placements) -> dict[str, float]:
    """The values of all variables for these placements, of gangs of the batch."""
    values = {v.name: 0.0 for v in x.model.variables()}
    for key, gangs in s.waiting_gangs.items():
        values[x.y[key].name] = float(sum(1 for j in gangs if j in placements))
        k, gang_class = key[2], s.gang_classes[key[2]]
        for j in gangs:
            if j in placements:
                _add_gang_values(s, x, values, k, gang_class, _new_pods(placements[j], gang_class))
    for (k, index, h), u in x.u.items():
        values[u.name] = float(_subgroup_count(s, x, values, k, index, h))
    pod_rules.set_rule_values(s, x, values)
    _set_need_values(s, x, values)
    if x.m:
        values |= slot_values(s, x, _slot_layout_of(s, placements))
    return values | {o.name: float(j in placements) for j, o in x.o.items()}


def _slot_layout_of(s: Sets, placements: Placements) -> dict[int, dict[SlotRequest, PodsPerSlot]]:
    """Node -> slot request -> device slot -> pods of these placements that use it."""
    room = s.free_nodes_after(placements)
    taken: dict[int, dict[SlotRequest, PodsPerSlot]] = {}
    for node, laid in room.slot_layout.items():
        for requests, (_, counts) in laid.items():
            for request, of in zip(requests, counts, strict=True):
                taken.setdefault(node, {})[request] = add_vectors(taken.get(node, {}).get(request, (0,) * len(of)), of)
    return taken


def _new_pods(placements: tuple[Placement, ...], gang_class: GangClass) -> dict[tuple[int, int], int]:
    """(role, node) -> pods that do not run yet."""
    fresh: dict[tuple[int, int], int] = {}
    for p in placements:
        fresh[p.role, p.node] = fresh.get((p.role, p.node), 0) + p.pods
    for p in gang_class.running_pods:
        fresh[p.role, p.node] = fresh.get((p.role, p.node), 0) - p.pods
    return {key: pods for key, pods in fresh.items() if pods}


def _add_gang_values(
    s: Sets, x: Variables, values: dict[str, float], k: int, gang_class: GangClass, new_pods: dict[tuple[int, int], int]
) -> None:
    home = None
    for (t, node), pods in new_pods.items():
        i = int(s.bucket_of[node])
        home = s.domains_by_tier[gang_class.hard_tier][i] if gang_class.hard_tier is not None else ROOT
        terms = x.n[k, t].get(i, [])
        if terms and (
            home is None or terms[0][0] is not x.g.get((k, home))
        ):  # a domain of one place counts gangs, below
            values[terms[0][0].name] += pods
    if home is None and gang_class.running_pods and gang_class.hard_tier is not None:
        home = s.domains[k][0] if s.domains[k] else None
    if home is not None and (k, home) in x.g:
        values[x.g[k, home].name] += 1


def _subgroup_count(s: Sets, x: Variables, values: dict[str, float], k: int, index: int, h: int) -> int:
    part, gang_class = s.gang_classes[k].subgroups[index], s.gang_classes[k]
    hard = part.topology.mode == "hard" and part.topology.tier <= s.tree.highest_tier

    def at(i: int) -> int:
        found = s.domains_by_tier[part.topology.tier][i] if hard else ROOT
        return ROOT if found is None else found

    pods = sum(values[v.name] * c for t in part.roles for i, terms in x.n[k, t].items() if at(i) == h for v, c in terms)
    if any(values[y.name] for (_, _, of), y in x.y.items() if of == k):
        pods += sum(
            p.pods for p in gang_class.running_pods if p.role in part.roles and at(int(s.bucket_of[p.node])) == h
        )
    return round(pods) // part.size


def _set_need_values(s: Sets, x: Variables, values: dict[str, float]) -> None:
    """w = max(guarantee, direct + batch + children's w), children first."""
    for r in sorted({r for _, r in x.w}):
        unit = s.guarantee_unit(r)
        for q in s.queue_books.bottom_up:
            own = value_of(constraints.usage_terms(s, x, r, {q}), values)
            below = sum(values[x.w[c, r].name] for c in s.queue_books.children[q])
            values[x.w[q, r].name] = max(
                (s.problem.queues[q].guarantee[r] or 0) / unit, (s.queue_books.direct[q][r] + own) / unit + below
            )


def _oldest_values(s: Sets, x: Variables, values: dict[str, float]) -> dict[str, float]:
    """z for the known solution: the oldest of each class."""
    return {
        f"z_{j}": float(n < round(values[x.y[key].name]))
        for key, js in s.waiting_gangs.items()
        for n, j in enumerate(js)
    }


def _oldest_gangs(s: Sets, x: Variables, values: dict[str, float]) -> tuple[int, ...]:
    """The gangs behind the counts: the oldest of each class."""
    return tuple(sorted(j for key, js in s.waiting_gangs.items() for j in js[: round(values[x.y[key].name])]))


def pods_per_bucket(x: Variables, values: Mapping[str, float]) -> dict[tuple[int, int, int], int]:
    """(k, role, bucket) -> pods of a solution."""
    found = {}
    for (k, t), buckets in x.n.items():
        for i, terms in buckets.items():
            pods = round(sum(values.get(v.name, 0.0) * c for v, c in terms))
            if pods:
                found[k, t, i] = pods
    return found


def admit_all(s: Sets, gangs: list[int]) -> Admission:
    """Every gang starts: each goal is at its bound, and no model need be asked."""
    objectives = []
    for level in s.precedence_levels:
        here = [(k, len(js)) for (q, p, k), js in s.waiting_gangs.items() if s.precedence_level(q, p) == level]
        worth, number = sum(s.dominant_units[k] * count for k, count in here), sum(count for _, count in here)
        objectives += [
            verdict_of(f"placed[{s.level_label(level)}]", worth, worth, 0),
            verdict_of(f"gangs[{s.level_label(level)}]", number, number, 0),
        ]
    return Admission(tuple(gangs), {}, tuple(objectives))

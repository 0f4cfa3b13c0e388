"""Fair shares of queues in the admission model: progressive filling, and a shorter form for large models."""

from __future__ import annotations

from dataclasses import dataclass

import pulp

from solver.mip.engine import FEASIBILITY_TOLERANCE
from solver.mip.lexicographic import Goal, LexicographicSolver, maximise_minimum, relaxed_minimum_bound
from solver.mip.rows import at_least
from solver.models import objectives
from solver.models.objectives import ComparedQueues
from solver.models.sets import Sets
from solver.models.variables import Variables

MIN_RISE = 0.5
"""A queue that is this much above a level, in the unit of `objectives.shares`, is above it."""


def share_fairly(s: Sets, x: Variables, lex: LexicographicSolver, compared: ComparedQueues) -> None:
    """Give the compared queues their fair shares and hold them: solved in a small model, cut short in a larger one, the
    greedy's in a very large one."""
    size = x.model.numVariables()
    if size <= lex.options.budget.joint_variables:
        _fill_progressively(s, x, lex, compared)
    elif size <= lex.options.budget.share_variables:
        _raise_lowest_share(s, x, lex, compared)
    else:
        _hold_greedy_shares(s, x, lex, compared)


@dataclass(frozen=True, slots=True)
class FairShares:
    """goals: queue -> its share with its gangs of one precedence level, in units of `unit`."""

    goals: dict[int, Goal]
    label: str
    unit: float


def _fair_shares(s: Sets, x: Variables, lex: LexicographicSolver, compared: ComparedQueues) -> FairShares:
    """Return the shares of these queues, with values in the known solution."""
    shares, unit = objectives.share_goals(s, x, compared)
    for share in shares.values():
        lex.set_values(share.own_values(lex.values))
        lex.completions.append(share.own_values)
    goals = {q: share.goal for q, share in shares.items()}
    return FairShares(goals, compared.label, unit)


def _fill_progressively(s: Sets, x: Variables, lex: LexicographicSolver, compared: ComparedQueues) -> None:
    """Progressive filling: raise a water level under which each queue is filled as far as it asks, freeze the queues
    that hold it down, go on.

    level t:  share_q >= min(t, top_q) for all active q        top_q: the share with all its gangs of this priority

    After each level as many queues as possible are kept above it; with two queues left both ways are tried.
    """
    shares = _fair_shares(s, x, lex, compared)
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


def _raise_lowest_share(s: Sets, x: Variables, lex: LexicographicSolver, compared: ComparedQueues) -> None:
    """In a large model, fill progressively up to the level that limits some queue, with a short search.

    max t   share_q >= t    for all queues that ask for more than the known solution's level, the greedy's; those that
    ask for less get it all

    Where no better solution is found every queue is held at its share in the known one; else the queues above the level
    share by what is placed.
    """
    shares = _fair_shares(s, x, lex, compared)
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
            lex.set_values(known)
            break
        raised = True
        if reached < min(goal.upper_bound for goal in goals) - FEASIBILITY_TOLERANCE:
            break
    for goal in goals if not raised else ():
        lex.hold_goal(goal, lex.value_of(goal))


def _hold_greedy_shares(s: Sets, x: Variables, lex: LexicographicSolver, compared: ComparedQueues) -> None:
    """For a very large model: hold every queue at its share in the known solution, the greedy's (lowest share first);
    an LP bounds the level."""
    shares = _fair_shares(s, x, lex, compared)
    short = [goal for goal in shares.goals.values() if lex.value_of(goal) < goal.upper_bound]
    if short:
        level = min(lex.value_of(goal) for goal in short)
        rising = [goal for goal in shares.goals.values() if goal.upper_bound > level]
        bound = max(level, relaxed_minimum_bound(lex, rising))
        lex.record_objective(f"{shares.label} level 1", level * shares.unit, bound * shares.unit)
    for goal in shares.goals.values():
        lex.hold_goal(goal, lex.value_of(goal))


def _share_floors(lex: LexicographicSolver, goals: dict[int, Goal]) -> dict[int, pulp.LpVariable]:
    """Return a variable under each share whose lower bound holds the queue at a level."""
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
    """Of two queues held at the same level, raise the one that can rise further; where both can rise as far it stays
    open which does:

    share_a >= top * b        share_b >= top * (1 - b)
    """
    tried = [(*lex.solve_for(goal), goal) for goal in goals]
    best = max(range(2), key=lambda i: (tried[i][0], -i))
    lex.solve_for(tried[best][2])
    value, bound = max(lex.value_of(tried[best][2]), tried[best][0]), max(tried[0][1], tried[1][1])
    lex.record_objective(name, value * unit, bound * unit)
    if min(tried[0][0], tried[1][0]) < value - FEASIBILITY_TOLERANCE * max(1.0, value):
        lex.hold_goal(tried[best][2], lex.value_of(tried[best][2]))
        return
    tag = f"either_{len(lex.objectives):04d}"
    b = lex.model.add_variable(tag, cat=pulp.LpBinary)
    lex.values[b.name] = float(best == 0)
    least = value - FEASIBILITY_TOLERANCE * max(1.0, value)
    first, second = goals
    lex.model.addConstraint(at_least([*first.terms, (b, -least)], -first.offset), f"{tag}_0")
    lex.model.addConstraint(at_least([*second.terms, (b, least)], least - second.offset), f"{tag}_1")


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
    """Decide the levels above `low` where not all queues can be above it together; which ones are stays open until the
    end.

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

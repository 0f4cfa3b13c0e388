"""One goal after another, each held at its value while the next is maximised; never one sum with tiny weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import pulp

from solver.mip.engine import FEASIBILITY_TOLERANCE, solve_model
from solver.mip.rows import at_least, linear
from solver.models.objectives import Goal, hold_row
from solver.models.variables import Variables
from solver.options import Options
from solver.plan import Objective, Verdict


def verdict_of(name: str, value: float, bound: float, allowed_gap: float, maximise: bool = True) -> Objective:
    """The verdict comes from value and bound alone. A bound that falls short of the value by rounding is the value."""
    bound = max(bound, value) if maximise else min(bound, value)
    gap = abs(bound - value) / max(1.0, abs(value))
    verdict: Verdict = (
        "proven" if gap <= FEASIBILITY_TOLERANCE else "within gap" if gap <= allowed_gap else "limit reached"
    )
    return Objective(name, value, value if verdict == "proven" else bound, 0.0 if verdict == "proven" else gap, verdict)


@dataclass(slots=True)
class LexicographicSolver:
    """values: the best known solution by variable name; it always satisfies every row, so a limit never leaves us
    empty-handed.

    settle: what follows from a solution and is better worked out than left to the solver's tolerances. quick: see
    `solve_model`.
    """

    x: Variables
    options: Options
    values: dict[str, float]
    objectives: list[Objective] = field(default_factory=list)
    completions: list[Callable[[Mapping[str, float]], Mapping[str, float]]] = field(default_factory=list)
    quick: bool = False
    _hold_count: int = 0

    def value_of(self, goal: Goal) -> float:
        return goal.offset + sum(self.values.get(v.name, 0.0) * c for v, c in goal.terms)

    def solve_for(self, goal: Goal, nodes: int | None = None) -> tuple[float, float]:
        """Maximise without holding: (value, bound). Keeps the solution found when it is at least as good. nodes: a
        lower limit than the options'."""
        value = self.value_of(goal)
        if value >= goal.upper_bound - FEASIBILITY_TOLERANCE:
            return value, value
        self.x.model.sense = pulp.LpMaximize
        self.x.model.setObjective(linear(goal.terms))
        limited = replace(self.options, max_nodes=min(nodes or self.options.max_nodes, self.options.max_nodes))
        answer = solve_model(
            self.x.model, limited, self.values, skip_presolve=self.quick, target_value=goal.upper_bound - goal.offset
        )
        if answer.values and answer.value + goal.offset >= value - FEASIBILITY_TOLERANCE:
            self._set_solution(answer.values)
            value = self.value_of(goal)
        bound = (
            min(goal.upper_bound, answer.bound + goal.offset) if answer.status != "infeasible" else goal.upper_bound
        )  # we hold a solution: that proves nothing
        if goal.step:
            bound = goal.step * math.floor(bound / goal.step + FEASIBILITY_TOLERANCE)
        return value, bound

    def is_feasible(self, floors: list[tuple[Goal, float]]) -> bool | None:
        """Whether the model, with its bounds as they stand now, lets each goal keep its floor. None: a limit struck
        before an answer."""
        if all(self.value_of(goal) >= least - FEASIBILITY_TOLERANCE / 10 for goal, least in floors):
            return True
        self.x.model.sense = pulp.LpMaximize
        self.x.model.setObjective(pulp.LpAffineExpression())
        answer = solve_model(self.x.model, self.options)
        if answer.values:
            self._set_solution(answer.values)
            return True
        return False if answer.status == "infeasible" else None

    def _set_solution(self, values: Mapping[str, float]) -> None:
        self.values = dict(values)
        for settle in self.completions:
            self.values.update(settle(self.values))

    def hold_goal(self, goal: Goal, least: float) -> None:
        """Add the row goal >= least, with room for rounding only."""
        slack = goal.step / 2 if goal.step else FEASIBILITY_TOLERANCE * max(1.0, abs(least))
        self._hold_count += 1
        self.x.model.addConstraint(hold_row(goal, least - slack, goal.name).constraint, f"held_{self._hold_count:04d}")

    def record_objective(self, name: str, value: float, bound: float) -> Objective:
        self.objectives.append(verdict_of(name, value, bound, self.options.gap))
        return self.objectives[-1]

    def maximise_and_hold(self, goal: Goal, nodes: int | None = None) -> Objective:
        """Maximise, record the verdict, and hold."""
        value, bound = self.solve_for(goal, nodes)
        self.hold_goal(goal, value)
        return self.record_objective(goal.name, value, bound)


def maximise_minimum(
    lex: LexicographicSolver,
    goals: list[Goal],
    name: str,
    unit: float,
    recorded_bound: float | None = None,
    nodes: int | None = None,
) -> float:
    """max t  with  t <= goal  for each of the goals; then each of them is held at t, which is returned and, times
    `unit`, recorded.

    instead: the bound to record where that of t is not the whole story. nodes: as in `Lexicographic.reach`.
    """
    value, top = min(lex.value_of(g) for g in goals), min(g.upper_bound for g in goals)
    tag = f"{len(lex.objectives):04d}"
    t = lex.x.model.add_variable(f"t_{tag}", 0, top)
    lex.values[t.name] = value
    for number, g in enumerate(goals):
        lex.x.model.addConstraint(at_least([*g.terms, (t, -1.0)], -g.offset), f"t_{tag}_{number:04d}")
    _, bound = lex.solve_for(Goal(name, [(t, 1.0)], top, 0), nodes)
    value = min(lex.value_of(g) for g in goals)
    for g in goals:
        lex.hold_goal(g, value)
    lex.record_objective(name, value * unit, (bound if recorded_bound is None else recorded_bound) * unit)
    return value


def relaxed_minimum_bound(lex: LexicographicSolver, goals: list[Goal]) -> float:
    """An upper bound on  max t, t <= goal  for each of the goals: the same with fractions of gangs and pods. The model
    is left as it was."""
    model = lex.x.model.copy()
    t = model.add_variable("t_relaxed", 0, min(g.upper_bound for g in goals))
    for number, g in enumerate(goals):
        model.addConstraint(at_least([*g.terms, (t, -1.0)], -g.offset), f"t_relaxed_{number:04d}")
    model.sense = pulp.LpMaximize
    model.setObjective(pulp.LpAffineExpression([(t, 1.0)]))
    answer = solve_model(model, lex.options, relaxation=True)
    return answer.value if answer.status == "optimal" else min(g.upper_bound for g in goals)

"""Lexicographic optimisation: one goal after another, each held at its value while the next is maximised.

Never one sum with small weights: a relative gap would hide the small ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import pulp

from solver.mip.engine import FEASIBILITY_TOLERANCE, ModelArrays, solve_model
from solver.mip.rows import Terms, at_least, linear
from solver.options import Options
from solver.plan import Objective


@dataclass(frozen=True, slots=True)
class Goal:
    """maximise  offset + sum of terms.

    upper_bound: a bound that needs no solver. step: any two values differ by at least this much; 0 for a real number.
    """

    name: str
    terms: Terms
    upper_bound: float
    step: float
    offset: float = 0.0

    def attainable(self, bound: float) -> float:
        """Return the bound, rounded down to a value that the goal can have."""
        return self.step * math.floor(bound / self.step + FEASIBILITY_TOLERANCE) if self.step else bound


def verdict_of(name: str, value: float, bound: float, allowed_gap: float, maximise: bool = True) -> Objective:
    """Return the objective's verdict, from value and bound alone. A bound below the value by rounding counts as the
    value."""
    bound = max(bound, value) if maximise else min(bound, value)
    gap = abs(bound - value) / max(1.0, abs(value))
    if gap <= FEASIBILITY_TOLERANCE:
        return Objective(name, value, value, 0.0, "proven")
    return Objective(name, value, bound, gap, "within gap" if gap <= allowed_gap else "limit reached")


@dataclass(slots=True)
class LexicographicSolver:
    """A model with its best known solution and the goals that are held so far.

    values: by variable name; they satisfy every row, so that a limit always leaves a solution. completions: compute
    values that follow from the others more exactly than the engine's tolerances do. skip_presolve: see `solve_model`.
    """

    model: pulp.LpProblem
    options: Options
    values: dict[str, float]
    objectives: list[Objective] = field(default_factory=list)
    completions: list[Callable[[Mapping[str, float]], Mapping[str, float]]] = field(default_factory=list)
    skip_presolve: bool = False
    _hold_count: int = 0
    _arrays: ModelArrays = field(default_factory=ModelArrays)

    def set_solution(self, values: Mapping[str, float]) -> None:
        """Replace the known solution by another one that satisfies every row."""
        self.values = dict(values)

    def set_values(self, values: Mapping[str, float]) -> None:
        """Change these values of the known solution, which then satisfies every row as before."""
        self.values |= values

    def value_of(self, goal: Goal) -> float:
        return goal.offset + sum(self.values.get(v.name, 0.0) * c for v, c in goal.terms)

    def solve_for(self, goal: Goal, nodes: int | None = None) -> tuple[float, float]:
        """Maximise without holding: (value, bound). Keeps the solution found when it is at least as good; none is
        looked for where the relaxation proves the known one. nodes: a limit of branch-and-bound nodes below the
        options'."""
        value = self.value_of(goal)
        if value < goal.upper_bound - FEASIBILITY_TOLERANCE:
            goal = replace(goal, upper_bound=self.relaxed_bound(goal))
        if value >= goal.upper_bound - FEASIBILITY_TOLERANCE:
            return value, value
        self.model.sense = pulp.LpMaximize
        self.model.setObjective(linear(goal.terms))
        limited = replace(self.options, max_nodes=min(nodes or self.options.max_nodes, self.options.max_nodes))
        target, skip_presolve = goal.upper_bound - goal.offset, self.skip_presolve
        answer = solve_model(
            self.model, limited, self.values, skip_presolve=skip_presolve, target_value=target, arrays=self._arrays
        )
        if answer.values and answer.value + goal.offset >= value - FEASIBILITY_TOLERANCE:
            self._complete_solution(answer.values)
            value = self.value_of(goal)
        bound = goal.upper_bound
        if answer.status != "infeasible":  # else tolerances contradict the solution in hand, which proves nothing
            bound = min(bound, answer.bound + goal.offset)
        return value, goal.attainable(bound)

    def relaxed_bound(self, goal: Goal) -> float:
        """Return the goal's upper bound by the relaxation, in a fraction of the time that a solution takes; the
        solution in hand stays."""
        self.model.sense = pulp.LpMaximize
        self.model.setObjective(linear(goal.terms))
        answer = solve_model(self.model, self.options, relaxation=True, arrays=self._arrays)
        if answer.status != "optimal":
            return goal.upper_bound
        return min(goal.upper_bound, goal.attainable(answer.value + goal.offset))

    def is_feasible(self, floors: list[tuple[Goal, float]]) -> bool | None:
        """Return whether the model, with its present bounds, lets each goal keep its floor. None: a limit was reached
        first."""
        if all(self.value_of(goal) >= least - FEASIBILITY_TOLERANCE / 10 for goal, least in floors):
            return True
        self.model.sense = pulp.LpMaximize
        self.model.setObjective(pulp.LpAffineExpression())
        answer = solve_model(self.model, self.options, arrays=self._arrays)
        if answer.values:
            self._complete_solution(answer.values)
            return True
        return False if answer.status == "infeasible" else None

    def _complete_solution(self, values: Mapping[str, float]) -> None:
        """Replace the known solution by one that the engine found, completed."""
        self.set_solution(values)
        for completion in self.completions:
            self.values.update(completion(self.values))

    def hold_goal(self, goal: Goal, least: float) -> None:
        """Add the row  goal >= least, less a tolerance for rounding."""
        slack = goal.step / 2 if goal.step else FEASIBILITY_TOLERANCE * max(1.0, abs(least))
        self._hold_count += 1
        self.model.addConstraint(at_least(goal.terms, least - slack - goal.offset), f"held_{self._hold_count:04d}")

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
    """max t  with  t <= goal  for each of the goals. Holds each of them at t, records t * unit, returns t.

    recorded_bound: the bound to record in place of that of t. nodes: as in `solve_for`.
    """
    value, tag = min(lex.value_of(g) for g in goals), f"t_{len(lex.objectives):04d}"
    t = _add_minimum(lex.model, goals, tag)
    lex.values[tag] = value
    _, bound = lex.solve_for(Goal(name, [(t, 1.0)], t.upBound, 0), nodes)
    value = min(lex.value_of(g) for g in goals)
    for g in goals:
        lex.hold_goal(g, value)
    lex.record_objective(name, value * unit, (bound if recorded_bound is None else recorded_bound) * unit)
    return value


def relaxed_minimum_bound(lex: LexicographicSolver, goals: list[Goal]) -> float:
    """Return an upper bound on max t, t <= goal for each of the goals, by the relaxation. Leaves the model as it
    was."""
    model = lex.model.copy()
    t = _add_minimum(model, goals, "t_relaxed")
    model.sense = pulp.LpMaximize
    model.setObjective(pulp.LpAffineExpression([(t, 1.0)]))
    answer = solve_model(model, lex.options, relaxation=True)
    return answer.value if answer.status == "optimal" else min(g.upper_bound for g in goals)


def _add_minimum(model: pulp.LpProblem, goals: list[Goal], name: str) -> pulp.LpVariable:
    """Add the variable t with rows  t <= goal  for each of the goals."""
    t = model.add_variable(name, 0, min(g.upper_bound for g in goals))
    for number, g in enumerate(goals):
        model.addConstraint(at_least([*g.terms, (t, -1.0)], -g.offset), f"{name}_{number:04d}")
    return t

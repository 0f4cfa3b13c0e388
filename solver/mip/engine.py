"""One solve of a PuLP model with an honest status: HiGHS by one bulk transfer.

PuLP's own `HiGHS` adds columns and rows one call at a time, calls a time limit "Optimal" and knows no MIP start. This
module passes the whole model in one `passModel`, sets the start, and reads value, bound and status from HiGHS itself.

Models as the arrays that HiGHS takes.

A model is solved again and again, for one goal after another, with a few rows more each time: a row is translated once.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import highspy
import numpy as np
import numpy.typing as npt
import pulp

from solver.clock import Clock
from solver.options import Options


class ModelArrays:
    """The translation of one model. Rows are never changed or removed; bounds and the objective may change.

    variables: in the order of the columns, which is that of their names. names: theirs.
    """

    def __init__(self) -> None:
        self.variables: list[Any] = []
        self.names: list[str] = []
        self.lower: list[float] = []
        self.upper: list[float] = []
        self._column: dict[int, int] = {}  # id of a variable -> its column
        self._numbers: dict[int, int] = {}  # id of a variable -> its number, by first appearance in a row
        self._columns_of_numbers: npt.NDArray[np.int32] | None = None
        self._entry_numbers, self._entry_coefficients, self._row_starts = array("i"), array("d"), array("i", [0])

    def update(self, model: pulp.LpProblem) -> None:
        """Add the model's new variables and rows. Raises ValueError when two of its variables have one name."""
        known, objective = self._column, model.objective or ()
        if len(known) != model.numVariables() or not all(id(v) in known for v in objective):
            self._set_variables(list(model.variables()))  # PuLP walks through all rows for them
        for row in model.constraints()[len(self.lower) :]:
            self._add_row(row)

    def _set_variables(self, variables: list[Any]) -> None:
        names = [v.name for v in variables]
        if len(set(names)) < len(names):
            raise ValueError("two variables of the model have the same name, so that its solution cannot be told")
        self.variables, self.names = variables, names
        self._column = {id(v): at for at, v in enumerate(variables)}
        self._columns_of_numbers = None

    def _add_row(self, row: Any) -> None:
        numbers, side = self._numbers, -row.constant
        for v, coefficient in row.items():
            if coefficient != 0:
                self._entry_numbers.append(numbers.setdefault(id(v), len(numbers)))
                self._entry_coefficients.append(coefficient)
        self._row_starts.append(len(self._entry_numbers))
        self.lower.append(-math.inf if row.sense == pulp.LpConstraintLE else side)
        self.upper.append(math.inf if row.sense == pulp.LpConstraintGE else side)
        self._columns_of_numbers = None

    def costs(self, model: pulp.LpProblem) -> npt.NDArray[np.double]:
        """Return the objective's coefficient of each column."""
        costs = np.zeros(len(self.variables))
        for v, coefficient in (model.objective or {}).items():
            costs[self._column[id(v)]] = coefficient
        return costs

    def matrix(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.double]]:
        """Return the rows without zeros: where each begins, the columns of its entries, and their coefficients."""
        if self._columns_of_numbers is None:
            self._columns_of_numbers = np.array([self._column[v] for v in self._numbers], dtype=np.int32)
        index = self._columns_of_numbers[np.array(self._entry_numbers)]
        return np.array(self._row_starts), index, np.array(self._entry_coefficients)


Status = Literal["optimal", "feasible", "infeasible", "unknown"]
FEASIBILITY_TOLERANCE = 1e-6
AGGREGATOR_RULE = 1 << 12
"""Bit of HiGHS's `presolve_rule_off` for its aggregator: seconds on models of whole clusters, and no gain there."""


@dataclass(frozen=True, slots=True)
class SolveResult:
    """status: "optimal" within the requested gap; "feasible" when a limit was reached first; "infeasible" proved;
    "unknown" when a limit was reached before any solution. value, bound: in the model's own sense and sign. values:
    variable name -> value, integers exact; empty without a solution."""

    status: Status
    value: float
    bound: float
    values: Mapping[str, float]


def solve_model(
    model: pulp.LpProblem,
    options: Options,
    start: Mapping[str, float] | None = None,
    relaxation: bool = False,
    skip_presolve: bool = False,
    target_value: float | None = None,
    arrays: ModelArrays | None = None,
) -> SolveResult:
    """Solve `model`, whose objective is set.

    start: variable name -> value of a known solution; HiGHS completes missing names. relaxation: integers may be
    fractions, and values are not rounded. skip_presolve: for a model where a limit is likely to be reached first
    anyway. target_value: of a maximisation, a value that no solution exceeds by more than rounding; the search may stop
    there. arrays: the translation of this model so far, kept for the next solve.

    Raises ValueError when two variables have one name.
    """
    clock = options.clock
    if not clock.may_work(0):
        return SolveResult("unknown", _worst_value(model), -_worst_value(model), {})
    options = replace(options, time_limit=min(options.time_limit, clock.seconds_left()))
    settings = _highs_settings(options, skip_presolve, target_value)
    arrays = arrays or ModelArrays()
    arrays.update(model)
    return _solve_with_highs(model, arrays, settings, start, relaxation, clock)


def _worst_value(model: pulp.LpProblem) -> float:
    return float("-inf") if model.sense == pulp.LpMaximize else float("inf")


def _highs_settings(options: Options, skip_presolve: bool, target_value: float | None) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "output_flag": False,
        "threads": 1,
        "random_seed": options.seed,
        "mip_rel_gap": options.gap,
        "mip_abs_gap": FEASIBILITY_TOLERANCE,
        "time_limit": options.time_limit,
        "mip_max_nodes": options.max_nodes,
        "mip_pool_soft_limit": options.budget.cuts,
        # off: a third of the time on spread models, and solutions as good
        "presolve": "off" if skip_presolve else "choose",
        "presolve_rule_off": AGGREGATOR_RULE,
    }
    return settings if target_value is None else settings | {"objective_target": target_value - FEASIBILITY_TOLERANCE}


def _solve_with_highs(
    model: pulp.LpProblem,
    arrays: ModelArrays,
    settings: Mapping[str, Any],
    start: Mapping[str, float] | None,
    relaxation: bool,
    clock: Clock,
) -> SolveResult:
    highs = highspy.Highs()  # type: ignore[no-untyped-call]
    for key, value in settings.items():
        highs.setOptionValue(key, value)
    integral = [not relaxation and v.cat == pulp.LpInteger for v in arrays.variables]
    highs.passModel(_highs_lp(model, arrays, integral))
    if start:
        known = [i for i, name in enumerate(arrays.names) if name in start]
        values = np.array([start[arrays.names[i]] for i in known], dtype=np.double)
        highs.setSolution(len(known), np.array(known, dtype=np.int32), values)
    highs.run()
    if highs.getModelStatus() == highspy.HighsModelStatus.kTimeLimit:
        clock.strike()
    return _highs_result(model, arrays.names, integral, highs)


def _highs_lp(model: pulp.LpProblem, arrays: ModelArrays, integral: list[bool]) -> Any:
    infinity, kinds, variables = highspy.kHighsInf, highspy.HighsVarType, arrays.variables
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(variables), len(arrays.lower)
    lp.col_cost_ = arrays.costs(model)
    lp.sense_ = highspy.ObjSense.kMaximize if model.sense == pulp.LpMaximize else highspy.ObjSense.kMinimize
    lp.offset_ = model.objective.constant if model.objective is not None else 0.0
    lp.col_lower_ = np.array([-infinity if v.lowBound is None else v.lowBound for v in variables], dtype=np.double)
    lp.col_upper_ = np.array([infinity if v.upBound is None else v.upBound for v in variables], dtype=np.double)
    lp.integrality_ = [kinds.kInteger if is_integer else kinds.kContinuous for is_integer in integral]
    lp.row_lower_, lp.row_upper_ = np.array(arrays.lower), np.array(arrays.upper)
    matrix = lp.a_matrix_
    matrix.format_ = highspy.MatrixFormat.kRowwise
    matrix.num_col_, matrix.num_row_ = lp.num_col_, lp.num_row_
    matrix.start_, matrix.index_, matrix.value_ = arrays.matrix()
    return lp


def _highs_result(model: pulp.LpProblem, names: list[str], integral: list[bool], highs: Any) -> SolveResult:
    info, status, known = highs.getInfo(), highs.getModelStatus(), highspy.HighsModelStatus
    worst = _worst_value(model)
    if status in (known.kInfeasible, known.kUnboundedOrInfeasible):
        return SolveResult("infeasible", worst, worst, {})
    bound = info.mip_dual_bound if any(integral) else info.objective_function_value
    if info.primal_solution_status != 2:  # 2: feasible; anything else must not be read
        return SolveResult("unknown", worst, bound, {})
    solution = zip(names, highs.getSolution().col_value, integral, strict=True)
    values = {name: float(round(x)) if is_integer else float(x) for name, x, is_integer in solution}
    reached: Status = "optimal" if status == known.kOptimal else "feasible"
    return SolveResult(reached, info.objective_function_value, bound, values)

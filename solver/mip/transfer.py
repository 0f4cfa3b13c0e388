"""Models as the arrays that HiGHS takes.

A model is solved again and again, for one goal after another, with a few rows more each time: a row is translated once.
"""

from __future__ import annotations

import math
from array import array
from typing import Any

import numpy as np
import numpy.typing as npt
import pulp


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

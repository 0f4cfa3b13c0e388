"""Models handed to HiGHS: what they must not be, and what it must answer."""

from __future__ import annotations

import pulp
import pytest

from solver import Options
from solver.mip.engine import solve_model
from solver.mip.rows import at_most


def model() -> tuple[pulp.LpProblem, pulp.LpVariable]:
    made = pulp.LpProblem("small", pulp.LpMaximize)
    x = made.add_variable("x", 0, 9, cat=pulp.LpInteger)
    made.addConstraint(at_most([(x, 2)], 7), "most")
    return made, x


def test_a_question_without_an_objective_leaves_the_model_fit_for_one() -> None:
    made, x = model()
    made.setObjective(pulp.LpAffineExpression())
    assert solve_model(made, Options()).status == "optimal"
    made.setObjective(pulp.LpAffineExpression([(x, 1)]))
    answer = solve_model(made, Options())
    assert (answer.status, answer.value, answer.bound, answer.values["x"]) == ("optimal", 3, 3, 3)


def test_two_variables_of_one_name_are_refused() -> None:
    made, _ = model()
    other = made.add_variable("x", 0, 9)
    made.addConstraint(at_most([(other, 1)], 4), "other")
    with pytest.raises(ValueError, match="same name"):
        solve_model(made, Options())

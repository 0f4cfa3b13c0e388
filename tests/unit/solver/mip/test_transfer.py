"""Models as arrays: what was translated before, and what is new, are the model as it is."""

from __future__ import annotations

from random import Random

import numpy as np
import pulp

from solver.mip.engine import ModelArrays, solve_model
from solver.mip.rows import at_most, equal, linear
from solver.options import Options


def described(arrays: ModelArrays, model: pulp.LpProblem) -> list[object]:
    """All that HiGHS gets of rows, columns and costs."""
    costs = arrays.costs(model).tolist()
    return [arrays.names, arrays.lower, arrays.upper, costs, *(part.tolist() for part in arrays.matrix())]


def translated(model: pulp.LpProblem) -> ModelArrays:
    arrays = ModelArrays()
    arrays.update(model)
    return arrays


def test_a_model_that_grew_is_translated_as_one_that_is_new() -> None:
    chance = Random(1)  # noqa: S311  # the same draws each time
    model, arrays = pulp.LpProblem("m", pulp.LpMaximize), ModelArrays()
    variables = [model.add_variable(f"x{chance.random()}", 0, 1) for _ in range(4)]
    for step in range(60):
        if step % 3 == 0:
            variables.append(model.add_variable(f"x{chance.random()}", 0, 1))
        terms = [(v, float(chance.choice((-1, 0, 1, 2)))) for v in chance.sample(variables, chance.randint(1, 4))]
        model.addConstraint(chance.choice((at_most, equal))(terms, step))
        model.setObjective(linear(terms[:2]))
        arrays.update(model)
        assert described(arrays, model) == described(translated(model), model)
        assert arrays.variables == model.variables()


def test_a_row_is_its_entries_without_zeros() -> None:
    model = pulp.LpProblem("m", pulp.LpMaximize)
    b, a = model.add_variable("b"), model.add_variable("a")
    model.addConstraint(at_most([(b, 2), (a, 0)], 3))
    model.addConstraint(equal([(a, 1), (b, -1)], 1))
    assert described(translated(model), model) == [
        ["a", "b"],
        [-np.inf, 1],
        [3, 1],
        [0, 0],
        [0, 1, 3],
        [1, 0, 1],
        [2, 1, -1],
    ]


def test_a_variable_that_only_the_objective_has_is_a_column_and_bounds_may_change_between_two_solves() -> None:
    model = pulp.LpProblem("m", pulp.LpMaximize)
    x, free = model.add_variable("x", 0, 5), pulp.LpProblem("other").add_variable("free", 0, 7)
    model.addConstraint(at_most([(x, 1)], 3))
    model.setObjective(linear([(x, 1)]))
    arrays = ModelArrays()
    assert solve_model(model, Options(), arrays=arrays).value == 3
    model.setObjective(linear([(x, 1), (free, 1)]))
    assert solve_model(model, Options(), arrays=arrays).values == {"x": 3, "free": 7}
    x.upBound = 1
    assert solve_model(model, Options(), arrays=arrays).value == 8
    model.addConstraint(at_most([(x, 1), (free, 1)], 2))
    assert solve_model(model, Options(), arrays=arrays).value == 2

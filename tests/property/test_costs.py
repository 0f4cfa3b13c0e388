"""Stage B's way with batches that are too large for one model, held against that model on problems that are small."""

from __future__ import annotations

from hypothesis import given, settings

from solver import Options
from solver.options import Budget
from solver.plan import Objective, Plan
from solver.problem import Problem
from solver.semantics.placement_cost import COST_NAMES
from solver.verify import verify
from tests.builders.plans import solve_without_repairs as solve
from tests.builders.strategies import problems


def costs(made: Plan) -> dict[str, Objective]:
    return {o.name: o for batch in made.batches for o in batch.objectives if o.name in COST_NAMES}


@settings(max_examples=30)
@given(problems(running="whole gangs", elastic=False))
def test_neighbourhoods_never_beat_the_exact_model_nor_do_bounds_pass_it(world: Problem) -> None:
    optimum = costs(solve(world))
    made = solve(world, Options(budget=Budget(placement_variables=1)))
    assert verify(world, made) == []
    large = costs(made)
    assert large.keys() == optimum.keys()
    for name, best in optimum.items():
        assert best.verdict == "proven"
        assert large[name].bound <= best.value <= large[name].value
        if large[name].value > best.value:
            break  # what comes after is held to a worse value of this one

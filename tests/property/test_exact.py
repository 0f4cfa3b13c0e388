"""Every objective against brute force, under every queue policy."""

from __future__ import annotations

from hypothesis import given, settings

from solver import Plan, solve
from solver.plan import Objective
from solver.problem import Problem
from solver.verify import verify
from tests.property.optimum import age_of, best, least_costs, worth
from tests.property.strategies import policies, problems

COSTS = ("subgroups", "spread", "supernodes", "nodes")


def started(made: Plan) -> frozenset[int]:
    return frozenset(decision.gang for decision in made.decisions if decision.action == "start")


def objectives(made: Plan) -> dict[str, Objective]:
    return {objective.name: objective for batch in made.batches for objective in batch.objectives}


def measured(made: Plan) -> dict[str, float]:
    """The objectives' values, to the digits that floats of another order of summation share."""
    return {name: round(objective.value, 6) for name, objective in objectives(made).items()}


@settings(max_examples=500)
@given(policies(problems(running="whole gangs")))
def test_every_objective_is_what_brute_force_finds_and_proven(world: Problem) -> None:
    made = solve(world)
    assert verify(world, made) == []
    sets = least_costs(world)
    most, winners = best(world, sets)
    assert started(made) in sets
    assert worth(world, started(made)) == most, winners
    reached = objectives(made)
    assert {objective.verdict for objective in reached.values()} <= {"proven"}
    if "oldest first" in reached:
        assert reached["oldest first"].value == age_of(world, started(made))
    for name, least in zip(COSTS, sets[started(made)], strict=True):
        assert name not in reached or reached[name].value == least

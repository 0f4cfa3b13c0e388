"""Small worlds in which the solver once claimed what was not so; each was found by a random search against brute
force."""

from __future__ import annotations

import pytest

from solver import Options, solve
from solver.options import Budget
from solver.plan import Plan
from solver.problem import Policy
from tests.builders.beside import beside
from tests.builders.plans import actions
from tests.builders.problems import gang, nodes, problem, role, running_pods, subgroup
from tests.builders.stories import assert_story

STORIES = beside(__file__)


@pytest.mark.parametrize("story", STORIES)
def test_story(story: str) -> None:
    assert_story(STORIES[story])


def values(made: Plan) -> dict[str, float]:
    return {objective.name: objective.value for batch in made.batches for objective in batch.objectives}


def test_a_waiting_gang_with_half_a_subgroup_running_proves_nothing_about_the_others() -> None:
    torn = gang(
        "torn", role(2, gpu=4), role(1, gpu=2), running=(running_pods(0, 0, 1),), subgroups=(subgroup(2, mode="soft"),)
    )
    world = problem(nodes(1, gpu=8), torn, gang("older", role(1, gpu=3)), gang("larger", role(1, gpu=4)))
    made = solve(world)
    assert actions(made) == ["wait", "wait", "start"]
    assert values(made)["placed[0]"] == 4


def test_priorities_in_models_of_their_own_claim_what_is_so_beside_the_places_before_them() -> None:
    high, low = (
        gang("high", role(1, node_classes=(0, 1), gpu=4), priority=9),
        gang("low", role(1, node_classes=(1,), gpu=4)),
    )
    policy = Policy(order="priorities-first")
    world = problem(nodes(1, gpu=4, node_class=1), nodes(1, gpu=4, node_class=0), high, low, policy=policy)
    together, apart = solve(world), solve(world, Options(budget=Budget(joint_variables=0)))
    assert actions(together) == ["start", "start"]
    assert [batch.gangs for batch in together.batches] == [(0, 1)]
    # model.md, Verdicts: the second batch is proven next to what the first one took, and says so by being a batch
    # of its own.
    assert actions(apart) == ["start", "wait"]
    assert [batch.gangs for batch in apart.batches] == [(0,), (1,)]

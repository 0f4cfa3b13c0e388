"""Gangs started by the greedy next to what the model starts."""

from __future__ import annotations

import pytest

from solver.options import Budget, Options
from solver.problem import Policy
from tests.builders.plans import verified_plan
from tests.builders.problems import gang, nodes, problem, queue, role


@pytest.mark.parametrize("limit", [0, 800])
def test_none_is_overtaken_in_its_own_queue_in_a_model_of_whatever_size(limit: int) -> None:
    """Three threes next to b's two are worth more to shares than two of them next to a's more urgent gang of two."""
    own = [gang("urgent", role(1, gpu=2), queue="a", priority=10)]
    own += [gang(f"a{i}", role(1, gpu=3), queue="a") for i in range(3)]
    queues, policy = (queue("a"), queue("b")), Policy(capacity=True)
    world = problem(nodes(1, gpu=12), *queues, *own, gang("b", role(1, gpu=2), queue="b"), policy=policy)
    plan = verified_plan(world, Options(budget=Budget(joint_variables=limit)))
    assert {world.gangs[d.gang].name for d in plan.decisions if d.action == "start"} == {"urgent", "a0", "a1", "b"}
    said = {o.name: (o.value, o.bound) for o in plan.batches[0].objectives}
    assert said["placed[10]"] == (2, 2)
    assert said["placed[0]"][0] == 8

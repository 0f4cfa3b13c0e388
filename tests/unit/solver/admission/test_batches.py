"""How many gangs one model decides."""

from __future__ import annotations

from functools import partial

import pytest

from solver import Options
from solver.admission.batches import split_into_batches
from solver.options import Budget
from solver.placement.batch import joint_floor
from solver.problem import Topology
from solver.state.state import State
from tests.builders.problems import gang, hard_topology, nodes, problem, role


@pytest.mark.parametrize(("topology", "batches"), [(None, [[0, 1, 2]]), (hard_topology(1), [[0], [1], [2]])])
def test_gangs_that_may_go_anywhere_share_a_larger_model(topology: Topology | None, batches: list[list[int]]) -> None:
    gangs = (gang(f"g{n}", role(n, gpu=n), topology=topology) for n in (1, 2, 3))
    world = problem(nodes(4, leaf="s0", gpu=8), *gangs, hypernodes={"s0": (1, None)})
    budget = Budget(joint_variables=1, batch_variables=1, free_batch_variables=100)
    floor = partial(joint_floor, State.initial(world), [0, 1, 2], budget)
    groups, _ = split_into_batches(world, [0, 1, 2], Options(budget=budget), floor)
    assert [batch for group in groups for batch in group] == batches

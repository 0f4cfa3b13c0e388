"""A gang with a unit of growth takes pods of all its roles at a time: a leader with its workers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.builders.plans import decision_in, verified_plan
from tests.builders.problems import gang, nodes, problem, role, running_pods

SETS = {
    "two of three groups": (9, (), (2, 4)),
    "none but the minimum": (5, (), (1, 2)),
    "all of them": (16, (), (3, 6)),
    "a begun group first": (9, ((0, 2), (1, 3)), (2, 4)),
    "a begun group that finds no room": (6, ((0, 2), (1, 3)), (2, 3)),
}
"""Case -> GPUs, (role, pods) that run, and the pods of leader (2 GPUs) and workers (1) after it."""


@pytest.mark.parametrize("case", SETS)
def test_it_grows_by_whole_groups(case: str) -> None:
    gpus, running, expected = SETS[case]
    pods = tuple(running_pods(of_role, 0, number) for of_role, number in running)
    spec = gang("set", role(3, minimum=1, gpu=2), role(6, minimum=2, gpu=1), running=pods)
    world = problem(nodes(1, gpu=gpus), spec)
    world = replace(world, gangs=tuple(replace(each, growth_unit=(1, 2)) for each in world.gangs))
    placed = decision_in(world, verified_plan(world), "set").placements
    assert tuple(sum(each.pods for each in placed if each.role == t) for t in (0, 1)) == expected

"""Why nobody is evicted is asked of the gangs with the highest priorities."""

from __future__ import annotations

from dataclasses import replace

from solver import solve
from solver.facts import NobodyEvicted
from solver.options import Budget, Options
from solver.problem import Problem
from tests.builders.problems import gang, nodes, problem, role, running_pods

WORLD = replace(
    problem(
        nodes(1, gpu=8),
        gang("runs", role(1, gpu=8), running=(running_pods(0, 0, 1),)),
        gang("later", role(1, gpu=4), priority=5),
        gang("first", role(1, gpu=8), priority=9),
    ),
    addable_evictions=("preempt",),
)


def asked(world: Problem, reasons: int) -> list[str]:
    plan = solve(world, Options(budget=Budget(eviction_reasons=reasons)))
    said = {d.gang for d in plan.decisions if NobodyEvicted("preempt", (0,)) in d.facts}
    return [world.gangs[j].name for j in sorted(said)]


def test_the_highest_priorities_are_explained_first() -> None:
    assert [asked(WORLD, number) for number in range(3)] == [[], ["first"], ["later", "first"]]


def test_an_action_that_would_evict_nothing_is_not_blamed() -> None:
    assert asked(replace(WORLD, addable_evictions=()), 2) == []

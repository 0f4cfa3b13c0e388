"""The floor: no batch ends below what the greedy alone would start, even when the model gives a poor answer."""

from __future__ import annotations

import importlib

import pytest

from solver import solve
from solver.admission.admit import Admission, solve_admission
from solver.admission.greedy_floor import LevelScore
from solver.models.sets import Sets
from solver.options import Budget, Options
from solver.plan import Plan
from solver.problem import Problem
from solver.semantics.placements import Placements
from solver.verify import verify
from tests.builders.problems import gang, nodes, problem, queue, role, running_pods


def started(world: Problem, plan: Plan) -> set[str]:
    return {world.gangs[d.gang].name for d in plan.decisions if d.action == "start"}


def poorly(monkeypatch: pytest.MonkeyPatch, world: Problem, *names: str) -> None:
    """The model claims that it is best to start these gangs, and that this is proved."""

    def answer(s: Sets, floor: Placements, options: Options) -> Admission:
        good = solve_admission(s, floor, options)
        return Admission(tuple(j for j, g in enumerate(world.gangs) if g.name in names), {}, good.objectives)

    monkeypatch.setattr(importlib.import_module("solver.placement.batch"), "solve_admission", answer)


def test_a_model_that_starts_a_lower_priority_instead_is_overruled(monkeypatch: pytest.MonkeyPatch) -> None:
    world = problem(nodes(2, gpu=8), gang("low", role(2, gpu=8)), gang("high", role(2, gpu=8), priority=9))
    whole = solve(world)
    poorly(monkeypatch, world, "low")
    plan = solve(world)
    assert verify(world, plan) == []
    assert started(world, plan) == started(world, whole) == {"high"}
    said = {o.name: (o.value, o.bound, o.verdict) for o in plan.batches[0].objectives}
    assert said["placed[9]"] == (1, 1, "proven")
    assert said["placed[0]"] == said["gangs[0]"] == (0, 0, "proven"), "the room is used up, by counting alone"
    assert not any(name.startswith("share") for name in said)


def test_what_the_floor_leaves_free_bounds_what_more_could_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three nodes: what the higher priorities take is counted off before a lower one is bounded."""
    world = problem(
        nodes(3, gpu=8),
        gang("two", role(2, gpu=8)),
        gang("more", role(2, gpu=8), priority=-1),
        gang("one", role(1, gpu=8), priority=9),
    )
    poorly(monkeypatch, world, "two")
    said = {o.name: (o.value, o.bound, o.verdict) for o in solve(world).batches[0].objectives}
    assert said["placed[9]"] == (1, 1, "proven")
    assert said["placed[0]"] == (2, 2, "proven")
    assert said["placed[-1]"] == (0, 0, "proven")


def test_a_model_that_serves_one_queue_only_is_overruled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four nodes, two queues: all to one of them places as much as half to each, and is less fair."""
    world = problem(
        nodes(4, gpu=8),
        queue("a"),
        queue("b"),
        *(gang(f"{q}{n}", role(1, gpu=8), queue=q) for q in ("a", "b") for n in range(4)),
    )
    poorly(monkeypatch, world, "a0", "a1", "a2", "a3")
    assert started(world, solve(world)) == {"a0", "a1", "b0", "b1"}


def test_a_model_that_is_as_good_in_another_way_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    world = problem(nodes(2, gpu=8), gang("old", role(2, gpu=8)), gang("young", role(2, gpu=8)))
    poorly(monkeypatch, world, "young")
    assert started(world, solve(world)) == {"young"}


def test_a_batch_that_lies_in_the_way_of_the_next_one_is_overruled_where_the_greedy_lies_better() -> None:
    """Each priority has a model of its own: the higher gang's takes the one node that the lower gang may use, the
    greedy does not."""
    low, high = gang("low", role(1, gpu=3, cpu=1)), gang("high", role(2, gpu=3), priority=2)
    world = problem(nodes(1, gpu=8, cpu=16), nodes(1, leaf="s", gpu=8), low, high, hypernodes={"s": (1, None)})
    plan = solve(world, Options(budget=Budget(joint_variables=1)))
    assert verify(world, plan) == []
    assert started(world, plan) == {"low", "high"}
    (batch,) = plan.batches
    assert batch.gangs == (0, 1)
    assert {o.name: o.value for o in batch.objectives}["gangs[0]"] == 1


def test_the_greedy_floor_holds_where_evictions_are_allowed_and_none_happens() -> None:
    calm = gang("calm", role(1, gpu=4), running=(running_pods(0, 2, 1),), loss=1)
    low, high = gang("low", role(1, gpu=3, cpu=1)), gang("high", role(2, gpu=3), priority=2)
    things = nodes(1, gpu=8, cpu=16), nodes(1, leaf="s", gpu=8), nodes(1, gpu=4), calm, low, high
    world = problem(*things, hypernodes={"s": (1, None)}, preempt_enabled=True)
    plan = solve(world, Options(budget=Budget(joint_variables=1)))
    assert verify(world, plan) == []
    assert started(world, plan) == {"low", "high"}
    assert not any(decision.evicted_pods for decision in plan.decisions)


@pytest.mark.parametrize(
    ("a", "b", "order"),
    [
        (LevelScore(((0.1, 0.5),), 3, 3), LevelScore(((0.1, 0.4),), 9, 9), 1),
        (LevelScore(((0.1, 0.4),), 3, 3), LevelScore(((0.2, 0.2),), 9, 9), -1),
        (LevelScore(((0.1,), (0.3,)), 3, 3), LevelScore(((0.1 + 1e-9,), (0.2,)), 3, 3), 1),
        (LevelScore(((0.1,),), 3, 1), LevelScore(((0.1,),), 2, 9), 1),
        (LevelScore(((0.1,),), 3, 1), LevelScore(((0.1,),), 3, 2), -1),
        (LevelScore((), 3, 1), LevelScore((), 3, 1), 0),
    ],
)
def test_shares_come_before_sums(a: LevelScore, b: LevelScore, order: int) -> None:
    assert a.compare(b) == order
    assert b.compare(a) == -order

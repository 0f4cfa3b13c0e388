"""What the solver decides, in stories. Relations are asserted, not node names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solver import InvalidProblemError, Options, solve
from solver.facts import Shortage
from solver.options import Budget
from solver.problem import Policy, Problem
from tests.builders.beside import beside
from tests.builders.plans import facts_of, starting_gangs, verified_plan
from tests.builders.problems import gang, nodes, problem, queue, role, running_pods, subgroup, supernodes
from tests.builders.stories import assert_story

STORIES = beside(__file__)


@pytest.mark.parametrize("story", STORIES)
def test_story(story: str) -> None:
    assert_story(STORIES[story])


def pods(world: Problem, name: str) -> int:
    return sum(p.pods for d in verified_plan(world).decisions if world.gangs[d.gang].name == name for p in d.placements)


# --- nodes


# --- topology


def test_subgroups_stay_whole_inside_a_supernode() -> None:
    taken = gang("taken", role(1, gpu=8), running=(running_pods(0, 0, 1),))
    world = supernodes(taken, gang("a", role(6, gpu=8), subgroups=(subgroup(2),)))
    plan = verified_plan(world)
    inside = [sum(p.pods for p in plan.decisions[1].placements if (p.node < 4) == first) for first in (True, False)]
    assert sorted(inside) == [2, 4]
    cramped = supernodes(taken, gang("a", role(6, gpu=8), subgroups=(subgroup(3),)))
    assert starting_gangs(cramped) == {"a"}
    assert facts_of(supernodes(taken, gang("a", role(8, gpu=8), subgroups=(subgroup(4),))), "a")[0].code in {
        "GW102",
        "GW109",
    }


def test_a_subgroup_of_several_roles_counts_them_together() -> None:
    world = supernodes(gang("a", role(1, gpu=8), role(7, gpu=8), subgroups=(subgroup(4, roles=(0, 1)),)))
    plan = verified_plan(world)
    assert [sum(p.pods for p in plan.decisions[0].placements if (p.node < 4) == first) for first in (True, False)] == [
        4,
        4,
    ]


# --- growth, and what runs


# --- verdicts


def crowd() -> Problem:
    """More gangs of odd sizes than fit, in two queues and two priorities."""
    gangs = [gang(f"g{i}", role(1 + i % 3, gpu=1 + i % 5), queue="ab"[i % 2], priority=i % 2) for i in range(14)]
    return supernodes(queue("a"), queue("b", weight=2), *gangs)


def test_every_objective_of_a_small_batch_is_proven() -> None:
    plan = verified_plan(crowd())
    assert {o.verdict for b in plan.batches for o in b.objectives} == {"proven"}
    assert all(b.verdict == "proven" for b in plan.batches)


def test_when_no_time_is_left_the_plan_is_the_greedys_and_says_so() -> None:
    plan = verified_plan(crowd(), Options(time_limit=0.0))
    assert any(d.action == "start" for d in plan.decisions)
    assert "limit reached" in {o.verdict for b in plan.batches for o in b.objectives}
    unproven = [o for b in plan.batches for o in b.objectives if o.verdict == "limit reached"]
    assert all(o.gap > 0 for o in unproven)


def test_a_gap_that_was_asked_for_is_no_proof() -> None:
    plan = verified_plan(crowd(), Options(gap=0.5))
    assert {o.verdict for b in plan.batches for o in b.objectives} <= {"proven", "within gap"}


def test_one_model_for_each_priority_admits_as_much_as_one_for_all_where_it_does_not_matter() -> None:
    world = crowd()
    world = replace(world, policy=Policy(order="priorities-first"))
    apart = verified_plan(world, Options(budget=Budget(joint_variables=0)))
    assert len(apart.batches) == 2
    together = verified_plan(world)
    first = [d.gang for d in together.decisions if d.action == "start" and world.gangs[d.gang].priority == 1]
    assert [d.gang for d in apart.decisions if d.action == "start" and world.gangs[d.gang].priority == 1] == first


def test_the_same_problem_gives_the_same_plan() -> None:
    first, second = solve(crowd()), solve(crowd())
    assert replace(first, batches=()) == replace(second, batches=())


def test_an_empty_problem_has_an_empty_plan() -> None:
    plan = verified_plan(problem())
    assert plan.decisions == ()
    assert plan.batches == ()


def test_a_problem_that_contradicts_itself_names_the_index() -> None:
    world = problem(nodes(1, gpu=8), gang("a", role(1, gpu=8)))
    with pytest.raises(InvalidProblemError) as found:
        solve(replace(world, gangs=(replace(world.gangs[0], queue=3),)))
    assert found.value.where == ("gangs", 0, "queue")


# --- found by random worlds


def test_a_shortage_never_asks_for_less_than_there_is() -> None:
    world = problem(nodes(1, gpu=2), gang("a", role(1, minimum=0, node_classes=(2,)), minimum=1))
    for fact in facts_of(world, "a"):
        assert not isinstance(fact, Shortage) or fact.asked > fact.available

"""Small worlds in which the solver once claimed what was not so; each was found by a random search against brute
force."""

from __future__ import annotations

from dataclasses import replace

from solver import Options, solve
from solver.options import Budget
from solver.plan import Plan
from solver.problem import Policy
from solver.verify import verify
from tests.builders.plans import actions
from tests.builders.problems import gang, nodes, problem, role, running_pods, subgroup


def values(made: Plan) -> dict[str, float]:
    return {objective.name: objective.value for batch in made.batches for objective in batch.objectives}


def test_a_gang_of_which_no_number_of_pods_is_whole_waits() -> None:
    odd = gang("odd", role(4, gpu=1), role(1, gpu=1), subgroups=(subgroup(2, mode="soft", roles=(0, 1)),))
    none = gang(
        "none",
        role(4, minimum=0, gpu=1),
        role(1, minimum=0, gpu=1),
        minimum=5,
        subgroups=(subgroup(2, mode="soft", roles=(0, 1)),),
    )
    over = gang("over", role(3, gpu=1), subgroups=(subgroup(2, mode="soft"),))
    even = gang("even", role(4, gpu=1), role(2, gpu=1), subgroups=(subgroup(2, mode="soft", roles=(0, 1)),))
    world = problem(nodes(1, gpu=32), odd, none, over, even)
    made = solve(world)
    assert actions(made) == ["wait", "wait", "wait", "start"]
    assert verify(world, made) == []


def test_a_gang_that_lost_half_a_subgroup_gets_it_back_with_what_else_it_needs() -> None:
    torn = gang(
        "torn",
        role(4, minimum=0, gpu=1),
        role(3, minimum=1, gpu=1),
        minimum=2,
        running=(running_pods(0, 0, 1),),
        subgroups=(subgroup(2, mode="soft"),),
    )
    world = problem(nodes(1, gpu=3), torn)
    made = solve(world)
    assert actions(made) == ["start"]
    assert verify(world, made) == []


def test_a_running_split_subgroup_that_no_pod_can_join_keeps_its_gang_from_starting() -> None:
    torn = gang(
        "torn",
        role(4, gpu=1),
        role(1, gpu=1),
        running=(running_pods(0, 0, 3), running_pods(0, 1, 1)),
        subgroups=(subgroup(2),),
    )
    tree = {"left": (1, None), "right": (1, None)}
    world = problem(nodes(1, leaf="left", gpu=4), nodes(1, leaf="right", gpu=2), torn, hypernodes=tree)
    made = solve(world)
    assert actions(made) == ["wait"]
    assert verify(world, made) == []


def test_a_waiting_gang_with_half_a_subgroup_running_proves_nothing_about_the_others() -> None:
    torn = gang(
        "torn", role(2, gpu=4), role(1, gpu=2), running=(running_pods(0, 0, 1),), subgroups=(subgroup(2, mode="soft"),)
    )
    world = problem(nodes(1, gpu=8), torn, gang("older", role(1, gpu=3)), gang("larger", role(1, gpu=4)))
    made = solve(world)
    assert actions(made) == ["wait", "wait", "start"]
    assert values(made)["placed[0]"] == 4


def test_pods_that_go_from_a_node_that_shrank_pay_first_what_it_lacks() -> None:
    three = gang("three", role(3, gpu=2), running=(running_pods(0, 0, 3),), loss=1)
    one = gang("one", role(1, gpu=2), running=(running_pods(0, 0, 1),), loss=1)
    winner = gang("winner", role(1, gpu=2), priority=1)
    world = replace(problem(nodes(1, gpu=8, free={"gpu": 4}), three, one, winner), preempt_enabled=True)
    made = solve(world)
    assert actions(made) == ["evict", "keep", "start"]
    assert verify(world, made) == []


def test_a_gang_on_a_shrunken_node_stays_when_room_is_made_elsewhere() -> None:
    here = gang("here", role(1, gpu=4), running=(running_pods(0, 0, 1),), loss=1)
    there = gang("there", role(1, gpu=2), running=(running_pods(0, 1, 1),), loss=9)
    winner = gang("winner", role(1, gpu=2), priority=1)
    world = replace(
        problem(nodes(1, gpu=8, free={"gpu": 1}), nodes(1, gpu=2), here, there, winner), preempt_enabled=True
    )
    made = solve(world)
    assert actions(made) == ["keep", "evict", "start"]
    assert verify(world, made) == []


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

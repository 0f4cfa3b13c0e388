"""Preemption: which pods are evicted for which gang, in stories. Relations are asserted, not node names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solver import Options, solve
from solver.options import Budget
from solver.problem import Problem
from solver.verify import verify
from tests.builders.beside import beside
from tests.builders.plans import actions_by_gang, evicted_pods_by_gang, verified_plan
from tests.builders.problems import (
    GangSpec,
    gang,
    hard_topology,
    nodes,
    preemptor,
    problem,
    role,
    running_pods,
    single_pod_gang,
)
from tests.builders.stories import assert_story

STORIES = beside(__file__)


TREE = {"s0": (1, "spine"), "s1": (1, "spine"), "spine": (2, None)}


@pytest.mark.parametrize("story", STORIES)
def test_story(story: str) -> None:
    assert_story(STORIES[story])


def contested(count: int, *gangs: GangSpec, asks: int = 1) -> Problem:
    """So many nodes of 8 GPUs with these gangs, and one of high priority that asks for whole nodes."""
    return problem(nodes(count, gpu=8), *gangs, preemptor(asks), preempt_enabled=True)


# --- the least loss


@pytest.mark.parametrize("number", [2, 120])
@pytest.mark.parametrize("silent", [0, 1])
def test_of_equal_victims_one_without_a_checkpoint_time_is_evicted(number: int, silent: int) -> None:
    """Also where the model of the nodes that matter is not the whole cluster."""
    silent = silent and number - 1
    equal = [single_pod_gang(f"g{n}", n, reports_checkpoint=n != silent) for n in range(number)]
    world = contested(number, *equal)
    assert evicted_pods_by_gang(world) == {f"g{silent}": 1}


def test_one_victim_is_preferred_to_ten_of_the_same_effect() -> None:
    ten = [single_pod_gang(f"small-{i}", 0, gpu=1) for i in range(8)] + [
        single_pod_gang(f"other-{i}", 1, gpu=1) for i in range(8)
    ]
    world = contested(3, *ten, single_pod_gang("large", 2))
    assert evicted_pods_by_gang(world) == {"large": 1}


MEASURED = (
    (4, 2, 1, 1), (2, 2, 4), (1, 1, 2, 1, 2, 1), (4, 4), (2, 2, 2, 2), (1, 1, 1, 1, 1, 1, 1, 1), (4, 2, 2), (2, 4, 2),
)  # fmt: skip
"""GPUs of the pods on each of eight nodes."""


def test_on_eight_full_nodes_the_winner_of_two_whole_nodes_costs_the_fewest_pods() -> None:
    """The case in which Volcano 1.15.1 loses 20 to 23 pods."""
    running = [single_pod_gang(f"g{n}-{i}", n, gpu=gpu) for n, at in enumerate(MEASURED) for i, gpu in enumerate(at)]
    world = contested(8, *running, asks=2)
    assert sum(evicted_pods_by_gang(world).values()) == 5
    loss = next(o for batch in verified_plan(world).batches for o in batch.objectives if o.name == "loss")
    assert (loss.value, loss.bound, loss.verdict) == (300, 300, "proven")


# --- several winners


def rivals(*, second: int | None = 100) -> Problem:
    """Two supernodes of two nodes; `first` needs any node, `pair` a whole supernode. Gang by gang `first` takes the
    cheap node of the cheap supernode, 10, and `pair` has to pay the other one, 11 + 100. Together: 11 for `first`, 10 +
    10 for `pair`."""
    return problem(
        nodes(2, leaf="s0", gpu=8),
        nodes(2, leaf="s1", gpu=8),
        *(single_pod_gang(f"g{n}", n, loss=loss) for n, loss in enumerate((10, 10, 11, second))),
        gang("first", role(1, gpu=8), priority=10),
        gang("pair", role(2, gpu=8), priority=10, topology=hard_topology(1)),
        hypernodes=TREE,
        preempt_enabled=True,
    )


def loss_of(world: Problem, options: Options) -> int:
    plan = solve(world, options)
    assert verify(world, plan) == []
    return sum(world.gangs[d.gang].eviction.loss * p.pods for d in plan.decisions for p in d.evicted_pods)


def test_the_first_winner_leaves_the_second_what_is_dear_without_it() -> None:
    assert loss_of(rivals(), Options(budget=Budget(preemptor_variables=0))) == 121
    assert loss_of(rivals(), Options()) == 31
    plan = solve(rivals())
    assert [d.evicted_for for d in plan.decisions[:4]] == [(5,), (5,), (4,), ()]
    loss = next(o for batch in plan.batches for o in batch.objectives if o.name == "loss")
    assert (loss.value, loss.bound, loss.verdict) == (31, 31, "proven")


# --- surplus and minima


@pytest.mark.parametrize("first", ["elastic", "whole"])
@pytest.mark.parametrize(("loss", "gone"), [(60, "elastic"), (59, "whole"), (61, "elastic")])
def test_of_equal_losses_surplus_pods_are_evicted_before_a_whole_gang_in_any_order_of_the_gangs(
    first: str, loss: int, gone: str
) -> None:
    """A smaller loss comes before that: 59 seconds of a gang that goes whole are less than 60 of a surplus pod."""
    elastic = gang(
        "elastic", role(2, minimum=1, gpu=8), running=(running_pods(0, 0, 1), running_pods(0, 1, 1)), loss=60
    )
    listed = [elastic, single_pod_gang("whole", 2, loss=loss)]
    world = contested(3, *(listed if first == "elastic" else listed[::-1]))
    assert evicted_pods_by_gang(world) == {gone: 1}
    objectives = {
        o.name: (o.value, o.bound, o.verdict) for batch in verified_plan(world).batches for o in batch.objectives
    }
    assert objectives["whole gangs"] == (gone == "whole", gone == "whole", "proven")


def test_in_a_large_cluster_the_node_with_surplus_is_looked_at_too() -> None:
    """More nodes that are as cheap than the first model has."""
    singles = [single_pod_gang(f"g{n}", n) for n in range(120)]
    elastic = gang(
        "elastic", role(2, minimum=1, gpu=8), running=(running_pods(0, 120, 1), running_pods(0, 121, 1)), loss=60
    )
    world = contested(122, *singles, elastic)
    assert evicted_pods_by_gang(world) == {"elastic": 1}


def test_a_gang_of_minimum_0_that_loses_its_last_pod_goes_whole() -> None:
    nothing = gang("nothing", role(1, minimum=0, gpu=8), minimum=0, running=(running_pods(0, 0, 1),), loss=60)
    assert actions_by_gang(contested(1, nothing)) == {"nothing": "evict", "winner": "start"}
    elastic = gang(
        "elastic", role(2, minimum=1, gpu=8), running=(running_pods(0, 1, 1), running_pods(0, 2, 1)), loss=60
    )
    assert evicted_pods_by_gang(contested(3, nothing, elastic)) == {"elastic": 1}


def test_a_plan_that_takes_single_pods_of_a_group_is_refused() -> None:
    elastic = gang("set", role(4, minimum=2, gpu=4), running=(running_pods(0, 0, 2), running_pods(0, 1, 2)), loss=10)
    world = contested(2, elastic)
    made = verified_plan(world)
    world = replace(world, gangs=(replace(world.gangs[0], growth_unit=(2,)), *world.gangs[1:]))
    assert "evictions" in {violation.rule for violation in verify(world, made)}


# --- who may


@pytest.mark.parametrize("priority", [10, 11])
def test_no_gang_of_equal_or_higher_priority_goes(priority: int) -> None:
    world = contested(1, single_pod_gang("running", 0, priority=priority))
    assert actions_by_gang(world) == {"running": "keep", "winner": "wait"}


# --- topology

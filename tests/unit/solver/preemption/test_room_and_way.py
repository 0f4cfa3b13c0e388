"""Evictions that open an anti-affinity, and places that those before a preemptor leave it."""

from __future__ import annotations

import pytest

from solver.problem import Problem
from tests.builders.plans import actions_by_gang
from tests.builders.problems import (
    RoleSpec,
    gang,
    hard_topology,
    nodes,
    pod_rule,
    problem,
    role,
    running_pods,
    single_pod_gang,
)


def apart(gpu: int) -> RoleSpec:
    """One pod that keeps its like away."""
    return role(1, owned_rules=(0,), selecting_rules=(0,), gpu=gpu)


@pytest.mark.parametrize("owner", ["runs", "waits"])
def test_the_pod_that_keeps_a_full_node_closed_goes_though_another_loses_less(owner: str) -> None:
    owned, selected = role(1, owned_rules=(0,), gpu=4), role(1, selecting_rules=(0,), gpu=4)
    runs, waits = (owned, selected) if owner == "runs" else (selected, owned)
    world = problem(
        nodes(1, gpu=8),
        gang("closes", runs, running=(running_pods(0, 0, 1),), loss=50),
        single_pod_gang("beside", 0, gpu=4, loss=5),
        gang("winner", waits, priority=10),
        preempt_enabled=True,
        pod_rules=(pod_rule("anti-affinity", (0,)),),
    )
    assert actions_by_gang(world) == {"closes": "evict", "beside": "keep", "winner": "start"}


@pytest.mark.parametrize(("elsewhere", "goes"), [(90, {"one", "other"}), (10, {"elsewhere"})])
def test_all_pods_in_the_way_go_from_all_nodes_of_a_domain(elsewhere: int, goes: set[str]) -> None:
    world = problem(
        nodes(3, gpu=8),
        gang("one", apart(8), running=(running_pods(0, 0, 1),), loss=9),
        gang("other", role(1, selecting_rules=(0,), gpu=8), running=(running_pods(0, 1, 1),), loss=9),
        single_pod_gang("elsewhere", 2, loss=elsewhere),
        gang("winner", apart(8), priority=10),
        preempt_enabled=True,
        pod_rules=(pod_rule("anti-affinity", (0, 0, 1)),),
    )
    assert {name for name, action in actions_by_gang(world).items() if action == "evict"} == goes


def closed(gpu: int) -> Problem:
    """A node on which a pod runs that keeps the one that waits away."""
    return problem(
        nodes(1, gpu=gpu),
        gang("runs", apart(1), running=(running_pods(0, 0, 1),), loss=9),
        gang("waits", apart(1), priority=10),
        preempt_enabled=True,
        pod_rules=(pod_rule("anti-affinity", (0,)),),
    )


def test_who_lacks_no_room_evicts_nobody_for_its_anti_affinity() -> None:
    assert actions_by_gang(closed(gpu=2)) == {"runs": "keep", "waits": "wait"}
    assert actions_by_gang(closed(gpu=1)) == {"runs": "evict", "waits": "start"}


def test_who_started_in_leftovers_makes_way_for_the_next_that_one_node_alone_can_hold() -> None:
    """All three borrow, so that they are decided in turn; only the second node has CPUs."""
    world = problem(
        nodes(1, cpu=0, gpu=4),
        nodes(1, cpu=4, gpu=4),
        gang("runs", role(2, gpu=4), running=(running_pods(0, 0, 1), running_pods(0, 1, 1)), loss=1),
        gang("small", role(1, gpu=1), priority=1),
        gang("whole", role(1, gpu=4), priority=1),
        gang("cpu", role(1, cpu=1, gpu=1), priority=1),
        preempt_enabled=True,
    )
    assert actions_by_gang(world) == {"runs": "evict", "small": "start", "whole": "start", "cpu": "start"}


@pytest.mark.parametrize(("confined", "goes"), [(True, {"first"}), (False, set[str]())])
def test_who_lacks_room_inside_its_domain_only_opens_the_one_where_it_does(confined: bool, goes: set[str]) -> None:
    """Two pods of 4 that must be in one supernode. The first lacks room and is closed, the second is only closed, at
    less loss; in both together there is room for the two."""
    one = role(1, selecting_rules=(0,), gpu=2)
    world = problem(
        nodes(1, leaf="s0", gpu=8),
        nodes(1, leaf="s1", gpu=10),
        gang("first", role(1, selecting_rules=(0,), gpu=6), running=(running_pods(0, 0, 1),), loss=9),
        gang("second", one, running=(running_pods(0, 1, 1),), loss=1),
        gang("winner", role(2, owned_rules=(0,), gpu=4), priority=10, topology=hard_topology(1) if confined else None),
        preempt_enabled=True,
        pod_rules=(pod_rule("anti-affinity", (0, 1)),),
        hypernodes={"s0": (1, None), "s1": (1, None)},
    )
    assert {name for name, action in actions_by_gang(world).items() if action == "evict"} == goes

"""Node groups that are closed to a queue: where its gangs start, why they wait, and what would help."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solver import solve
from solver.facts import ClosedNodeGroups, EligibleNodeShortage, NoEligibleNode, ResourceShortage
from solver.plan import Decision
from solver.problem import Problem
from solver.repairs import MoreNodeClasses, OpenNodeGroups, OtherQueue
from solver.verify import verify
from tests.builders.problems import GangSpec, NodeSpec, QueueSpec, gang, nodes, problem, queue, role, running_pods

HOME = queue("home", closed_node_groups=(0, 2, 3))
MACHINES = (
    nodes(1, gpu=8),
    nodes(2, gpu=8, node_group=1),
    nodes(1, gpu=8, node_group=2),
    nodes(2, gpu=8, node_group=3),
)


def world(*things: list[NodeSpec] | QueueSpec | GangSpec) -> Problem:
    return problem(*MACHINES, *things, node_groups=("", "one", "two", "three"))


def decide(made: Problem, name: str = "asks") -> Decision:
    plan = solve(made)
    assert verify(made, plan) == []
    return next(d for d in plan.decisions if made.gangs[d.gang].name == name)


def asks(pods: int, node_class: int = 0) -> GangSpec:
    return gang("asks", role(pods, gpu=8, node_classes=(node_class,)), queue="home")


def test_a_gang_starts_in_the_groups_that_are_open_to_its_queue() -> None:
    placed = decide(world(HOME, asks(2))).placements
    assert {p.node for p in placed} == {1, 2}


def test_what_runs_in_a_closed_group_stays() -> None:
    made = world(HOME, gang("asks", role(1, gpu=8), queue="home", running=(running_pods(0, 0, 1),)))
    assert decide(made).action == "keep"


@pytest.mark.parametrize(("pods", "groups", "repair"), [(3, (2,), (2,)), (4, (2, 3), (3,)), (5, (2, 3), (2, 3))])
def test_a_gang_too_large_for_them_is_told_the_groups_that_it_lacks(
    pods: int, groups: tuple[int, ...], repair: tuple[int, ...]
) -> None:
    """One group is named where one is enough, the first; the least repair is a single group where there is one."""
    decision = decide(world(HOME, asks(pods)))
    (fact,) = decision.facts
    assert fact == ClosedNodeGroups(0, groups if pods == 5 else repair, never=True)
    assert OpenNodeGroups(0, repair) in decision.repairs


def test_nodes_without_a_group_are_named_last_and_no_queue_can_open_them() -> None:
    decision = decide(world(HOME, asks(6)))
    assert decision.facts == (ClosedNodeGroups(0, (2, 3, 0), never=True),)
    assert not [repair for repair in decision.repairs if isinstance(repair, OpenNodeGroups)]


def test_a_queue_without_affinity_loses_the_nodes_without_a_group_when_it_names_one() -> None:
    bare = queue("home", closed_node_groups=(1, 2, 3))
    decision = decide(world(bare, asks(3)))
    assert decision.facts == (ClosedNodeGroups(0, (1,), never=True),)
    assert [r for r in decision.repairs if isinstance(r, OpenNodeGroups)] == [OpenNodeGroups(0, (1, 2, 3))]


def test_a_gang_that_waits_for_room_in_its_groups_is_told_of_that() -> None:
    busy = gang("busy", role(2, gpu=8), queue="home", running=(running_pods(0, 1, 1), running_pods(0, 2, 1)))
    decision = decide(world(HOME, busy, asks(2)))
    assert [type(fact) for fact in decision.facts] == [ResourceShortage]
    assert OpenNodeGroups(0, (3,)) in decision.repairs


def test_a_selector_and_a_closed_group_are_told_apart() -> None:
    """Nodes of another class: closed ones are no repair of the selector; a selector that matches closed nodes only is
    not said to match none."""
    other = (nodes(1, gpu=8, node_class=1), nodes(1, gpu=8, node_class=1, node_group=2))
    typo = decide(world(*other, HOME, asks(1, node_class=7)))
    assert typo.facts == (NoEligibleNode(0, never=True),)
    assert all(r.node in (1, 2) for r in typo.repairs if isinstance(r, MoreNodeClasses))
    closed = decide(world(*other, HOME, asks(1, node_class=1)))
    assert closed.facts == (ClosedNodeGroups(0, (2,), never=True),)
    both = decide(world(*other, HOME, asks(3, node_class=1)))
    assert {type(fact) for fact in both.facts} == {ClosedNodeGroups, EligibleNodeShortage}


def test_an_owner_s_queue_that_may_use_less_is_no_repair() -> None:
    """A dedicated domain in a group that the owner's queue may not use: moving the gang there would not help."""
    tree = {"s0": (1, None)}
    for closed, offered in (((0, 2), True), ((0, 1), False)):
        made = problem(
            nodes(1, gpu=8, node_group=1, leaf="s0"),
            queue("home", closed_node_groups=(0, 2)),
            queue("owner", dedicated_domains=("s0",), closed_node_groups=closed),
            asks(1),
            hypernodes=tree,
            node_groups=("", "one", "two"),
        )
        assert any(isinstance(repair, OtherQueue) for repair in decide(made).repairs) is offered


def test_an_exclusion_by_time_and_a_closed_group_go_together() -> None:
    made = world(HOME, asks(2))
    closing = tuple(replace(n, maintenance_in=5) if n.node_group == 1 else n for n in made.nodes)
    decision = decide(replace(made, nodes=closing))
    assert decision.action == "wait"
    assert "GW116" in {fact.code for fact in decision.facts}

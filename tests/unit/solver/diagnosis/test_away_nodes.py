"""Why a gang waits while nodes are away."""

from __future__ import annotations

from dataclasses import replace

from solver import solve
from solver.facts import AwayNodes, NoEligibleNode
from solver.problem import Problem, ReturningNode
from solver.repairs import MoreNodeClasses, ReturnOfNodes
from solver.verify import verify
from tests.builders.problems import gang, nodes, problem, queue, role, running_pods
from tests.unit.solver.diagnosis.test_reasons import CAPACITY, decision


def away(world: Problem, *names: int) -> Problem:
    """The same world, some of its nodes not ready: they take nothing, and are of a kind that is open to nobody."""
    nothing = (0,) * len(world.resources)
    gone = {
        n: replace(
            node,
            node_class=99,
            capacity=nothing,
            free=nothing,
            returning=ReturningNode(node.node_class, node.capacity, node.free),
        )
        for n, node in enumerate(world.nodes)
    }
    return replace(world, nodes=tuple(gone[n] if n in names else node for n, node in enumerate(world.nodes)))


def test_a_node_that_is_away_for_now_makes_nothing_impossible() -> None:
    world = away(problem(nodes(4, gpu=8), gang("asks", role(3, gpu=8))), 1, 2)
    waits = decision(world)
    assert waits.facts == (AwayNodes(nodes=(1,)),)
    assert ReturnOfNodes(nodes=(1,)) in waits.repairs


def test_a_node_that_is_cordoned_is_no_other_kind_of_node() -> None:
    """It keeps its capacity, so that pods that tolerate the cordon run there; the owner of a job cannot open it."""
    world = problem(nodes(2, gpu=8), gang("asks", role(2, gpu=8)))
    here, there = world.nodes
    back = ReturningNode(there.node_class, there.capacity, there.free)
    world = replace(world, nodes=(here, replace(there, node_class=99, returning=back)))
    plan = solve(world)
    (waits,) = plan.decisions
    assert waits.facts == (AwayNodes(nodes=(1,)),)
    assert [repair.code for repair in waits.repairs] == ["GR116", "GR105"]
    opened = replace(plan, decisions=(replace(waits, repairs=(MoreNodeClasses(0, 1),)),))
    assert (verify(world, plan), [each.rule for each in verify(world, opened)]) == ([], ["reasons"])


def test_a_selector_is_blamed_together_with_nodes_that_are_away_and_of_their_own_kind() -> None:
    world = away(problem(nodes(1, gpu=8, node_class=1), nodes(1, gpu=8, node_class=2), gang("asks", role(2, gpu=8))), 1)
    assert decision(world).facts == (NoEligibleNode(role=0, never=True), AwayNodes(nodes=(1,)))


def test_what_does_not_fit_with_all_nodes_back_never_fits() -> None:
    world = away(problem(nodes(4, gpu=8), gang("asks", role(5, gpu=8))), 1)
    assert [(fact.code, fact.never) for fact in decision(world).facts] == [("GW108", True)]


def test_what_others_are_guaranteed_is_blamed_only_where_the_nodes_that_are_away_do_not_hold_it() -> None:
    """With a second node of 8 back there are 16 for 16 that are asked and 8 that are kept, with one of 16 there are
    24."""
    queues = queue("safe", guarantee={"gpu": 8}), queue("q")
    asks = gang("asks", role(2, gpu=8), queue="q")
    small = away(problem(nodes(3, gpu=8), *queues, asks), 1, 2)
    assert [fact.code for fact in decision(small).facts] == ["GW106", "GW122"]
    large = away(problem(nodes(1, gpu=8), nodes(1, gpu=16), *queues, asks), 1)
    assert [fact.code for fact in decision(large).facts] == ["GW122"]
    assert [fact.code for fact in decision(replace(large, policy=CAPACITY)).facts] == ["GW122"]


def test_nodes_that_are_away_are_not_blamed_where_others_go_first() -> None:
    world = away(problem(nodes(4, gpu=8), gang("urgent", role(2, gpu=8), priority=1), gang("asks", role(2, gpu=8))), 3)
    assert [fact.code for fact in decision(world).facts] == ["GW105"]


def test_a_node_that_comes_back_stays_ineligible_after_node_classes_are_renumbered() -> None:
    """The first node closes, so that the second, which is full, becomes of kind 1, as the third one was, which is open
    to nobody."""
    world = problem(
        nodes(1, gpu=8, maintenance_in=9),
        nodes(1, gpu=8),
        nodes(1, gpu=8, node_class=1),
        gang("runs", role(1, gpu=8), running=(running_pods(0, 1, 1),), ends_in=5),
        gang("asks", role(1, gpu=8)),
    )
    waits = decision(away(world, 2))
    assert [fact.code for fact in waits.facts] == ["GW116"]
    assert "GR116" not in {repair.code for repair in waits.repairs}

"""What the solver decides, in stories. Relations are asserted, not node names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solver import InvalidProblemError, Options, solve
from solver.facts import (
    CapabilityLimit,
    DomainShortage,
    Fragmentation,
    NoEligibleNode,
    OversizedGang,
    OversizedPod,
    PrecedingGangs,
    ResourceShortage,
    Shortage,
    SubgroupShortage,
)
from solver.options import Budget
from solver.problem import Policy, Problem
from solver.repairs import FewerPods, HigherTier
from tests.builders.plans import facts_of, repairs_of, starting_gangs, verified_plan
from tests.builders.problems import (
    gang,
    hard_topology,
    nodes,
    problem,
    queue,
    role,
    running_pods,
    soft_topology,
    subgroup,
    supernodes,
)


def pods(world: Problem, name: str) -> int:
    return sum(p.pods for d in verified_plan(world).decisions if world.gangs[d.gang].name == name for p in d.placements)


def leaves(world: Problem, name: str) -> int:
    return next(len(d.domains) for d in verified_plan(world).decisions if world.gangs[d.gang].name == name)


# --- gangs


def test_of_two_gangs_where_one_fits_one_starts_whole_and_the_other_waits_whole() -> None:
    world = problem(nodes(4, gpu=1), gang("a", role(4, gpu=1)), gang("b", role(4, gpu=1)))
    assert starting_gangs(world) == {"a"}
    assert pods(world, "b") == 0
    assert facts_of(world, "b") == (PrecedingGangs(asked=4, available=0, gangs=(0,)),)


def test_a_gang_waits_whole_when_one_pod_does_not_fit() -> None:
    world = problem(nodes(4, gpu=8), gang("a", role(5, gpu=8)))
    assert facts_of(world, "a") == (OversizedGang(asked=40, available=32, resource=0, never=True),)


def test_the_minimum_of_the_gang_may_be_met_by_any_role() -> None:
    world = problem(nodes(1, gpu=5), gang("a", role(1, minimum=0, gpu=4), role(5, minimum=0, gpu=1), minimum=5))
    assert starting_gangs(world) == {"a"}


def test_a_gang_that_lost_a_node_is_completed_beside_the_pods_that_still_run() -> None:
    world = supernodes(
        gang("a", role(4, gpu=8), topology=hard_topology(1), running=(running_pods(0, 5, 1), running_pods(0, 6, 1))),
        gang("b", role(2, gpu=8), topology=hard_topology(1)),
    )
    assert starting_gangs(world) == {"a", "b"}
    assert leaves(world, "a") == 1


def test_the_more_important_gang_starts_although_it_came_last() -> None:
    assert starting_gangs(
        problem(nodes(1, gpu=8), gang("old", role(1, gpu=8)), gang("urgent", role(1, gpu=8), priority=10))
    ) == {"urgent"}


def test_two_small_gangs_do_not_keep_out_a_more_important_large_one() -> None:
    world = problem(
        nodes(2, gpu=8), gang("x", role(1, gpu=8)), gang("y", role(1, gpu=8)), gang("large", role(2, gpu=8), priority=1)
    )
    assert starting_gangs(world) == {"large"}


# --- nodes


def test_pods_that_fit_by_their_sum_but_not_by_node_wait() -> None:
    world = problem(nodes(2, gpu=6), gang("a", role(3, gpu=4)))
    assert facts_of(world, "a") == (
        Fragmentation(asked=3, available=2, role=0, scarce=0, pieces=((6, 2),), never=True),
    )


def test_sizes_that_do_not_divide_one_another_are_packed_exactly() -> None:
    # By sums 3+3+2 and 4+4 fill two nodes of 8; largest first puts 4 and 3 together and is stuck.
    world = problem(nodes(2, gpu=8), gang("a", role(2, gpu=4), role(2, gpu=3), role(1, gpu=2)))
    assert starting_gangs(world) == {"a"}


def test_two_resources_that_only_together_do_not_pack_are_seen_through() -> None:
    # Each resource alone fits (8 of 8), but the pod with much cpu and the pod with much memory need different
    # neighbours.
    lopsided = problem(nodes(2, cpu=4, memory=4), gang("a", role(2, cpu=3, memory=2), role(1, cpu=2, memory=3)))
    assert facts_of(lopsided, "a")[0].never
    balanced = problem(nodes(2, cpu=5, memory=5), gang("a", role(2, cpu=3, memory=2), role(1, cpu=2, memory=3)))
    assert starting_gangs(balanced) == {"a"}


def test_foreign_pods_and_other_kinds_of_nodes_are_no_room() -> None:
    world = problem(nodes(1, gpu=8, free={"gpu": 4}), nodes(4, gpu=8, node_class=1), gang("a", role(1, gpu=8)))
    assert facts_of(world, "a") == (ResourceShortage(asked=8, available=4, resource=0, role=0),)
    assert facts_of(problem(nodes(1, gpu=8), gang("a", role(1, gpu=8, node_classes=(7,)))), "a") == (
        NoEligibleNode(role=0, never=True),
    )
    assert facts_of(problem(nodes(1, gpu=8), gang("a", role(1, gpu=9))), "a") == (
        OversizedPod(asked=9, available=8, role=0, resource=0, never=True),
    )


# --- topology


def test_a_hard_gang_gets_one_supernode_although_the_cluster_has_scattered_room() -> None:
    small = [gang(f"small-{i}", role(1, gpu=8), running=(running_pods(0, i, 1),)) for i in range(2)]
    world = supernodes(*small, gang("a", role(4, gpu=8), topology=hard_topology(1)))
    assert starting_gangs(world) == {"a"}
    assert leaves(world, "a") == 1


def test_small_gangs_make_way_inside_one_plan_so_that_a_hard_gang_fits() -> None:
    # A greedy that starts with the first gang fills any supernode; the model keeps one whole for the gang that needs
    # it.
    fillers = [gang(f"f{i}", role(1, gpu=8)) for i in range(4)]
    world = supernodes(*fillers, gang("whole", role(4, gpu=8), topology=hard_topology(1)))
    assert starting_gangs(world) == {"f0", "f1", "f2", "f3", "whole"}


def test_a_hard_gang_larger_than_any_supernode_never_starts_and_a_higher_tier_would_help() -> None:
    world = supernodes(gang("a", role(5, gpu=8), topology=hard_topology(1)))
    assert facts_of(world, "a") == (DomainShortage(asked=5, available=4, tier=1, hypernode=0, never=True),)
    assert repairs_of(world, "a") == (HigherTier(tier=2), FewerPods(role=0, amount=4, current_amount=5))


def test_a_soft_gang_is_kept_together_where_that_is_possible_and_spread_where_not() -> None:
    assert leaves(supernodes(gang("a", role(4, gpu=8), topology=soft_topology(1))), "a") == 1
    assert leaves(supernodes(gang("a", role(5, gpu=8), topology=soft_topology(1))), "a") == 2


def test_a_tier_above_the_tree_means_the_whole_cluster() -> None:
    world = problem(
        nodes(1, leaf="s0", gpu=8),
        nodes(1, gpu=8),
        gang("a", role(2, gpu=8), topology=hard_topology(2)),
        hypernodes={"s0": (1, None)},
    )
    assert starting_gangs(world) == {"a"}


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


def test_subgroups_that_no_supernode_holds_are_named() -> None:
    world = supernodes(gang("a", role(5, gpu=8), subgroups=(subgroup(5),)))
    assert facts_of(world, "a") == (SubgroupShortage(subgroup=0, tier=1, asked=1, available=0, limit=5, never=True),)


# --- growth, and what runs


def test_an_elastic_gang_starts_with_its_minimum_and_grows_into_what_is_left() -> None:
    world = supernodes(gang("elastic", role(6, minimum=2, gpu=8)), gang("other", role(4, gpu=8)))
    assert starting_gangs(world) == {"elastic", "other"}
    assert pods(world, "elastic") == 4


def test_growth_is_for_the_queue_that_has_less() -> None:
    gangs = [gang(q, role(8, minimum=1, gpu=1), queue=q) for q in "ab"]
    world = problem(nodes(1, gpu=10), queue("a", used={"gpu": 2}), queue("b"), *gangs)
    assert (pods(world, "a"), pods(world, "b")) == (4, 6)


def test_growth_stays_with_the_gang() -> None:
    world = supernodes(gang("elastic", role(4, minimum=1, gpu=8)))
    assert leaves(world, "elastic") == 1


def test_what_runs_stays_where_it_is() -> None:
    placed = (running_pods(0, 1, 1), running_pods(0, 6, 1))
    world = supernodes(
        gang("running", role(2, gpu=8), running=placed), gang("new", role(2, gpu=8), topology=hard_topology(1))
    )
    plan = verified_plan(world)
    assert plan.decisions[0].action == "keep"
    assert plan.decisions[0].placements == placed


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


def test_a_part_that_lost_a_pod_is_completed() -> None:
    world = supernodes(gang("a", role(4, gpu=1), subgroups=(subgroup(2),), running=(running_pods(0, 0, 1),)))
    assert starting_gangs(world) == {"a"}


def test_a_gang_bound_tighter_than_its_subgroups_is_not_said_to_fit_never() -> None:
    world = supernodes(
        queue("q", used={"gpu": 64}, capability={"gpu": 64}),
        gang("a", role(2, gpu=1), queue="q", topology=hard_topology(1), subgroups=(subgroup(2, tier=2),)),
    )
    assert facts_of(world, "a") == (CapabilityLimit(asked=2, available=0, queue=0, resource=0, limit=64),)


def test_an_order_in_which_the_gangs_do_not_fit_does_not_lose_the_one_in_which_they_do() -> None:
    # The pair is larger and would be placed first, on the only node that the single pod may use.
    room = (nodes(1, cpu=7, gpu=8, node_class=1), nodes(1, cpu=1, gpu=4))
    world = problem(
        *room,
        gang("single", role(1, cpu=1)),
        gang("pair", role(2, cpu=1, gpu=1, node_classes=(0, 1)), topology=soft_topology(1)),
    )
    assert starting_gangs(world) == {"single", "pair"}


def test_without_nodes_every_gang_waits() -> None:
    made = solve(problem(gang("a", role(2, gpu=1)), gang("b", role(1, gpu=1))))
    assert [(decision.action, [fact.code for fact in decision.facts]) for decision in made.decisions] == [
        ("wait", ["GW107"])
    ] * 2


def test_a_minimum_that_is_no_multiple_of_its_parts_is_rounded_up_to_whole_ones() -> None:
    world = problem(
        nodes(2, gpu=4),
        gang("a", role(8, minimum=4, gpu=1), minimum=5, subgroups=(subgroup(4, minimum=1, mode="soft"),)),
    )
    assert starting_gangs(world) == {"a"}
    assert pods(world, "a") == 8


def test_a_part_across_roles_counts_beside_a_role_of_its_own() -> None:
    both = subgroup(3, minimum=2, mode="soft", roles=(1, 2))
    world = problem(
        nodes(1, gpu=8),
        gang(
            "a", role(1, minimum=0), role(4, minimum=0, gpu=1), role(2, minimum=0, gpu=1), minimum=1, subgroups=(both,)
        ),
    )
    assert starting_gangs(world) == {"a"}
    assert pods(world, "a") == 7


def test_the_mix_of_roles_that_was_admitted_is_the_one_that_is_placed() -> None:
    # Each of a and c may be made of cheap pods; a plan that counts the cheap ones and places the dear ones would break
    # the capability.
    world = problem(
        nodes(4, cpu=64, gpu=8),
        queue("q", capability={"gpu": 5}),
        gang("a", role(1, minimum=0, cpu=1, gpu=3), role(1, minimum=0, cpu=1), queue="q", minimum=1),
        gang("b", role(1, cpu=1, gpu=4), queue="q"),
        gang("c", role(1, minimum=0, cpu=1, gpu=1), role(4, minimum=0, cpu=1), queue="q", minimum=5),
    )
    assert starting_gangs(world) == {"a", "b", "c"}


def test_a_shortage_never_asks_for_less_than_there_is() -> None:
    world = problem(nodes(1, gpu=2), gang("a", role(1, minimum=0, node_classes=(2,)), minimum=1))
    for fact in facts_of(world, "a"):
        assert not isinstance(fact, Shortage) or fact.asked > fact.available


def test_large_growth_is_taken_in_strides() -> None:
    world = problem(nodes(50, cpu=100), gang("a", role(20_000, minimum=1, cpu=1)))
    assert pods(world, "a") == 5_000

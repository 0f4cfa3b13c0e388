"""What the solver decides, in stories. Relations are asserted, not node names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solver import InvalidProblemError, Options, solve
from solver.facts import (
    CapabilityLimit,
    DomainShortage,
    Fact,
    Fragmentation,
    GuaranteeReserve,
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
from solver.repairs import FewerPods, HigherPriority, HigherTier, MoreCapability, Repair
from solver.semantics.placement_cost import COST_NAMES
from tests.builders.plans import verified_plan
from tests.builders.problems import (
    GangSpec,
    NodeSpec,
    QueueSpec,
    gang,
    hard_topology,
    nodes,
    problem,
    queue,
    role,
    running_pods,
    soft_topology,
    subgroup,
)

TREE = {"s0": (1, "spine"), "s1": (1, "spine"), "spine": (2, None)}


def supernodes(*things: list[NodeSpec] | QueueSpec | GangSpec) -> Problem:
    """Two supernodes of four nodes with 8 GPUs each, under one spine."""
    return problem(nodes(4, leaf="s0", gpu=8), nodes(4, leaf="s1", gpu=8), *things, hypernodes=TREE)


def starting(world: Problem, options: Options | None = None) -> set[str]:
    return {world.gangs[d.gang].name for d in verified_plan(world, options).decisions if d.action == "start"}


def facts(world: Problem, name: str) -> tuple[Fact, ...]:
    return next(d.facts for d in verified_plan(world).decisions if world.gangs[d.gang].name == name)


def repairs(world: Problem, name: str) -> tuple[Repair, ...]:
    return next(d.repairs for d in verified_plan(world).decisions if world.gangs[d.gang].name == name)


def pods(world: Problem, name: str) -> int:
    return sum(p.pods for d in verified_plan(world).decisions if world.gangs[d.gang].name == name for p in d.placements)


def leaves(world: Problem, name: str) -> int:
    return next(len(d.domains) for d in verified_plan(world).decisions if world.gangs[d.gang].name == name)


# --- gangs


def test_of_two_gangs_where_one_fits_one_starts_whole_and_the_other_waits_whole() -> None:
    world = problem(nodes(4, gpu=1), gang("a", role(4, gpu=1)), gang("b", role(4, gpu=1)))
    assert starting(world) == {"a"}
    assert pods(world, "b") == 0
    assert facts(world, "b") == (PrecedingGangs(asked=4, available=0, gangs=(0,)),)


def test_a_gang_waits_whole_when_one_pod_does_not_fit() -> None:
    world = problem(nodes(4, gpu=8), gang("a", role(5, gpu=8)))
    assert facts(world, "a") == (OversizedGang(asked=40, available=32, resource=0, never=True),)


def test_the_minimum_of_the_gang_may_be_met_by_any_role() -> None:
    world = problem(nodes(1, gpu=5), gang("a", role(1, minimum=0, gpu=4), role(5, minimum=0, gpu=1), minimum=5))
    assert starting(world) == {"a"}


def test_a_gang_that_lost_a_node_is_completed_beside_the_pods_that_still_run() -> None:
    world = supernodes(
        gang("a", role(4, gpu=8), topology=hard_topology(1), running=(running_pods(0, 5, 1), running_pods(0, 6, 1))),
        gang("b", role(2, gpu=8), topology=hard_topology(1)),
    )
    assert starting(world) == {"a", "b"}
    assert leaves(world, "a") == 1


def test_the_more_important_gang_starts_although_it_came_last() -> None:
    assert starting(
        problem(nodes(1, gpu=8), gang("old", role(1, gpu=8)), gang("urgent", role(1, gpu=8), priority=10))
    ) == {"urgent"}


def test_two_small_gangs_do_not_keep_out_a_more_important_large_one() -> None:
    world = problem(
        nodes(2, gpu=8), gang("x", role(1, gpu=8)), gang("y", role(1, gpu=8)), gang("large", role(2, gpu=8), priority=1)
    )
    assert starting(world) == {"large"}


# --- nodes


def test_pods_that_fit_by_their_sum_but_not_by_node_wait() -> None:
    world = problem(nodes(2, gpu=6), gang("a", role(3, gpu=4)))
    assert facts(world, "a") == (Fragmentation(asked=3, available=2, role=0, scarce=0, pieces=((6, 2),), never=True),)


def test_sizes_that_do_not_divide_one_another_are_packed_exactly() -> None:
    # By sums 3+3+2 and 4+4 fill two nodes of 8; largest first puts 4 and 3 together and is stuck.
    world = problem(nodes(2, gpu=8), gang("a", role(2, gpu=4), role(2, gpu=3), role(1, gpu=2)))
    assert starting(world) == {"a"}


def test_two_resources_that_only_together_do_not_pack_are_seen_through() -> None:
    # Each resource alone fits (8 of 8), but the pod with much cpu and the pod with much memory need different
    # neighbours.
    lopsided = problem(nodes(2, cpu=4, memory=4), gang("a", role(2, cpu=3, memory=2), role(1, cpu=2, memory=3)))
    assert facts(lopsided, "a")[0].never
    balanced = problem(nodes(2, cpu=5, memory=5), gang("a", role(2, cpu=3, memory=2), role(1, cpu=2, memory=3)))
    assert starting(balanced) == {"a"}


def test_foreign_pods_and_other_kinds_of_nodes_are_no_room() -> None:
    world = problem(nodes(1, gpu=8, free={"gpu": 4}), nodes(4, gpu=8, node_class=1), gang("a", role(1, gpu=8)))
    assert facts(world, "a") == (ResourceShortage(asked=8, available=4, resource=0, role=0),)
    assert facts(problem(nodes(1, gpu=8), gang("a", role(1, gpu=8, node_classes=(7,)))), "a") == (
        NoEligibleNode(role=0, never=True),
    )
    assert facts(problem(nodes(1, gpu=8), gang("a", role(1, gpu=9))), "a") == (
        OversizedPod(asked=9, available=8, role=0, resource=0, never=True),
    )


# --- topology


def test_a_hard_gang_gets_one_supernode_although_the_cluster_has_scattered_room() -> None:
    small = [gang(f"small-{i}", role(1, gpu=8), running=(running_pods(0, i, 1),)) for i in range(2)]
    world = supernodes(*small, gang("a", role(4, gpu=8), topology=hard_topology(1)))
    assert starting(world) == {"a"}
    assert leaves(world, "a") == 1


def test_small_gangs_make_way_inside_one_plan_so_that_a_hard_gang_fits() -> None:
    # A greedy that starts with the first gang fills any supernode; the model keeps one whole for the gang that needs
    # it.
    fillers = [gang(f"f{i}", role(1, gpu=8)) for i in range(4)]
    world = supernodes(*fillers, gang("whole", role(4, gpu=8), topology=hard_topology(1)))
    assert starting(world) == {"f0", "f1", "f2", "f3", "whole"}


def test_a_hard_gang_larger_than_any_supernode_never_starts_and_a_higher_tier_would_help() -> None:
    world = supernodes(gang("a", role(5, gpu=8), topology=hard_topology(1)))
    assert facts(world, "a") == (DomainShortage(asked=5, available=4, tier=1, hypernode=0, never=True),)
    assert repairs(world, "a") == (HigherTier(tier=2), FewerPods(role=0, amount=4, current_amount=5))


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
    assert starting(world) == {"a"}


def test_subgroups_stay_whole_inside_a_supernode() -> None:
    taken = gang("taken", role(1, gpu=8), running=(running_pods(0, 0, 1),))
    world = supernodes(taken, gang("a", role(6, gpu=8), subgroups=(subgroup(2),)))
    plan = verified_plan(world)
    inside = [sum(p.pods for p in plan.decisions[1].placements if (p.node < 4) == first) for first in (True, False)]
    assert sorted(inside) == [2, 4]
    cramped = supernodes(taken, gang("a", role(6, gpu=8), subgroups=(subgroup(3),)))
    assert starting(cramped) == {"a"}
    assert facts(supernodes(taken, gang("a", role(8, gpu=8), subgroups=(subgroup(4),))), "a")[0].code in {
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
    assert facts(world, "a") == (SubgroupShortage(subgroup=0, tier=1, asked=1, available=0, limit=5, never=True),)


# --- queues


def test_a_capability_holds_along_the_whole_path() -> None:
    tree = (queue("team", capability={"gpu": 8}), queue("a", "team"), queue("b", "team"))
    world = problem(nodes(4, gpu=8), *tree, gang("x", role(1, gpu=8), queue="a"), gang("y", role(1, gpu=8), queue="b"))
    assert starting(world) == {"x"}
    assert facts(world, "y") == (CapabilityLimit(asked=8, available=0, queue=0, resource=0, limit=8, gangs=(0,)),)
    assert repairs(world, "y") == (HigherPriority(amount=1, gangs=(0,)), MoreCapability(queue=0, resource=0, amount=8))


def test_a_gang_above_its_queues_capability_never_starts() -> None:
    world = problem(nodes(4, gpu=8), queue("a", capability={"gpu": 8}), gang("x", role(2, gpu=8), queue="a"))
    assert facts(world, "x") == (CapabilityLimit(asked=16, available=8, queue=0, resource=0, limit=8, never=True),)


def test_what_others_are_guaranteed_stays_free_and_a_queue_may_use_its_own() -> None:
    queues = (queue("safe", guarantee={"gpu": 8}), queue("other"))
    world = problem(nodes(2, gpu=8), *queues, gang("x", role(2, gpu=8), queue="other"))
    assert facts(world, "x") == (GuaranteeReserve(asked=16, available=8, queue=1, resource=0, queues=(0,), never=True),)
    assert starting(
        problem(
            nodes(2, gpu=8), *queues, gang("x", role(1, gpu=8), queue="other"), gang("y", role(1, gpu=8), queue="safe")
        )
    ) == {
        "x",
        "y",
    }


def test_a_capability_lowered_under_what_runs_starts_nothing_and_stops_nothing() -> None:
    running = gang("running", role(2, gpu=8), queue="a", running=(running_pods(0, 0, 1), running_pods(0, 1, 1)))
    world = problem(nodes(3, gpu=8), queue("a", capability={"gpu": 8}), running, gang("x", role(1, gpu=8), queue="a"))
    assert [d.action for d in verified_plan(world).decisions] == ["keep", "wait"]


def test_dominant_resource_fairness_gives_the_papers_allocation() -> None:
    """Ghodsi et al., NSDI 2011, section 1: 9 CPUs and 18 GB; A's tasks ask for (1, 4), B's for (3, 1): three tasks for
    A, two for B."""
    a = [gang(f"a{i}", role(1, cpu=1, memory=4), queue="a") for i in range(6)]
    b = [gang(f"b{i}", role(1, cpu=3, memory=1), queue="b") for i in range(6)]
    chosen = starting(problem(nodes(1, cpu=9, memory=18), queue("a"), queue("b"), *a, *b))
    assert (sum(n.startswith("a") for n in chosen), sum(n.startswith("b") for n in chosen)) == (3, 2)


@pytest.mark.parametrize(("weight", "expected"), [(1, (6, 6)), (2, (8, 4)), (3, (9, 3))])
def test_a_queue_with_more_weight_gets_more(weight: int, expected: tuple[int, int]) -> None:
    a = [gang(f"a{i}", role(1, gpu=1), queue="a") for i in range(12)]
    b = [gang(f"b{i}", role(1, gpu=1), queue="b") for i in range(12)]
    chosen = starting(problem(nodes(1, gpu=12), queue("a", weight=weight), queue("b"), *a, *b))
    assert (sum(n.startswith("a") for n in chosen), sum(n.startswith("b") for n in chosen)) == expected


def test_a_queue_that_asks_for_little_gets_it_and_the_rest_is_shared() -> None:
    gangs = [
        gang(f"{q}{i}", role(1, gpu=1), queue=q) for q, number in (("a", 2), ("b", 9), ("c", 9)) for i in range(number)
    ]
    chosen = starting(problem(nodes(1, gpu=12), queue("a"), queue("b"), queue("c"), *gangs))
    assert [sum(n.startswith(q) for n in chosen) for q in "abc"] == [2, 5, 5]


@pytest.mark.parametrize(
    ("options", "expected", "verdict"),
    [
        (Options(), {"a3", "b5"}, "proven"),
        (Options(budget=Budget(joint_variables=0)), {"a3", "b5"}, "proven"),
        (Options(budget=Budget(joint_variables=0, share_variables=0)), {"a5", "a3"}, "limit reached"),
    ],
)
def test_the_lowest_share_is_raised_above_the_greedys_in_large_models_too(
    options: Options, expected: set[str], verdict: str
) -> None:
    """Lowest share first, then oldest: a5 starts, b5 does not fit any more, and b is left with nothing. The options
    stand for the size."""
    gangs = [gang(name, role(int(name[1]), gpu=1), queue=name[0]) for name in ("a5", "a3", "b5")]
    world = problem(nodes(1, gpu=8), queue("a"), queue("b"), *gangs)
    made = verified_plan(world, options)
    assert starting(world, options) == expected
    assert [o.verdict for batch in made.batches for o in batch.objectives if o.name == "share level 1"] == [verdict]


def test_what_queues_deserve_comes_before_priorities_unless_the_site_says_otherwise() -> None:
    """The example of docs/order.md. The real Volcano 1.15.1 starts two of each, too."""
    a = [gang(f"a{i}", role(1, gpu=4), queue="a", priority=1000) for i in range(4)]
    b = [gang(f"b{i}", role(1, gpu=4), queue="b", priority=10) for i in range(2)]
    queues = queue("a", deserved={"gpu": 8}), queue("b", deserved={"gpu": 8})
    world = problem(nodes(1, gpu=16), *queues, *a, *b, policy=Policy(capacity=True))
    assert starting(world) == {"a0", "a1", "b0", "b1"}
    assert starting(replace(world, policy=Policy(capacity=True, order="priorities-first"))) == {"a0", "a1", "a2", "a3"}


def test_a_gang_is_not_overtaken_in_its_own_queue() -> None:
    """Of 16 GPUs a deserves 8 and wants 10, or twice 4 at a lower priority; b wants 4 of its 8. The 10 borrow, and go
    before the 8, although these are what a is entitled to; but not before what b is entitled to."""
    queues = queue("a", deserved={"gpu": 8}), queue("b", deserved={"gpu": 8})
    low = [gang(f"low{i}", role(1, gpu=4), queue="a") for i in range(2)]
    high = gang("high", role(1, gpu=10), queue="a", priority=1000)
    b = [gang(f"b{i}", role(1, gpu=4), queue="b") for i in range(2)]
    capacity = Policy(capacity=True)
    assert starting(problem(nodes(1, gpu=16), *queues, *low, high, b[0], policy=capacity)) == {"high", "b0"}
    assert starting(problem(nodes(1, gpu=16), *queues, *low, high, *b, policy=capacity)) == {"low0", "low1", "b0", "b1"}


def test_a_borrower_of_another_queue_is_no_way_to_keep_a_gang_from_being_overtaken() -> None:
    """Of 16 GPUs q0 deserves 7. Its gang of 8 borrows, and is not overtaken by those of 1 and 4 that are entitled; q1
    deserves nothing, and its gang of 12 takes the room of neither."""
    queues = queue("q0", deserved={"gpu": 7}), queue("q1", deserved={"gpu": 0})
    own = (
        gang("high", role(2, gpu=4), queue="q0", priority=1000),
        gang("one", role(1, gpu=1), queue="q0", priority=10),
        gang("four", role(4, gpu=1), queue="q0", priority=10),
    )
    borrower = gang("borrower", role(1, gpu=12), queue="q1", priority=10)
    small = [gang(f"small{n}", role(1, gpu=n), queue="q1", priority=10) for n in (1, 2)]
    world = problem(nodes(1, gpu=16), *queues, *own, borrower, *small, policy=Policy(capacity=True))
    assert "high" in starting(world)
    assert "borrower" not in starting(world)


def test_what_is_left_is_lent_to_the_lowest_share_whatever_the_priority() -> None:
    a = [gang(f"a{i}", role(1, gpu=4), queue="a", priority=1000) for i in range(4)]
    b = [gang(f"b{i}", role(1, gpu=4), queue="b", priority=10) for i in range(4)]
    queues = queue("a", deserved={"gpu": 0}), queue("b", deserved={"gpu": 0})
    world = problem(nodes(1, gpu=16), *queues, *a, *b, policy=Policy(capacity=True))
    assert starting(world) == {"a0", "a1", "b0", "b1"}


def test_where_nothing_can_be_reclaimed_the_queues_priority_overrules_what_others_deserve() -> None:
    """As the real Volcano 1.15.1: 16 and 0 without the action reclaim, 8 and 8 with it."""
    a = [gang(f"a{i}", role(1, gpu=4), queue="a") for i in range(4)]
    b = [gang(f"b{i}", role(1, gpu=4), queue="b") for i in range(4)]
    queues = queue("a", deserved={"gpu": 8}, priority=10), queue("b", deserved={"gpu": 8})
    world = problem(nodes(1, gpu=16), *queues, *a, *b, policy=Policy(capacity=True))
    assert starting(world) == {"a0", "a1", "a2", "a3"}
    assert starting(replace(world, reclaim_enabled=True)) == {"a0", "a1", "b0", "b1"}


def test_what_a_queue_holds_already_counts_for_its_share() -> None:
    holder = gang("holder", role(4, gpu=1), queue="a", running=(running_pods(0, 0, 4),))
    gangs = [gang(f"{q}{i}", role(1, gpu=1), queue=q) for q in "ab" for i in range(8)]
    chosen = starting(problem(nodes(1, gpu=12), queue("a"), queue("b"), holder, *gangs))
    assert [sum(n.startswith(q) for n in chosen) for q in "ab"] == [2, 6]


# --- growth, and what runs


def test_an_elastic_gang_starts_with_its_minimum_and_grows_into_what_is_left() -> None:
    world = supernodes(gang("elastic", role(6, minimum=2, gpu=8)), gang("other", role(4, gpu=8)))
    assert starting(world) == {"elastic", "other"}
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


def test_cbc_and_highs_admit_as_much() -> None:
    def reached(engine: str) -> list[tuple[str, float]]:
        plan = verified_plan(crowd(), Options(engine=engine))  # type: ignore[arg-type]
        return [(o.name, round(o.value, 6)) for b in plan.batches for o in b.objectives if o.name not in COST_NAMES]

    assert reached("cbc") == reached("highs")


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
    assert starting(world) == {"a"}


def test_a_gang_bound_tighter_than_its_subgroups_is_not_said_to_fit_never() -> None:
    world = supernodes(
        queue("q", used={"gpu": 64}, capability={"gpu": 64}),
        gang("a", role(2, gpu=1), queue="q", topology=hard_topology(1), subgroups=(subgroup(2, tier=2),)),
    )
    assert facts(world, "a") == (CapabilityLimit(asked=2, available=0, queue=0, resource=0, limit=64),)


def test_an_order_in_which_the_gangs_do_not_fit_does_not_lose_the_one_in_which_they_do() -> None:
    # The pair is larger and would be placed first, on the only node that the single pod may use.
    room = (nodes(1, cpu=7, gpu=8, node_class=1), nodes(1, cpu=1, gpu=4))
    world = problem(
        *room,
        gang("single", role(1, cpu=1)),
        gang("pair", role(2, cpu=1, gpu=1, node_classes=(0, 1)), topology=soft_topology(1)),
    )
    assert starting(world) == {"single", "pair"}


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
    assert starting(world) == {"a"}
    assert pods(world, "a") == 8


def test_a_part_across_roles_counts_beside_a_role_of_its_own() -> None:
    both = subgroup(3, minimum=2, mode="soft", roles=(1, 2))
    world = problem(
        nodes(1, gpu=8),
        gang(
            "a", role(1, minimum=0), role(4, minimum=0, gpu=1), role(2, minimum=0, gpu=1), minimum=1, subgroups=(both,)
        ),
    )
    assert starting(world) == {"a"}
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
    assert starting(world) == {"a", "b", "c"}


def test_a_shortage_never_asks_for_less_than_there_is() -> None:
    world = problem(nodes(1, gpu=2), gang("a", role(1, minimum=0, node_classes=(2,)), minimum=1))
    for fact in facts(world, "a"):
        assert not isinstance(fact, Shortage) or fact.asked > fact.available


def test_large_growth_is_taken_in_strides() -> None:
    world = problem(nodes(50, cpu=100), gang("a", role(20_000, minimum=1, cpu=1)))
    assert pods(world, "a") == 5_000

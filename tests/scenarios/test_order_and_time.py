"""Order and time: strict queues, overdue gangs, dedicated domains and maintenance."""

from __future__ import annotations

import pytest

from solver import Problem
from solver.facts import DedicatedDomains, StrictOrder
from tests.builders.plans import decision_in, fact_codes, started_in, verified_plan
from tests.builders.problems import NodeSpec, busy_gang, gang, nodes, problem, queue, role, running_pods

# ---- the overdue


def test_an_overdue_gang_is_decided_before_the_others_of_its_priority() -> None:
    world = problem(nodes(1, gpu=8), gang("large", role(1, gpu=8)), gang("late", role(1, gpu=2), overdue=True))
    made = verified_plan(world)
    assert started_in(world, made) == {"late"}


def test_an_overdue_gang_is_decided_after_gangs_of_a_higher_priority() -> None:
    world = problem(
        nodes(1, gpu=8), gang("high", role(1, gpu=8), priority=1), gang("late", role(1, gpu=2), overdue=True)
    )
    assert started_in(world, verified_plan(world)) == {"high"}


def test_the_objectives_of_the_overdue_are_named_apart() -> None:
    world = problem(nodes(1, gpu=8), gang("plain", role(1, gpu=8)), gang("late", role(1, gpu=2), overdue=True))
    names = [objective.name for batch in verified_plan(world).batches for objective in batch.objectives]
    assert [name for name in names if name.startswith("placed")] == ["placed[0, overdue]", "placed[0]"]


# ---- strict order


def test_in_a_strict_queue_a_later_gang_does_not_pass_one_that_waits() -> None:
    first, second = gang("first", role(2, gpu=8)), gang("second", role(1, gpu=8))
    strict, loose = (
        problem(nodes(1, gpu=8), queue("default", strict_order=order), first, second) for order in (True, False)
    )
    assert started_in(loose, verified_plan(loose)) == {"second"}
    made = verified_plan(strict)
    assert started_in(strict, made) == set()
    assert fact_codes(strict, made, "second") == ["GW115"]
    assert decision_in(strict, made, "second").facts == (StrictOrder(queue=0, gang=0),)
    assert fact_codes(strict, made, "first") == ["GW108"]


def left_over(*more: list[NodeSpec]) -> Problem:
    """On the first node there is no room next to what runs; the urgent one evicts it all and leaves half, which only
    the strict order keeps from the last."""
    return problem(
        nodes(1, gpu=8),
        *more,
        queue("default", strict_order=True),
        gang("victim", role(1, gpu=8), running=(running_pods(0, 0, 1),), loss=1),
        gang("urgent", role(1, gpu=4), priority=1),
        gang("large", role(2, gpu=8)),
        gang("small", role(1, gpu=4)),
        preempt_enabled=True,
    )


def test_a_gang_for_which_an_eviction_left_room_waits_for_the_one_before_it_and_not_for_room() -> None:
    world = left_over()
    made = verified_plan(world)
    assert started_in(world, made) == {"urgent"}
    assert fact_codes(world, made, "small") == ["GW115"]
    assert [repair.code for repair in decision_in(world, made, "small").repairs] == ["GR114", "GR117"]


def test_maintenance_is_not_blamed_where_the_remaining_nodes_stay_open() -> None:
    """A second node, empty, closes before anybody would have ended: it is not what keeps the last one waiting."""
    world = left_over(nodes(1, gpu=4, maintenance_in=0))
    made = verified_plan(world)
    assert started_in(world, made) == {"urgent"}
    assert fact_codes(world, made, "small") == ["GW115"]


def test_no_promise_waits_for_the_end_of_a_gang_that_is_evicted() -> None:
    """late waits for both; quick, of its level, may evict one of them and is gone in time: then there is one to wait
    for, as the next plan says."""
    world = problem(
        nodes(1, gpu=8),
        busy_gang("stays", 0, gpu=4, ends_in=5),
        busy_gang("goes", 0, gpu=4, ends_in=3, loss=1),
        gang("late", role(1, gpu=8), priority=5, may_evict=False),
        gang("quick", role(1, gpu=4), priority=5, duration=2),
        preempt_enabled=True,
    )
    made = verified_plan(world)
    assert started_in(world, made) == {"quick"}
    assert made.reservation is None


def test_no_pod_is_reserved_for_on_a_node_that_closes_even_if_it_asks_for_nothing() -> None:
    """Its second role needs no room, so that it would fit where nothing is free; started then, in ten seconds, it would
    run when the node closes."""
    late = gang("late", role(1, gpu=8), role(1), overdue=True, duration=55)
    world = problem(nodes(1, gpu=1, maintenance_in=60), nodes(1, gpu=8), late, busy_gang("runs", 1, ends_in=10))
    held = verified_plan(world).reservation
    assert held is not None
    assert {place.node for place in held.placements} == {1}


def test_a_gang_for_which_room_is_held_is_not_told_never_though_no_empty_cluster_holds_all_of_it() -> None:
    """Its four pods stay on a node that shrank to two GPUs; the eight others fit where another gang runs. Anew there
    would be ten GPUs for twelve."""
    late = gang("late", role(12, gpu=1), running=(running_pods(0, 0, 4),), overdue=True)
    world = problem(nodes(1, gpu=2), nodes(1, gpu=8), late, busy_gang("runs", 1))
    made = verified_plan(world)
    assert made.reservation is not None
    assert made.reservation.gang == 0
    assert [(fact.code, fact.never) for fact in decision_in(world, made, "late").facts] == [("GW102", False)]


def test_strict_order_is_by_priority_before_age() -> None:
    world = problem(
        nodes(1, gpu=8),
        queue("default", strict_order=True),
        gang("old", role(1, gpu=8)),
        gang("urgent", role(1, gpu=8), priority=1),
        gang("new", role(1, gpu=1)),
    )
    made = verified_plan(world)
    assert started_in(world, made) == {"urgent"}
    assert fact_codes(world, made, "old") == ["GW105"]


def test_strict_order_holds_its_own_queue_alone() -> None:
    world = problem(
        nodes(2, gpu=8),
        queue("strict", strict_order=True, capability={"gpu": 8}),
        queue("other"),
        gang("first", role(1, gpu=8), queue="strict", running=(running_pods(0, 0, 1),)),
        gang("second", role(1, gpu=8), queue="strict"),
        gang("third", role(1, gpu=1), queue="strict"),
        gang("elsewhere", role(1, gpu=4), queue="other"),
    )
    made = verified_plan(world)
    assert started_in(world, made) == {"elsewhere"}
    assert fact_codes(world, made, "second") == ["GW101"]


def test_a_strict_queue_starts_the_first_of_its_gangs_as_far_as_they_fit() -> None:
    world = problem(
        nodes(2, gpu=8),
        queue("default", strict_order=True),
        *(gang(f"g{n}", role(1, gpu=size)) for n, size in enumerate((4, 8, 8, 4))),
    )
    assert started_in(world, verified_plan(world)) == {"g0", "g1"}


def test_strict_order_goes_on_over_priorities_that_are_decided_one_by_one() -> None:
    world = problem(
        nodes(1, gpu=8),
        queue("default", strict_order=True),
        gang("runs", role(1, gpu=8), running=(running_pods(0, 0, 1),)),
        gang("first", role(1, gpu=8), priority=2, may_evict=False),
        gang("second", role(1, gpu=8), priority=1),
        gang("small", role(1, cpu=0)),
        preempt_enabled=True,
    )
    evictable = problem(
        nodes(1, gpu=8),
        queue("default", strict_order=True),
        gang("runs", role(1, gpu=8), running=(running_pods(0, 0, 1),), loss=5),
        gang("first", role(1, gpu=8), priority=2, may_evict=False),
        gang("second", role(1, gpu=8), priority=1),
        preempt_enabled=True,
    )
    assert started_in(world, verified_plan(world)) == set()
    assert started_in(evictable, verified_plan(evictable)) == set()  # the second one could preempt, the first may not


# ---- domains that a queue keeps

TREE = {"s0": (1, None), "s1": (1, None)}


def test_a_dedicated_domain_takes_no_gang_of_another_queue() -> None:
    world = problem(
        nodes(1, leaf="s0", gpu=8),
        nodes(1, leaf="s1", gpu=8),
        queue("owner", dedicated_domains=("s0",)),
        queue("child", "owner"),
        queue("other"),
        gang("one", role(1, gpu=8), queue="other"),
        gang("two", role(1, gpu=8), queue="other"),
        gang("mine", role(1, gpu=4), queue="child"),
        hypernodes=TREE,
    )
    made = verified_plan(world)
    assert started_in(world, made) == {"one", "mine"}
    assert [place.node for place in decision_in(world, made, "one").placements] == [1]
    assert fact_codes(world, made, "two") == ["GW105"]


def test_a_gang_that_only_a_dedicated_domain_would_hold_has_the_owner_in_its_fact() -> None:
    world = problem(
        nodes(1, leaf="s0", gpu=8),
        nodes(1, leaf="s1", gpu=4),
        queue("owner", dedicated_domains=("s0",)),
        queue("third", dedicated_domains=("s1",)),
        queue("other"),
        gang("one", role(1, gpu=8), queue="other"),
        hypernodes=TREE,
    )
    made = verified_plan(world)
    assert decision_in(world, made, "one").facts == (DedicatedDomains(queue=0, tier=1),)


def test_pods_running_in_a_dedicated_domain_stay_and_grow_elsewhere() -> None:
    world = problem(
        nodes(1, leaf="s0", gpu=8),
        nodes(1, leaf="s1", gpu=8),
        queue("owner", dedicated_domains=("s0",)),
        queue("other"),
        gang("elastic", role(8, minimum=1, gpu=2), queue="other", running=(running_pods(0, 0, 1),)),
        hypernodes=TREE,
    )
    assert [(place.node, place.pods) for place in decision_in(world, verified_plan(world), "elastic").placements] == [
        (0, 1),
        (1, 4),
    ]


# ---- nodes that close for maintenance


@pytest.mark.parametrize(("duration", "node"), [(None, 1), (601, 1), (600, 0)])
def test_a_gang_uses_a_node_that_closes_only_when_it_ends_before(duration: int | None, node: int) -> None:
    world = problem(
        nodes(1, gpu=8, maintenance_in=600), nodes(1, gpu=9), gang("job", role(1, gpu=8), duration=duration)
    )
    assert [place.node for place in decision_in(world, verified_plan(world), "job").placements] == [node]


def test_a_gang_for_which_only_closing_nodes_have_room_is_told_so() -> None:
    world = problem(
        nodes(2, gpu=8, maintenance_in=0), gang("job", role(1, gpu=8), duration=1), gang("large", role(1, gpu=9))
    )
    made = verified_plan(world)
    assert fact_codes(world, made, "job") == ["GW116"]
    assert not decision_in(world, made, "job").facts[0].never
    assert fact_codes(world, made, "large") == ["GW103"]


def test_nothing_is_promised_on_a_node_that_closes_meanwhile() -> None:
    for duration, starts in ((100, 300), (400, 900)):
        world = problem(
            nodes(1, gpu=8, maintenance_in=500),
            nodes(1, gpu=8),
            busy_gang("a", 0, ends_in=300),
            busy_gang("b", 1, ends_in=900),
            gang("next", role(1, gpu=8), duration=duration),
        )
        assert decision_in(world, verified_plan(world), "next").starts_in == starts

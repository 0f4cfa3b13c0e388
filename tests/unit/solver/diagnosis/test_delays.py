"""What would help a gang for which there is room, in situations: the exact repairs, and what must not be said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solver import solve
from solver.plan import Decision
from solver.problem import Node, Problem
from solver.repairs import (
    EndOfGangs,
    EndOfMaintenance,
    FewerDedicatedDomains,
    FewerPods,
    HigherPriority,
    NoStrictOrder,
    OtherQueue,
    Repair,
    ShorterDuration,
    StartOfGang,
)
from solver.verify import verify
from tests.builders.problems import GangSpec, NodeSpec, gang, nodes, problem, queue, role, running_pods

TREE = {"s0": (1, None), "s1": (1, None), "s2": (1, None)}


def decision(world: Problem, name: str = "asks") -> Decision:
    plan = solve(world)
    assert verify(world, plan) == []
    return next(d for d in plan.decisions if world.gangs[d.gang].name == name)


def repairs(world: Problem, *codes: str) -> tuple[Repair, ...]:
    """Those of these codes."""
    return tuple(repair for repair in decision(world).repairs if repair.code in codes and not repair.also)


def busy(name: str, node: int, gpu: int = 8, **more: int | str | None) -> GangSpec:
    return gang(name, role(1, gpu=gpu), running=(running_pods(0, node, 1),), **more)  # type: ignore[arg-type]


# ---- who must end first


def test_where_ends_are_known_the_soonest_place_is_said_though_more_must_end() -> None:
    """One large gang ends in ten hours, two small ones in one: their end is soonest."""
    world = problem(
        nodes(4, gpu=8),
        gang("one", role(2, gpu=8), running=(running_pods(0, 0, 1), running_pods(0, 1, 1)), ends_in=36_000),
        busy("two", 2, ends_in=3_000),
        busy("three", 3, ends_in=3_600),
        gang("asks", role(2, gpu=8), topology=None),
    )
    plan = solve(world)
    assert plan.reservation is not None
    assert (plan.reservation.starts_in, plan.reservation.awaited_gangs) == (3_600, (1, 2))
    behind = replace(world, gangs=(*world.gangs, replace(world.gangs[3], name="next", age=9)))
    assert EndOfGangs(gangs=(0,), seconds=36_000) in decision(behind, "next").repairs  # the room before is another's


def test_only_ends_that_are_needed_are_awaited_and_unknown_ends_only_where_no_known_one_helps() -> None:
    strangers = problem(
        nodes(3, gpu=8),
        busy("soon", 0, gpu=6, ends_in=100),
        busy("late", 1, ends_in=900),
        busy("open", 2),
        gang("asks", role(1, gpu=8)),
    )
    held = solve(strangers).reservation
    assert held is not None
    assert held.awaited_gangs == (0,)
    unknown = problem(nodes(2, gpu=8), busy("a", 0), busy("b", 1, gpu=7), gang("asks", role(2, gpu=8)))
    assert repairs(unknown, "GR109") == (EndOfGangs(gangs=(0, 1)),)
    # the one that ends is on another kind of node
    apart = problem(
        nodes(1, gpu=8),
        nodes(1, gpu=8, node_class=1),
        busy("a", 0),
        gang("b", role(1, gpu=8, node_classes=(1,)), running=(running_pods(0, 1, 1),), ends_in=9),
        gang("asks", role(1, gpu=8)),
    )
    assert repairs(apart, "GR109") == (EndOfGangs(gangs=(0,)),)


def test_gangs_that_the_plan_starts_are_waited_for_where_their_end_is_known() -> None:
    def world(duration: int | None) -> Problem:
        return problem(
            nodes(1, gpu=8), gang("first", role(1, gpu=8), duration=duration, priority=1), gang("asks", role(1, gpu=8))
        )

    known = solve(world(600))
    assert known.reservation is not None  # and it says so itself
    assert known.decisions[1].starts_in == 600
    two = replace(world(600), gangs=(*world(600).gangs, replace(world(600).gangs[1], name="last", age=5)))
    assert "GR109" not in {repair.code for repair in decision(two, "last").repairs}
    assert "GR109" not in {repair.code for repair in decision(world(None)).repairs}


def test_what_exceeds_its_node_is_not_taken_for_room() -> None:
    """Two pods of 4 GPUs run on a node that has 6: when they end there are 6, not 8."""
    world = problem(
        nodes(2, gpu=8, free={"gpu": 6}),
        gang("a", role(2, gpu=4), running=(running_pods(0, 0, 2),)),
        gang("asks", role(3, gpu=4)),
    )
    assert repairs(world, "GR109") == ()


# ---- a queue with strict order


def strict(*more: GangSpec, first: int = 2) -> Problem:
    return problem(
        nodes(2, gpu=8),
        queue("line", strict_order=True),
        busy("runs", 0, queue="line"),
        gang("first", role(first, gpu=8), queue="line"),
        gang("asks", role(1, gpu=2), queue="line"),
        *more,
    )


def test_a_gang_behind_another_is_told_to_wait_for_it_to_be_more_urgent_or_to_lift_the_order() -> None:
    two = problem(
        nodes(3, gpu=8),
        queue("line", strict_order=True),
        busy("a", 0, queue="line"),
        busy("b", 1, queue="line"),
        gang("first", role(2, gpu=8), queue="line"),
        gang("asks", role(1, gpu=2), queue="line"),
    )
    assert decision(two).repairs == (StartOfGang(gang=2), HigherPriority(amount=1), NoStrictOrder(queue=0))


def test_no_repair_waits_for_the_start_of_a_gang_that_takes_the_whole_cluster_or_never_starts() -> None:
    assert decision(strict()).repairs == (HigherPriority(amount=1), NoStrictOrder(queue=0))
    assert decision(strict(first=3)).repairs == (HigherPriority(amount=1), NoStrictOrder(queue=0))


def test_lifting_the_order_is_not_said_where_others_have_the_room_by_then() -> None:
    """Next to what runs there is room, next to the plan there is not: it would have to come before those that start."""
    world = problem(
        nodes(2, gpu=8),
        queue("line", strict_order=True),
        queue("other"),
        busy("runs", 0, queue="line"),
        gang("first", role(2, gpu=8), queue="line"),
        gang("asks", role(1, gpu=4), queue="line"),
        gang("rich", role(1, gpu=8), queue="other", priority=3),
    )
    assert repairs(world, "GR117", "GR114") == (HigherPriority(amount=4),)


# ---- a reservation


@pytest.mark.parametrize(
    ("duration", "expected"),
    [
        (None, (ShorterDuration(seconds=900), HigherPriority(amount=1))),
        (1200, (ShorterDuration(seconds=900), HigherPriority(amount=1))),
    ],
)
def test_a_gang_that_would_be_in_the_way_may_end_sooner_or_be_more_urgent(
    duration: int | None, expected: tuple[Repair, ...]
) -> None:
    world = problem(
        nodes(2, gpu=8),
        busy("a", 0, ends_in=900),
        gang("large", role(2, gpu=8)),
        gang("asks", role(1, gpu=4), duration=duration),
    )
    assert decision(world).repairs == expected


def test_where_there_is_room_beside_the_reserved_gang_its_start_is_waited_for() -> None:
    def world(large: int) -> Problem:
        return problem(
            nodes(1, gpu=8),
            busy("a", 0, gpu=6, ends_in=900),
            gang("large", role(1, gpu=large)),
            gang("asks", role(1, gpu=2)),
        )

    assert repairs(world(6), "GR118") == (StartOfGang(gang=1, seconds=900),)
    assert repairs(world(7), "GR118") == ()


def test_no_repair_names_an_end_before_an_unknown_time() -> None:
    world = problem(
        nodes(2, gpu=8),
        busy("a", 0),
        gang("large", role(2, gpu=8), overdue=True),
        gang("asks", role(1, gpu=4), duration=5),
    )
    assert decision(world).repairs == (HigherPriority(amount=1),)


def test_the_gang_with_the_reservation_is_not_kept_off_its_own_room() -> None:
    """Elsewhere its repairs are as without a reservation, but for waiting, of which the reservation itself speaks."""
    world = problem(nodes(2, gpu=8), busy("a", 0, ends_in=900), gang("asks", role(2, gpu=8)))
    assert solve(world).reservation is not None
    assert decision(world).repairs == (FewerPods(role=0, amount=1, current_amount=2),)


# ---- domains that another queue keeps


def kept(count: int, *more: GangSpec, strict: bool = False) -> Problem:
    return problem(
        nodes(1, leaf="s0", gpu=8),
        nodes(1, leaf="s1", gpu=8),
        nodes(1, leaf="s2", gpu=2),
        queue("owner", dedicated_domains=("s0", "s1")[:count], strict_order=strict, capability={"gpu": 12}),
        queue("other"),
        *more,
        gang("asks", role(2, gpu=4), queue="other"),
        hypernodes=TREE,
    )


def test_one_dedicated_domain_fewer_or_the_owners_queue_suffices() -> None:
    assert repairs(kept(2), "GR119", "GR120") == (OtherQueue(queue=0), FewerDedicatedDomains(queue=0, amount=1))


def test_all_domains_where_one_is_not_enough() -> None:
    world = kept(2)
    large = replace(
        world,
        gangs=(replace(world.gangs[0], minimum=4, roles=(replace(world.gangs[0].roles[0], replicas=4, minimum=4),)),),
    )
    assert repairs(large, "GR119", "GR120") == (
        FewerDedicatedDomains(queue=0, amount=2),
    )  # the queue may hold 12, and it asks for 16


def test_no_repair_moves_a_gang_to_a_queue_with_strict_order() -> None:
    assert repairs(kept(2, strict=True), "GR120") == ()


def test_what_is_closed_is_blamed_beside_what_runs_only_where_both_are_in_the_way() -> None:
    """One machine of two is kept for others, the other one is busy."""

    def facts(pods: int) -> tuple[list[str], set[str]]:
        world = problem(
            nodes(1, leaf="s0", gpu=8),
            nodes(1, leaf="s1", gpu=8),
            queue("owner", dedicated_domains=("s0",)),
            queue("other"),
            busy("runs", 1, queue="other"),
            gang("asks", role(pods, gpu=8), queue="other"),
            hypernodes=TREE,
        )
        waits = decision(world)
        return [fact.code for fact in waits.facts], {repair.code for repair in waits.repairs if not repair.also}

    assert facts(1)[0] == ["GW106"]  # without the kept domain it would start now
    both, helpful = facts(2)
    assert both == ["GW102", "GW106"]
    assert "GR109" not in helpful  # the end of the other gang is not enough


def test_where_the_end_of_others_is_enough_what_is_closed_is_not_blamed() -> None:
    world = problem(
        nodes(1, leaf="s0", gpu=4),
        nodes(1, leaf="s1", gpu=8),
        queue("owner", dedicated_domains=("s0",)),
        queue("other"),
        busy("runs", 1, queue="other"),
        gang("asks", role(1, gpu=8), queue="other"),
        hypernodes=TREE,
    )
    assert [fact.code for fact in decision(world).facts] == ["GW102"]
    assert repairs(world, "GR109") == (EndOfGangs(gangs=(0,)),)


def test_no_other_selector_is_recommended_for_nodes_that_are_only_closed() -> None:
    assert "GR112" not in {repair.code for repair in decision(kept(2)).repairs}


# ---- maintenance


def closing(world: Problem, **windows: tuple[tuple[int, int], ...]) -> Problem:
    """Node name -> its windows."""

    def told(node: Node) -> Node:
        return (
            replace(node, maintenance_windows=windows[node.name], maintenance_in=windows[node.name][0][0])
            if node.name in windows
            else node
        )

    return replace(world, nodes=tuple(map(told, world.nodes)))


def machine(*more: list[NodeSpec] | GangSpec, duration: int | None = None) -> Problem:
    return problem(nodes(2, gpu=8), *more, gang("asks", role(1, gpu=8), duration=duration))


def test_a_gang_may_end_before_the_maintenance_or_start_after_it() -> None:
    world = closing(machine(duration=500), n0=((300, 600),), n1=((200, 400),))
    assert repairs(world, "GR121", "GR122") == (ShorterDuration(seconds=300), EndOfMaintenance(seconds=400))


def test_a_window_that_comes_again_too_soon_is_not_waited_for() -> None:
    again = closing(machine(duration=500), n0=((300, 600), (700, 800)), n1=((200, 400), (450, 500)))
    assert repairs(again, "GR122") == (EndOfMaintenance(seconds=500),)
    unknown = closing(machine(), n0=((300, 600), (700, 800)), n1=((200, 400), (450, 500)))
    assert repairs(unknown, "GR121", "GR122") == (ShorterDuration(seconds=300), EndOfMaintenance(seconds=500))


def test_during_maintenance_no_duration_is_short_enough() -> None:
    world = closing(machine(duration=500), n0=((0, 600),), n1=((0, 700),))
    assert repairs(world, "GR121", "GR122") == (EndOfMaintenance(seconds=600),)


def test_a_place_that_is_taken_is_not_free_after_the_maintenance_unless_its_gang_ends() -> None:
    for ends, expected in ((None, 700), (550, 600)):
        there = gang("there", role(1, gpu=8), running=(running_pods(0, 0, 1),), ends_in=ends)
        world = closing(machine(there, duration=500), n0=((300, 600),), n1=((0, 700),))
        assert repairs(world, "GR122") == (EndOfMaintenance(seconds=expected),)

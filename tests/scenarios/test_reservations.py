"""Reservations and backfill: when nodes are reserved for a gang, and which gangs may start before it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solver.facts import ReservedNodes
from solver.problem import Policy
from solver.repairs import HigherPriority
from tests.builders.plans import decision_in, fact_codes, started_in, verified_plan
from tests.builders.problems import busy_gang, gang, hard_topology, nodes, problem, queue, role, running_pods


def test_the_first_gang_that_finds_no_room_gets_a_reservation_at_the_known_end() -> None:
    world = problem(
        nodes(2, gpu=8), busy_gang("a", 0, ends_in=600), busy_gang("b", 1, ends_in=900), gang("large", role(2, gpu=8))
    )
    made = verified_plan(world)
    assert made.reservation is not None
    assert (made.reservation.gang, made.reservation.starts_in, made.reservation.awaited_gangs) == (2, 900, (0, 1))
    assert decision_in(world, made, "large").starts_in == 900
    assert [decision_in(world, made, name).starts_in for name in "ab"] == [None, None]


def test_a_reservation_awaits_only_the_ends_that_it_needs() -> None:
    world = problem(
        nodes(3, gpu=8),
        busy_gang("a", 0, ends_in=300),
        busy_gang("b", 1, ends_in=900),
        busy_gang("c", 2, ends_in=600),
        gang("large", role(2, gpu=8)),
    )
    made = verified_plan(world)
    assert made.reservation is not None
    assert (made.reservation.starts_in, made.reservation.awaited_gangs) == (600, (0, 2))
    assert {place.node for place in made.reservation.placements} == {0, 2}


@pytest.mark.parametrize(("duration", "starts"), [(None, False), (1200, False), (900, True), (60, True)])
def test_a_small_gang_takes_reserved_nodes_only_when_it_ends_in_time(duration: int | None, starts: bool) -> None:
    world = problem(
        nodes(2, gpu=8),
        busy_gang("a", 0, ends_in=900),
        gang("large", role(2, gpu=8)),
        gang("small", role(1, gpu=4), duration=duration),
    )
    made = verified_plan(world)
    assert (decision_in(world, made, "small").action == "start") is starts
    if not starts:
        assert fact_codes(world, made, "small") == ["GW114"]
        assert decision_in(world, made, "small").facts == (ReservedNodes(gang=1),)


def test_a_backfilled_gang_is_not_blamed_for_nodes_that_are_reserved() -> None:
    large = gang("large", role(2, gpu=8))
    before_all = gang("fills", role(1, gpu=8), duration=60, priority=5)
    world = problem(nodes(2, gpu=8), busy_gang("a", 0, ends_in=900), large, gang("long", role(1, gpu=8)), before_all)
    made = verified_plan(world)
    assert started_in(world, made) == {"fills"}
    assert fact_codes(world, made, "long") == ["GW114"]
    assert HigherPriority(6) in decision_in(world, made, "long").repairs
    fills, other = gang("fills", role(1, gpu=8), duration=60), gang("other", role(1, gpu=8))
    fits_beside = problem(
        nodes(3, gpu=8), busy_gang("a", 0, ends_in=900), large, gang("long", role(1, gpu=4)), other, fills
    )
    made = verified_plan(fits_beside)
    assert started_in(fits_beside, made) == {"fills", "other"}, (
        "the third node is nobody's, and who takes it is to blame"
    )
    assert fact_codes(fits_beside, made, "long") == ["GW105"]


def test_a_reservation_leaves_the_other_nodes_to_all_gangs() -> None:
    world = problem(
        nodes(3, gpu=8),
        busy_gang("a", 0, ends_in=900),
        busy_gang("b", 2, gpu=6),
        gang("large", role(2, gpu=8)),
        gang("small", role(1, gpu=2)),
    )
    made = verified_plan(world)
    assert started_in(world, made) == {"small"}
    assert {place.node for place in decision_in(world, made, "small").placements} == {2}


def test_without_known_ends_no_gang_is_held_back() -> None:
    world = problem(nodes(2, gpu=8), busy_gang("a", 0), gang("large", role(2, gpu=8)), gang("small", role(1, gpu=4)))
    made = verified_plan(world)
    assert made.reservation is None
    assert started_in(world, made) == {"small"}


def test_an_overdue_gang_is_held_room_for_although_no_end_is_known() -> None:
    world = problem(
        nodes(2, gpu=8),
        busy_gang("a", 0),
        gang("large", role(2, gpu=8), overdue=True),
        gang("small", role(1, gpu=4), duration=5),
    )
    made = verified_plan(world)
    assert made.reservation is not None
    assert (made.reservation.starts_in, made.reservation.awaited_gangs) == (None, (0,))
    assert started_in(world, made) == set()
    assert fact_codes(world, made, "small") == ["GW114"]


def test_a_gang_of_higher_priority_ignores_the_reservation() -> None:
    world = problem(
        nodes(2, gpu=8),
        busy_gang("a", 0, ends_in=900),
        gang("large", role(2, gpu=8)),
        gang("high", role(1, gpu=4), priority=1),
    )
    made = verified_plan(world)
    assert "high" in started_in(world, made)
    assert made.reservation is None  # nobody knows when the high one ends


def test_a_gang_of_higher_priority_that_will_end_moves_the_start() -> None:
    world = problem(
        nodes(2, gpu=8),
        busy_gang("a", 0, ends_in=900),
        gang("large", role(2, gpu=8)),
        gang("high", role(1, gpu=4), priority=1, duration=2000),
    )
    made = verified_plan(world)
    assert made.reservation is not None
    assert (made.reservation.starts_in, made.reservation.awaited_gangs) == (2000, (0, 2))


def test_room_freed_by_an_eviction_makes_no_reservation_beyond_guarantees() -> None:
    """A node shrank: 24 GPUs are there, 8 more are held, and 8 are guaranteed. Once `surplus` has lost a pod and `ends`
    is gone that is 29 with the winner, and with 4 for the reserved gang 33: more than the 32."""
    world = problem(
        nodes(2, gpu=8, cpu=1),
        nodes(1, gpu=4),
        nodes(1, gpu=4, cpu=1),
        queue("default"),
        queue("other", guarantee={"gpu": 8}),
        gang("surplus", role(2, minimum=1, gpu=8), running=(running_pods(0, 0, 1), running_pods(0, 1, 1)), loss=60),
        gang("shrunk", role(12, gpu=1), running=(running_pods(0, 2, 12),), priority=9),
        gang("ends", role(1, gpu=4, cpu=1), running=(running_pods(0, 3, 1),), ends_in=600, priority=9),
        gang("wins", role(1, gpu=1, cpu=1), priority=5),
        gang("waits", role(1, gpu=4, cpu=1)),
        preempt_enabled=True,
    )
    made = verified_plan(world)
    assert sum(place.pods for place in decision_in(world, made, "surplus").evicted_pods) == 1
    assert made.reservation is None


def test_a_gang_that_can_never_start_gets_no_reservation() -> None:
    world = problem(
        nodes(2, gpu=8),
        busy_gang("a", 0, ends_in=900),
        gang("monster", role(3, gpu=8), overdue=True),
        gang("large", role(2, gpu=8)),
        gang("small", role(1, gpu=4)),
    )
    made = verified_plan(world)
    assert made.reservation is not None
    assert made.reservation.gang == 2
    assert fact_codes(world, made, "monster") == ["GW108"]


def test_a_gang_that_is_outbid_gets_no_reservation() -> None:
    world = problem(nodes(1, gpu=8), gang("a", role(1, gpu=8), duration=10), gang("b", role(1, gpu=8), duration=10))
    assert verified_plan(world).reservation is None


def test_entitlements_come_before_a_reservation_for_a_borrowing_gang() -> None:
    """Two queues deserve 8 GPUs each. a's job of 12 has waited too long, and gets the one reservation; b's job of 8 and
    priority 0 takes its queue's 8 all the same."""
    world = problem(
        nodes(2, gpu=8),
        queue("a", deserved={"gpu": 8}),
        queue("b", deserved={"gpu": 8}),
        gang("runs", role(1, gpu=8), queue="a", running=(running_pods(0, 0, 1),), ends_in=60),
        gang("borrower", role(3, gpu=4), queue="a", priority=1000, overdue=True),
        gang("entitled", role(2, gpu=4), queue="b", duration=5000),
        policy=Policy(capacity=True),
    )
    made = verified_plan(world)
    assert decision_in(world, made, "entitled").action == "start"
    assert made.reservation is not None
    assert world.gangs[made.reservation.gang].name == "borrower"
    other = replace(world, policy=replace(world.policy, order="priorities-first"))
    assert decision_in(other, verified_plan(other), "entitled").action == "wait"


def test_growth_takes_no_reserved_node() -> None:
    elastic = gang("elastic", role(4, minimum=1, gpu=2), running=(running_pods(0, 0, 1),), ends_in=5000)
    loose = problem(nodes(2, gpu=8), elastic)
    assert sum(place.pods for place in decision_in(loose, verified_plan(loose), "elastic").placements) == 4
    world = problem(
        nodes(1, gpu=8),
        nodes(1, gpu=2),
        busy_gang("a", 0, gpu=4, ends_in=60),
        gang("elastic", role(4, minimum=1, gpu=2), running=(running_pods(0, 1, 1),)),
        gang("large", role(1, gpu=8)),
    )
    assert sum(place.pods for place in decision_in(world, verified_plan(world), "elastic").placements) == 1


def test_a_queue_limit_is_reserved_as_well() -> None:
    world = problem(
        nodes(4, gpu=8),
        queue("team", capability={"gpu": 16}),
        queue("other"),
        gang("a", role(1, gpu=8), queue="team", running=(running_pods(0, 0, 1),), ends_in=900),
        gang("large", role(2, gpu=8), queue="team"),
        gang("long", role(1, gpu=4), queue="team"),
        gang("short", role(1, gpu=4), queue="team", duration=300),
        gang("stranger", role(1, gpu=8), queue="other"),
    )
    made = verified_plan(world)
    assert started_in(world, made) == {"short", "stranger"}
    assert fact_codes(world, made, "long") == ["GW114"]
    assert fact_codes(world, made, "large") == ["GW101"]


def test_growth_leaves_the_queue_what_is_reserved() -> None:
    world = problem(
        nodes(4, gpu=8),
        queue("default", capability={"gpu": 16}),
        busy_gang("a", 0, ends_in=900),
        gang("elastic", role(8, minimum=1, gpu=1), running=(running_pods(0, 1, 1),)),
        gang("large", role(1, gpu=12)),
        nodes(1, gpu=16),
    )
    made = verified_plan(world)
    assert made.reservation is not None
    assert sum(place.pods for place in decision_in(world, made, "elastic").placements) == 4


def test_a_hard_topology_is_reserved_a_whole_domain() -> None:
    world = problem(
        nodes(2, leaf="s0", gpu=8),
        nodes(2, leaf="s1", gpu=8),
        busy_gang("a", 0, ends_in=900),
        busy_gang("b", 2, ends_in=300),
        gang("large", role(2, gpu=8), topology=hard_topology(1)),
        gang("small", role(1, gpu=8)),
        hypernodes={"s0": (1, None), "s1": (1, None)},
    )
    made = verified_plan(world)
    assert made.reservation is not None
    assert made.reservation.starts_in == 300
    assert {place.node for place in made.reservation.placements} == {2, 3}
    assert [place.node for place in decision_in(world, made, "small").placements] == [1]


def test_evictions_come_before_a_reservation() -> None:
    world = problem(
        nodes(1, gpu=8),
        busy_gang("a", 0, ends_in=900, loss=60),
        gang("high", role(1, gpu=8), priority=1),
        preempt_enabled=True,
    )
    made = verified_plan(world)
    assert made.reservation is None
    assert started_in(world, made) == {"high"}
    spared = problem(
        nodes(1, gpu=8), busy_gang("a", 0, ends_in=900, loss=60), gang("low", role(1, gpu=8)), preempt_enabled=True
    )
    made = verified_plan(spared)
    assert made.reservation is not None
    assert made.reservation.starts_in == 900


def test_in_a_strict_queue_only_the_head_gets_the_reservation() -> None:
    world = problem(
        nodes(2, gpu=8),
        queue("default", strict_order=True),
        busy_gang("a", 0, ends_in=900),
        gang("monster", role(3, gpu=8)),
        gang("large", role(2, gpu=8)),
    )
    assert verified_plan(world).reservation is None


def test_the_queue_of_higher_priority_is_a_level_above() -> None:
    world = problem(
        nodes(2, gpu=8),
        queue("first", priority=1),
        queue("second"),
        gang("a", role(1, gpu=8), queue="second", running=(running_pods(0, 0, 1),), ends_in=900),
        gang("large", role(2, gpu=8), queue="second"),
        gang("small", role(1, gpu=4), queue="first"),
        policy=Policy(capacity=True),
    )
    made = verified_plan(world)
    assert started_in(world, made) == {"small"}
    assert made.reservation is None

"""Order and time: strict queues, the overdue, reservations and backfill, domains that a queue keeps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solver import Problem, solve
from solver.facts import DedicatedDomains, ReservedNodes, StrictOrder
from solver.plan import Decision, Plan
from solver.problem import Policy
from solver.repairs import HigherPriority
from solver.verify import verify
from tests.builders.problems import (
    GangSpec,
    NodeSpec,
    gang,
    hard_topology,
    nodes,
    problem,
    queue,
    role,
    running_pods,
)


def plan(world: Problem) -> Plan:
    made = solve(world)
    assert verify(world, made) == []
    return made


def of(world: Problem, made: Plan, name: str) -> Decision:
    (j,) = [j for j, each in enumerate(world.gangs) if each.name == name]
    return made.decisions[j]


def started(world: Problem, made: Plan) -> set[str]:
    return {world.gangs[d.gang].name for d in made.decisions if d.action == "start"}


def codes(world: Problem, made: Plan, name: str) -> list[str]:
    return [fact.code for fact in of(world, made, name).facts]


def busy(name: str, node: int, pods: int = 1, gpu: int = 8, **more: int | bool | None) -> GangSpec:
    return gang(name, role(pods, gpu=gpu), running=(running_pods(0, node, pods),), **more)  # type: ignore[arg-type]


# ---- the overdue


def test_an_overdue_gang_is_decided_before_the_others_of_its_priority() -> None:
    world = problem(nodes(1, gpu=8), gang("large", role(1, gpu=8)), gang("late", role(1, gpu=2), overdue=True))
    made = plan(world)
    assert started(world, made) == {"late"}


def test_an_overdue_gang_is_decided_after_gangs_of_a_higher_priority() -> None:
    world = problem(
        nodes(1, gpu=8), gang("high", role(1, gpu=8), priority=1), gang("late", role(1, gpu=2), overdue=True)
    )
    assert started(world, plan(world)) == {"high"}


def test_the_objectives_of_the_overdue_are_named_apart() -> None:
    world = problem(nodes(1, gpu=8), gang("plain", role(1, gpu=8)), gang("late", role(1, gpu=2), overdue=True))
    names = [objective.name for batch in plan(world).batches for objective in batch.objectives]
    assert [name for name in names if name.startswith("placed")] == ["placed[0, overdue]", "placed[0]"]


# ---- strict order


def test_in_a_strict_queue_a_later_gang_does_not_pass_one_that_waits() -> None:
    first, second = gang("first", role(2, gpu=8)), gang("second", role(1, gpu=8))
    strict, loose = (
        problem(nodes(1, gpu=8), queue("default", strict_order=order), first, second) for order in (True, False)
    )
    assert started(loose, plan(loose)) == {"second"}
    made = plan(strict)
    assert started(strict, made) == set()
    assert codes(strict, made, "second") == ["GW115"]
    assert of(strict, made, "second").facts == (StrictOrder(queue=0, gang=0),)
    assert codes(strict, made, "first") == ["GW108"]


def left_over(*more: list[NodeSpec]) -> Problem:
    """On the first node there is no room beside what runs; the urgent one evicts it all and leaves half, which only the
    strict order keeps from the last."""
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
    made = plan(world)
    assert started(world, made) == {"urgent"}
    assert codes(world, made, "small") == ["GW115"]
    assert [repair.code for repair in of(world, made, "small").repairs] == ["GR114", "GR117"]


def test_maintenance_is_not_blamed_where_the_remaining_nodes_stay_open() -> None:
    """A second node, empty, closes before anybody would have ended: it is not what keeps the last one waiting."""
    world = left_over(nodes(1, gpu=4, maintenance_in=0))
    made = plan(world)
    assert started(world, made) == {"urgent"}
    assert codes(world, made, "small") == ["GW115"]


def test_no_promise_waits_for_the_end_of_a_gang_that_is_evicted() -> None:
    """late waits for both; quick, of its level, may evict one of them and is gone in time: then there is one to wait
    for, as the next plan says."""
    world = problem(
        nodes(1, gpu=8),
        busy("stays", 0, gpu=4, ends_in=5),
        busy("goes", 0, gpu=4, ends_in=3, loss=1),
        gang("late", role(1, gpu=8), priority=5, may_evict=False),
        gang("quick", role(1, gpu=4), priority=5, duration=2),
        preempt_enabled=True,
    )
    made = plan(world)
    assert started(world, made) == {"quick"}
    assert made.reservation is None


def test_no_pod_is_reserved_for_on_a_node_that_closes_even_if_it_asks_for_nothing() -> None:
    """Its second role needs no room, so that it would fit where nothing is free; started then, in ten seconds, it would
    run when the node closes."""
    late = gang("late", role(1, gpu=8), role(1), overdue=True, duration=55)
    world = problem(nodes(1, gpu=1, maintenance_in=60), nodes(1, gpu=8), late, busy("runs", 1, ends_in=10))
    held = plan(world).reservation
    assert held is not None
    assert {place.node for place in held.placements} == {1}


def test_a_gang_for_which_room_is_held_is_not_told_never_though_no_empty_cluster_holds_all_of_it() -> None:
    """Its four pods stay on a node that shrank to two GPUs; the eight others fit where another gang runs. Anew there
    would be ten GPUs for twelve."""
    late = gang("late", role(12, gpu=1), running=(running_pods(0, 0, 4),), overdue=True)
    world = problem(nodes(1, gpu=2), nodes(1, gpu=8), late, busy("runs", 1))
    made = plan(world)
    assert made.reservation is not None
    assert made.reservation.gang == 0
    assert [(fact.code, fact.never) for fact in of(world, made, "late").facts] == [("GW102", False)]


def test_strict_order_is_by_priority_before_age() -> None:
    world = problem(
        nodes(1, gpu=8),
        queue("default", strict_order=True),
        gang("old", role(1, gpu=8)),
        gang("urgent", role(1, gpu=8), priority=1),
        gang("new", role(1, gpu=1)),
    )
    made = plan(world)
    assert started(world, made) == {"urgent"}
    assert codes(world, made, "old") == ["GW105"]


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
    made = plan(world)
    assert started(world, made) == {"elsewhere"}
    assert codes(world, made, "second") == ["GW101"]


def test_a_strict_queue_starts_the_first_of_its_gangs_as_far_as_they_fit() -> None:
    world = problem(
        nodes(2, gpu=8),
        queue("default", strict_order=True),
        *(gang(f"g{n}", role(1, gpu=size)) for n, size in enumerate((4, 8, 8, 4))),
    )
    assert started(world, plan(world)) == {"g0", "g1"}


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
    assert started(world, plan(world)) == set()
    assert started(evictable, plan(evictable)) == set()  # the second one could preempt, the first may not


# ---- reservation and backfill


def test_the_first_gang_that_finds_no_room_gets_a_reservation_at_the_known_end() -> None:
    world = problem(
        nodes(2, gpu=8), busy("a", 0, ends_in=600), busy("b", 1, ends_in=900), gang("large", role(2, gpu=8))
    )
    made = plan(world)
    assert made.reservation is not None
    assert (made.reservation.gang, made.reservation.starts_in, made.reservation.awaited_gangs) == (2, 900, (0, 1))
    assert of(world, made, "large").starts_in == 900
    assert [of(world, made, name).starts_in for name in "ab"] == [None, None]


def test_a_reservation_awaits_only_the_ends_that_it_needs() -> None:
    world = problem(
        nodes(3, gpu=8),
        busy("a", 0, ends_in=300),
        busy("b", 1, ends_in=900),
        busy("c", 2, ends_in=600),
        gang("large", role(2, gpu=8)),
    )
    made = plan(world)
    assert made.reservation is not None
    assert (made.reservation.starts_in, made.reservation.awaited_gangs) == (600, (0, 2))
    assert {place.node for place in made.reservation.placements} == {0, 2}


@pytest.mark.parametrize(("duration", "starts"), [(None, False), (1200, False), (900, True), (60, True)])
def test_a_small_gang_takes_reserved_nodes_only_when_it_ends_in_time(duration: int | None, starts: bool) -> None:
    world = problem(
        nodes(2, gpu=8),
        busy("a", 0, ends_in=900),
        gang("large", role(2, gpu=8)),
        gang("small", role(1, gpu=4), duration=duration),
    )
    made = plan(world)
    assert (of(world, made, "small").action == "start") is starts
    if not starts:
        assert codes(world, made, "small") == ["GW114"]
        assert of(world, made, "small").facts == (ReservedNodes(gang=1),)


def test_a_backfilled_gang_is_not_blamed_for_nodes_that_are_reserved() -> None:
    large = gang("large", role(2, gpu=8))
    before_all = gang("fills", role(1, gpu=8), duration=60, priority=5)
    world = problem(nodes(2, gpu=8), busy("a", 0, ends_in=900), large, gang("long", role(1, gpu=8)), before_all)
    made = plan(world)
    assert started(world, made) == {"fills"}
    assert codes(world, made, "long") == ["GW114"]
    assert HigherPriority(6) in of(world, made, "long").repairs
    fills, other = gang("fills", role(1, gpu=8), duration=60), gang("other", role(1, gpu=8))
    fits_beside = problem(nodes(3, gpu=8), busy("a", 0, ends_in=900), large, gang("long", role(1, gpu=4)), other, fills)
    made = plan(fits_beside)
    assert started(fits_beside, made) == {"fills", "other"}, "the third node is nobody's, and who takes it is to blame"
    assert codes(fits_beside, made, "long") == ["GW105"]


def test_a_reservation_leaves_the_other_nodes_to_all_gangs() -> None:
    world = problem(
        nodes(3, gpu=8),
        busy("a", 0, ends_in=900),
        busy("b", 2, gpu=6),
        gang("large", role(2, gpu=8)),
        gang("small", role(1, gpu=2)),
    )
    made = plan(world)
    assert started(world, made) == {"small"}
    assert {place.node for place in of(world, made, "small").placements} == {2}


def test_without_known_ends_no_gang_is_held_back() -> None:
    world = problem(nodes(2, gpu=8), busy("a", 0), gang("large", role(2, gpu=8)), gang("small", role(1, gpu=4)))
    made = plan(world)
    assert made.reservation is None
    assert started(world, made) == {"small"}


def test_an_overdue_gang_is_held_room_for_although_no_end_is_known() -> None:
    world = problem(
        nodes(2, gpu=8),
        busy("a", 0),
        gang("large", role(2, gpu=8), overdue=True),
        gang("small", role(1, gpu=4), duration=5),
    )
    made = plan(world)
    assert made.reservation is not None
    assert (made.reservation.starts_in, made.reservation.awaited_gangs) == (None, (0,))
    assert started(world, made) == set()
    assert codes(world, made, "small") == ["GW114"]


def test_a_gang_of_higher_priority_ignores_the_reservation() -> None:
    world = problem(
        nodes(2, gpu=8),
        busy("a", 0, ends_in=900),
        gang("large", role(2, gpu=8)),
        gang("high", role(1, gpu=4), priority=1),
    )
    made = plan(world)
    assert "high" in started(world, made)
    assert made.reservation is None  # nobody knows when the high one ends


def test_a_gang_of_higher_priority_that_will_end_moves_the_start() -> None:
    world = problem(
        nodes(2, gpu=8),
        busy("a", 0, ends_in=900),
        gang("large", role(2, gpu=8)),
        gang("high", role(1, gpu=4), priority=1, duration=2000),
    )
    made = plan(world)
    assert made.reservation is not None
    assert (made.reservation.starts_in, made.reservation.awaited_gangs) == (2000, (0, 2))


def test_room_freed_by_an_eviction_makes_no_reservation_beyond_guarantees() -> None:
    """A node shrank: of 24 GPUs 32 are held and 1 is guaranteed. Once `surplus` has lost a pod and `ends` is gone that
    is 21 + 1 for the winner, and with 4 for the reserved gang 26: more than there are."""
    world = problem(
        nodes(2, gpu=8, cpu=1),
        nodes(1, gpu=4),
        nodes(1, gpu=4, cpu=1),
        queue("default"),
        queue("other", guarantee={"gpu": 1}),
        gang("surplus", role(2, minimum=1, gpu=8), running=(running_pods(0, 0, 1), running_pods(0, 1, 1)), loss=60),
        gang("shrunk", role(12, gpu=1), running=(running_pods(0, 2, 12),), priority=9),
        gang("ends", role(1, gpu=4, cpu=1), running=(running_pods(0, 3, 1),), ends_in=600, priority=9),
        gang("wins", role(1, gpu=1, cpu=1), priority=5),
        gang("waits", role(1, gpu=4, cpu=1)),
        preempt_enabled=True,
    )
    made = plan(world)
    assert sum(place.pods for place in of(world, made, "surplus").evicted_pods) == 1
    assert made.reservation is None


def test_a_gang_that_can_never_start_gets_no_reservation() -> None:
    world = problem(
        nodes(2, gpu=8),
        busy("a", 0, ends_in=900),
        gang("monster", role(3, gpu=8), overdue=True),
        gang("large", role(2, gpu=8)),
        gang("small", role(1, gpu=4)),
    )
    made = plan(world)
    assert made.reservation is not None
    assert made.reservation.gang == 2
    assert codes(world, made, "monster") == ["GW108"]


def test_a_gang_that_is_outbid_gets_no_reservation() -> None:
    world = problem(nodes(1, gpu=8), gang("a", role(1, gpu=8), duration=10), gang("b", role(1, gpu=8), duration=10))
    assert plan(world).reservation is None


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
    made = plan(world)
    assert of(world, made, "entitled").action == "start"
    assert made.reservation is not None
    assert world.gangs[made.reservation.gang].name == "borrower"
    other = replace(world, policy=replace(world.policy, order="priorities-first"))
    assert of(other, plan(other), "entitled").action == "wait"


def test_growth_takes_no_reserved_node() -> None:
    elastic = gang("elastic", role(4, minimum=1, gpu=2), running=(running_pods(0, 0, 1),), ends_in=5000)
    loose = problem(nodes(2, gpu=8), elastic)
    assert sum(place.pods for place in of(loose, plan(loose), "elastic").placements) == 4
    world = problem(
        nodes(1, gpu=8),
        nodes(1, gpu=2),
        busy("a", 0, gpu=4, ends_in=60),
        gang("elastic", role(4, minimum=1, gpu=2), running=(running_pods(0, 1, 1),)),
        gang("large", role(1, gpu=8)),
    )
    assert sum(place.pods for place in of(world, plan(world), "elastic").placements) == 1


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
    made = plan(world)
    assert started(world, made) == {"short", "stranger"}
    assert codes(world, made, "long") == ["GW114"]
    assert codes(world, made, "large") == ["GW101"]


def test_growth_leaves_the_queue_what_is_reserved() -> None:
    world = problem(
        nodes(4, gpu=8),
        queue("default", capability={"gpu": 16}),
        busy("a", 0, ends_in=900),
        gang("elastic", role(8, minimum=1, gpu=1), running=(running_pods(0, 1, 1),)),
        gang("large", role(1, gpu=12)),
        nodes(1, gpu=16),
    )
    made = plan(world)
    assert made.reservation is not None
    assert sum(place.pods for place in of(world, made, "elastic").placements) == 4


def test_a_hard_topology_is_reserved_a_whole_domain() -> None:
    world = problem(
        nodes(2, leaf="s0", gpu=8),
        nodes(2, leaf="s1", gpu=8),
        busy("a", 0, ends_in=900),
        busy("b", 2, ends_in=300),
        gang("large", role(2, gpu=8), topology=hard_topology(1)),
        gang("small", role(1, gpu=8)),
        hypernodes={"s0": (1, None), "s1": (1, None)},
    )
    made = plan(world)
    assert made.reservation is not None
    assert made.reservation.starts_in == 300
    assert {place.node for place in made.reservation.placements} == {2, 3}
    assert [place.node for place in of(world, made, "small").placements] == [1]


def test_evictions_come_before_a_reservation() -> None:
    world = problem(
        nodes(1, gpu=8),
        busy("a", 0, ends_in=900, loss=60),
        gang("high", role(1, gpu=8), priority=1),
        preempt_enabled=True,
    )
    made = plan(world)
    assert made.reservation is None
    assert started(world, made) == {"high"}
    spared = problem(
        nodes(1, gpu=8), busy("a", 0, ends_in=900, loss=60), gang("low", role(1, gpu=8)), preempt_enabled=True
    )
    made = plan(spared)
    assert made.reservation is not None
    assert made.reservation.starts_in == 900


def test_in_a_strict_queue_only_the_head_gets_the_reservation() -> None:
    world = problem(
        nodes(2, gpu=8),
        queue("default", strict_order=True),
        busy("a", 0, ends_in=900),
        gang("monster", role(3, gpu=8)),
        gang("large", role(2, gpu=8)),
    )
    assert plan(world).reservation is None


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
    made = plan(world)
    assert started(world, made) == {"small"}
    assert made.reservation is None


# ---- domains that a queue keeps

TREE = {"s0": (1, None), "s1": (1, None)}


def test_a_kept_domain_takes_no_gang_of_another_queue() -> None:
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
    made = plan(world)
    assert started(world, made) == {"one", "mine"}
    assert [place.node for place in of(world, made, "one").placements] == [1]
    assert codes(world, made, "two") == ["GW105"]


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
    made = plan(world)
    assert of(world, made, "one").facts == (DedicatedDomains(queue=0, tier=1),)


def test_pods_running_in_a_dedicated_domain_stay_and_grow_elsewhere() -> None:
    world = problem(
        nodes(1, leaf="s0", gpu=8),
        nodes(1, leaf="s1", gpu=8),
        queue("owner", dedicated_domains=("s0",)),
        queue("other"),
        gang("elastic", role(8, minimum=1, gpu=2), queue="other", running=(running_pods(0, 0, 1),)),
        hypernodes=TREE,
    )
    assert [(place.node, place.pods) for place in of(world, plan(world), "elastic").placements] == [(0, 1), (1, 4)]


# ---- nodes that close for maintenance


@pytest.mark.parametrize(("duration", "node"), [(None, 1), (601, 1), (600, 0)])
def test_a_gang_uses_a_node_that_closes_only_when_it_ends_before(duration: int | None, node: int) -> None:
    world = problem(
        nodes(1, gpu=8, maintenance_in=600), nodes(1, gpu=9), gang("job", role(1, gpu=8), duration=duration)
    )
    assert [place.node for place in of(world, plan(world), "job").placements] == [node]


def test_a_gang_for_which_only_closing_nodes_have_room_is_told_so() -> None:
    world = problem(
        nodes(2, gpu=8, maintenance_in=0), gang("job", role(1, gpu=8), duration=1), gang("large", role(1, gpu=9))
    )
    made = plan(world)
    assert codes(world, made, "job") == ["GW116"]
    assert not of(world, made, "job").facts[0].never
    assert codes(world, made, "large") == ["GW103"]


def test_nothing_is_promised_on_a_node_that_closes_meanwhile() -> None:
    for duration, starts in ((100, 300), (400, 900)):
        world = problem(
            nodes(1, gpu=8, maintenance_in=500),
            nodes(1, gpu=8),
            busy("a", 0, ends_in=300),
            busy("b", 1, ends_in=900),
            gang("next", role(1, gpu=8), duration=duration),
        )
        assert of(world, plan(world), "next").starts_in == starts

"""Queues as Volcano's plugins mean them: every number here is worked out by hand, in the case's own sentence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solver.facts import ClosedQueue, Fact, GuaranteeReserve, ShareLimit
from solver.problem import Policy, Problem
from solver.semantics.entitlements import capacity_deserved, water_filled_shares
from solver.semantics.queues import real_capability
from tests.builders.plans import proven_plan, started_per_queue
from tests.builders.problems import (
    QueueSpec,
    gang,
    nodes,
    one_pod_gangs,
    problem,
    queue,
    role,
    running_pods,
    with_fields,
)

PROPORTION, CAPACITY = Policy(proportion=True), Policy(capacity=True)
TREE = Policy(capacity=True, capacity_hierarchy=True)


def facts(world: Problem, name: str) -> tuple[Fact, ...]:
    return next(decision.facts for decision in proven_plan(world).decisions if world.gangs[decision.gang].name == name)


# --- proportion

SHARES: dict[str, tuple[int, list[tuple[QueueSpec, int]], list[int | None]]] = {
    "equal weights: 12 / 2": (12, [(queue("a"), 20), (queue("b"), 20)], [6, 6]),
    "weights 2 and 1: 12 * 2/3 and 12 * 1/3": (12, [(queue("a", weight=2), 20), (queue("b"), 20)], [8, 4]),
    "weights 1, 2 and 3: 12 in sixths": (
        12,
        [(queue("a"), 99), (queue("b", weight=2), 99), (queue("c", weight=3), 99)],
        [2, 4, 6],
    ),
    "a asks for 2 of its 4 and is met; the 2 left go to b and c": (
        12,
        [(queue("a"), 2), (queue("b"), 9), (queue("c"), 9)],
        [2, 5, 5],
    ),
    "a asks for 3 of its 9, and b takes 3 and then the 6 left": (
        12,
        [(queue("a", weight=3), 3), (queue("b"), 20)],
        [3, 9],
    ),
    "all that is asked for is less than there is": (12, [(queue("a"), 3), (queue("b", weight=5), 4)], [3, 4]),
    "a capability of 3 stops a; b takes 6, then 1.5 of the 3 left, then the rest": (
        12,
        [(queue("a", capability={"gpu": 3}), 20), (queue("b"), 20)],
        [3, 9],
    ),
    "a is guaranteed 8 and asks for 2: it deserves the 8, and b no more than 12 - 8": (
        12,
        [(queue("a", guarantee={"gpu": 8}), 2), (queue("b"), 20)],
        [8, 4],
    ),
    "a guarantee of 6 lifts a above its 4; b is held at 12 - 6": (
        12,
        [(queue("a", guarantee={"gpu": 6}), 20), (queue("b", weight=2), 20)],
        [6, 6],
    ),
    "an idle queue takes part in nothing, and its guarantee stays out of reach": (
        12,
        [(queue("a"), 20), (queue("idle", guarantee={"gpu": 4}), 0)],
        [8, None],
    ),
    "what others' pods hold is part of what is asked for: 4 + 1 of a, and b takes the 7 left": (
        12,
        [(queue("a", used={"gpu": 4}), 1), (queue("b"), 20)],
        [5, 7],
    ),
    "thirds are rounded down to whole devices": (10, [(queue("a"), 20), (queue("b"), 20), (queue("c"), 20)], [3, 3, 3]),
    "4 devices on paper are 3.9999999999 where proportion counts, which forgives nothing": (
        16,
        [(queue("a"), 4), (queue("b", weight=3), 9), (queue("c", weight=3, guarantee={"gpu": 2}), 3)],
        [3, 9, 3],
    ),
    "2.2857142857 and 0.7142857143 are 3 in whatever order the sums are added": (
        16,
        [(queue("a"), 3), (queue("b", weight=3), 4), (queue("c", weight=3), 14)],
        [3, 4, 9],
    ),
    "a share that comes out even is whole there too": (
        24,
        [(queue("a"), 20), (queue("b"), 20), (queue("c"), 20)],
        [8, 8, 8],
    ),
    "guarantees above the cluster: nothing is left to be shared, and each keeps its own": (
        6,
        [(queue("a", guarantee={"gpu": 4}), 20), (queue("b", guarantee={"gpu": 4}), 20), (queue("c"), 20)],
        [4, 4, 0],
    ),
}


@pytest.mark.parametrize("sentence", SHARES)
def test_proportion_deserves(sentence: str) -> None:
    total, queues, expected = SHARES[sentence]
    gangs = [gang(q.name, role(asks, gpu=1), queue=q.name) for q, asks in queues if asks]
    world = problem(nodes(1, gpu=total), *(q for q, _ in queues), *gangs)
    assert [None if share is None else share[0] for share in water_filled_shares(world)] == expected


def test_what_the_action_enqueue_never_lets_in_is_not_asked_for() -> None:
    """A gang of 8 in a queue that may hold 6: its queue keeps its weight and gets nothing, its neighbour all."""
    large = gang("large", role(8, gpu=1), queue="a")
    small = [gang(f"small{n}", role(2, gpu=1), queue="b") for n in range(6)]
    world = problem(nodes(1, gpu=12), queue("a", capability={"gpu": 6}), queue("b"), large, *small, policy=PROPORTION)
    late = replace(world, gangs=(with_fields(world.gangs[0], enqueued_first=True), *world.gangs[1:]))
    assert (started_per_queue(world), started_per_queue(late)) == ([0, 3], [0, 6])
    fits = replace(late, queues=(replace(late.queues[0], capability=(8,)), late.queues[1]))
    assert water_filled_shares(fits) == ((6,), (6,))


def test_proportion_shares_out_each_resource_and_ends() -> None:
    """Each round leaves half of what the one before left: 6, 8, 9 ... of what only one asks for more of, and 10 is not
    reached; pods count for nothing."""
    a, b = gang("a", role(1, cpu=12, gpu=2, pods=1), queue="a"), gang("b", role(1, cpu=2, gpu=12, pods=1), queue="b")
    assert water_filled_shares(problem(nodes(1, cpu=12, gpu=12, pods=1), queue("a"), queue("b"), a, b)) == (
        (9, 2, 0),
        (2, 9, 0),
    )


def test_proportion_lets_no_queue_exceed_its_share_even_beside_free_nodes() -> None:
    """12 GPUs, shares of 6 and 6: the gang of 8 in b keeps to no share, and what it leaves free goes to nobody."""
    world = problem(
        nodes(12, gpu=1),
        queue("a"),
        queue("b"),
        *one_pod_gangs(8, "a"),
        gang("wide", role(8, gpu=1), queue="b"),
        policy=PROPORTION,
    )
    assert started_per_queue(world) == [6, 0]
    assert facts(world, "wide") == (ShareLimit(asked=8, available=6, queue=1, resource=0, limit=6),)
    assert started_per_queue(replace(world, policy=Policy(order="priorities-first"))) == [4, 1]
    assert started_per_queue(replace(world, policy=Policy())) == [8, 0], (
        "the fair shares are 6 and 6, and b would borrow"
    )


def test_a_share_that_is_the_whole_cluster_is_never_blamed() -> None:
    world = problem(nodes(4, gpu=1), gang("a", role(3, gpu=1)), gang("b", role(3, gpu=1)), policy=PROPORTION)
    assert [fact.code for fact in facts(world, "b")] == ["GW105"]


def test_what_a_queue_holds_above_its_share_stays_and_nothing_comes_to_it() -> None:
    holder = gang("holder", role(8, gpu=1), queue="a", running=(running_pods(0, 0, 8),))
    world = problem(
        nodes(1, gpu=12),
        queue("a"),
        queue("b"),
        holder,
        *one_pod_gangs(4, "a"),
        *one_pod_gangs(8, "b"),
        policy=PROPORTION,
    )
    assert started_per_queue(world) == [0, 4]


def test_growth_ends_at_the_share() -> None:
    world = problem(
        nodes(1, gpu=12),
        queue("a"),
        queue("b"),
        gang("a", role(12, minimum=1, gpu=1), queue="a"),
        *one_pod_gangs(9, "b"),
        policy=PROPORTION,
    )
    assert sum(p.pods for p in proven_plan(world).decisions[0].placements) == 6


# --- capacity: limits

TEAM = (queue("root"), queue("team", "root", capability={"gpu": 8}))
LIMITS: dict[str, tuple[Policy, int, tuple[QueueSpec, ...], list[int | None]]] = {
    "flat: a's guarantee of 4 is out of b's reach": (
        CAPACITY,
        12,
        (queue("a", guarantee={"gpu": 4}), queue("b")),
        [12, 8],
    ),
    "flat: the lower of both limits counts": (
        CAPACITY,
        12,
        (queue("a", guarantee={"gpu": 4}), queue("b", capability={"gpu": 5})),
        [12, 5],
    ),
    "flat: guarantees above the cluster leave each its own": (
        CAPACITY,
        6,
        (queue("a", guarantee={"gpu": 4}), queue("b", guarantee={"gpu": 4})),
        [4, 4],
    ),
    "tree: without a limit above there is none": (
        TREE,
        12,
        (queue("root"), queue("a", "root", guarantee={"gpu": 4}), queue("b", "root")),
        [None] * 3,
    ),
    "tree: a child without a capability has its parent's": (TREE, 12, (*TEAM, queue("a", "team")), [None, 8, 8]),
    "tree: a child's own is the lower": (TREE, 12, (*TEAM, queue("a", "team", capability={"gpu": 3})), [None, 8, 3]),
    "tree: of the parent's 8 a sibling is guaranteed 3": (
        TREE,
        12,
        (*TEAM, queue("a", "team", guarantee={"gpu": 3}), queue("b", "team")),
        [None, 8, 8, 5],
    ),
    "tree: 8 - 3 - 2 + 3 and 8 - 3 - 2 + 2": (
        TREE,
        12,
        (*TEAM, queue("a", "team", guarantee={"gpu": 3}), queue("b", "team", guarantee={"gpu": 2})),
        [None, 8, 6, 5],
    ),
    "tree: a grandchild is inside what is left to its parent": (
        TREE,
        12,
        (*TEAM, queue("a", "team", guarantee={"gpu": 3}), queue("b", "team"), queue("b1", "b")),
        [None, 8, 8, 5, 5],
    ),
    "tree: guarantees above the parent's capability leave each its own": (
        TREE,
        12,
        (*TEAM, queue("a", "team", guarantee={"gpu": 7}), queue("b", "team", guarantee={"gpu": 7}), queue("c", "team")),
        [None, 8, 7, 7, 0],
    ),
}


@pytest.mark.parametrize("sentence", LIMITS)
def test_real_capability(sentence: str) -> None:
    policy, total, queues, expected = LIMITS[sentence]
    assert [limit[0] for limit in real_capability(problem(nodes(1, gpu=total), *queues, policy=policy))] == expected


def test_deserved_lies_between_guarantee_and_real_capability() -> None:
    """min(20, 12 - 4) = 8; max(2, 4) = 4; nothing said, nothing deserved."""
    queues = (
        queue("much", deserved={"gpu": 20}),
        queue("little", deserved={"gpu": 2}, guarantee={"gpu": 4}),
        queue("nothing"),
    )
    assert [limit[0] for limit in capacity_deserved(problem(nodes(1, gpu=12), *queues, policy=CAPACITY))] == [
        8,
        4,
        None,
    ]


def test_flat_capacity_counts_guarantees_of_a_tree_twice_and_says_so() -> None:
    """total 12 - (4 + 4) = 4 for others, where the tree alone would leave them 8."""
    tree = (queue("top", guarantee={"gpu": 4}), queue("heir", "top", guarantee={"gpu": 4}), queue("b"))
    world = problem(nodes(12, gpu=1), *tree, gang("wide", role(6, gpu=1), queue="b"), policy=CAPACITY)
    assert facts(world, "wide") == (
        GuaranteeReserve(asked=6, available=4, queue=2, resource=0, queues=(0, 1), never=True),
    )
    assert started_per_queue(replace(world, policy=Policy())) == [0, 0, 1]


# --- capacity: who goes first

X_AND_Y = (
    queue("root"),
    queue("x", "root", deserved={"gpu": 8}),
    queue("y", "root", deserved={"gpu": 4}),
    queue("x1", "x", deserved={"gpu": 6}),
    queue("x2", "x", deserved={"gpu": 2}),
)
ORDERS: dict[str, tuple[Policy, int, tuple[QueueSpec, ...], dict[str, int], list[int]]] = {
    "shares of what is deserved are equal: 8/8 and 4/4": (
        CAPACITY,
        12,
        (queue("a", deserved={"gpu": 8}), queue("b", deserved={"gpu": 4})),
        {"a": 12, "b": 12},
        [8, 4],
    ),
    "beyond it as well: 12/4 and 6/2": (
        CAPACITY,
        18,
        (queue("a", deserved={"gpu": 4}), queue("b", deserved={"gpu": 2})),
        {"a": 20, "b": 20},
        [12, 6],
    ),
    "weights count for nothing": (
        CAPACITY,
        12,
        (queue("a", weight=9, deserved={"gpu": 6}), queue("b", deserved={"gpu": 6})),
        {"a": 12, "b": 12},
        [6, 6],
    ),
    "what lies idle is lent": (
        CAPACITY,
        12,
        (queue("a", deserved={"gpu": 4}), queue("b", deserved={"gpu": 8})),
        {"a": 12},
        [12, 0],
    ),
    "what is guaranteed is not: 12 - 4": (
        CAPACITY,
        12,
        (queue("a", deserved={"gpu": 6}), queue("idle", guarantee={"gpu": 4})),
        {"a": 12},
        [8, 0],
    ),
    "guarantee, borrowing, an idle queue: b keeps its 3 free, c deserves 2 and a 4 of the 9 left, so 6 and 3": (
        CAPACITY,
        12,
        (
            queue("a", deserved={"gpu": 4}),
            queue("b", guarantee={"gpu": 3}, deserved={"gpu": 6}),
            queue("c", deserved={"gpu": 2}),
        ),
        {"a": 12, "c": 12},
        [6, 0, 3],
    ),
    "a queue that deserves nothing comes after one that has less than it deserves": (
        CAPACITY,
        6,
        (queue("a", deserved={"gpu": 6}), queue("b")),
        {"a": 6, "b": 6},
        [6, 0],
    ),
    "two queues that deserve nothing share by weight": (
        CAPACITY,
        12,
        (queue("a", weight=2), queue("b")),
        {"a": 12, "b": 12},
        [8, 4],
    ),
    "what is held counts: 6 of 6 are held by a": (
        CAPACITY,
        12,
        (queue("a", deserved={"gpu": 6}, used={"gpu": 6}), queue("b", deserved={"gpu": 6})),
        {"a": 12, "b": 12},
        [0, 6],
    ),
    "the queue of higher priority goes first, whatever its share": (
        CAPACITY,
        12,
        (queue("a", priority=1, deserved={"gpu": 6}), queue("b", deserved={"gpu": 6})),
        {"a": 9, "b": 12},
        [9, 3],
    ),
    "tree: x deserves 8 of 12, x1 6 of these": (
        TREE,
        12,
        X_AND_Y,
        {"x1": 12, "x2": 12, "y": 12},
        [0, 0, 4, 6, 2],
    ),
    "tree: what x1 leaves goes to its sibling, not to y": (
        TREE,
        12,
        X_AND_Y,
        {"x1": 1, "x2": 12, "y": 12},
        [0, 0, 4, 1, 7],
    ),
    "without the tree x2 and y share by what they themselves deserve: 4/2 and 8/4": (
        CAPACITY,
        12,
        (
            queue("root"),
            queue("x", "root", deserved={"gpu": 8}),
            queue("y", "root", deserved={"gpu": 4}),
            queue("x2", "x", deserved={"gpu": 2}),
        ),
        {"x2": 12, "y": 12},
        [0, 0, 8, 4],
    ),
}


@pytest.mark.parametrize("sentence", ORDERS)
def test_capacity(sentence: str) -> None:
    policy, total, queues, asks, expected = ORDERS[sentence]
    gangs = [one for name, count in asks.items() for one in one_pod_gangs(count, name)]
    used = sum(q.used.get("gpu", 0) for q in queues)
    world = problem(nodes(1, gpu=total, free={"gpu": total - used}), *queues, *gangs, policy=policy)
    assert started_per_queue(world) == expected


def test_capacity_takes_the_scarcest_of_what_is_deserved() -> None:
    """a: cpu 1/6 and gpu 1/2 a gang, b: cpu 1/2 and gpu 1/6; each three times makes shares of 1.5, and cpu and gpu are
    then full."""
    wants = {"cpu": 6, "gpu": 2}, {"cpu": 2, "gpu": 6}
    queues = queue("a", deserved=wants[0]), queue("b", deserved=wants[1])
    gangs = [*one_pod_gangs(9, "a", cpu=1, gpu=1), *one_pod_gangs(9, "b", cpu=1, gpu=1)]
    assert started_per_queue(problem(nodes(1, cpu=6, gpu=6), *queues, *gangs, policy=CAPACITY)) == [3, 3]


def test_gangs_above_the_queues_priority_in_their_own_go_first() -> None:
    urgent = gang("urgent", role(1, gpu=1), queue="low", priority=5)
    world = problem(
        nodes(1, gpu=1), queue("high", priority=9), queue("low"), *one_pod_gangs(1, "high"), urgent, policy=CAPACITY
    )
    assert started_per_queue(replace(world, policy=replace(CAPACITY, order="priorities-first"))) == [0, 1]
    assert started_per_queue(world) == [1, 0]


def test_queue_priority_counts_for_nothing_where_no_plugin_looks_at_it() -> None:
    world = problem(
        nodes(1, gpu=12), queue("a", priority=9), queue("b"), *one_pod_gangs(12, "a"), *one_pod_gangs(12, "b")
    )
    assert started_per_queue(world) == [6, 6]
    assert started_per_queue(replace(world, policy=CAPACITY)) == [12, 0]


def test_with_the_tree_a_queue_that_has_children_takes_no_gang() -> None:
    world = problem(
        nodes(1, gpu=4),
        queue("top"),
        queue("leaf", "top"),
        *one_pod_gangs(1, "top"),
        *one_pod_gangs(1, "leaf"),
        policy=TREE,
    )
    assert started_per_queue(world) == [0, 1]
    assert facts(world, "top0") == (ClosedQueue(queue=0),)


# --- closed queues


@pytest.mark.parametrize("shut", ["top", "leaf"])
def test_a_closed_queue_takes_nothing_new_and_keeps_what_runs(shut: str) -> None:
    queues = [queue("top", open=shut != "top"), queue("leaf", "top", open=shut != "leaf"), queue("other")]
    elastic = gang("elastic", role(4, minimum=1, gpu=1), queue="leaf", running=(running_pods(0, 0, 1),))
    world = problem(nodes(1, gpu=4), *queues, elastic, *one_pod_gangs(1, "leaf"), *one_pod_gangs(2, "other"))
    plan = proven_plan(world)
    assert started_per_queue(world) == [0, 0, 2]
    assert (plan.decisions[0].action, [place.pods for place in plan.decisions[0].placements]) == ("keep", [1])
    assert facts(world, "leaf0") == (ClosedQueue(queue=["top", "leaf"].index(shut)),)

"""Queues as Volcano's plugins mean them: every number here is worked out by hand, in the case's own sentence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from solver import solve
from solver.facts import ClosedQueue, Fact, GuaranteeReserve, ShareLimit
from solver.plan import Plan
from solver.problem import Policy, Problem
from solver.semantics.entitlements import capacity_deserved, water_filled_shares
from solver.semantics.hierarchical_drf import entitlements
from solver.semantics.queues import real_capability
from solver.verify import verify
from tests.builders.problems import GangSpec, QueueSpec, gang, nodes, problem, queue, role, running_pods

PROPORTION, CAPACITY = Policy(proportion=True), Policy(capacity=True)
TREE, DRF_TREE = Policy(capacity=True, capacity_hierarchy=True), Policy(drf=True, drf_hierarchy=True)


def singles(count: int, of: str, **request: Any) -> list[GangSpec]:
    """`count` gangs of one pod in queue `of`, of 1 GPU if nothing else is said."""
    one = role(1, **request) if request else role(1, gpu=1)
    return [gang(f"{of}{i}", one, queue=of) for i in range(count)]


def decided(world: Problem) -> Plan:
    plan = solve(world)
    assert verify(world, plan) == []
    assert {objective.verdict for batch in plan.batches for objective in batch.objectives} <= {"proven"}
    return plan


def started(world: Problem) -> list[int]:
    """Gangs that start, per queue."""
    chosen = [world.gangs[decision.gang].queue for decision in decided(world).decisions if decision.action == "start"]
    return [chosen.count(q) for q in range(len(world.queues))]


def facts(world: Problem, name: str) -> tuple[Fact, ...]:
    return next(decision.facts for decision in decided(world).decisions if world.gangs[decision.gang].name == name)


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
    late = replace(world, gangs=(replace(world.gangs[0], enqueued_first=True), *world.gangs[1:]))
    assert (started(world), started(late)) == ([0, 3], [0, 6])
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
        *singles(8, "a"),
        gang("wide", role(8, gpu=1), queue="b"),
        policy=PROPORTION,
    )
    assert started(world) == [6, 0]
    assert facts(world, "wide") == (ShareLimit(asked=8, available=6, queue=1, resource=0, limit=6),)
    assert started(replace(world, policy=Policy(order="priorities-first"))) == [4, 1]
    assert started(replace(world, policy=Policy())) == [8, 0], "the fair shares are 6 and 6, and b would borrow"


def test_a_share_that_is_the_whole_cluster_is_never_blamed() -> None:
    world = problem(nodes(4, gpu=1), gang("a", role(3, gpu=1)), gang("b", role(3, gpu=1)), policy=PROPORTION)
    assert [fact.code for fact in facts(world, "b")] == ["GW105"]


def test_what_a_queue_holds_above_its_share_stays_and_nothing_comes_to_it() -> None:
    holder = gang("holder", role(8, gpu=1), queue="a", running=(running_pods(0, 0, 8),))
    world = problem(
        nodes(1, gpu=12), queue("a"), queue("b"), holder, *singles(4, "a"), *singles(8, "b"), policy=PROPORTION
    )
    assert started(world) == [0, 4]


def test_growth_ends_at_the_share() -> None:
    world = problem(
        nodes(1, gpu=12),
        queue("a"),
        queue("b"),
        gang("a", role(12, minimum=1, gpu=1), queue="a"),
        *singles(9, "b"),
        policy=PROPORTION,
    )
    assert sum(p.pods for p in decided(world).decisions[0].placements) == 6


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
    assert started(replace(world, policy=Policy())) == [0, 0, 1]


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
    gangs = [one for name, count in asks.items() for one in singles(count, name)]
    used = sum(q.used.get("gpu", 0) for q in queues)
    world = problem(nodes(1, gpu=total, free={"gpu": total - used}), *queues, *gangs, policy=policy)
    assert started(world) == expected


def test_capacity_takes_the_scarcest_of_what_is_deserved() -> None:
    """a: cpu 1/6 and gpu 1/2 a gang, b: cpu 1/2 and gpu 1/6; each three times makes shares of 1.5, and cpu and gpu are
    then full."""
    wants = {"cpu": 6, "gpu": 2}, {"cpu": 2, "gpu": 6}
    queues = queue("a", deserved=wants[0]), queue("b", deserved=wants[1])
    gangs = [*singles(9, "a", cpu=1, gpu=1), *singles(9, "b", cpu=1, gpu=1)]
    assert started(problem(nodes(1, cpu=6, gpu=6), *queues, *gangs, policy=CAPACITY)) == [3, 3]


def test_gangs_above_the_queues_priority_in_their_own_go_first() -> None:
    urgent = gang("urgent", role(1, gpu=1), queue="low", priority=5)
    world = problem(
        nodes(1, gpu=1), queue("high", priority=9), queue("low"), *singles(1, "high"), urgent, policy=CAPACITY
    )
    assert started(replace(world, policy=replace(CAPACITY, order="priorities-first"))) == [0, 1]
    assert started(world) == [1, 0]


def test_queue_priority_counts_for_nothing_where_no_plugin_looks_at_it() -> None:
    world = problem(nodes(1, gpu=12), queue("a", priority=9), queue("b"), *singles(12, "a"), *singles(12, "b"))
    assert started(world) == [6, 6]
    assert started(replace(world, policy=CAPACITY)) == [12, 0]


def test_with_the_tree_a_queue_that_has_children_takes_no_gang() -> None:
    world = problem(
        nodes(1, gpu=4), queue("top"), queue("leaf", "top"), *singles(1, "top"), *singles(1, "leaf"), policy=TREE
    )
    assert started(world) == [0, 1]
    assert facts(world, "top0") == (ClosedQueue(queue=0),)


# --- drf


@pytest.mark.parametrize(("size", "weight", "expected"), [(1, 1, [3, 2]), (3, 1, [9, 6]), (3, 2, [6, 7])])
def test_dominant_resource_fairness(size: int, weight: int, expected: list[int]) -> None:
    """Ghodsi et al., NSDI 2011: 9 CPUs, 18 GB; a's tasks ask for (1, 4), a share of 2/9 each, b's for (3, 1), 1/3 each:
    3 and 2 tasks.

    Three times the cluster, three times the tasks. There with weight 2 for b: 4/54 x = 3/27 y / 2 and x + 3 y = 27 at x
    = 5.4, y = 7.2; of the whole numbers around it 6 and 7 have the larger of the smaller shares: 7/18 against 5 * 2/27.
    """
    a, b = singles(20, "a", cpu=1, memory=4), singles(20, "b", cpu=3, memory=1)
    world = problem(
        nodes(1, cpu=9 * size, memory=18 * size), queue("a"), queue("b", weight=weight), *a, *b, policy=Policy(drf=True)
    )
    assert started(world) == expected


def way(*steps: tuple[str, int]) -> tuple[tuple[str, int], ...]:
    return steps


N1, N21, N22 = way(("n1", 1), ("a", 1)), way(("n2", 1), ("b", 1)), way(("n2", 1), ("c", 1))


def test_hierarchical_drf_does_not_starve_the_sibling_of_a_queue_without_rivals() -> None:
    """Bhattacharya et al., SoCC 2013: c alone wants GPUs, and gets all. Measured by their sum, n2 would look rich with
    them and b get no CPU."""
    queues = [queue("a", hierarchy=N1), queue("b", hierarchy=N21), queue("c", hierarchy=N22)]
    gangs = [*singles(10, "a", cpu=1), *singles(10, "b", cpu=1), *singles(10, "c", gpu=1)]
    world = problem(nodes(1, cpu=10, gpu=10), *queues, *gangs, policy=DRF_TREE)
    assert entitlements(world) == pytest.approx((0.5, 0.5, 1.0))
    assert started(world) == [5, 5, 10]


A1, A2, B = way(("a", 3), ("a1", 2), ("x", 1)), way(("a", 3), ("a2", 1), ("x", 1)), way(("b", 1), ("b1", 7))
HIERARCHIES = {
    "three levels: 3/4 of 16 for a, 2/3 of these for a1": ({"a1": 16, "a2": 16, "b": 16}, [8, 4, 4]),
    "an idle subtree's part goes to its sibling": ({"a2": 16, "b": 16}, [0, 12, 4]),
    "so does what a queue does not ask for": ({"a1": 2, "a2": 16, "b": 16}, [2, 10, 4]),
    "an idle branch leaves all to the other: 32/3 and 16/3, of which 10 and 6 are fairer than 11 and 5": (
        {"a1": 16, "a2": 16},
        [10, 6, 0],
    ),
    "a branch that asks for little": ({"a1": 16, "a2": 16, "b": 1}, [10, 5, 1]),
}


@pytest.mark.parametrize("sentence", HIERARCHIES)
def test_hierarchical_drf(sentence: str) -> None:
    asks, expected = HIERARCHIES[sentence]
    queues = [queue(name, hierarchy=steps) for name, steps in (("a1", A1), ("a2", A2), ("b", B))]
    gangs = [one for name, count in asks.items() for one in singles(count, name)]
    assert started(problem(nodes(1, gpu=16), *queues, *gangs, policy=DRF_TREE)) == expected


def test_drf_lets_the_gangs_of_a_queue_take_turns() -> None:
    """8 GPUs, two elastic gangs: by age the older takes all that is left, by drf each comes to 4."""
    world = problem(nodes(1, gpu=8), gang("old", role(8, minimum=1, gpu=1)), gang("new", role(8, minimum=1, gpu=1)))

    def sizes(policy: Policy) -> list[int]:
        return [
            sum(place.pods for place in decision.placements)
            for decision in decided(replace(world, policy=policy)).decisions
        ]

    assert (sizes(Policy()), sizes(Policy(drf=True))) == ([7, 1], [4, 4])


def test_the_number_of_pods_counts_in_a_dominant_share() -> None:
    """Of 16 CPUs and 8 pods a's pods take 1/16 and 1/8, b's 1/8 and 1/8: all of them 1/8, and each gets 4 of the 8. By
    CPUs alone it were 5 and 3.

    Source: calculateShare of pkg/scheduler/plugins/drf, which goes through all that nodes have; `pods` is in it
    (NewResource of resource_info.go).
    """
    thin, thick = role(8, minimum=1, cpu=1, pods=1), role(8, minimum=1, cpu=2, pods=1)
    two = problem(
        nodes(1, cpu=16, pods=8),
        queue("a"),
        queue("b"),
        *singles(9, "a", cpu=1, pods=1),
        *singles(9, "b", cpu=2, pods=1),
    )
    assert started(two) == started(replace(two, policy=Policy(drf=True))) == [4, 4]
    one = problem(nodes(1, cpu=16, pods=8), gang("thin", thin), gang("thick", thick), policy=Policy(drf=True))
    assert [sum(place.pods for place in decision.placements) for decision in decided(one).decisions] == [4, 4]


def test_capacity_measures_by_pods_where_they_are_deserved_beside_something_else() -> None:
    """6 GPUs; of 4 deserved GPUs and 2 deserved pods a has all with its second pod, b of 4 GPUs with its fourth.
    Deserved pods alone are nothing."""
    gangs = [*singles(6, "a", gpu=1, pods=1), *singles(6, "b", gpu=1, pods=1)]
    deserves = {"both": {"gpu": 4, "pods": 2}, "GPUs": {"gpu": 4}, "pods": {"pods": 2}}
    found = {
        name: started(
            problem(
                nodes(1, gpu=6, pods=9),
                queue("a", deserved=amounts),
                queue("b", deserved={"gpu": 4}),
                *gangs,
                policy=CAPACITY,
            )
        )
        for name, amounts in deserves.items()
    }
    # Pods alone: 1 + 1/6 and 5/4, the smaller of which is larger than that of 1 + 2/6 and 4/4.
    assert found == {"both": [2, 4], "GPUs": [3, 3], "pods": [1, 5]}


# --- closed queues


@pytest.mark.parametrize("shut", ["top", "leaf"])
def test_a_closed_queue_takes_nothing_new_and_keeps_what_runs(shut: str) -> None:
    queues = [queue("top", is_closed=shut == "top"), queue("leaf", "top", is_closed=shut == "leaf"), queue("other")]
    elastic = gang("elastic", role(4, minimum=1, gpu=1), queue="leaf", running=(running_pods(0, 0, 1),))
    world = problem(nodes(1, gpu=4), *queues, elastic, *singles(1, "leaf"), *singles(2, "other"))
    plan = decided(world)
    assert started(world) == [0, 0, 2]
    assert (plan.decisions[0].action, [place.pods for place in plan.decisions[0].placements]) == ("keep", [1])
    assert facts(world, "leaf0") == (ClosedQueue(queue=["top", "leaf"].index(shut)),)

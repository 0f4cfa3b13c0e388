"""What the solver decides under queues, in stories. Relations are asserted, not node names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solver import Options
from solver.facts import CapabilityLimit, GuaranteeReserve
from solver.options import Budget
from solver.problem import Policy
from solver.repairs import EndOfGangs, FewerPods, HigherPriority, MoreCapability
from tests.builders.plans import facts_of, repairs_of, starting_gangs, verified_plan
from tests.builders.problems import gang, nodes, problem, queue, role, running_pods


def test_a_capability_holds_along_the_whole_path() -> None:
    tree = (queue("team", capability={"gpu": 8}), queue("a", "team"), queue("b", "team"))
    world = problem(nodes(4, gpu=8), *tree, gang("x", role(1, gpu=8), queue="a"), gang("y", role(1, gpu=8), queue="b"))
    assert starting_gangs(world) == {"x"}
    assert facts_of(world, "y") == (CapabilityLimit(asked=8, available=0, queue=0, resource=0, limit=8, gangs=(0,)),)
    assert repairs_of(world, "y") == (
        HigherPriority(amount=1, gangs=(0,)),
        MoreCapability(queue=0, resource=0, amount=8),
    )


def test_a_gang_above_its_queues_capability_never_starts() -> None:
    world = problem(nodes(4, gpu=8), queue("a", capability={"gpu": 8}), gang("x", role(2, gpu=8), queue="a"))
    assert facts_of(world, "x") == (CapabilityLimit(asked=16, available=8, queue=0, resource=0, limit=8, never=True),)


def test_what_others_are_guaranteed_stays_free_and_a_queue_may_use_its_own() -> None:
    queues = (queue("safe", guarantee={"gpu": 8}), queue("other"))
    world = problem(nodes(2, gpu=8), *queues, gang("x", role(2, gpu=8), queue="other"))
    assert facts_of(world, "x") == (
        GuaranteeReserve(asked=16, available=8, queue=1, resource=0, queues=(0,), never=True),
    )
    assert starting_gangs(
        problem(
            nodes(2, gpu=8), *queues, gang("x", role(1, gpu=8), queue="other"), gang("y", role(1, gpu=8), queue="safe")
        )
    ) == {"x", "y"}


@pytest.mark.parametrize("pods", [1, 2])
def test_a_queue_above_that_is_full_of_what_others_are_guaranteed_never_takes_more_than_they_leave(pods: int) -> None:
    world = problem(
        nodes(4, gpu=8),
        queue("org", capability={"gpu": 16}),
        queue("q", "org"),
        queue("safe", "org", guarantee={"gpu": 8}),
        gang("runs", role(2, gpu=8), queue="safe", running=(running_pods(0, 0, 1), running_pods(0, 1, 1))),
        gang("asks", role(pods, gpu=8), queue="q"),
        policy=Policy(capacity=True, capacity_hierarchy=True),
    )
    full = CapabilityLimit(asked=8, available=0, queue=0, resource=0, limit=16)
    kept = CapabilityLimit(asked=16, available=8, queue=0, resource=0, limit=16, queues=(2,), never=True)
    assert facts_of(world, "asks") == (full if pods == 1 else kept,)
    end, more = EndOfGangs(gangs=(0,)), MoreCapability(queue=0, resource=0, amount=8 * pods)
    fewer = FewerPods(role=0, amount=1, current_amount=2, also=(end,))
    assert repairs_of(world, "asks") == ((end, more) if pods == 1 else (more, fewer))


def test_a_capability_lowered_under_what_runs_starts_nothing_and_stops_nothing() -> None:
    running = gang("running", role(2, gpu=8), queue="a", running=(running_pods(0, 0, 1), running_pods(0, 1, 1)))
    world = problem(nodes(3, gpu=8), queue("a", capability={"gpu": 8}), running, gang("x", role(1, gpu=8), queue="a"))
    assert [d.action for d in verified_plan(world).decisions] == ["keep", "wait"]


def test_dominant_resource_fairness_gives_the_papers_allocation() -> None:
    """Ghodsi et al., NSDI 2011, section 1: 9 CPUs and 18 GB; A's tasks ask for (1, 4), B's for (3, 1): three tasks for
    A, two for B."""
    a = [gang(f"a{i}", role(1, cpu=1, memory=4), queue="a") for i in range(6)]
    b = [gang(f"b{i}", role(1, cpu=3, memory=1), queue="b") for i in range(6)]
    chosen = starting_gangs(problem(nodes(1, cpu=9, memory=18), queue("a"), queue("b"), *a, *b))
    assert (sum(n.startswith("a") for n in chosen), sum(n.startswith("b") for n in chosen)) == (3, 2)


@pytest.mark.parametrize(("weight", "expected"), [(1, (6, 6)), (2, (8, 4)), (3, (9, 3))])
def test_a_queue_with_more_weight_gets_more(weight: int, expected: tuple[int, int]) -> None:
    a = [gang(f"a{i}", role(1, gpu=1), queue="a") for i in range(12)]
    b = [gang(f"b{i}", role(1, gpu=1), queue="b") for i in range(12)]
    chosen = starting_gangs(problem(nodes(1, gpu=12), queue("a", weight=weight), queue("b"), *a, *b))
    assert (sum(n.startswith("a") for n in chosen), sum(n.startswith("b") for n in chosen)) == expected


def test_a_queue_that_asks_for_little_gets_it_and_the_rest_is_shared() -> None:
    gangs = [
        gang(f"{q}{i}", role(1, gpu=1), queue=q) for q, number in (("a", 2), ("b", 9), ("c", 9)) for i in range(number)
    ]
    chosen = starting_gangs(problem(nodes(1, gpu=12), queue("a"), queue("b"), queue("c"), *gangs))
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
    assert starting_gangs(world, options) == expected
    assert [o.verdict for batch in made.batches for o in batch.objectives if o.name == "share level 1"] == [verdict]


def test_what_queues_deserve_comes_before_priorities_unless_the_site_says_otherwise() -> None:
    """The example of docs/concepts/queues.md. The real Volcano 1.15.1 starts two of each, too."""
    a = [gang(f"a{i}", role(1, gpu=4), queue="a", priority=1000) for i in range(4)]
    b = [gang(f"b{i}", role(1, gpu=4), queue="b", priority=10) for i in range(2)]
    queues = queue("a", deserved={"gpu": 8}), queue("b", deserved={"gpu": 8})
    world = problem(nodes(1, gpu=16), *queues, *a, *b, policy=Policy(capacity=True))
    assert starting_gangs(world) == {"a0", "a1", "b0", "b1"}
    assert starting_gangs(replace(world, policy=Policy(capacity=True, order="priorities-first"))) == {
        "a0",
        "a1",
        "a2",
        "a3",
    }


def test_a_gang_is_not_overtaken_in_its_own_queue() -> None:
    """Of 16 GPUs a deserves 8 and wants 10, or twice 4 at a lower priority; b wants 4 of its 8. The 10 borrow, and go
    before the 8, although these are what a is entitled to; but not before what b is entitled to."""
    queues = queue("a", deserved={"gpu": 8}), queue("b", deserved={"gpu": 8})
    low = [gang(f"low{i}", role(1, gpu=4), queue="a") for i in range(2)]
    high = gang("high", role(1, gpu=10), queue="a", priority=1000)
    b = [gang(f"b{i}", role(1, gpu=4), queue="b") for i in range(2)]
    capacity = Policy(capacity=True)
    assert starting_gangs(problem(nodes(1, gpu=16), *queues, *low, high, b[0], policy=capacity)) == {"high", "b0"}
    assert starting_gangs(problem(nodes(1, gpu=16), *queues, *low, high, *b, policy=capacity)) == {
        "low0",
        "low1",
        "b0",
        "b1",
    }


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
    assert "high" in starting_gangs(world)
    assert "borrower" not in starting_gangs(world)


def test_the_rest_is_lent_to_the_queue_with_the_lowest_share_whatever_the_priority() -> None:
    a = [gang(f"a{i}", role(1, gpu=4), queue="a", priority=1000) for i in range(4)]
    b = [gang(f"b{i}", role(1, gpu=4), queue="b", priority=10) for i in range(4)]
    queues = queue("a", deserved={"gpu": 0}), queue("b", deserved={"gpu": 0})
    world = problem(nodes(1, gpu=16), *queues, *a, *b, policy=Policy(capacity=True))
    assert starting_gangs(world) == {"a0", "a1", "b0", "b1"}


def test_where_nothing_can_be_reclaimed_the_queues_priority_overrules_what_others_deserve() -> None:
    """As the real Volcano 1.15.1: 16 and 0 without the action reclaim, 8 and 8 with it."""
    a = [gang(f"a{i}", role(1, gpu=4), queue="a") for i in range(4)]
    b = [gang(f"b{i}", role(1, gpu=4), queue="b") for i in range(4)]
    queues = queue("a", deserved={"gpu": 8}, priority=10), queue("b", deserved={"gpu": 8})
    world = problem(nodes(1, gpu=16), *queues, *a, *b, policy=Policy(capacity=True))
    assert starting_gangs(world) == {"a0", "a1", "a2", "a3"}
    assert starting_gangs(replace(world, reclaim_enabled=True)) == {"a0", "a1", "b0", "b1"}


def test_what_a_queue_holds_already_counts_for_its_share() -> None:
    holder = gang("holder", role(4, gpu=1), queue="a", running=(running_pods(0, 0, 4),))
    gangs = [gang(f"{q}{i}", role(1, gpu=1), queue=q) for q in "ab" for i in range(8)]
    chosen = starting_gangs(problem(nodes(1, gpu=12), queue("a"), queue("b"), holder, *gangs))
    assert [sum(n.startswith(q) for n in chosen) for q in "ab"] == [2, 6]

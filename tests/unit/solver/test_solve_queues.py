"""What the solver decides under queues, in stories. Relations are asserted, not node names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solver.problem import Policy
from tests.builders.beside import beside
from tests.builders.plans import starting_gangs
from tests.builders.problems import gang, nodes, problem, queue, role, running_pods
from tests.builders.stories import assert_story

STORIES = beside(__file__)


@pytest.mark.parametrize("story", STORIES)
def test_story(story: str) -> None:
    assert_story(STORIES[story])


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

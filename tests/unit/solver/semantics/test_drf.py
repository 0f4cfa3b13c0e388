"""Fair shares by dominant resource, flat and along the hierarchy: every number is worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solver.problem import Policy
from solver.semantics.entitlements import drf_entitlements as entitlements
from tests.builders.beside import beside
from tests.builders.plans import proven_plan, started_per_queue
from tests.builders.problems import gang, nodes, one_pod_gangs, problem, queue, role
from tests.builders.stories import assert_story

STORIES = beside(__file__)


@pytest.mark.parametrize("story", STORIES)
def test_story(story: str) -> None:
    assert_story(STORIES[story])


CAPACITY, DRF_TREE = Policy(capacity=True), Policy(drf=True, drf_hierarchy=True)


@pytest.mark.parametrize(("size", "weight", "expected"), [(1, 1, [3, 2]), (3, 1, [9, 6]), (3, 2, [6, 7])])
def test_dominant_resource_fairness(size: int, weight: int, expected: list[int]) -> None:
    """Ghodsi et al., NSDI 2011: 9 CPUs, 18 GB; a's tasks ask for (1, 4), a share of 2/9 each, b's for (3, 1), 1/3 each:
    3 and 2 tasks.

    Three times the cluster, three times the tasks. There with weight 2 for b: 4/54 x = 3/27 y / 2 and x + 3 y = 27 at x
    = 5.4, y = 7.2; of the whole numbers around it 6 and 7 have the larger of the smaller shares: 7/18 against 5 * 2/27.
    """
    a, b = one_pod_gangs(20, "a", cpu=1, memory=4), one_pod_gangs(20, "b", cpu=3, memory=1)
    world = problem(
        nodes(1, cpu=9 * size, memory=18 * size), queue("a"), queue("b", weight=weight), *a, *b, policy=Policy(drf=True)
    )
    assert started_per_queue(world) == expected


def way(*steps: tuple[str, int]) -> tuple[tuple[str, int], ...]:
    return steps


N1, N21, N22 = way(("n1", 1), ("a", 1)), way(("n2", 1), ("b", 1)), way(("n2", 1), ("c", 1))


def test_hierarchical_drf_does_not_starve_the_sibling_of_a_queue_without_rivals() -> None:
    """Bhattacharya et al., SoCC 2013: c alone wants GPUs, and gets all. Measured by their sum, n2 would look rich with
    them and b get no CPU."""
    queues = [queue("a", hierarchy=N1), queue("b", hierarchy=N21), queue("c", hierarchy=N22)]
    gangs = [*one_pod_gangs(10, "a", cpu=1), *one_pod_gangs(10, "b", cpu=1), *one_pod_gangs(10, "c", gpu=1)]
    world = problem(nodes(1, cpu=10, gpu=10), *queues, *gangs, policy=DRF_TREE)
    assert entitlements(world) == pytest.approx((0.5, 0.5, 1.0))
    assert started_per_queue(world) == [5, 5, 10]


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
    gangs = [one for name, count in asks.items() for one in one_pod_gangs(count, name)]
    assert started_per_queue(problem(nodes(1, gpu=16), *queues, *gangs, policy=DRF_TREE)) == expected


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
        *one_pod_gangs(9, "a", cpu=1, pods=1),
        *one_pod_gangs(9, "b", cpu=2, pods=1),
    )
    assert started_per_queue(two) == started_per_queue(replace(two, policy=Policy(drf=True))) == [4, 4]
    one = problem(nodes(1, cpu=16, pods=8), gang("thin", thin), gang("thick", thick), policy=Policy(drf=True))
    assert [sum(place.pods for place in decision.placements) for decision in proven_plan(one).decisions] == [4, 4]

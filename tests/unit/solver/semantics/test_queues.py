"""Queues as Volcano's plugins mean them: every number here is worked out by hand, in the case's own sentence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solver.facts import Fact, ShareLimit
from solver.problem import Policy, Problem
from solver.semantics.entitlements import capacity_deserved, water_filled_shares
from solver.semantics.queues import real_capability
from tests.builders.beside import beside
from tests.builders.described import queues_of
from tests.builders.plans import proven_plan, started_per_queue
from tests.builders.problems import gang, nodes, one_pod_gangs, problem, queue, role, with_fields
from tests.builders.stories import assert_story

PROPORTION, CAPACITY = Policy(proportion=True), Policy(capacity=True)
TREE = Policy(capacity=True, capacity_hierarchy=True)
CASES = beside(__file__)


@pytest.mark.parametrize("story", CASES["stories"])
def test_story(story: str) -> None:
    assert_story(CASES["stories"][story])


def facts(world: Problem, name: str) -> tuple[Fact, ...]:
    return next(decision.facts for decision in proven_plan(world).decisions if world.gangs[decision.gang].name == name)


# --- proportion


@pytest.mark.parametrize("sentence", CASES["shares"])
def test_proportion_deserves(sentence: str) -> None:
    case = CASES["shares"][sentence]
    gangs = [gang(name, role(count, gpu=1), queue=name) for name, count in case["asks"].items()]
    world = problem(nodes(1, gpu=case["gpus"]), *queues_of(case["queues"]), *gangs)
    assert [None if share is None else share[0] for share in water_filled_shares(world)] == case["deserved"]


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


# --- capacity: limits


@pytest.mark.parametrize("sentence", CASES["limits"])
def test_real_capability(sentence: str) -> None:
    case = CASES["limits"][sentence]
    world = problem(nodes(1, gpu=case["gpus"]), *queues_of(case["queues"]), policy=TREE if "tree" in case else CAPACITY)
    assert [limit[0] for limit in real_capability(world)] == case["limits"]


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


# --- capacity: who goes first


@pytest.mark.parametrize("sentence", CASES["orders"])
def test_capacity(sentence: str) -> None:
    case = CASES["orders"][sentence]
    queues = queues_of(case["queues"])
    gangs = [one for name, count in case["asks"].items() for one in one_pod_gangs(count, name)]
    free = {"gpu": case["gpus"] - sum(each.used.get("gpu", 0) for each in queues)}
    world = problem(nodes(1, gpu=case["gpus"], free=free), *queues, *gangs, policy=TREE if "tree" in case else CAPACITY)
    assert started_per_queue(world) == case["starts"]


def test_capacity_takes_the_scarcest_of_what_is_deserved() -> None:
    """a: cpu 1/6 and gpu 1/2 a gang, b: cpu 1/2 and gpu 1/6; each three times makes shares of 1.5, and cpu and gpu are
    then full."""
    wants = {"cpu": 6, "gpu": 2}, {"cpu": 2, "gpu": 6}
    queues = queue("a", deserved=wants[0]), queue("b", deserved=wants[1])
    gangs = [*one_pod_gangs(9, "a", cpu=1, gpu=1), *one_pod_gangs(9, "b", cpu=1, gpu=1)]
    assert started_per_queue(problem(nodes(1, cpu=6, gpu=6), *queues, *gangs, policy=CAPACITY)) == [3, 3]


def test_queue_priority_counts_for_nothing_where_no_plugin_looks_at_it() -> None:
    world = problem(
        nodes(1, gpu=12), queue("a", priority=9), queue("b"), *one_pod_gangs(12, "a"), *one_pod_gangs(12, "b")
    )
    assert started_per_queue(world) == [6, 6]
    assert started_per_queue(replace(world, policy=CAPACITY)) == [12, 0]


# --- closed queues

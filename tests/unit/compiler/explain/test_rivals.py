"""Who else would use a repair, against the plain rule, and what it costs with many that wait."""

from __future__ import annotations

import sys
from random import Random
from types import FrameType
from typing import Any

import pytest

from compiler.explain.rivals import MAX_NAMED_GANGS, EarlierGangs, Rivals
from solver.plan import Decision
from solver.problem import Gang, Policy, Problem, Queue, QuotaOrder, Role
from solver.repairs import EndOfGangs, FewerPods, MoreCapability, MoreNodes, OpenQueue, Repair

CHANGES: tuple[Repair, ...] = (
    EndOfGangs((0,)),
    EndOfGangs((0, 1)),
    MoreCapability(0, 0, 8),
    MoreCapability(0, 0, 16),
    MoreNodes(node=0, amount=1),
    MoreNodes(node=0, amount=2),
    MoreNodes(node=0, amount=2, also=(FewerPods(0, 1, 2),)),
    MoreNodes(node=0, amount=2, also=(MoreCapability(0, 0, 8),)),
    OpenQueue(1),
    FewerPods(0, 1, 2),
)


ROLES = tuple(Role("w", pods, pods, (pods,), frozenset()) for pods in (1, 2))
QUEUES = tuple(Queue(f"q{q}", None, 1, 0, (None,), (None,), (None,), (0,)) for q in range(3))


def world(gangs: int, seed: int, order: QuotaOrder = "queues-first") -> tuple[Problem, list[Decision]]:
    """Gangs of three queues, three priorities and two shapes; most wait, each with two of the changes above."""
    chance = Random(seed)  # noqa: S311  - not a secret
    made = tuple(
        Gang(f"t/{j}", chance.randrange(3), chance.randrange(3), chance.randrange(9), 1, (chance.choice(ROLES),))
        for j in range(gangs)
    )
    decisions = [
        Decision(j, "wait" if chance.random() < 0.7 else "keep", (), (), repairs=tuple(chance.sample(CHANGES, 2)))
        for j in range(gangs)
    ]
    return Problem(("gpu",), (), (), QUEUES, made, Policy(order=order)), decisions


def expected(problem: Problem, decisions: list[Decision], j: int, repair: Repair) -> EarlierGangs | None:
    """The rule, gang by gang."""
    turns = dict[int, bool | None]()
    for other in decisions:
        if other.action == "wait" and any(WITHIN[known] & {repair} for known in other.repairs):
            turns[other.gang] = turn(problem, other.gang, j)
    found = sorted((i for i, sure in turns.items() if sure is not None), key=lambda i: place(problem, i))
    sure = [i for i in found if turns[i]]
    named = sure or found
    return EarlierGangs(bool(sure), len(named), tuple(named[:MAX_NAMED_GANGS])) if named else None


def place(problem: Problem, j: int) -> tuple[int, int, int]:
    return -problem.gangs[j].priority, problem.gangs[j].age, j


def turn(problem: Problem, i: int, j: int) -> bool | None:
    """Whether gang i surely precedes gang j; None where it never does."""
    other, own = problem.gangs[i], problem.gangs[j]
    if i == j:
        return None
    if other.queue != own.queue:
        if problem.policy.queues_first or other.priority == own.priority:
            return False
        return True if other.priority > own.priority else None
    if place(problem, i) < place(problem, j):
        return True
    return False if other.priority == own.priority and other.roles != own.roles else None


END, ENDS, CAPABILITY, MORE_CAPABILITY, NODE, NODES, FEWER_ON_NODES, NODES_IN_QUEUE, OPEN, FEWER = CHANGES
WITHIN: dict[Repair, set[Repair]] = {
    END: {END, ENDS},
    ENDS: {ENDS},
    CAPABILITY: {CAPABILITY, MORE_CAPABILITY, NODES_IN_QUEUE},
    MORE_CAPABILITY: {MORE_CAPABILITY},
    NODE: {NODE, NODES, FEWER_ON_NODES, NODES_IN_QUEUE},
    NODES: {NODES, FEWER_ON_NODES, NODES_IN_QUEUE},
    FEWER_ON_NODES: set(),
    NODES_IN_QUEUE: {NODES_IN_QUEUE},
    OPEN: {OPEN},
    FEWER: set(),
}
"""Repair -> those with which a gang starts that it would let start."""


@pytest.mark.parametrize("order", ["queues-first", "priorities-first"])
@pytest.mark.parametrize("seed", range(20))
def test_who_precedes_a_gang_is_as_the_rule_says_gang_by_gang(seed: int, order: QuotaOrder) -> None:
    problem, decisions = world(12 if seed else 200, seed, order)
    rivals = Rivals(problem, decisions)
    for j in range(len(decisions)):
        for repair in CHANGES:
            assert rivals.earlier(j, repair) == expected(problem, decisions, j, repair)


def test_what_precedes_each_of_many_gangs_is_found_in_calls_that_grow_with_their_number() -> None:
    """Each gang that waits on a busy cluster has the end of others among its repairs."""
    few, many = calls_for(1000), calls_for(4000)
    assert many < 5 * few


def calls_for(gangs: int) -> int:
    """How many functions are called to find what precedes each gang."""
    problem, decisions = world(gangs, 1)
    calls = 0

    def count(_frame: FrameType, event: str, _arg: Any) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        rivals = Rivals(problem, decisions)
        for decision in decisions:
            for repair in decision.repairs:
                rivals.earlier(decision.gang, repair)
    finally:
        sys.setprofile(None)
    return calls

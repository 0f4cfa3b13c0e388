"""The verifier's rules about the form of a plan: its decisions, batches and queues."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from solver import solve
from solver.facts import ClosedQueue, NoEligibleNode, PrecedingGangs, ResourceShortage, Undecided
from solver.plan import Objective, Plan
from solver.problem import Placement
from solver.repairs import EndOfGangs, EndOfPods, FewerPods, OpenQueue, OtherQueue, ReturnOfNodes
from solver.verify import RULES, needs, verify
from tests.builders.problems import (
    gang,
    hard_topology,
    nodes,
    plan_with,
    problem,
    queue,
    role,
    running_pods,
    two_supernodes,
)

WORLD = two_supernodes(
    queue("top", weight=2),
    queue("team", "top"),
    gang("a", role(2, gpu=8), queue="team"),
    gang("b", role(5, gpu=8), queue="team"),
    gang("c", role(1, gpu=8), queue="top", running=(running_pods(0, 4, 1),)),
)
GOOD = plan_with(WORLD, {0: [(0, 0, 1), (0, 2, 1)], 2: [(0, 4, 1)]})
A, B, C = GOOD.decisions
(BATCH,) = GOOD.batches
TOP, TEAM = GOOD.queues
OBJECTIVE = replace(BATCH.objectives[0], verdict="proven")


def objective(value: float, bound: float, gap: float, verdict: str) -> Objective:
    return Objective("placed", value, bound, gap, verdict)  # type: ignore[arg-type]


def with_start(**changes: Any) -> Plan:
    """The good plan with another decision of gang a, which starts."""
    return replace(GOOD, decisions=(replace(A, **changes), B, C))


def with_wait(**changes: Any) -> Plan:
    """The good plan with another decision of gang b, which waits."""
    return replace(GOOD, decisions=(A, replace(B, **changes), C))


def with_batch(*objectives: Objective, verdict: str) -> Plan:
    return replace(GOOD, batches=(replace(BATCH, objectives=objectives, verdict=verdict),))  # type: ignore[arg-type]


FORM = {
    "the good plan is good": (GOOD, set()),
    "a decision is missing": (replace(GOOD, decisions=(A, B)), {"decisions"}),
    "decisions are out of order": (replace(GOOD, decisions=(B, A, C)), {"decisions"}),
    "a decision is for no gang": (replace(GOOD, decisions=(*GOOD.decisions, replace(C, gang=3))), {"decisions"}),
    "an action is unknown": (with_wait(action="stop"), {"decisions", "actions", "reasons"}),
    "placements are unsorted": (with_start(placements=A.placements[::-1]), {"decisions"}),
    "placements are not merged": (
        replace(
            WORLD_PLAN := plan_with(problem(nodes(1, gpu=8), gang("a", role(2, gpu=1))), {0: [(0, 0, 2)]}),
            decisions=(replace(WORLD_PLAN.decisions[0], placements=(Placement(0, 0, 1), Placement(0, 0, 1))),),
        ),
        {"decisions"},
    ),
    "a placement of no pods": (with_start(placements=(*A.placements, Placement(0, 3, 0))), {"decisions"}),
    "a placement on no node": (with_start(placements=(*A.placements, Placement(0, 5, 1))), {"decisions"}),
    "a placement of no role": (with_start(placements=(*A.placements, Placement(1, 3, 1))), {"decisions"}),
    "a domain is missing": (with_start(domains=(0,)), {"domains"}),
    "domains are unsorted": (with_start(domains=(1, 0)), {"domains"}),
    "a domain is not the leaf": (with_start(domains=(0, 1, 2)), {"domains"}),
    "a waiting gang has no reason": (with_wait(facts=()), {"reasons"}),
    "a started gang has reasons": (with_start(facts=B.facts), {"reasons"}),
    "a kept gang has reasons": (replace(GOOD, decisions=(A, B, replace(C, facts=B.facts))), {"reasons"}),
    "a started gang has repairs": (with_start(repairs=(EndOfPods(),)), {"reasons"}),
    "a fact points at no role": (with_wait(facts=(NoEligibleNode(role=1),)), {"reasons"}),
    "a fact points at no queue": (with_wait(facts=(ClosedQueue(queue=2),)), {"reasons"}),
    "a fact points at no gang": (with_wait(facts=(PrecedingGangs(2, 1, gangs=(0, 3)),)), {"reasons"}),
    "a repair points at no queue": (with_wait(repairs=(OtherQueue(queue=2),)), {"reasons"}),
    "a fact says that there is enough": (with_wait(facts=(ResourceShortage(3, 3, 0),)), {"reasons"}),
    "a fact says that one is missing": (with_wait(facts=(ResourceShortage(3, 2, 0),)), set()),
    "a repair points at no role": (with_wait(repairs=(FewerPods(1, 1, 2),)), {"reasons"}),
    "a second change points at no node": (with_wait(repairs=(EndOfPods(also=(ReturnOfNodes((5,)),)),)), {"reasons"}),
    "fewer pods are as many": (with_wait(repairs=(FewerPods(None, 2, 2),)), {"reasons"}),
    "fewer pods are fewer": (with_wait(repairs=(FewerPods(None, 1, 2),)), set()),
    "a gang is to wait for its own end": (with_wait(repairs=(EndOfGangs(gangs=(1,)),)), {"reasons"}),
    "a gang is to wait for those who hold something": (with_wait(repairs=(EndOfGangs(gangs=(0,)),)), set()),
    "an open queue is to be opened": (with_wait(repairs=(OpenQueue(queue=0),)), {"reasons"}),
    "a gang that fits the empty cluster is said to fit never": (with_wait(facts=(Undecided(never=True),)), {"reasons"}),
    "a gang is in no batch": (replace(GOOD, batches=(replace(BATCH, gangs=(0, 2)),)), {"batches"}),
    "a kept gang may be in no batch": (replace(GOOD, batches=(replace(BATCH, gangs=(0, 1)),)), set()),
    "a gang is in two batches": (replace(GOOD, batches=(BATCH, replace(BATCH, gangs=(2,)))), {"batches"}),
    "a batch has a gang that does not exist": (replace(GOOD, batches=(replace(BATCH, gangs=(0, 1, 7)),)), {"batches"}),
    "a batch is better than its objective": (
        with_batch(objective(8, 10, 0.25, "within gap"), verdict="proven"),
        {"batches"},
    ),
    "a batch is worse than its objectives": (with_batch(OBJECTIVE, verdict="limit reached"), {"batches"}),
    "a batch is as bad as its worst": (
        with_batch(OBJECTIVE, objective(8, 10, 0.25, "within gap"), verdict="within gap"),
        set(),
    ),
    "a bound may be unknown": (
        with_batch(objective(8, float("inf"), float("inf"), "limit reached"), verdict="limit reached"),
        set(),
    ),
    "a gap is wrong": (with_batch(objective(8, 10, 0.2, "within gap"), verdict="within gap"), {"batches"}),
    "a gap is no number": (with_batch(objective(8, 10, float("nan"), "within gap"), verdict="within gap"), {"batches"}),
    "a gap is called proven": (with_batch(objective(8, 10, 0.25, "proven"), verdict="proven"), {"batches"}),
    "a verdict is unknown": (with_batch(objective(8, 8, 0, "optimal"), verdict="proven"), {"batches"}),
    "a queue is missing": (replace(GOOD, queues=(TOP,)), {"queue_use"}),
    "a parent's use leaves out its child": (replace(GOOD, queues=(replace(TOP, admitted=(0,)), TEAM)), {"queue_use"}),
    "an allocation is wrong": (replace(GOOD, queues=(replace(TOP, allocated=(16,)), TEAM)), {"queue_use"}),
    "a share forgets the weight": (replace(GOOD, queues=(replace(TOP, share=TOP.share * 2), TEAM)), {"queue_use"}),
}


@pytest.mark.parametrize("sentence", FORM)
def test_the_plan_is_refused_where(sentence: str) -> None:
    made, rules = FORM[sentence]
    world = problem(nodes(1, gpu=8), gang("a", role(2, gpu=1))) if "merged" in sentence else WORLD
    assert {violation.rule for violation in verify(world, made)} == rules


def test_never_is_believed_where_the_empty_cluster_has_no_room_in_one_supernode() -> None:
    world = two_supernodes(gang("a", role(3, gpu=8), topology=hard_topology(1)))
    made = plan_with(world, {})
    decision = replace(made.decisions[0], facts=(Undecided(never=True),))
    assert verify(world, replace(made, decisions=(decision,))) == []


def test_never_is_believed_where_node_groups_forbid_it() -> None:
    world = problem(
        nodes(2, gpu=8),
        nodes(2, gpu=8, node_group=1),
        queue("default", closed_node_groups=(1,)),
        gang("a", role(3, gpu=8)),
        node_groups=("", "kept"),
    )
    made = plan_with(world, {})
    decision = replace(made.decisions[0], facts=(Undecided(never=True),))
    assert verify(world, replace(made, decisions=(decision,))) == []
    opened = replace(world, queues=(replace(world.queues[0], closed_node_groups=()),))
    assert {found.rule for found in verify(opened, replace(made, decisions=(decision,)))} == {"reasons"}


def test_no_pod_is_reserved_in_a_closed_node_group() -> None:
    world = problem(
        nodes(1, gpu=8),
        nodes(1, gpu=8, node_group=1),
        queue("default", closed_node_groups=(1,)),
        gang("runs", role(1, gpu=8), running=(running_pods(0, 0, 1),), ends_in=60),
        gang("asks", role(1, gpu=8)),
        node_groups=("", "kept"),
    )
    plan = solve(world)
    assert plan.reservation is not None
    elsewhere = replace(plan, reservation=replace(plan.reservation, placements=(Placement(0, 1, 1),)))
    assert (verify(world, plan), {found.rule for found in verify(world, elsewhere)}) == ([], {"reservation"})


def test_never_is_believed_where_a_capability_forbids_it() -> None:
    world = problem(nodes(4, gpu=8), queue("default", capability={"gpu": 16}), gang("a", role(3, gpu=8)))
    made = plan_with(world, {})
    decision = replace(made.decisions[0], facts=(Undecided(never=True),))
    assert verify(world, replace(made, decisions=(decision,))) == []


def test_all_violations_come_at_once_and_in_the_order_of_the_rules() -> None:
    world = problem(
        nodes(2, gpu=8, node_class=1),
        queue("default", capability={"gpu": 8}),
        gang("a", role(1, gpu=8)),
        gang("b", role(1, gpu=8)),
    )
    made = plan_with(world, {0: [(0, 0, 2)], 1: [(0, 1, 1)]})
    found = verify(world, replace(made, queues=()))
    names = [rule.__name__ for rule in RULES]
    assert {violation.rule for violation in found} == {"replicas", "eligibility", "capacity", "capability", "queue_use"}
    assert [names.index(violation.rule) for violation in found] == sorted(
        names.index(violation.rule) for violation in found
    )
    assert [violation.where[1] for violation in found if violation.rule == "eligibility"] == [0, 1]
    assert verify(world, replace(made, queues=())) == found


def test_needs_keep_unused_guarantees_and_nest_them() -> None:
    world = problem(
        queue("leaf", "inner", guarantee={"gpu": 4}),
        queue("other", "inner"),
        queue("inner", "top", guarantee={"gpu": 6}),
        queue("top", used={"gpu": 0}),
    )
    assert needs(world, [(0,), (0,), (0,), (0,)]) == [(4,), (0,), (6,), (6,)]
    assert needs(world, [(1,), (1,), (0,), (2,)]) == [(4,), (1,), (6,), (8,)]
    assert needs(world, [(5,), (3,), (1,), (0,)]) == [(5,), (3,), (9,), (9,)]

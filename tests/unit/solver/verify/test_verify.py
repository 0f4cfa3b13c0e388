"""Each rule of the verifier: what breaks it, what just does not, and what running pods excuse."""

from __future__ import annotations

import ast
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import solver.plan
import solver.verify
from solver import solve
from solver.facts import ClosedQueue, Fact, NoEligibleNode, PrecedingGangs, ResourceShortage, Undecided
from solver.plan import Batch, Objective, Plan
from solver.problem import Placement, Problem
from solver.repairs import EndOfGangs, EndOfPods, FewerPods, OpenQueue, OtherQueue, Repair, ReturnOfNodes
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
    soft_topology,
    subgroup,
)

TREE = {"s0": (1, "spine"), "s1": (1, "spine"), "spine": (2, None)}
TWO_SUPERNODES = (*nodes(2, leaf="s0", gpu=8), *nodes(2, leaf="s1", gpu=8))


def test_the_verifier_imports_nothing_of_the_solver_but_what_goes_in_and_what_comes_out() -> None:
    rooms = sorted(Path(solver.verify.__file__).parent.glob("*.py"))
    wanted = [
        node.module
        for room in rooms
        for node in ast.walk(ast.parse(room.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module
    ]
    ours = {name for name in wanted if name.split(".")[0] in ("solver", "compiler", "reconciler")}
    assert {name for name in ours if not name.startswith("solver.verify")} == {
        "solver.facts",
        "solver.plan",
        "solver.problem",
        "solver.repairs",
    }


CHECKED: dict[type, dict[str, str]] = {
    solver.plan.Plan: {
        "decisions": "decisions",
        "batches": "batches",
        "queues": "queue_use",
        "reservation": "reservation",
        "hit_time_limit": "no: only a clock could tell; tests/unit/solver/mip/test_time_limit.py",
    },
    solver.plan.Decision: {
        "gang": "decisions",
        "action": "actions",
        "placements": "capacity",
        "domains": "domains",
        "facts": "reasons",
        "repairs": "reasons",
        "evicted_pods": "evictions",
        "evicted_for": "eviction_rights",
        "slot_uses": "device_slots",
        "starts_in": "reservation",
        "held": "held_gangs",
        "unlocated_holders": "no: for people; tests/unit/compiler/lower/test_slot_holders.py",
    },
    solver.plan.UnlocatedHolder: dict.fromkeys(
        ("gang", "node", "slot_group"), "no: for people; tests/unit/compiler/lower/test_slot_holders.py"
    ),
    # That facts suffice and none is idle, and that repairs are enough, takes as long as finding them:
    # tests/property/test_reasons.py, test_repairs.py and test_delays.py.
    Fact: {
        **dict.fromkeys(("never", "asked", "available"), "reasons"),
        **dict.fromkeys(("role", "queue", "resource", "hypernode", "pod_rule", "subgroup", "gang"), "reasons"),
        **dict.fromkeys(("gangs", "queues", "nodes", "node_groups"), "reasons"),
        "tier": "no: what the gang's topology says, for people",
        "limit": "no: what a limit says, for people; tests/unit/solver/diagnosis/test_reasons.py",
        **dict.fromkeys(("scarce", "pieces"), "no: for people; tests/scenarios/test_reasons_to_act_on.py"),
        "held": "no: what a queue holds, for people; tests/scenarios/test_reasons_to_act_on.py",
    },
    Repair: {
        **dict.fromkeys(("tier", "amount", "current_amount", "also"), "reasons"),
        **dict.fromkeys(("role", "queue", "resource", "hypernode", "subgroup", "gang", "node"), "reasons"),
        **dict.fromkeys(("gangs", "nodes", "node_groups"), "reasons"),
        "seconds": "no: when others end, for people; tests/property/test_delays.py",
    },
    solver.plan.SlotUse: dict.fromkeys(("role", "node", "slot", "pods"), "device_slots"),
    solver.plan.Reservation: dict.fromkeys(
        ("gang", "starts_in", "placements", "awaited_gangs", "gangs_before"), "reservation"
    ),
    solver.plan.Batch: {
        "gangs": "batches",
        "verdict": "batches",
        "objectives": "objective_values",
        "seconds": "no: measured for people, and no part of the plan's identity",
    },
    solver.plan.Objective: {
        "name": "objective_values",
        "value": "objective_values",
        "bound": "objective_values",
        "gap": "batches",
        "verdict": "batches",
    },
    solver.plan.QueueUse: dict.fromkeys(("queue", "allocated", "admitted", "share", "deserved"), "queue_use"),
}
"""Field of what a plan is made of -> the rule that looks at it, or why none does at run time, and what does instead."""


def kinds_of(made: type[Any]) -> list[type[Any]]:
    """The type and all that the solver makes from it; the compiler has facts of its own, which no plan holds."""
    found = [made]
    for below in made.__subclasses__():
        if below.__module__.startswith("solver."):
            found += kinds_of(below)
    return found


@pytest.mark.parametrize("made", CHECKED, ids=lambda made: made.__name__)
def test_every_field_of_a_plan_is_checked_or_it_is_said_why_not(made: type) -> None:
    assert CHECKED[made].keys() == {field.name for kind in kinds_of(made) for field in fields(kind)}
    rules = {rule.__name__ for rule in RULES}
    for said in CHECKED[made].values():
        assert said in rules or said.startswith("no: ")
        assert all(Path(word.rstrip(",")).is_file() for word in said.split() if word.startswith("tests/"))


def test_the_table_knows_whatever_a_plan_is_made_of() -> None:
    assert set(CHECKED) - {Fact, Repair} == {
        made for made in vars(solver.plan).values() if is_dataclass(made) and made.__module__ == "solver.plan"
    }


def broken(world: Problem, made: Plan) -> set[str]:
    return {violation.rule for violation in verify(world, made)}


def supernodes(*things: object) -> Problem:
    """Nodes 0 and 1 in s0, 2 and 3 in s1, 8 GPUs each, and node 4 outside the topology."""
    return problem(list(TWO_SUPERNODES), nodes(1, gpu=8), *things, hypernodes=TREE)  # type: ignore[arg-type]


SENTENCES = {
    "an empty problem has an empty plan": (problem(), {}, set()),
    "a gang starts whole": (problem(nodes(2, gpu=8), gang("a", role(2, gpu=8))), {0: [(0, 0, 1), (0, 1, 1)]}, set()),
    "a gang may wait": (problem(nodes(2, gpu=8), gang("a", role(2, gpu=8))), {}, set()),
    "a gang does not start below its role's minimum": (
        problem(nodes(2, gpu=8), gang("a", role(2, gpu=8))),
        {0: [(0, 0, 1)]},
        {"actions"},
    ),
    "a gang does not start below its own minimum": (
        problem(nodes(2, gpu=8), gang("a", role(3, minimum=1, gpu=4), minimum=3)),
        {0: [(0, 0, 2)]},
        {"actions"},
    ),
    "a role gets no pods beyond its replicas": (
        problem(nodes(2, gpu=8), gang("a", role(1, gpu=4))),
        {0: [(0, 0, 2)]},
        {"replicas"},
    ),
    "an elastic role may get all its replicas": (
        problem(nodes(2, gpu=8), gang("a", role(2, minimum=1, gpu=4))),
        {0: [(0, 0, 2)]},
        set(),
    ),
    "a role that runs beyond its replicas keeps its pods": (
        problem(nodes(2, gpu=8), gang("a", role(1, gpu=4), running=(running_pods(0, 0, 2),))),
        {0: [(0, 0, 2)]},
        set(),
    ),
    "a role that runs beyond its replicas gets no more": (
        problem(nodes(2, gpu=8), gang("a", role(1, gpu=2), running=(running_pods(0, 0, 2),))),
        {0: [(0, 0, 3)]},
        {"replicas"},
    ),
    "a node holds no more than is free": (
        problem(nodes(1, gpu=8), gang("a", role(3, gpu=4))),
        {0: [(0, 0, 3)]},
        {"capacity"},
    ),
    "two gangs share a node's room": (
        problem(nodes(1, gpu=8), gang("a", role(1, gpu=5)), gang("b", role(1, gpu=5))),
        {0: [(0, 0, 1)], 1: [(0, 0, 1)]},
        {"capacity"},
    ),
    "foreign pods take room": (
        problem(nodes(1, gpu=8, free={"gpu": 7}), gang("a", role(1, gpu=8))),
        {0: [(0, 0, 1)]},
        {"capacity"},
    ),
    "running pods take room": (
        problem(
            nodes(1, gpu=8), gang("a", role(1, gpu=5), running=(running_pods(0, 0, 1),)), gang("b", role(1, gpu=4))
        ),
        {0: [(0, 0, 1)], 1: [(0, 0, 1)]},
        {"capacity"},
    ),
    "the running pods of a waiting gang take room": (
        problem(
            nodes(1, gpu=8), gang("a", role(2, gpu=5), running=(running_pods(0, 0, 1),)), gang("b", role(1, gpu=4))
        ),
        {1: [(0, 0, 1)]},
        {"capacity"},
    ),
    "a node that shrank under its pods is no fault of the plan": (
        problem(nodes(1, gpu=4), gang("a", role(2, gpu=4), running=(running_pods(0, 0, 2),))),
        {0: [(0, 0, 2)]},
        set(),
    ),
    "a node that shrank takes pods that ask for something else": (
        problem(
            nodes(1, gpu=4, cpu=2),
            gang("a", role(2, gpu=4), running=(running_pods(0, 0, 2),)),
            gang("b", role(1, cpu=1)),
        ),
        {0: [(0, 0, 2)], 1: [(0, 0, 1)]},
        set(),
    ),
    "a pod needs a node of its kind": (
        problem(nodes(1, gpu=8), nodes(1, gpu=8, node_class=1), gang("a", role(1, gpu=8, node_classes=(1,)))),
        {0: [(0, 0, 1)]},
        {"eligibility"},
    ),
    "a running pod stays on a node that it may no longer use": (
        problem(nodes(1, gpu=8), gang("a", role(1, gpu=8, node_classes=(1,)), running=(running_pods(0, 0, 1),))),
        {0: [(0, 0, 1)]},
        set(),
    ),
    "running pods do not move": (
        problem(nodes(2, gpu=8), gang("a", role(1, gpu=8), running=(running_pods(0, 0, 1),))),
        {0: [(0, 1, 1)]},
        {"running_pods_stay", "queue_use"},
    ),
    "a gang that lost a pod is completed beside the others": (
        problem(nodes(2, gpu=8), gang("a", role(2, gpu=8), running=(running_pods(0, 1, 1),))),
        {0: [(0, 0, 1), (0, 1, 1)]},
        set(),
    ),
    "a gang that lost a pod waits with the others": (
        problem(nodes(2, gpu=8), gang("a", role(2, gpu=8), running=(running_pods(0, 1, 1),))),
        {},
        set(),
    ),
    "a gang that runs whole is kept": (
        problem(nodes(2, gpu=8), gang("a", role(1, gpu=8), running=(running_pods(0, 1, 1),))),
        {},
        {"actions"},
    ),
    "a hard gang stays in one supernode": (
        supernodes(gang("a", role(2, gpu=8), topology=hard_topology(1))),
        {0: [(0, 0, 1), (0, 1, 1)]},
        set(),
    ),
    "a hard gang is not split": (
        supernodes(gang("a", role(2, gpu=8), topology=hard_topology(1))),
        {0: [(0, 1, 1), (0, 2, 1)]},
        {"topology"},
    ),
    "a hard gang of tier 2 spans supernodes of one spine": (
        supernodes(gang("a", role(2, gpu=8), topology=hard_topology(2))),
        {0: [(0, 1, 1), (0, 2, 1)]},
        set(),
    ),
    "a hard gang does not use a node outside the topology": (
        supernodes(gang("a", role(1, gpu=8), topology=hard_topology(2))),
        {0: [(0, 4, 1)]},
        {"topology"},
    ),
    "a tier above the highest means the whole cluster": (
        supernodes(gang("a", role(2, gpu=8), topology=hard_topology(3))),
        {0: [(0, 1, 1), (0, 4, 1)]},
        set(),
    ),
    "a soft gang may be split": (
        supernodes(gang("a", role(2, gpu=8), topology=soft_topology(1))),
        {0: [(0, 1, 1), (0, 2, 1)]},
        set(),
    ),
    "a running gang that is split is kept as it is": (
        supernodes(
            gang(
                "a",
                role(3, minimum=2, gpu=8),
                topology=hard_topology(1),
                running=(running_pods(0, 0, 1), running_pods(0, 2, 1)),
            )
        ),
        {0: [(0, 0, 1), (0, 2, 1)]},
        set(),
    ),
    "a running gang that is split does not grow": (
        supernodes(
            gang(
                "a",
                role(3, minimum=2, gpu=8),
                topology=hard_topology(1),
                running=(running_pods(0, 0, 1), running_pods(0, 2, 1)),
            )
        ),
        {0: [(0, 0, 1), (0, 1, 1), (0, 2, 1)]},
        {"topology"},
    ),
    "a gang grows inside the supernode where it runs": (
        supernodes(gang("a", role(2, minimum=1, gpu=8), topology=hard_topology(1), running=(running_pods(0, 0, 1),))),
        {0: [(0, 0, 1), (0, 3, 1)]},
        {"topology"},
    ),
    "parts are whole inside a supernode": (
        supernodes(gang("a", role(4, gpu=4), subgroups=(subgroup(2),))),
        {0: [(0, 0, 1), (0, 1, 1), (0, 2, 2)]},
        set(),
    ),
    "a part is not split over supernodes": (
        supernodes(gang("a", role(4, gpu=4), subgroups=(subgroup(2),))),
        {0: [(0, 0, 1), (0, 1, 2), (0, 2, 1)]},
        {"subgroups"},
    ),
    "a part is not outside the topology": (
        supernodes(gang("a", role(2, gpu=4), subgroups=(subgroup(2),))),
        {0: [(0, 4, 2)]},
        {"subgroups"},
    ),
    "a soft part may be split": (
        supernodes(gang("a", role(2, gpu=4), subgroups=(subgroup(2, mode="soft"),))),
        {0: [(0, 0, 1), (0, 2, 1)]},
        set(),
    ),
    "no part is left incomplete": (
        supernodes(gang("a", role(4, minimum=2, gpu=2), subgroups=(subgroup(2, mode="soft"),))),
        {0: [(0, 0, 3)]},
        {"subgroups"},
    ),
    "parts fewer than their minimum do not start": (
        supernodes(gang("a", role(4, minimum=1, gpu=2), subgroups=(subgroup(2, minimum=2),))),
        {0: [(0, 0, 2)]},
        {"actions"},
    ),
    "pairs nest in fours": (
        supernodes(gang("a", role(4, gpu=4), subgroups=(subgroup(4, tier=2), subgroup(2)))),
        {0: [(0, 0, 2), (0, 2, 2)]},
        set(),
    ),
    "a part of two roles counts both": (
        supernodes(gang("a", role(1, gpu=4), role(1, gpu=4), subgroups=(subgroup(2, roles=(0, 1)),))),
        {0: [(0, 0, 1), (1, 2, 1)]},
        {"subgroups"},
    ),
    "a part that lost a pod is completed in its supernode": (
        supernodes(gang("a", role(2, gpu=4), subgroups=(subgroup(2),), running=(running_pods(0, 0, 1),))),
        {0: [(0, 0, 1), (0, 1, 1)]},
        set(),
    ),
    "capability holds for the queue": (
        problem(nodes(2, gpu=8), queue("default", capability={"gpu": 8}), gang("a", role(2, gpu=8))),
        {0: [(0, 0, 1), (0, 1, 1)]},
        {"capability"},
    ),
    "capability holds on the whole path": (
        problem(
            nodes(2, gpu=8),
            queue("child", "top"),
            queue("top", capability={"gpu": 8}),
            gang("a", role(2, gpu=8), queue="child"),
        ),
        {0: [(0, 0, 1), (0, 1, 1)]},
        {"capability"},
    ),
    "capability counts what others use in the queue": (
        problem(nodes(1, gpu=8), queue("default", capability={"gpu": 8}, used={"gpu": 1}), gang("a", role(1, gpu=8))),
        {0: [(0, 0, 1)]},
        {"capability"},
    ),
    "a queue above its capability is no fault of the plan, and takes pods that ask for something else": (
        problem(
            nodes(2, gpu=8, cpu=1),
            queue("default", capability={"gpu": 4}),
            gang("a", role(1, gpu=8), running=(running_pods(0, 0, 1),)),
            gang("b", role(1, cpu=1)),
        ),
        {0: [(0, 0, 1)], 1: [(0, 1, 1)]},
        set(),
    ),
    "a guarantee of others stays free": (
        problem(nodes(2, gpu=8), queue("a"), queue("b", guarantee={"gpu": 8}), gang("a", role(2, gpu=8), queue="a")),
        {0: [(0, 0, 1), (0, 1, 1)]},
        {"guarantees"},
    ),
    "a queue may use its own guarantee": (
        problem(nodes(2, gpu=8), queue("a"), queue("b", guarantee={"gpu": 8}), gang("a", role(2, gpu=8), queue="b")),
        {0: [(0, 0, 1), (0, 1, 1)]},
        set(),
    ),
    "a used guarantee is not kept twice": (
        problem(
            nodes(2, gpu=8),
            queue("a"),
            queue("b", guarantee={"gpu": 8}),
            gang("a", role(1, gpu=8), queue="a"),
            gang("b", role(1, gpu=8), queue="b", running=(running_pods(0, 0, 1),)),
        ),
        {0: [(0, 1, 1)], 1: [(0, 0, 1)]},
        set(),
    ),
    "what a queue uses outside the gangs counts towards its guarantee": (
        problem(
            nodes(1, gpu=8, free={"gpu": 4}),
            queue("a"),
            queue("b", guarantee={"gpu": 4}, used={"gpu": 4}),
            gang("a", role(1, gpu=4), queue="a"),
        ),
        {0: [(0, 0, 1)]},
        set(),
    ),
    "a child's guarantee is kept inside the parent's capability": (
        problem(
            nodes(2, gpu=8),
            queue("top", capability={"gpu": 8}),
            queue("a", "top"),
            queue("b", "top", guarantee={"gpu": 4}),
            gang("a", role(1, gpu=8), queue="a"),
        ),
        {0: [(0, 0, 1)]},
        {"guarantees"},
    ),
    "guarantees beyond the cluster still let a queue use its own": (
        problem(
            nodes(1, gpu=8),
            queue("a", guarantee={"gpu": 8}),
            queue("b", guarantee={"gpu": 8}),
            gang("a", role(1, gpu=8), queue="a"),
        ),
        {0: [(0, 0, 1)]},
        set(),
    ),
    "guarantees beyond the cluster let no queue exceed its own": (
        problem(
            nodes(1, gpu=8),
            queue("a", guarantee={"gpu": 4}),
            queue("b", guarantee={"gpu": 8}),
            gang("a", role(1, gpu=8), queue="a"),
        ),
        {0: [(0, 0, 1)]},
        {"guarantees"},
    ),
}


@pytest.mark.parametrize("sentence", SENTENCES)
def test_that(sentence: str) -> None:
    world, placements, rules = SENTENCES[sentence]
    assert broken(world, plan_with(world, placements)) == rules


WORLD = supernodes(
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
(OBJECTIVE,) = BATCH.objectives


def objective(value: float, bound: float, gap: float, verdict: str) -> Objective:
    return Objective("placed", value, bound, gap, verdict)  # type: ignore[arg-type]


def batch(*objectives: Objective, verdict: str) -> tuple[Batch, ...]:
    return (replace(BATCH, objectives=objectives, verdict=verdict),)  # type: ignore[arg-type]


FORM = {
    "the good plan is good": (GOOD, set()),
    "a decision is missing": (replace(GOOD, decisions=(A, B)), {"decisions"}),
    "decisions are out of order": (replace(GOOD, decisions=(B, A, C)), {"decisions"}),
    "a decision is for no gang": (replace(GOOD, decisions=(*GOOD.decisions, replace(C, gang=3))), {"decisions"}),
    "an action is unknown": (
        replace(GOOD, decisions=(A, replace(B, action="stop"), C)),  # type: ignore[arg-type]
        {"decisions", "actions", "reasons"},
    ),
    "placements are unsorted": (
        replace(GOOD, decisions=(replace(A, placements=A.placements[::-1]), B, C)),
        {"decisions"},
    ),
    "placements are not merged": (
        replace(
            WORLD_PLAN := plan_with(problem(nodes(1, gpu=8), gang("a", role(2, gpu=1))), {0: [(0, 0, 2)]}),
            decisions=(replace(WORLD_PLAN.decisions[0], placements=(Placement(0, 0, 1), Placement(0, 0, 1))),),
        ),
        {"decisions"},
    ),
    "a placement of no pods": (
        replace(GOOD, decisions=(replace(A, placements=(*A.placements, Placement(0, 3, 0))), B, C)),
        {"decisions"},
    ),
    "a placement on no node": (
        replace(GOOD, decisions=(replace(A, placements=(*A.placements, Placement(0, 5, 1))), B, C)),
        {"decisions"},
    ),
    "a placement of no role": (
        replace(GOOD, decisions=(replace(A, placements=(*A.placements, Placement(1, 3, 1))), B, C)),
        {"decisions"},
    ),
    "a domain is missing": (replace(GOOD, decisions=(replace(A, domains=(0,)), B, C)), {"domains"}),
    "domains are unsorted": (replace(GOOD, decisions=(replace(A, domains=(1, 0)), B, C)), {"domains"}),
    "a domain is not the leaf": (replace(GOOD, decisions=(replace(A, domains=(0, 1, 2)), B, C)), {"domains"}),
    "a waiting gang has no reason": (replace(GOOD, decisions=(A, replace(B, facts=()), C)), {"reasons"}),
    "a started gang has reasons": (replace(GOOD, decisions=(replace(A, facts=B.facts), B, C)), {"reasons"}),
    "a kept gang has reasons": (replace(GOOD, decisions=(A, B, replace(C, facts=B.facts))), {"reasons"}),
    "a started gang has repairs": (
        replace(GOOD, decisions=(replace(A, repairs=(EndOfPods(),)), B, C)),
        {"reasons"},
    ),
    "a fact points at no role": (
        replace(GOOD, decisions=(A, replace(B, facts=(NoEligibleNode(role=1),)), C)),
        {"reasons"},
    ),
    "a fact points at no queue": (
        replace(GOOD, decisions=(A, replace(B, facts=(ClosedQueue(queue=2),)), C)),
        {"reasons"},
    ),
    "a fact points at no gang": (
        replace(GOOD, decisions=(A, replace(B, facts=(PrecedingGangs(2, 1, gangs=(0, 3)),)), C)),
        {"reasons"},
    ),
    "a repair points at no queue": (
        replace(GOOD, decisions=(A, replace(B, repairs=(OtherQueue(queue=2),)), C)),
        {"reasons"},
    ),
    "a fact says that there is enough": (
        replace(GOOD, decisions=(A, replace(B, facts=(ResourceShortage(3, 3, 0),)), C)),
        {"reasons"},
    ),
    "a fact says that one is missing": (
        replace(GOOD, decisions=(A, replace(B, facts=(ResourceShortage(3, 2, 0),)), C)),
        set(),
    ),
    "a repair points at no role": (
        replace(GOOD, decisions=(A, replace(B, repairs=(FewerPods(1, 1, 2),)), C)),
        {"reasons"},
    ),
    "a second change points at no node": (
        replace(GOOD, decisions=(A, replace(B, repairs=(EndOfPods(also=(ReturnOfNodes((5,)),)),)), C)),
        {"reasons"},
    ),
    "fewer pods are as many": (
        replace(GOOD, decisions=(A, replace(B, repairs=(FewerPods(None, 2, 2),)), C)),
        {"reasons"},
    ),
    "fewer pods are fewer": (
        replace(GOOD, decisions=(A, replace(B, repairs=(FewerPods(None, 1, 2),)), C)),
        set(),
    ),
    "a gang is to wait for its own end": (
        replace(GOOD, decisions=(A, replace(B, repairs=(EndOfGangs(gangs=(1,)),)), C)),
        {"reasons"},
    ),
    "a gang is to wait for those who hold something": (
        replace(GOOD, decisions=(A, replace(B, repairs=(EndOfGangs(gangs=(0,)),)), C)),
        set(),
    ),
    "an open queue is to be opened": (
        replace(GOOD, decisions=(A, replace(B, repairs=(OpenQueue(queue=0),)), C)),
        {"reasons"},
    ),
    "a gang that fits the empty cluster is said to fit never": (
        replace(GOOD, decisions=(A, replace(B, facts=(Undecided(never=True),)), C)),
        {"reasons"},
    ),
    "a gang is in no batch": (replace(GOOD, batches=(replace(BATCH, gangs=(0, 2)),)), {"batches"}),
    "a kept gang may be in no batch": (replace(GOOD, batches=(replace(BATCH, gangs=(0, 1)),)), set()),
    "a gang is in two batches": (replace(GOOD, batches=(BATCH, replace(BATCH, gangs=(2,)))), {"batches"}),
    "a batch has a gang that does not exist": (replace(GOOD, batches=(replace(BATCH, gangs=(0, 1, 7)),)), {"batches"}),
    "a batch is better than its objective": (
        replace(GOOD, batches=batch(objective(8, 10, 0.25, "within gap"), verdict="proven")),
        {"batches"},
    ),
    "a batch is worse than its objectives": (
        replace(GOOD, batches=batch(OBJECTIVE, verdict="limit reached")),
        {"batches"},
    ),
    "a batch is as bad as its worst": (
        replace(GOOD, batches=batch(OBJECTIVE, objective(8, 10, 0.25, "within gap"), verdict="within gap")),
        set(),
    ),
    "a bound may be unknown": (
        replace(
            GOOD, batches=batch(objective(8, float("inf"), float("inf"), "limit reached"), verdict="limit reached")
        ),
        set(),
    ),
    "a gap is wrong": (
        replace(GOOD, batches=batch(objective(8, 10, 0.2, "within gap"), verdict="within gap")),
        {"batches"},
    ),
    "a gap is no number": (
        replace(GOOD, batches=batch(objective(8, 10, float("nan"), "within gap"), verdict="within gap")),
        {"batches"},
    ),
    "a gap is called proven": (
        replace(GOOD, batches=batch(objective(8, 10, 0.25, "proven"), verdict="proven")),
        {"batches"},
    ),
    "a verdict is unknown": (
        replace(GOOD, batches=batch(objective(8, 8, 0, "optimal"), verdict="proven")),
        {"batches"},
    ),
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
    world = supernodes(gang("a", role(3, gpu=8), topology=hard_topology(1)))
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

"""Each rule of the verifier: what breaks it, what just does not, and what running pods excuse."""

from __future__ import annotations

import ast
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

import solver.plan
import solver.verify
from solver.facts import Fact
from solver.plan import Plan
from solver.problem import Problem
from solver.repairs import Repair
from solver.verify import RULES, verify
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
    two_supernodes,
)


def test_the_verifier_imports_nothing_of_the_solver_but_what_goes_in_and_what_comes_out() -> None:
    rooms = sorted(Path(solver.verify.__file__).parent.glob("*.py"))
    nodes_of_rooms = [node for room in rooms for node in ast.walk(ast.parse(room.read_text()))]
    wanted = [node.module or "" for node in nodes_of_rooms if isinstance(node, ast.ImportFrom)]
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
        "obstacle": "no: why nobody goes, for people; tests/scenarios/test_why_nobody_is_evicted.py",
    },
    Repair: {
        **dict.fromkeys(("tier", "amount", "current_amount", "also"), "reasons"),
        **dict.fromkeys(("role", "queue", "resource", "hypernode", "subgroup", "gang", "node"), "reasons"),
        **dict.fromkeys(("gangs", "nodes", "node_groups"), "reasons"),
        "seconds": "no: when others end, for people; tests/property/test_delays.py",
        "obstacle": "no: what the edit takes away, for people; tests/scenarios/test_why_nobody_is_evicted.py",
        "evicts": "no: what the plan with that priority does; tests/property/test_repairs.py",
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


SPLIT = two_supernodes(
    gang(
        "a",
        role(3, minimum=2, gpu=8),
        topology=hard_topology(1),
        running=(running_pods(0, 0, 1), running_pods(0, 2, 1)),
    )
)
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
    "a gang that lost a pod is completed next to the others": (
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
        two_supernodes(gang("a", role(2, gpu=8), topology=hard_topology(1))),
        {0: [(0, 0, 1), (0, 1, 1)]},
        set(),
    ),
    "a hard gang is not split": (
        two_supernodes(gang("a", role(2, gpu=8), topology=hard_topology(1))),
        {0: [(0, 1, 1), (0, 2, 1)]},
        {"topology"},
    ),
    "a hard gang of tier 2 spans supernodes of one spine": (
        two_supernodes(gang("a", role(2, gpu=8), topology=hard_topology(2))),
        {0: [(0, 1, 1), (0, 2, 1)]},
        set(),
    ),
    "a hard gang does not use a node outside the topology": (
        two_supernodes(gang("a", role(1, gpu=8), topology=hard_topology(2))),
        {0: [(0, 4, 1)]},
        {"topology"},
    ),
    "a tier above the highest means the whole cluster": (
        two_supernodes(gang("a", role(2, gpu=8), topology=hard_topology(3))),
        {0: [(0, 1, 1), (0, 4, 1)]},
        set(),
    ),
    "a soft gang may be split": (
        two_supernodes(gang("a", role(2, gpu=8), topology=soft_topology(1))),
        {0: [(0, 1, 1), (0, 2, 1)]},
        set(),
    ),
    "a running gang that is split is kept as it is": (SPLIT, {0: [(0, 0, 1), (0, 2, 1)]}, set()),
    "a running gang that is split does not grow": (SPLIT, {0: [(0, 0, 1), (0, 1, 1), (0, 2, 1)]}, {"topology"}),
    "a gang grows inside the supernode where it runs": (
        two_supernodes(
            gang("a", role(2, minimum=1, gpu=8), topology=hard_topology(1), running=(running_pods(0, 0, 1),))
        ),
        {0: [(0, 0, 1), (0, 3, 1)]},
        {"topology"},
    ),
    "parts are whole inside a supernode": (
        two_supernodes(gang("a", role(4, gpu=4), subgroups=(subgroup(2),))),
        {0: [(0, 0, 1), (0, 1, 1), (0, 2, 2)]},
        set(),
    ),
    "a part is not split over supernodes": (
        two_supernodes(gang("a", role(4, gpu=4), subgroups=(subgroup(2),))),
        {0: [(0, 0, 1), (0, 1, 2), (0, 2, 1)]},
        {"subgroups"},
    ),
    "a part is not outside the topology": (
        two_supernodes(gang("a", role(2, gpu=4), subgroups=(subgroup(2),))),
        {0: [(0, 4, 2)]},
        {"subgroups"},
    ),
    "a soft part may be split": (
        two_supernodes(gang("a", role(2, gpu=4), subgroups=(subgroup(2, mode="soft"),))),
        {0: [(0, 0, 1), (0, 2, 1)]},
        set(),
    ),
    "no part is left incomplete": (
        two_supernodes(gang("a", role(4, minimum=2, gpu=2), subgroups=(subgroup(2, mode="soft"),))),
        {0: [(0, 0, 3)]},
        {"subgroups"},
    ),
    "parts fewer than their minimum do not start": (
        two_supernodes(gang("a", role(4, minimum=1, gpu=2), subgroups=(subgroup(2, minimum=2),))),
        {0: [(0, 0, 2)]},
        {"actions"},
    ),
    "pairs nest in fours": (
        two_supernodes(gang("a", role(4, gpu=4), subgroups=(subgroup(4, tier=2), subgroup(2)))),
        {0: [(0, 0, 2), (0, 2, 2)]},
        set(),
    ),
    "a part of two roles counts both": (
        two_supernodes(gang("a", role(1, gpu=4), role(1, gpu=4), subgroups=(subgroup(2, roles=(0, 1)),))),
        {0: [(0, 0, 1), (1, 2, 1)]},
        {"subgroups"},
    ),
    "a part that lost a pod is completed in its supernode": (
        two_supernodes(gang("a", role(2, gpu=4), subgroups=(subgroup(2),), running=(running_pods(0, 0, 1),))),
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

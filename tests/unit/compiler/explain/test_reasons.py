from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from compiler.explain.catalogue import ENTRIES, REASONS, REPAIRS, Catalogue
from compiler.explain.provenance import Provenance
from compiler.explain.rivals import EarlierGangs, with_earlier_gangs
from compiler.explain.statements import CodedMessage, Entry
from compiler.fields.quantity import json_amount, named_amount, rounded_amount
from compiler.fields.texts import compact_names
from compiler.lower.origins import Origins, RuleOrigins
from compiler.specs.gang_spec import SubgroupSpec, TopologySpec
from solver import facts, repairs
from solver.facts import Borrowing, CapabilityLimit, DomainShortage, Fact, PrecedingGangs
from solver.problem import Gang, HyperNode, Node, PodRule, Problem, Queue, Role, SlotRequest, Subgroup, Topology
from solver.repairs import EndOfGangs, HigherPriority, MoreCapability, Repair
from tests.builders import specs
from tests.builders.beside import beside
from tests.builders.described import statements
from tests.builders.problems import with_fields

ROOT = Path(__file__).parents[4]


@pytest.mark.parametrize(
    ("names", "most", "expected"),
    [
        (["sn-01", "sn-02", "sn-03"], None, "sn-01 to 03"),
        (["sn-01", "sn-02", "sn-04"], None, "sn-01, sn-02, sn-04"),
        (["a-1", "b-2", "b-3", "b-4", "b-9"], None, "a-1, b-2 to 4, b-9"),
        (["a", "c", "e", "g1", "g2", "g3"], 2, "a, c and 4 more"),
        (["n9", "n10", "n11"], None, "n9 to 11"),
        ([], None, ""),
    ],
)
def test_runs_of_names_are_said_in_few_words(names: list[str], most: int | None, expected: str) -> None:
    assert compact_names(names, most) == expected


@pytest.mark.parametrize(
    ("resource", "amount", "people", "machines"),
    [
        ("cpu", 2500, "2.5", 2.5),
        ("cpu", 64_000, "64", 64),
        ("memory", 64 * 2**30, "64Gi", 64 * 2**30),
        ("memory", 1536 * 2**20, "1.5Gi", 1536 * 2**20),
        ("nvidia.com/gpu", 16, "16", 16),
    ],
)
def test_amounts_for_people_and_for_machines(resource: str, amount: int, people: str, machines: float) -> None:
    assert rounded_amount(resource, amount) == people
    assert json_amount(resource, amount) == machines


def test_pods_are_counted_in_english() -> None:
    assert [named_amount("pods", 1), named_amount("pods", 2), named_amount("cpu", 500)] == [
        "1 pod",
        "2 pods",
        "0.5 cpu",
    ]


PROBLEM = Problem(
    ("cpu", "nvidia.com/gpu"),
    (Node("n-1", 0, 0, (0, 8), (0, 8)),),
    (HyperNode("sn-1", 1),),
    (Queue("ads", None, 1, 0, (None, None), (None, None), (None, 64), (0, 0)),),
    tuple(Gang(f"t/{name}", 0, 0, 0, 1, (Role("worker", 4, 4, (0, 8), frozenset()),)) for name in "abcde"),
    node_groups=("h100",),
    slot_groups=("numa",),
    pod_rules=(PodRule("anti-affinity", (0,), (0,)),),
)
PART = SubgroupSpec("part", ("worker",), 2, 1, TopologySpec("hard", 1), ("spec",))
ORIGINS = Origins(
    tuple(specs.gang(name, specs.role("worker", 4, gpu=8), subgroups=(PART,)) for name in "abcde"),
    (specs.queue("ads"),),
    (specs.node("n-1"),),
    (specs.hypernode("sn-1", 1),),
    rules=RuleOrigins(("apart from app=a",), ("affinity",), ((),)),
    affinity_owners=(0,),
)


def said(statement: Fact | Repair, problem: Problem = PROBLEM, now: int | None = None) -> CodedMessage:
    """What is said of the first gang."""
    provenance = Provenance(problem, replace(ORIGINS, now=now), specs.document("Cluster", "test"))
    return Catalogue(provenance).message(0, statement)


def test_a_fact_is_said_in_the_users_names_with_its_numbers() -> None:
    reason = said(CapabilityLimit(asked=32, available=8, queue=0, resource=1, limit=64))
    assert reason.message == "queue ads may hold 64 nvidia.com/gpu and has 8 left; the job asks for 32"
    assert dict(reason.facts) == {
        "queue": "ads",
        "resource": "nvidia.com/gpu",
        "asked": 32,
        "available": 8,
        "limit": 64,
    }
    assert not reason.never


def test_a_capability_that_is_kept_for_guarantees_is_said_with_whose_they_are() -> None:
    fact = CapabilityLimit(asked=32, available=8, queue=0, resource=1, limit=64, queues=(0,), never=True)
    reason = said(fact)
    assert reason.message == (
        "of the 64 nvidia.com/gpu that queue ads may hold, never more than 8 are left beyond what other queues are "
        "guaranteed (ads); the job asks for 32"
    )
    assert (reason.never, reason.facts["queues"]) == (True, ("ads",))


def test_a_start_that_was_told_and_goes_before_a_borrower_is_said() -> None:
    borrowing = Borrowing(asked=8, available=4, queue=0, resource=1, limit=16, held=12, gangs=(1, 2))
    first = "what is free goes first to what queues are entitled to, then to those with lower shares: t/b, t/c"
    assert said(borrowing).message.endswith(first)
    gangs = (*PROBLEM.gangs[:2], with_fields(PROBLEM.gangs[2], promised=True), *PROBLEM.gangs[3:])
    told = replace(PROBLEM, gangs=gangs)
    assert said(borrowing, told).message.endswith(
        "what queues are entitled to, then to jobs that were told a start (t/c), then to those with lower shares: "
        "t/b, t/c"
    )


def test_what_can_never_be_is_said_otherwise() -> None:
    fact = DomainShortage(asked=16, available=8, tier=1, hypernode=0, never=True)
    reason = said(fact)
    assert reason.message == "needs 16 pods in one domain of tier 1; even empty, sn-1 holds the most: 8"
    assert reason.facts["never"] is True


def test_many_gangs_are_counted_after_the_third() -> None:
    reason = said(PrecedingGangs(4, 2, gangs=(1, 2, 3, 4)))
    assert reason.message.endswith("t/b, t/c, t/d and 1 more")
    assert reason.facts["gangs"] == ("t/b", "t/c", "t/d", "t/e")


def test_of_many_gangs_that_come_before_a_repair_s_own_some_are_named_and_the_rest_counted() -> None:
    message = said(MoreCapability(queue=0, resource=1, amount=24))
    told = with_earlier_gangs(PROBLEM, message, EarlierGangs(surely=True, count=5000, leading=(1, 2, 3, 4)), None)
    assert told.message.endswith("; t/b, t/c, t/d and 4997 more wait for it too and come first")
    assert told.facts["gangs"] == ("t/b", "t/c", "t/d", "t/e")


INDICES_AND_AMOUNTS: dict[str, Any] = {
    **dict.fromkeys(("role", "queue", "hypernode", "gang", "node", "subgroup", "pod_rule"), 0),
    **dict.fromkeys(("gangs", "queues", "nodes", "node_groups"), (0,)),
    **{"resource": 1, "tier": 1, "asked": 8, "available": 4, "limit": 64, "held": 60, "seconds": 60, "amount": 4},
    "current_amount": 8,
    "obstacle": "budget",
}


def sample(kind: type[Fact] | type[Repair], *, full: bool) -> Any:
    """One of its kind, with its optional fields or without."""
    wanted = [field.name for field in fields(kind) if full or field.default is MISSING]
    return kind(**{name: INDICES_AND_AMOUNTS[name] for name in wanted if name in INDICES_AND_AMOUNTS})


@pytest.mark.parametrize(("module", "entries"), [(facts, REASONS), (repairs, REPAIRS)])
def test_every_type_of_the_solver_has_an_entry(module: ModuleType, entries: Mapping[type[Any], Entry[Any]]) -> None:
    said = {
        each for each in vars(module).values() if isinstance(each, type) and isinstance(vars(each).get("code"), str)
    }
    assert len(said) > 20
    assert said <= entries.keys()


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("kind", ENTRIES)
def test_every_fact_and_repair_has_a_sentence(kind: type[Fact] | type[Repair], full: bool) -> None:
    made = sample(kind, full=full)
    role = Role("worker", 4, 4, (0, 8), frozenset(), slot_requests=(SlotRequest(0, 1, (0, 4)),))
    gang = replace(PROBLEM.gangs[0], roles=(role,), subgroups=(Subgroup("part", (0,), 2, 1, Topology("hard", 1)),))
    message = said(made, replace(PROBLEM, gangs=(gang,))).message
    assert "{" not in message
    assert len(message) > 10
    assert message != ENTRIES[kind].title


def test_a_priority_that_evicts_says_so() -> None:
    assert (
        said(HigherPriority(11, evicts=True)).message
        == "a priority of 11 or more; running jobs of its queue would be evicted for it"
    )
    named = said(HigherPriority(11, gangs=(0,), evicts=True))
    assert named.message == f"a priority of 11 or more; {PROBLEM.gangs[0].name} would be evicted for it"
    assert named.facts["gangs"] == (PROBLEM.gangs[0].name,)


def test_a_repair_says_how_much_of_what() -> None:
    repair = said(MoreCapability(queue=0, resource=1, amount=24))
    assert (repair.message, dict(repair.facts)) == (
        "capability 88 nvidia.com/gpu for queue ads, 24 more",
        {"queue": "ads", "resource": "nvidia.com/gpu", "amount": 24, "limit": 88},
    )


@pytest.mark.parametrize(("now", "described", "message", "facts"), beside(__file__))
def test_a_repair_that_takes_time_says_until_when(
    now: int | None, described: Mapping[str, Any], message: str, facts: dict[str, object]
) -> None:
    (repair,) = statements([described])
    found = said(repair, now=now)
    assert found.message == message
    assert {key: value for key, value in found.facts.items() if key in ("seconds", "amount")} == facts
    assert ("at" in found.facts) == (now is not None and isinstance(repair, EndOfGangs) and repair.seconds is not None)

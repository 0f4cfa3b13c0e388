"""Why a gang waits, in situations: the exact facts and repairs, and what must not be blamed."""

from __future__ import annotations

import pickle

import pytest

from solver import Options, solve
from solver.diagnosis.diagnosis_state import DiagnosisState
from solver.diagnosis.explanations import explain
from solver.facts import OversizedGang, PrecedingGangs
from solver.plan import Decision
from solver.problem import Policy, Problem, Subgroup
from solver.repairs import FewerPods
from solver.state.state import State
from solver.verify import verify
from tests.builders.beside import beside
from tests.builders.described import statements, world_of
from tests.builders.problems import (
    GangSpec,
    gang,
    hard_topology,
    nodes,
    problem,
    queue,
    role,
    running_pods,
    subgroup,
    supernodes,
)

CAPACITY, PROPORTION = Policy(capacity=True), Policy(proportion=True)


def decision(world: Problem, name: str = "asks", options: Options | None = None) -> Decision:
    plan = solve(world, options)
    assert verify(world, plan) == []
    return next(d for d in plan.decisions if world.gangs[d.gang].name == name)


def busy(first: int, count: int, name: str = "runs", where: str = "default") -> GangSpec:
    """A gang that runs with one pod of 8 GPUs on each of so many nodes."""
    return gang(
        f"{name}{first}",
        role(count, gpu=8),
        queue=where,
        running=tuple(running_pods(0, first + n, 1) for n in range(count)),
    )


SITUATIONS = beside(__file__)


@pytest.mark.parametrize("sentence", SITUATIONS)
def test_exactly_these_facts_and_repairs(sentence: str) -> None:
    """So nothing else is blamed."""
    case = dict(SITUATIONS[sentence])
    facts, repairs = (statements(case.pop(key)) for key in ("facts", "repairs"))
    waits = decision(world_of(**case))
    assert (waits.action, waits.facts, waits.repairs) == ("wait", facts, repairs)


def test_a_job_that_only_its_queue_keeps_out_blames_no_node_and_no_job() -> None:
    """What the plan gives to others it gives because this one cannot have it."""
    world = problem(
        nodes(2, gpu=8),
        queue("q", capability={"gpu": 8}),
        queue("other"),
        gang("asks", role(2, gpu=8), queue="q"),
        gang("b", role(2, gpu=8), queue="other"),
    )
    assert [fact.code for fact in decision(world).facts] == ["GW101"]


def test_a_guarantee_that_is_used_is_not_blamed_where_nodes_are_full() -> None:
    world = problem(
        nodes(2, gpu=8),
        queue("safe", guarantee={"gpu": 8}),
        queue("q"),
        busy(0, 1, where="safe"),
        busy(1, 1, where="q"),
        gang("asks", role(1, gpu=8), queue="q"),
    )
    assert [fact.code for fact in decision(world).facts] == ["GW102"]


def test_a_share_that_comes_from_the_capability_is_not_blamed_beside_it() -> None:
    world = problem(
        nodes(4, gpu=8),
        queue("q", capability={"gpu": 8}),
        gang("asks", role(2, gpu=8), queue="q"),
        policy=Policy(proportion=True),
    )
    assert [fact.code for fact in decision(world).facts] == ["GW101"]


def test_only_the_gangs_that_are_really_in_the_way_are_named() -> None:
    """Of three gangs that start the one in the other supernode is not."""
    world = supernodes(
        gang("left", role(4, gpu=8), topology=hard_topology(1), priority=2),
        gang("right", role(2, gpu=8), topology=hard_topology(1), priority=1),
        gang("asks", role(3, gpu=8), topology=hard_topology(1)),
    )
    (fact,) = decision(world).facts
    assert isinstance(fact, PrecedingGangs)
    assert fact.gangs == (1,)


@pytest.mark.parametrize("subgroups", [(), (subgroup(2**31 - 1),), (subgroup(2),)])
def test_as_many_pods_as_can_be_counted_are_told_what_any_number_is(subgroups: tuple[Subgroup, ...]) -> None:
    """No step of a repair is made before it is tried, nor a list of pods."""
    replicas = subgroups[0].size if subgroups and subgroups[0].size > 2 else 2**31 - 2
    told = decision(supernodes(gang("asks", role(replicas, gpu=1), subgroups=subgroups)))
    assert told.facts == (OversizedGang(replicas, 64, resource=0, never=True),)
    fewer = {repair.amount for repair in told.repairs if isinstance(repair, FewerPods) and not repair.also}
    assert fewer == (set() if subgroups and subgroups[0].size > 2 else {64})


def test_explaining_is_a_pure_function_of_what_can_be_sent_elsewhere() -> None:
    world = problem(nodes(4, gpu=8), gang("urgent", role(3, gpu=8), priority=5), gang("asks", role(2, gpu=8)))
    plan = solve(world)
    before, urgent = State.initial(world), plan.decisions[0].placements
    after = before.copy()
    after.start_gang(0, urgent)
    seen = DiagnosisState(before, after, {0: urgent}, {}, Options())
    sent = pickle.loads(pickle.dumps(seen))  # noqa: S301 our own bytes
    assert explain(sent, 1) == explain(seen, 1) == (plan.decisions[1].facts, plan.decisions[1].repairs)

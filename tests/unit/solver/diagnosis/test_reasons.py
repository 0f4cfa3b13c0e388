"""Why a gang waits, in situations: the exact facts and repairs, and what must not be blamed."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace

import pytest

from solver import Options, solve
from solver.diagnosis.diagnosis_state import DiagnosisState
from solver.diagnosis.explanations import explain
from solver.facts import (
    CapabilityLimit,
    ClosedQueue,
    DomainShortage,
    EligibleNodeShortage,
    Fact,
    Fragmentation,
    GuaranteeReserve,
    NobodyEvicted,
    NoEligibleNode,
    OversizedGang,
    OversizedPod,
    OwnRunningPods,
    PrecedingGangs,
    ResourceShortage,
    ShareLimit,
    SubgroupShortage,
)
from solver.plan import Decision
from solver.problem import Policy, Problem, Subgroup
from solver.repairs import (
    EndOfGangs,
    EndOfPods,
    FewerPods,
    HigherPriority,
    HigherTier,
    MoreCapability,
    MoreNodeClasses,
    MoreNodes,
    MoreWeight,
    OpenQueue,
    Repair,
    Restart,
    SmallerGuarantee,
    SmallerPods,
    SmallerSubgroups,
    SoftTopology,
)
from solver.state.state import State
from solver.verify import verify
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


@dataclass(frozen=True)
class Situation:
    """facts, repairs: exactly those of the gang "asks"."""

    world: Problem
    facts: tuple[Fact, ...]
    repairs: tuple[Repair, ...]


def busy(first: int, count: int, name: str = "runs", where: str = "default") -> GangSpec:
    """A gang that runs with one pod of 8 GPUs on each of so many nodes."""
    return gang(
        f"{name}{first}",
        role(count, gpu=8),
        queue=where,
        running=tuple(running_pods(0, first + n, 1) for n in range(count)),
    )


def behind_a_guarantee(policy: Policy, parent: str | None = None) -> Situation:
    """Of two nodes, one is kept for another queue, which may be the parent of the gang's own."""
    safe = queue("safe", guarantee={"gpu": 8})
    asks = gang("asks", role(2, gpu=8), queue="q")
    return Situation(
        problem(nodes(2, gpu=8), safe, queue("q", parent), asks, policy=policy),
        (GuaranteeReserve(asked=16, available=8, queue=1, resource=0, queues=(0,), never=True),),
        (FewerPods(role=0, amount=1, current_amount=2), SmallerGuarantee(queue=0, resource=0, amount=8)),
    )


SITUATIONS = {
    "its queue is full, and there is room on the nodes": Situation(
        problem(
            nodes(4, gpu=8),
            queue("q", capability={"gpu": 16}),
            busy(0, 1, where="q"),
            gang("asks", role(2, gpu=8), queue="q"),
        ),
        (CapabilityLimit(asked=16, available=8, queue=0, resource=0, limit=16),),
        (
            EndOfGangs(gangs=(0,)),
            FewerPods(role=0, amount=1, current_amount=2),
            MoreCapability(queue=0, resource=0, amount=8),
        ),
    ),
    "its queue and the one above are full": Situation(
        problem(
            nodes(4, gpu=8),
            queue("org", capability={"gpu": 8}),
            queue("q", "org", capability={"gpu": 8}),
            gang("asks", role(2, gpu=8), queue="q"),
        ),
        (
            CapabilityLimit(asked=16, available=8, queue=1, resource=0, limit=8, never=True),
            CapabilityLimit(asked=16, available=8, queue=0, resource=0, limit=8, never=True),
        ),
        (
            FewerPods(role=0, amount=1, current_amount=2),
            MoreCapability(queue=1, resource=0, amount=8, also=(MoreCapability(queue=0, resource=0, amount=8),)),
        ),
    ),
    "it is over its queue's capability and too wide for its domain": Situation(
        supernodes(
            queue("q", capability={"gpu": 24}), gang("asks", role(5, gpu=8), queue="q", topology=hard_topology(1))
        ),
        (
            CapabilityLimit(asked=40, available=24, queue=0, resource=0, limit=24, never=True),
            DomainShortage(asked=5, available=4, tier=1, hypernode=0, never=True),
        ),
        (
            FewerPods(role=0, amount=3, current_amount=5),
            HigherTier(tier=2, also=(MoreCapability(queue=0, resource=0, amount=16),)),
            FewerPods(role=0, amount=4, current_amount=5, also=(MoreCapability(queue=0, resource=0, amount=8),)),
        ),
    ),
    "the queue is full for good, and the nodes are now": Situation(
        problem(
            nodes(2, gpu=8),
            queue("q", capability={"gpu": 8}),
            queue("other"),
            busy(0, 1, where="other"),
            gang("asks", role(2, gpu=8), queue="q"),
        ),
        (
            CapabilityLimit(asked=16, available=8, queue=0, resource=0, limit=8, never=True),
            ResourceShortage(asked=16, available=8, resource=0, role=0),
        ),
        (
            FewerPods(role=0, amount=1, current_amount=2),
            MoreNodes(node=0, amount=1, also=(MoreCapability(queue=0, resource=0, amount=8),)),
        ),
    ),
    "it would fit but for its topology": Situation(
        supernodes(busy(0, 1), busy(4, 1), gang("asks", role(4, gpu=8), topology=hard_topology(1))),
        (DomainShortage(asked=4, available=3, tier=1, hypernode=0),),
        (
            HigherTier(tier=2),
            EndOfGangs(gangs=(0,)),
            FewerPods(role=0, amount=3, current_amount=4),
        ),
    ),
    "no tier helps, a wish does": Situation(
        problem(
            nodes(2, leaf="s0", gpu=8),
            nodes(1, gpu=8),
            gang("asks", role(3, gpu=8), topology=hard_topology(1)),
            hypernodes={"s0": (1, None)},
        ),
        (DomainShortage(asked=3, available=2, tier=1, hypernode=0, never=True),),
        (SoftTopology(), FewerPods(role=0, amount=2, current_amount=3)),
    ),
    "too little is free anywhere, topology or not": Situation(
        supernodes(busy(0, 3), busy(4, 3, "more"), gang("asks", role(4, gpu=8), topology=hard_topology(1))),
        (ResourceShortage(asked=32, available=16, resource=0, role=0),),
        (EndOfGangs(gangs=(0,)), FewerPods(role=0, amount=1, current_amount=4)),
    ),
    "what is free is in pieces": Situation(
        problem(
            nodes(2, gpu=8),
            gang("runs", role(2, gpu=3), running=(running_pods(0, 0, 1), running_pods(0, 1, 1))),
            gang("asks", role(1, gpu=8)),
        ),
        (Fragmentation(asked=1, available=0, role=0, scarce=0, pieces=((5, 2),)),),
        (EndOfGangs(gangs=(0,)), MoreNodes(node=0, amount=1)),
    ),
    "no groups of five in domains of four": Situation(
        supernodes(gang("asks", role(5, gpu=8), subgroups=(subgroup(5),))),
        (SubgroupShortage(subgroup=0, tier=1, asked=1, available=0, limit=5, never=True),),
        (HigherTier(tier=2, subgroup=0), SmallerSubgroups(subgroup=0, amount=1, current_amount=5)),
    ),
    "the same, where nobody can write another tier": Situation(
        supernodes(gang("asks", role(5, gpu=8), subgroups=(replace(subgroup(5), tier_is_editable=False),))),
        (SubgroupShortage(subgroup=0, tier=1, asked=1, available=0, limit=5, never=True),),
        (SoftTopology(subgroup=0), SmallerSubgroups(subgroup=0, amount=1, current_amount=5)),
    ),
    "groups of six, and three would do": Situation(
        supernodes(busy(0, 1), gang("asks", role(6, gpu=8), subgroups=(subgroup(6, tier=1),))),
        (SubgroupShortage(subgroup=0, tier=1, asked=1, available=0, limit=6, never=True),),
        (HigherTier(tier=2, subgroup=0), SmallerSubgroups(subgroup=0, amount=3, current_amount=6)),
    ),
    "more runs than the nodes have in sum, where a guarantee is kept": Situation(
        problem(
            nodes(2, gpu=4, free={"gpu": 3}),
            queue("q", guarantee={"gpu": 1}),
            gang("runs", role(6, gpu=1), queue="q", running=(running_pods(0, 0, 2), running_pods(0, 1, 4))),
            gang("asks", role(1, gpu=1), queue="q"),
        ),
        (ResourceShortage(asked=1, available=0, resource=0),),
        (EndOfGangs(gangs=(0,)),),
    ),
    "others are served first": Situation(
        problem(nodes(4, gpu=8), gang("urgent", role(3, gpu=8), priority=5), gang("asks", role(2, gpu=8))),
        (PrecedingGangs(asked=2, available=1, gangs=(0,)),),
        (FewerPods(role=0, amount=1, current_amount=2), HigherPriority(amount=6, gangs=(0,))),
    ),
    "others are served first in its queue too": Situation(
        problem(
            nodes(4, gpu=8),
            queue("q", capability={"gpu": 24}),
            gang("urgent", role(3, gpu=8), priority=5, queue="q"),
            gang("asks", role(2, gpu=8), queue="q"),
        ),
        (
            CapabilityLimit(asked=16, available=0, queue=0, resource=0, limit=24, gangs=(0,)),
            PrecedingGangs(asked=2, available=1, gangs=(0,)),
        ),
        (
            HigherPriority(amount=6, gangs=(0,)),
            FewerPods(role=0, amount=1, current_amount=2, also=(MoreCapability(queue=0, resource=0, amount=8),)),
            MoreNodes(node=0, amount=1, also=(MoreCapability(queue=0, resource=0, amount=16),)),
        ),
    ),
    "what others are guaranteed is never its own": behind_a_guarantee(Policy()),
    "what others are guaranteed is one reason, however often it is measured": behind_a_guarantee(CAPACITY),
    "its share by weight is small because of what others are guaranteed": behind_a_guarantee(PROPORTION),
    "the plugin proportion keeps from a queue what is guaranteed to the one above it": behind_a_guarantee(
        PROPORTION, parent="safe"
    ),
    "along the tree only what is guaranteed to its siblings counts, "
    "and what is used of it is no longer kept": Situation(
        problem(
            nodes(5, gpu=8),
            queue("org", capability={"gpu": 24}),
            queue("q", "org"),
            queue("team", "org", guarantee={"gpu": 8}),
            queue("inner", "team", guarantee={"gpu": 8}),
            queue("far", guarantee={"gpu": 8}),
            busy(0, 1, where="far"),
            gang("asks", role(3, gpu=8), queue="q"),
            policy=Policy(capacity=True, capacity_hierarchy=True),
        ),
        (GuaranteeReserve(asked=24, available=16, queue=1, resource=0, queues=(2, 3), never=True),),
        (
            FewerPods(role=0, amount=2, current_amount=3),
            SmallerGuarantee(queue=2, resource=0, amount=8, also=(SmallerGuarantee(queue=3, resource=0, amount=8),)),
        ),
    ),
    "its share by weight is smaller than one pod": Situation(
        problem(
            nodes(4, gpu=8),
            queue("a", weight=7),
            queue("q"),
            *(gang(f"single{i}", role(1, gpu=8), queue="a") for i in range(9)),
            gang("asks", role(1, gpu=8), queue="q"),
            policy=Policy(proportion=True),
        ),
        (ShareLimit(asked=8, available=4, queue=1, resource=0, limit=4),),
        (MoreWeight(queue=1, amount=3, current_amount=1),),
    ),
    "its queue is closed": Situation(
        problem(nodes(1, gpu=8), queue("q", open=False), gang("asks", role(1, gpu=8), queue="q")),
        (ClosedQueue(queue=0),),
        (OpenQueue(queue=0),),
    ),
    "a pod is larger than any node": Situation(
        problem(nodes(2, gpu=8), gang("asks", role(2, gpu=12))),
        (OversizedPod(asked=12, available=8, role=0, resource=0, never=True),),
        (SmallerPods(role=0, resource=0, amount=8, current_amount=12),),
    ),
    "a pod is larger than any node, and the nodes are full": Situation(
        problem(
            nodes(2, gpu=8),
            gang("asks", role(1, gpu=12)),
            gang("runs", role(2, gpu=8), running=(running_pods(0, 0, 1), running_pods(0, 1, 1))),
        ),
        (OversizedPod(asked=12, available=8, role=0, resource=0, never=True),),
        (SmallerPods(role=0, resource=0, amount=8, current_amount=12, also=(EndOfGangs((1,)),)),),
    ),
    "its queue is full of what a priority would evict": Situation(
        problem(
            nodes(2, gpu=8),
            gang("asks", role(1, gpu=8)),
            gang("low", role(1, gpu=8), running=(running_pods(0, 0, 1),), loss=9),
            gang("high", role(1, gpu=8), running=(running_pods(0, 1, 1),), loss=5, priority=3),
            preempt_enabled=True,
        ),
        (ResourceShortage(asked=8, available=0, resource=0, role=0), NobodyEvicted("priority", (1,))),
        (EndOfGangs((1,)), HigherPriority(amount=1, gangs=(1,), evicts=True)),
    ),
    "a pod asks for too much of two resources": Situation(
        problem(nodes(2, gpu=8, cpu=64), gang("asks", role(2, gpu=12, cpu=96))),
        (OversizedPod(asked=96, available=64, role=0, resource=0, never=True),),
        (
            SmallerPods(
                role=0,
                resource=0,
                amount=64,
                current_amount=96,
                also=(SmallerPods(role=0, resource=1, amount=8, current_amount=12),),
            ),
        ),
    ),
    "no node is open to it, and the others are full": Situation(
        problem(
            nodes(1, gpu=8),
            gang("asks", role(1, gpu=8, node_classes={1})),
            gang("runs", role(1, gpu=8), running=(running_pods(0, 0, 1),)),
        ),
        (NoEligibleNode(role=0, never=True), ResourceShortage(asked=8, available=0, resource=0, role=0)),
        (MoreNodeClasses(role=0, node=0, also=(EndOfGangs((1,)),)),),
    ),
    "the whole cluster is too small": Situation(
        problem(nodes(2, gpu=8), gang("asks", role(3, gpu=8))),
        (OversizedGang(asked=24, available=16, resource=0, never=True),),
        (FewerPods(role=0, amount=2, current_amount=3), MoreNodes(node=0, amount=1)),
    ),
    "the cluster has enough only in pieces": Situation(
        problem(nodes(2, gpu=6), gang("asks", role(3, gpu=4))),
        (Fragmentation(asked=3, available=2, role=0, never=True, scarce=0, pieces=((6, 2),)),),
        (FewerPods(role=0, amount=2, current_amount=3), MoreNodes(node=0, amount=1)),
    ),
    "no node is open to it": Situation(
        problem(nodes(2, gpu=8, node_class=1), gang("asks", role(1, gpu=8))),
        (NoEligibleNode(role=0, never=True),),
        (MoreNodeClasses(role=0, node=0),),
    ),
    "too few nodes are open to it": Situation(
        problem(nodes(2, gpu=8), nodes(2, gpu=8, node_class=1), gang("asks", role(3, gpu=8))),
        (EligibleNodeShortage(asked=3, available=2, role=0, never=True),),
        (FewerPods(role=0, amount=2, current_amount=3), MoreNodeClasses(role=0, node=2)),
    ),
    "pods of nobody fill the nodes": Situation(
        problem(nodes(2, gpu=8, free={"gpu": 0}), gang("asks", role(1, gpu=8))),
        (ResourceShortage(asked=8, available=0, resource=0, role=0),),
        (EndOfPods(), MoreNodes(node=0, amount=1)),
    ),
    "its own pods are spread where the rest needs a whole node": Situation(
        problem(
            nodes(2, gpu=8),
            gang("asks", role(2, gpu=4), role(1, gpu=8), running=(running_pods(0, 0, 1), running_pods(0, 1, 1))),
        ),
        (OwnRunningPods(asked=1, available=0),),
        (Restart(), MoreNodes(node=0, amount=1)),
    ),
    "next to its own pod a node is full, and without others the rest would have room": Situation(
        problem(
            nodes(2, gpu=8), busy(1, 1), gang("asks", role(1, gpu=4), role(1, gpu=8), running=(running_pods(0, 0, 1),))
        ),
        (ResourceShortage(asked=8, available=4, resource=0, role=1),),
        (EndOfGangs(gangs=(0,)), MoreNodes(node=0, amount=1)),
    ),
    "its own pod is in a domain that has no room for the rest": Situation(
        supernodes(
            busy(1, 3), gang("asks", role(4, gpu=8), topology=hard_topology(1), running=(running_pods(0, 0, 1),))
        ),
        (DomainShortage(asked=3, available=0, tier=1, hypernode=0),),
        (Restart(), HigherTier(tier=2), EndOfGangs(gangs=(0,))),
    ),
}


@pytest.mark.parametrize("sentence", SITUATIONS)
def test_exactly_these_facts_and_repairs(sentence: str) -> None:
    """So nothing else is blamed."""
    situation = SITUATIONS[sentence]
    waits = decision(situation.world)
    assert waits.action == "wait"
    assert waits.facts == situation.facts
    assert waits.repairs == situation.repairs


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

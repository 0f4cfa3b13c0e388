"""Repairs solved again: with the change made the gang starts next to the plan, among cells, relations, nodes that close
and strict queues."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import reduce

from hypothesis import event, given
from hypothesis import strategies as st

from solver import solve
from solver.plan import Decision
from solver.problem import DeviceSlot, EvictionVotes, Gang, HyperNode, Node, Placement, Problem, Queue, Role, Topology
from solver.repairs import HigherPriority, Repair
from tests.builders.depth import settings
from tests.builders.plans import solve_without_repairs
from tests.builders.strategies import (
    RESOURCES,
    problems_with_pod_rules,
    problems_with_quotas,
    problems_with_slots,
    sampled,
)
from tests.property.plan_events import rare_events
from tests.property.test_delays import beside, starts
from tests.property.test_reasons import beside as beside_plan
from tests.property.test_reasons import changed, limits, waiting
from tests.property.test_reasons import starts as starts_alone
from tests.property.test_rounds import teams
from tests.property.test_time import timed

TRIED = {"GR101", "GR102", "GR104", "GR105", "GR106", "GR107", "GR108", "GR112", "GR115", "GR126", "GR127"}
"""Changes of the gang, of its queues' limits and of the nodes; the others are of others, and of time
(`test_delays`)."""


def with_change(there: Problem, repair: Repair) -> Problem:
    """The world with the change made for its last gang."""
    alone = changed(replace(there, gangs=there.gangs[-1:]), repair)
    return replace(alone, gangs=(*there.gangs[:-1], *alone.gangs))


def as_laid(world: Problem, decisions: tuple[Decision, ...]) -> Problem:
    """The cells of the nodes without what the plan's new pods take from them."""
    nodes = list(world.nodes)
    for decision in decisions:
        for use in decision.slot_uses:
            cells = list(nodes[use.node].slots)
            role = world.gangs[decision.gang].roles[use.role]
            (share,) = (
                portion.share for portion in role.slot_requests if portion.slot_group == cells[use.slot].slot_group
            )
            cells[use.slot] = _less(cells[use.slot], share, use.pods)
            nodes[use.node] = _with(nodes[use.node], cells)
    return replace(world, nodes=tuple(nodes))


def _less(cell: DeviceSlot, share: tuple[int, ...], pods: int) -> DeviceSlot:
    return replace(cell, free=tuple(have - pods * part for have, part in zip(cell.free, share, strict=True)))


def _with(node: Node, cells: list[DeviceSlot]) -> Node:
    return replace(node, slots=tuple(cells))


@settings(max_examples=60)
@given(
    st.one_of(
        timed(),
        problems_with_slots(running="whole gangs"),
        problems_with_pod_rules(running="whole gangs"),
        problems_with_quotas(),
    )
)
def test_a_gang_that_is_changed_as_it_is_told_starts_beside_the_plan(world: Problem) -> None:
    plan = solve(world)
    for decision in plan.decisions:
        there = beside(as_laid(world, plan.decisions), plan, decision.gang)
        for repair in decision.repairs if not world.gangs[decision.gang].running else ():
            changes = (repair, *repair.also)
            if {change.code for change in changes} <= TRIED:
                event(" and ".join(change.code for change in changes))
                loose = replace(there, queues=tuple(replace(queue, strict_order=False) for queue in there.queues))
                assert starts(reduce(with_change, changes, loose)), changes


@st.composite
def oversized(draw: st.DrawFn) -> Problem:
    """Small nodes of two kinds, most of them full, and a gang whose pods are larger than any, or closed to most."""
    sizes = [draw(sampled(((4, 4), (4, 4), (2, 8)))) for _ in range(draw(st.integers(1, 3)))]
    nodes = tuple(Node(f"n{n}", draw(sampled((0, 0, 1))), None, size, size) for n, size in enumerate(sizes))
    both, gangs = frozenset({0, 1}), list[Gang]()
    for n, node in enumerate(nodes):
        if draw(sampled((True, True, False))):
            pod = Role("r", 1, 1, (1, node.capacity[1]), both)
            gangs.append(Gang(f"runs{n}", 0, 0, n, 1, (pod,), running=(Placement(0, n, 1),)))
    roles = []
    for t in range(draw(sampled((1, 1, 2)))):
        request = draw(sampled(((5, 1), (1, 9), (5, 9), (3, 8), (1, 2))))
        pods, classes = draw(st.integers(1, 2)), draw(sampled((both, both, frozenset({1}))))
        roles.append(Role(f"r{t}", pods, pods, request, classes))
    gangs.append(Gang("asks", 0, 0, 9, sum(role.minimum for role in roles), tuple(roles)))
    nothing = (None, None)
    return Problem(RESOURCES, nodes, (), (Queue("q", None, 1, 0, nothing, nothing, nothing, (0, 0)),), tuple(gangs))


@st.composite
def oversized_in_domains(draw: st.DrawFn) -> Problem:
    """The same with a hard topology over supernodes of one or two nodes, and now and then a queue that is too small."""
    world = draw(oversized())
    leaves = [draw(sampled((0, 0, 1))) for _ in world.nodes]
    nodes = tuple(replace(node, leaf=leaf) for node, leaf in zip(world.nodes, leaves, strict=True))
    most = draw(sampled(((None, None), (None, None), (None, 4), (4, None))))
    queues = (replace(world.queues[0], capability=most),)
    gangs = (*world.gangs[:-1], replace(world.gangs[-1], topology=Topology("hard", 1)))
    tree = (HyperNode("s0", 1, 2), HyperNode("s1", 1, 2), HyperNode("spine", 2))
    return replace(world, nodes=nodes, hypernodes=tree, queues=queues, gangs=gangs)


def test_a_gang_that_waiting_never_helps_starts_with_all_changes_of_its_repair_and_with_none_fewer() -> None:
    seen = Counter[str]()

    @settings(max_examples=60)
    @given(st.one_of(oversized(), oversized_in_domains()))
    def together(world: Problem) -> None:
        for plan, decision in waiting(world, solve):
            for repair in decision.repairs:
                changes = (repair, *repair.also)
                seen[" ".join(change.code for change in changes)] += 1
                there = beside_plan(world, plan, decision.gang, changes)
                assert starts_alone(there, there, limits(world, there, decision.gang)), changes
                for change in changes if len(changes) > 1 else ():
                    less = beside_plan(world, plan, decision.gang, [other for other in changes if other is not change])
                    assert not starts_alone(less, less, limits(world, less, decision.gang)), (changes, change)

    together()
    combined = Counter(codes.split()[-1] for codes in seen.elements() if codes.startswith(("GR112 ", "GR115 ")))
    assert rare_events(combined, GR101=1, GR102=1, GR105=1, GR109=3, GR115=1) == {}


def test_with_the_priority_told_it_starts_where_others_of_its_queue_are_evicted() -> None:
    seen = Counter[str]()

    @settings(max_examples=120)
    @given(teams())
    def raised(world: Problem) -> None:
        world = replace(world, preempt_enabled=True, preempt_votes=EvictionVotes(whole_gangs=True))
        for decision in solve(world).decisions:
            for repair in decision.repairs:
                if isinstance(repair, HigherPriority) and repair.evicts:
                    gang = replace(world.gangs[decision.gang], priority=repair.amount)
                    gangs = (gang if g == decision.gang else other for g, other in enumerate(world.gangs))
                    plan = solve_without_repairs(replace(world, gangs=tuple(gangs)))
                    assert plan.decisions[decision.gang].action == "start", repair
                    gone = tuple(other.gang for other in plan.decisions if decision.gang in other.evicted_for)
                    assert repair.gangs in ((), gone)
                    seen["victims named"] += bool(repair.gangs)
                    seen["alone" if len(decision.repairs) == 1 else "among others"] += 1

    raised()
    assert rare_events(seen, **{"among others": 5, "victims_named": 5}) == {}

"""Repairs solved again: with the change made the gang starts beside the plan, among cells, relations, nodes that close
and strict queues."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

from hypothesis import event, given, settings
from hypothesis import strategies as st

from solver import solve
from solver.plan import Decision
from solver.problem import DeviceSlot, Node, Problem
from solver.repairs import Repair
from tests.builders.strategies import problems_with_pod_rules, problems_with_slots
from tests.property.test_delays import beside, starts
from tests.property.test_reasons import changed
from tests.property.test_time import timed

TRIED = {"GR101", "GR102", "GR104", "GR105", "GR106", "GR107", "GR108", "GR112", "GR115"}
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


@settings(max_examples=110)
@given(st.one_of(timed(), problems_with_slots(running="whole gangs"), problems_with_pod_rules(running="whole gangs")))
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

"""Gangs that might be evicted for a waiting gang, were it known which device slots their pods hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from solver.plan import UnlocatedHolder
from solver.problem import Problem
from solver.semantics.eviction_rights import has_eviction_right


def unlocated_holders(problem: Problem, j: int) -> tuple[UnlocatedHolder, ...]:
    """The gangs that gang j may evict and whose pods hold unknown slots, on nodes and of groups that gang j can use."""
    evictable = (v for v in range(len(problem.gangs)) if has_eviction_right(problem, j, v))
    return tuple(holder for v in evictable for holder in _unlocated_slots(problem, j, v))


def _unlocated_slots(problem: Problem, j: int, v: int) -> Iterator[UnlocatedHolder]:
    usable = {wanted.slot_group: role.node_classes for role in problem.gangs[j].roles for wanted in role.slot_requests}
    victim = problem.gangs[v]
    known: Counter[tuple[int, int, int]] = Counter()
    for hold in victim.slot_holds:
        known[hold.role, hold.node, problem.nodes[hold.node].slots[hold.slot].slot_group] += hold.pods
    for place in victim.running:
        for held in victim.roles[place.role].slot_requests:
            group, needed = held.slot_group, held.number * place.pods
            is_usable = problem.nodes[place.node].node_class in usable.get(group, ())
            if is_usable and known[place.role, place.node, group] < needed:
                yield UnlocatedHolder(v, place.node, group)

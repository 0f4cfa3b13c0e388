"""Valid plans by a plain greedy, and the tools that break them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Any

from solver.plan import Plan
from solver.problem import Gang, Problem
from tests.builders.problems import plan_with, with_fields
from tests.property.brute import FreeCapacity, RoleOnNode, new_pod_sets, running_pods, vector_sum

PodsByGang = dict[int, Counter[RoleOnNode]]
"""The admitted gangs' pods."""

Mutant = tuple[Problem, Plan]
Mutators = dict[Callable[[Problem, PodsByGang, Random], Iterator[Mutant]], str]
"""A way to break a plan -> the rule that it breaks."""


def greedy_pods(world: Problem) -> PodsByGang:
    """Every gang in turn, with the first of its possible placements that leaves all nodes and queues whole."""
    room = FreeCapacity(world)
    use = list(room.empty_use)
    added = [(0,) * len(world.resources)] * len(world.queues)
    placed: PodsByGang = {}
    for g, gang in enumerate(world.gangs):
        for option in new_pod_sets(world, g):
            mine = room.use_of(g, option)
            both = [vector_sum(a, b) for a, b in zip(use, mine, strict=True)]
            charged = list(added)
            for extra in mine:
                charged[gang.queue] = vector_sum(charged[gang.queue], extra[: len(world.resources)])
            if room.fits_nodes(both) and room.fits_queues(charged):
                use, added = both, charged
                placed[g] = running_pods(gang) + option
                break
    return placed


def plan_of_pods(world: Problem, placed: PodsByGang) -> Plan:
    return plan_with(
        world, {g: [(role, node, pods) for (role, node), pods in spots.items() if pods] for g, spots in placed.items()}
    )


def new_pods(world: Problem, placed: PodsByGang) -> list[tuple[int, RoleOnNode]]:
    """(gang, spot) with new pods."""
    return [
        (g, spot)
        for g, spots in sorted(placed.items())
        for spot in sorted(spots)
        if spots[spot] > running_pods(world.gangs[g])[spot]
    ]


def with_shifted_pods(placed: PodsByGang, g: int, change: dict[RoleOnNode, int]) -> PodsByGang:
    changed = {other: Counter(spots) for other, spots in placed.items()}
    for spot, pods in change.items():
        changed[g][spot] += pods
    return changed


def pick_one(random: Random, items: list[Any]) -> Iterator[Any]:
    """One of them, or none where there is none."""
    if items:
        yield random.choice(items)


def replace_at(item: Any, index: int, **changes: object) -> Any:
    old = item[index]
    new = with_fields(old, **changes) if isinstance(old, Gang) else replace(old, **changes)
    return (*item[:index], new, *item[index + 1 :])
